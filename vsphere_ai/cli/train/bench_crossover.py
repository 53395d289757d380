"""`vsphere-ai bench crossover`: whether a slow VM or its host is slow."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypedDict

import click
from typing_extensions import Unpack

from vsphere_ai.cli.console.findings import fail_on_option
from vsphere_ai.cli.console.forms import output_option
from vsphere_ai.cli.console.help_examples import TRAINING, example
from vsphere_ai.cli.console.options import (
    dry_run_option,
    gathering,
    is_dry_run,
    lock_option,
    variable_options,
    width,
    yes_option,
)
from vsphere_ai.cli.console.run_output import RunOutput, ShownRun
from vsphere_ai.cli.train.bench_nodes import NODES, meant, nodes_request
from vsphere_ai.cli.train.options import run_timeout_option, slowdown_option, suffix_option

if TYPE_CHECKING:
    from vsphere_ai.app import EstateRequest, NodesRequest
    from vsphere_ai.app.events import Event, RunRecorded
    from vsphere_ai.app.training.benchmarks.crossover import CrossoverOptions, CrossoverResult
    from vsphere_ai.model.finding import FailOn
    from vsphere_ai.runs.locks import Mode

    class _More(TypedDict):
        yes: bool
        lock: Mode | None
        fail_on: FailOn


def _options() -> type[CrossoverOptions]:
    from vsphere_ai.app.training.benchmarks.crossover import CrossoverOptions

    return CrossoverOptions


@click.command("crossover")
@gathering("nodes", nodes_request, *NODES)
@gathering(
    "options",
    _options,
    click.option("--vm", required=True, metavar="VM", help="The VM that is slow."),
    click.option("--to-host", default="", metavar="HOST", help="Host to move it to. [default: one that takes it]"),
    click.option("--swap-with", default="", metavar="VM", help="VM to change hosts with."),
    click.option("--partner", default="", metavar="VM", help="VM to measure it with."),
    slowdown_option,
    suffix_option,
    run_timeout_option(600.0),
    click.option(
        "--boot-timeout", type=click.FloatRange(1), default=900.0, show_default=True, help="Seconds of a guest to boot."
    ),
)
@variable_options
@output_option()
@lock_option
@yes_option
@dry_run_option
@fail_on_option
@example("bench crossover playbooks/training-set.yml --vm train-02 --suffix _mpi --dry-run", needs=TRAINING)
def crossover(
    nodes: NodesRequest, options: CrossoverOptions, estate: EstateRequest, form: str, **more: Unpack[_More]
) -> int:
    """Measure a slow VM on another host, or after it changed hosts with another VM; then put everything back.

    VMs with vGPUs move by vMotion. Those with whole devices, or where vMotion is not possible, are powered off for the
    moves, which is shown and asked first. At most four pairs are measured. Exits 0 when the VM is not slow, 1 when
    nothing can be said, 2 when the VM or its host is slow; where the moves did not end well as `apply` does.
    """
    from vsphere_ai.app.training.benchmarks.crossover import CrossoverRequest, bench_crossover

    with RunOutput(ShownRun(form)) as output:
        show, tried = _Shown(output, form, more["fail_on"]), replace(options, dry_run=is_dry_run())
        request = CrossoverRequest(meant(nodes, estate), tried, more["yes"], output.confirm, more["lock"])
        result = bench_crossover(request, show.emit)
        code = show.verdict(result)
        lost = output.exit_code(result.run) if result.run is not None else 0
    return lost or code


class _Shown:
    """Events of a crossover; in JSON its verdict is the line before the summary."""

    def __init__(self, output: RunOutput, form: str, fail_on: FailOn) -> None:
        self._output, self._form, self._fail_on = output, form, fail_on
        self._last: RunRecorded | None = None

    def emit(self, event: Event) -> None:
        """Show an event."""
        from vsphere_ai.app.events import OutputLine, RunRecorded

        if self._form == "json" and isinstance(event, RunRecorded):
            self._last = event
        elif self._form != "json" or not isinstance(event, OutputLine):
            self._output.emit(event)

    def verdict(self, result: CrossoverResult) -> int:
        """Show the verdict, where there is one, and return its exit code; that of moves that did not end well first."""
        from vsphere_ai.model.finding import exit_code
        from vsphere_ai.report.findings_text import findings_text
        from vsphere_ai.report.folding import fitted
        from vsphere_ai.report.json_text import json_line
        from vsphere_ai.report.training.crossover_text import figures_text, verdict_line

        code = (result.run.exit_code if result.run is not None else 0) or exit_code(result.findings, self._fail_on)
        if result.test is not None and result.verdict is not None:
            if self._form == "json":
                click.echo(json_line(verdict_line(result.test, result.verdict, result.before, result.after)))
            else:
                click.echo(f"\n{fitted(figures_text(result.test, result.before, result.after), width())}\n")
                click.echo(findings_text(result.findings, "", width=width()))
        if self._last is not None:
            self._output.emit(replace(self._last, result=replace(self._last.result, exit_code=code)))
        return code
