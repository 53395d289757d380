"""`vsphere-ai apply`: carries out a playbook, or a saved plan exactly as it was shown."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from vsphere_ai.cli.options import estate_options, format_option, hush, open_bench, read_playbook, width
from vsphere_ai.errors import Conflict, Refused, UsageError

if TYPE_CHECKING:
    from vsphere_ai.apply import Run, Runner
    from vsphere_ai.facts import Estate
    from vsphere_ai.plan import Plan
    from vsphere_ai.playbook import Playbook
    from vsphere_ai.workbench import Workbench


@click.command("apply")
@click.argument("what", metavar="PLAYBOOK|PLAN.json", type=click.Path(path_type=Path, dir_okay=False))
@estate_options
@format_option("text", "json")
@click.option("--yes", is_flag=True, help="Do not ask.")
def command(what: Path, form: str, yes: bool, **shared: Any) -> int:
    """Carry out a playbook, or a plan saved with `plan -o`, after showing it and asking for a yes.

    A saved plan is refused when it was edited, or when the estate is not as it was when the plan was made. Nothing is
    called done that was not read back. Ctrl-C finishes what is in flight and starts nothing more.
    """
    from vsphere_ai.report import plan_json

    saved = _saved(what)
    loaded = _embedded(saved) if saved else read_playbook(what)
    if saved:
        scope = saved.get("scope", {})
        shared["limit"], shared["vcenter"] = scope.get("limit", ""), shared["vcenter"] or scope.get("vcenter", "")
    shared["start_ssh"] = True  # apply may start TSM-SSH, and stops it again
    with open_bench(shared, loaded) as bench:
        plan, estate = bench.plan(loaded)
        hush()
        digest = plan_json.digest(plan)
        if saved:
            _same(saved, plan, digest, what)
        if not _approve(plan, digest, form, yes=yes or bool(saved)):
            return 0
        return _finish(_run(bench, loaded, plan, estate, form), form, what)


def _saved(what: Path) -> dict[str, Any] | None:
    if what.suffix != ".json":
        return None
    from vsphere_ai.report.plan_json import open_saved

    return open_saved(what.read_text(encoding="utf-8"), str(what))


def _embedded(saved: dict[str, Any]) -> Any:
    from vsphere_ai.playbook import from_document
    from vsphere_ai.resources import kinds

    return from_document(saved["desired"], kinds())


def _same(saved: dict[str, Any], plan: Plan, digest: str, what: Path) -> None:
    """Refuse a plan that is not what would be planned now, and say what differs."""
    again = "plan again, look at the difference, and apply the new plan"
    if saved["vcenter"]["instance"] != plan.about.instance:
        raise Conflict(f"{what} was made for another vCenter ({saved['vcenter']['name']})", again)
    if saved["digest"] == digest:
        return
    from vsphere_ai.report.stale import differences

    raise Conflict(f"{what} is stale, the estate changed since it was made:\n{differences(saved, plan)}", again)


def _approve(plan: Plan, digest: str, form: str, *, yes: bool) -> bool:
    from vsphere_ai.cli.plan import colour
    from vsphere_ai.report.plan_text import plan_text

    if form == "text" or plan.problems:
        click.echo(colour(plan_text(plan, digest, width())), err=form == "json")
    if plan.problems:
        raise Refused("nothing was changed")
    if not plan.steps:
        if form == "json":
            from vsphere_ai.report.run_json import header_line

            click.echo(header_line(digest, 0))
        return False
    if yes:
        return True
    if not sys.stdin.isatty():
        raise UsageError("there is no terminal to ask on", "give --yes, or apply a saved plan")
    click.echo("")
    answer = click.prompt("Carry this out? Only 'yes' is accepted", default="", show_default=False, err=True)
    if answer.strip() != "yes":
        click.echo("Nothing was changed.", err=True)
        return False
    return True


def _run(bench: Workbench, loaded: Playbook, plan: Plan, estate: Estate, form: str) -> Run:
    from vsphere_ai.apply import Runner
    from vsphere_ai.cli.progress import make_progress
    from vsphere_ai.deeds import Deeds, Means
    from vsphere_ai.report.plan_json import digest
    from vsphere_ai.resources.host_graphics import nvidia_gpus

    means = Means(
        vcenter=bench.vcenter,
        shell=bench.shell,
        left=lambda target: bench.left(loaded, estate, target),
        gpus={h.ref: len(nvidia_gpus(estate[h.ref])) for h in estate.hosts},
        hosts={v.ref: str(estate[v.ref].get("runtime.host", "")) for v in estate.vms},
    )
    with make_progress(plan, digest(plan), form) as emit:
        runner = Runner(plan, Deeds(means), emit, parallel=bench.options.parallel)
        with _orderly_stop(runner, emit):
            return runner.run()


@contextmanager
def _orderly_stop(runner: Runner, emit: Callable[[Any], None]) -> Iterator[None]:
    """The first signal lets what is in flight end; the second leaves at once."""
    from vsphere_ai.apply import Event

    def stop(number: int, frame: FrameType | None) -> None:
        if runner.signalled:
            raise KeyboardInterrupt
        runner.stop(number)
        emit(Event("stopping", text="finishing what is in flight, starting nothing new; again to leave at once"))

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {n: signal.signal(n, stop) for n in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _finish(run: Run, form: str, what: Path) -> int:
    from vsphere_ai.report.run_json import summary_line
    from vsphere_ai.report.run_text import run_text

    click.echo(summary_line(run) if form == "json" else f"\n{run_text(run)}")
    if run.exit_code and form == "text":
        click.echo(f"See what is left: vsphere-ai plan {what if what.suffix != '.json' else 'PLAYBOOK'}", err=True)
    return 128 + run.signal if run.signal else run.exit_code
