"""Carrying a plan out, with its journal, its progress and its signals: what apply, resume and rollback share."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from vsphere_ai.apply import Run, Runner
    from vsphere_ai.facts import Estate
    from vsphere_ai.journal import Journal
    from vsphere_ai.plan import Plan
    from vsphere_ai.playbook import Playbook
    from vsphere_ai.workbench import Workbench


@dataclass(frozen=True)
class Way:
    """How a plan is carried out: output format, what the operator named, the shared options, an earlier journal."""

    form: str
    what: str
    shared: Mapping[str, Any]
    journal: Journal | None = None


def announce(bench: Workbench) -> None:
    """Say on standard error that earlier runs on this vCenter were not finished."""
    from vsphere_ai import journal

    for run in journal.unfinished(bench.vcenter.about.instance):
        click.echo(
            f"Run {run} was not finished. See: vsphere-ai runs {run}. Finish it: vsphere-ai resume {run}", err=True
        )


def carry_out(bench: Workbench, loaded: Playbook, plan: Plan, estate: Estate, way: Way) -> int:
    """Run an approved plan to its end, write its journal, and return the exit code."""
    from vsphere_ai.apply import Event, Runner
    from vsphere_ai.cli.progress import lose_output, make_progress
    from vsphere_ai.deeds import Deeds
    from vsphere_ai.deeds.means import Means
    from vsphere_ai.report.plan_json import digest
    from vsphere_ai.resources.host_graphics import nvidia_gpus

    means = Means(
        vcenter=bench.vcenter,
        shell=bench.shell,
        left=lambda target: bench.left(loaded, estate, target),
        gpus={h.ref: len(nvidia_gpus(estate[h.ref])) for h in estate.hosts},
        hosts={v.ref: str(estate[v.ref].get("runtime.host", "")) for v in estate.vms},
    )
    book = way.journal or _new_journal(bench, loaded, plan, estate, way)
    if way.form == "text":
        click.echo(f"Run {book.id}", err=True)
    with make_progress(plan, digest(plan), way.form) as show:

        def emit(event: Event) -> None:
            try:
                show(event)
            except OSError as error:  # `| head`, a closed terminal, a full disk: no reason to leave VMs switched off
                lose_output(error)
                runner.stop(runner.signalled or signal.SIGPIPE)

        runner = Runner(plan, Deeds(means), emit, parallel=bench.options.parallel, book=book)
        with _orderly_stop(runner, emit):
            run = runner.run()
    book.set(ended=True, exit_code=run.exit_code, signal=run.signal, open=list(run.open))
    return _finish(run, way, book)


def _new_journal(bench: Workbench, loaded: Playbook, plan: Plan, estate: Estate, way: Way) -> Journal:
    from vsphere_ai import journal
    from vsphere_ai.playbook import to_document
    from vsphere_ai.report.plan_json import plan_document

    document = plan_document(plan)
    kept = {k: document[k] for k in ("vcenter", "items", "impact", "steps")}
    return journal.create(
        {
            "what": way.what,
            "inventory": str(bench.inventory.path.absolute()),
            "scope": {"vcenter": bench.settings.name, "limit": way.shared["limit"]},
            "instance": plan.about.instance,
            "desired": to_document(loaded),
            "approved": kept,
            "before": to_document(bench.before(loaded, plan, estate)),
        }
    )


@contextmanager
def _orderly_stop(runner: Runner, emit: Callable[[Any], None]) -> Iterator[None]:
    """The first signal lets what is in flight end; the second leaves at once."""
    from vsphere_ai.apply import Event

    def stop(number: int, frame: FrameType | None) -> None:
        if runner.signalled:
            _leave(128 + number)
        runner.stop(number)
        emit(Event("stopping", text="finishing what is in flight, starting nothing new; again to leave at once"))

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {n: signal.signal(n, stop) for n in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _leave(code: int) -> None:
    """End the process now: threads that wait for a vCenter would hold an ordinary exit back for minutes."""
    import os
    import sys

    sys.stdout.flush()
    click.echo("left at once; finish the run with: vsphere-ai resume", err=True)
    os._exit(code)


def _finish(run: Run, way: Way, book: Journal) -> int:
    from vsphere_ai.report.run_json import summary_line
    from vsphere_ai.report.run_text import run_text

    click.echo(summary_line(run) if way.form == "json" else f"\n{run_text(run)}")
    if (run.exit_code or run.open or run.signal) and way.form == "text":
        click.echo(f"Continue from what is there: vsphere-ai resume {book.id}", err=True)
    return 128 + run.signal if run.signal else run.exit_code
