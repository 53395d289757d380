"""`vsphere-ai bench crossover`: whether a slow VM or its host is slow."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypedDict

import click
from typing_extensions import Unpack

from vsphere_ai.cli.console.forms import output_option
from vsphere_ai.cli.console.options import gathering, lock_option, variable_options, width, yes_option
from vsphere_ai.cli.console.run_output import RunOutput, ShownRun

if TYPE_CHECKING:
    from vsphere_ai.app import EstateRequest, NodesRequest
    from vsphere_ai.app.events import Event, RunRecorded
    from vsphere_ai.app.training.benchmarks.crossover import CrossoverOptions, CrossoverResult
    from vsphere_ai.runs.locks import Mode

    class _More(TypedDict):
        yes: bool
        lock: Mode | None


def _options() -> type[CrossoverOptions]:
    from vsphere_ai.app.training.benchmarks.crossover import CrossoverOptions

    return CrossoverOptions


def _nodes() -> type[NodesRequest]:
    from vsphere_ai.app import NodesRequest

    return NodesRequest


@click.command("crossover")
@gathering(
    "nodes",
    _nodes,
    click.argument("vms", nargs=-1, required=True, metavar="PLAYBOOK|PATTERN..."),
    click.option("--set", default="", metavar="NAME", help="Set of the playbook, where it makes several."),
    click.option("--nic", default="", metavar="NAME", help="NIC for SSH and control traffic."),
)
@gathering(
    "options",
    _options,
    click.option("--vm", required=True, metavar="VM", help="The VM that is slow."),
    click.option("--to-host", default="", metavar="HOST", help="Host to move it to. [default: one that takes it]"),
    click.option("--swap-with", default="", metavar="VM", help="VM to change hosts with."),
    click.option("--partner", default="", metavar="VM", help="VM to measure it with."),
    click.option(
        "--slowdown", type=click.FloatRange(0.01, 0.9), default=0.25, show_default=True, help="Share to look for."
    ),
    click.option("--suffix", default="", metavar="TEXT", help="Suffix of the programs, such as _mpi."),
    click.option("--timeout", type=click.FloatRange(1), default=600.0, show_default=True, help="Seconds of a run."),
    click.option(
        "--boot-timeout", type=click.FloatRange(1), default=900.0, show_default=True, help="Seconds of a guest to boot."
    ),
    click.option("--dry-run", is_flag=True, help="Only show the moves."),
)
@variable_options
@output_option()
@lock_option
@yes_option
def crossover(
    nodes: NodesRequest, options: CrossoverOptions, estate: EstateRequest, form: str, **more: Unpack[_More]
) -> int:
    """Measure a slow VM on another host, or after it changed hosts with another VM; then put everything back.

    VMs with vGPUs move by vMotion. Those with whole devices, or where vMotion is not possible, are powered off for the
    moves, which is shown and asked first. At most four pairs are measured. Exits 0 when the VM is not slow.
    """
    from vsphere_ai.app.training.benchmarks.crossover import CrossoverRequest, bench_crossover

    with RunOutput(ShownRun(form)) as output:
        show = _Shown(output, form)
        request = CrossoverRequest(_meant(nodes, estate), options, confirm=output.confirm, **more)
        result = bench_crossover(request, show.emit)
        show.verdict(result)
        lost = output.exit_code(result.run) if result.run is not None else 0
    return lost or result.exit_code


def _meant(nodes: NodesRequest, estate: EstateRequest) -> NodesRequest:
    """Return the nodes of a playbook's set where one file is named, else those of the patterns."""
    from vsphere_ai import app

    if len(nodes.vms) == 1:
        return app.meant(nodes.vms[0], estate, set=nodes.set, nic=nodes.nic)
    return replace(nodes, estate=estate)


class _Shown:
    """Events of a crossover; in JSON its verdict is the line before the summary."""

    def __init__(self, output: RunOutput, form: str) -> None:
        self._output, self._form = output, form
        self._last: RunRecorded | None = None

    def emit(self, event: Event) -> None:
        """Show an event."""
        from vsphere_ai.app.events import OutputLine, RunRecorded

        if self._form == "json" and isinstance(event, RunRecorded):
            self._last = event
        elif self._form != "json" or not isinstance(event, OutputLine):
            self._output.emit(event)

    def verdict(self, result: CrossoverResult) -> None:
        """Show the verdict, where there is one."""
        from vsphere_ai.report.folding import fitted
        from vsphere_ai.report.training.crossover_text import verdict_line, verdict_text

        if result.test is not None and result.verdict is not None:
            found = result.test, result.verdict, result.before, result.after
            click.echo(verdict_line(*found) if self._form == "json" else f"\n{fitted(verdict_text(*found), width())}")
        if self._last is not None:
            run = replace(self._last.result, exit_code=result.exit_code)
            self._output.emit(replace(self._last, result=run))
