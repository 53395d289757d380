"""History of runs: how each ended, and which of them still have to be finished."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from vsphere_ai.errors import Storage, UsageError
from vsphere_ai.model.records.run_record import Closed, LeftPending
from vsphere_ai.runs import journal, process_id
from vsphere_ai.runs.journal import Journal

State = Literal["finished", "rolled back", "superseded", "closed", "unfinished", "stopped", "failed"]
OVER: tuple[State, ...] = ("finished", "rolled back", "superseded", "closed")
"""States of a run that does not have to be finished."""


@dataclass(frozen=True)
class RunSummary:
    """Summary of a run from its own journal. `since`: when its last attempt began (UTC, ISO 8601)."""

    run: str
    instance: str
    since: str
    state: State
    has_pending: bool
    alive: bool
    ended: bool
    worked: bool
    """It began a step, so it may have changed something."""
    rolled_back: bool
    takes_over: str
    """The run whose pending actions became this one's when it began."""
    rolls_back: str
    """The run that this one rolls back."""
    gates: tuple[tuple[str, str], ...] = ()
    """Hosts with a pending health gate and nothing else: reference and since when."""
    passed: tuple[tuple[str, str], ...] = ()
    """Hosts that it has seen healthy: reference and when."""

    @property
    def way_back(self) -> bool:
        """Whether it was rolled back, or is itself a rollback: after both, the state is as before."""
        return self.rolled_back or bool(self.rolls_back)


def see(record: Journal) -> RunSummary:
    """Return the summary of a run."""
    run, has_pending = record.run, bool(record.pending())
    state: State = "failed"
    if run.closed:
        state = "closed"
    elif run.rolled_back is not None and not has_pending:
        state = "rolled back"
    elif record.finished:
        state = "finished"
    elif not run.ended:
        state = "unfinished"
    elif run.signal and not run.exit_code:
        state = "stopped"
    return RunSummary(
        record.id,
        run.instance,
        run.resumed or run.started,
        state,
        has_pending,
        journal.is_alive(record),
        run.ended,
        bool(record.steps()),
        run.rolled_back is not None,
        run.takes_over,
        run.rolls_back,
        tuple(_gates(record)),
        tuple((s.ref, s.ended) for s in record.done() if s.what == "healthy" and s.ref),
    )


def _gates(record: Journal) -> Iterator[tuple[str, str]]:
    still = [each for each in record.ever_pending() if not each.closed]
    found = [(each.pending.kind, each.pending.target.ref, each.opened) for each in still]
    others = {ref for kind, ref, _ in found if kind != "gate"}
    yield from ((ref, opened) for kind, ref, opened in found if kind == "gate" and ref not in others)


def look() -> tuple[RunSummary, ...]:
    """Return every run of this machine, the oldest first, except those that cannot be read.

    What a killed run could not note any more in the journal of the run before it is noted now.
    """
    found = _look()
    noted = [_noted(seen, found) for seen in found if seen.takes_over or seen.rolls_back]
    noted += [_seen_healthy(seen, found) for seen in found if seen.gates and not seen.alive]
    return _look() if any(noted) else found


def _look() -> tuple[RunSummary, ...]:
    found = []
    for record in journal.every():
        found.append(see(record))
        record.close()
    return tuple(found)


def _noted(seen: RunSummary, among: Sequence[RunSummary]) -> bool:
    """Note in an earlier journal that this run took it over, and that it was rolled back; return whether so."""
    named = {s.run: s for s in among}
    before, undone = named.get(seen.takes_over), named.get(seen.rolls_back)
    done = False
    with suppress(Storage, UsageError):  # it cannot be written: the newer run has them all the same
        if before is not None and before.has_pending:
            done = _hand_over(seen.run, before.run)
        if undone is not None and seen.state == "finished" and not undone.rolled_back and undone.since < seen.since:
            _mark(undone.run, seen.run)
            done = True
    return done


def _seen_healthy(seen: RunSummary, among: Sequence[RunSummary]) -> bool:
    """Close a health gate that a later run has passed on the same host; return whether so."""
    others = [s for s in among if s.instance == seen.instance and s.run != seen.run]
    healthy = [ref for ref, since in seen.gates if any(r == ref and at > since for o in others for r, at in o.passed)]
    with suppress(Storage, UsageError):
        if healthy:
            record = journal.open_run(seen.run)
            record.resolve(*(d for d in record.pending() if d.kind == "gate" and d.target.ref in healthy))
            record.close()
            return True
    return False


def _hand_over(run: str, before: str) -> bool:
    """Close in an earlier journal what is in a later one: the same action, opened at the same moment."""
    mine, theirs = journal.open_run(run), journal.open_run(before)
    taken = {(each.pending.kind, each.pending.target.ref, each.opened) for each in mine.ever_pending()}
    still = [each for each in theirs.ever_pending() if not each.closed]
    both = [o.pending for o in still if (o.pending.kind, o.pending.target.ref, o.opened) in taken]
    if both:
        theirs.resolve(*both)
    mine.close()
    theirs.close()
    return bool(both)


