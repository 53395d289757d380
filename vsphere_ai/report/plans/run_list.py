"""List of runs: each in a few fields for a document, a line of text, or a row of a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from vsphere_ai.documents.runs.summaries import PendingNameDocument, RunSummaryDocument
from vsphere_ai.model.text import safe
from vsphere_ai.runs.history import look, see, state_of, waiting, way_on

if TYPE_CHECKING:
    from vsphere_ai.runs.history import RunSummary
    from vsphere_ai.runs.journal import Journal


def summary(record: Journal, among: Sequence[RunSummary] | None = None) -> RunSummaryDocument:
    """Return a run in a few fields: who, where, when, and how it ended. `among` are all runs, when they are known."""
    known = look() if among is None else among  # which may close pending actions of this one
    run, seen = record.run, see(record)
    return RunSummaryDocument(
        run=record.id,
        state=state_of(seen, known),
        started=run.started,
        user=f"{run.user}@{run.machine}",
        vcenter=run.scope.vcenter,
        what=run.what,
        exit_code=run.exit_code,
        resume_command=way_on(seen, known),
        pending=tuple(PendingNameDocument(kind=p.kind, name=p.target.name) for p in record.pending()),
        closed=run.closed,
    )


def runs_rows(records: Sequence[Journal], among: Sequence[RunSummary]) -> Iterator[tuple[str, ...]]:
    """Yield a row of a table per run: name, state, vCenter, what was carried out, by whom, when, what is pending."""
    for each in records:
        run, seen, left = each.run, see(each), len(each.pending())
        state = "under way" if seen.alive else state_of(seen, among)
        started = run.started[:19].replace("T", " ")
        yield each.id, state, run.scope.vcenter, run.what, f"{run.user}@{run.machine}", started, str(left or "")


def runs_lines(records: Sequence[Journal], among: Sequence[RunSummary]) -> Iterator[str]:
    """Yield a line per run, and below the runs that have to be finished the command for each; `among` are all runs.

    vCenters of one name are shown with their addresses.
    """
    places = {(each.run.scope.vcenter, each.run.scope.address) for each in records if each.run.scope.address}
    several = {name for name, count in Counter(name for name, _ in places).items() if count > 1}
    for each in records:
        run, state, left = each.run, state_of(see(each), among), len(each.pending())
        name, address = run.scope.vcenter, run.scope.address
        where = f"{name} ({address})" if name in several and address else name
        words = f"{each.id}  {state:<11} {where}  {run.what}  ({run.user}@{run.machine})"
        yield safe(f"{words}  {left} pending" if left else words)
    open_ = [each for each in waiting(among) if not each.alive]
    if open_:
        yield ""
    yield from (f"Finish it: {way_on(each, among)}" for each in open_)