def state_of(seen: RunSummary, among: Sequence[RunSummary]) -> State:
    """Return how a run ended; ``superseded`` when nothing is pending and a later one on its vCenter ended well."""
    over = seen.state in OVER or seen.has_pending or seen.alive
    return seen.state if over or not is_outdone(seen, among) else "superseded"


def is_outdone(seen: RunSummary, among: Sequence[RunSummary]) -> bool:
    """Return whether a later run on the same vCenter ended well: then at most the cleanup of a run is left to do."""
    return any(s.state == "finished" and not s.way_back for s in later(seen, among))


def way_on(seen: RunSummary, among: Sequence[RunSummary]) -> str:
    """Return the command that finishes a run, as it is now."""
    return f"vsphere-ai resume {seen.run}{' --cleanup' if is_outdone(seen, among) else ''}"


def later(seen: RunSummary, among: Sequence[RunSummary]) -> tuple[RunSummary, ...]:
    """Return the runs that worked on the same vCenter since this one did."""
    if not seen.instance:
        return ()
    return tuple(
        s for s in among if s.run != seen.run and s.instance == seen.instance and s.worked and s.since > seen.since
    )


def waiting(among: Sequence[RunSummary]) -> tuple[RunSummary, ...]:
    """Return the runs that were cut off, stopped or failed, or have pending actions, ordered by their last attempts.

    Not a run whose successor still has pending actions: that one has to be finished first.
    """
    found = (s for s in among if state_of(s, among) not in OVER and successor(s.run, among) is None)
    return tuple(sorted(found, key=lambda s: s.since))


def unfinished(instance: str) -> dict[str, str]:
    """Return the runs on a vCenter that have to be finished, and the command for it; not those that are under way."""
    among = look()
    return {s.run: way_on(s, among) for s in waiting(among) if s.instance == instance and not s.alive}


def latest() -> Journal:
    """Open the run that `resume` without a name continues; one that is under way only when there is no other."""
    found = waiting(look())
    if not found:
        for damaged in (e for e in journal.unreadable() if not isinstance(e, journal.Foreign)):
            raise damaged
        raise UsageError("no run is unfinished", "vsphere-ai run list shows all runs", rule="run.none")
    return journal.open_run(max(found, key=lambda s: (not s.alive, s.since)).run)


def successor(run: str, among: Sequence[RunSummary]) -> RunSummary | None:
    """Return the run that took over the pending actions of a run and still has some: it has to be finished first."""
    for each in (s for s in among if s.takes_over == run):
        found = each if each.has_pending else successor(each.run, among)
        if found is not None:
            return found
    return None


def reasons_to_ask(record: Journal) -> tuple[str, ...]:
    """Return why the operator is asked before a run is continued; empty when nothing came after it."""
    run = record.run
    by = f" by run {run.rolled_back}" if run.rolled_back else ""
    said = [f"run {record.id} was rolled back{by}"] if run.rolled_back is not None else []
    if run.closed:
        said.append(f"run {record.id} was closed by {run.closed.by}")
    for other in later(see(record), look()):
        how = ", and ended well" if other.state == "finished" else ""
        said.append(f"run {other.run} came after run {record.id}{how}; what it changed stays")
    return tuple(said)


def mark_resumed(record: Journal) -> None:
    """Note that this process continues a run. Called under the lock: others may have continued it before."""
    record.next_attempt()
    record.update(**process_id.identity(), resumed=journal.now(), ended=False, rolled_back=None, closed=None)


def close(record: Journal) -> None:
    """Close a run: what is pending is not reverted. What that was stays in its journal."""
    pending, me = record.pending(), process_id.identity()
    left = tuple(LeftPending(kind=p.kind, name=p.target.name, ref=p.target.ref) for p in pending)
    record.update(closed=Closed(at=journal.now(), by=f"{me['user']}@{me['machine']}", left=left))
    record.resolve(*pending)


def prunable(among: Sequence[RunSummary], before: str) -> tuple[RunSummary, ...]:
    """Return the runs that ended before a moment (UTC, ISO 8601) and have nothing pending, the oldest first.

    Not those after a run of the same vCenter that has pending actions: resuming it has to know what they changed.
    """
    pending = {
        s.instance: s.since for s in sorted(among, key=lambda s: s.since, reverse=True) if s.has_pending or s.alive
    }
    kept = {s.run for s in among if s.has_pending or s.alive or successor(s.run, among) is not None}
    old = (s for s in among if s.run not in kept and s.since < min(before, pending.get(s.instance, before)))
    return tuple(sorted((s for s in old if s.ended or state_of(s, among) in OVER), key=lambda s: s.since))


def rolled_back(record: Journal) -> None:
    """Note in the journal of the run that a finished rollback has rolled back."""
    name = record.run.rolls_back
    if name and record.finished:
        with suppress(Storage, UsageError):  # it was removed, or cannot be written: then it is only offered again
            _mark(name, record.id)


def _mark(run: str, back: str) -> None:
    record = journal.open_run(run)
    record.update(rolled_back=back)
    record.close()
