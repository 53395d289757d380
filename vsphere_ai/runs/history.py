"""What became of earlier runs: one definition of which of them somebody still has to bring to an end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from vsphere_ai.errors import Storage, UsageError
from vsphere_ai.runs import journal, process_id
from vsphere_ai.runs.journal import Journal

State = Literal["finished", "rolled back", "superseded", "closed", "unfinished", "stopped", "failed"]
OVER: tuple[State, ...] = ("finished", "rolled back", "superseded", "closed")
"""Nobody is asked to finish a run in one of these."""


@dataclass(frozen=True)
class Seen:
    """A run as its own journal tells of it. `since`: when it began, or went on for the last time (UTC, ISO)."""

    run: str
    instance: str
    since: str
    state: State
    owes: bool
    alive: bool
    ended: bool
    worked: bool
    """It began a step, so it may have changed something."""
    rolled_back: bool
    takes_over: str
    """The run whose debts became this one's when it began."""
    rolls_back: str
    """The run that this one goes back before."""
    gates: tuple[tuple[str, str], ...] = ()
    """Hosts that it owes a health gate and nothing else: reference and since when."""
    passed: tuple[tuple[str, str], ...] = ()
    """Hosts that it has seen healthy: reference and when."""

    @property
    def way_back(self) -> bool:
        """It was rolled back, or is itself a rollback: after both, things are as they were."""
        return self.rolled_back or bool(self.rolls_back)


def see(record: Journal) -> Seen:
    """Return what a journal tells of its run."""
    owes, back = bool(record.pending()), record.get("rolled_back")
    state: State = "failed"
    if record.get("closed"):
        state = "closed"
    elif back is not None and not owes:
        state = "rolled back"
    elif record.finished:
        state = "finished"
    elif not record.ended:
        state = "unfinished"
    elif record.get("signal") and not record.get("exit_code"):
        state = "stopped"
    since = str(record.get("resumed") or record.get("started") or "")
    return Seen(
        record.id,
        str(record.get("instance") or ""),
        since,
        state,
        owes,
        journal.is_alive(record),
        record.ended,
        bool(record.steps()),
        back is not None,
        str(record.get("takes_over") or ""),
        str(record.get("rolls_back") or ""),
        tuple(_gates(record)),
        tuple((s.ref, s.ended) for s in record.done() if s.what == "healthy" and s.ref),
    )


def _gates(record: Journal) -> Iterator[tuple[str, str]]:
    owed = [o for o in record.ever_pending() if not o.closed]
    out = {o.pending.target.ref for o in owed if o.pending.kind != "gate"}
    yield from (
        (o.pending.target.ref, o.opened) for o in owed if o.pending.kind == "gate" and o.pending.target.ref not in out
    )


def look() -> tuple[Seen, ...]:
    """Return every run of this machine, the oldest first; what cannot be read is left out.

    What a run that was killed had yet to note in the journal of the run before it is noted now.
    """
    found = _look()
    noted = [_noted(seen, found) for seen in found if seen.takes_over or seen.rolls_back]
    noted += [_seen_healthy(seen, found) for seen in found if seen.gates and not seen.alive]
    return _look() if any(noted) else found


def _look() -> tuple[Seen, ...]:
    found = []
    for record in journal.every():
        found.append(see(record))
        record.close()
    return tuple(found)


def _noted(seen: Seen, among: Sequence[Seen]) -> bool:
    """Note in an earlier journal that this run took its debts over, and that it was rolled back; tell whether so."""
    named = {s.run: s for s in among}
    before, undone = named.get(seen.takes_over), named.get(seen.rolls_back)
    done = False
    with suppress(Storage, UsageError):  # it cannot be written: the newer run has them all the same
        if before is not None and before.owes:
            done = _hand_over(seen.run, before.run)
        if undone is not None and seen.state == "finished" and not undone.rolled_back and undone.since < seen.since:
            _mark(undone.run, seen.run)
            done = True
    return done


def _seen_healthy(seen: Seen, among: Sequence[Seen]) -> bool:
    """Settle a health gate that a later run has passed on the same host; tell whether so."""
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
    """Settle in an earlier journal what stands in a later one: the same debt, opened at the same moment."""
    mine, theirs = journal.open_run(run), journal.open_run(before)
    taken = {(o.pending.kind, o.pending.target.ref, o.opened) for o in mine.ever_pending()}
    both = [
        o.pending
        for o in theirs.ever_pending()
        if not o.closed and (o.pending.kind, o.pending.target.ref, o.opened) in taken
    ]
    if both:
        theirs.resolve(*both)
    mine.close()
    theirs.close()
    return bool(both)


def state_of(seen: Seen, among: Sequence[Seen]) -> State:
    """Return how a run ended; ``superseded`` when it owes nothing and a later one on its vCenter ended well."""
    over = seen.state in OVER or seen.owes or seen.alive
    return seen.state if over or not is_outdone(seen, among) else "superseded"


def is_outdone(seen: Seen, among: Sequence[Seen]) -> bool:
    """Tell whether a later run on the same vCenter ended well: then a run has at most its cleanup left to do."""
    return any(s.state == "finished" and not s.way_back for s in later(seen, among))


def way_on(seen: Seen, among: Sequence[Seen]) -> str:
    """Return the command line that brings a run to its end, as it is by now."""
    return f"vsphere-ai resume {seen.run}{' --cleanup' if is_outdone(seen, among) else ''}"


def later(seen: Seen, among: Sequence[Seen]) -> tuple[Seen, ...]:
    """Return the runs that worked on the same vCenter since this one did."""
    if not seen.instance:
        return ()
    return tuple(
        s for s in among if s.run != seen.run and s.instance == seen.instance and s.worked and s.since > seen.since
    )


def waiting(among: Sequence[Seen]) -> tuple[Seen, ...]:
    """Return the runs that were cut off, stopped or failed, or owe something, in the order they were worked on.

    A run whose debts another one has and still owes waits for that one.
    """
    found = (s for s in among if state_of(s, among) not in OVER and successor(s.run, among) is None)
    return tuple(sorted(found, key=lambda s: s.since))


def unfinished(instance: str) -> dict[str, str]:
    """Return the runs on a vCenter that somebody has to finish, and how; not those that are under way."""
    among = look()
    return {s.run: way_on(s, among) for s in waiting(among) if s.instance == instance and not s.alive}


def latest() -> Journal:
    """Open the run that a `resume` without a name is about; one that is under way only when there is no other."""
    found = waiting(look())
    if not found:
        for damaged in (e for e in journal.unreadable() if not isinstance(e, journal.Foreign)):
            raise damaged
        raise UsageError("no run is unfinished", "vsphere-ai runs lists what there is", rule="run.none")
    return journal.open_run(max(found, key=lambda s: (not s.alive, s.since)).run)


def successor(run: str, among: Sequence[Seen]) -> Seen | None:
    """Return the run that took over what a run owed, and still owes it: that one has to be finished first."""
    for each in (s for s in among if s.takes_over == run):
        found = each if each.owes else successor(each.run, among)
        if found is not None:
            return found
    return None


def doubts(record: Journal) -> tuple[str, ...]:
    """Return why nobody may expect any more that a run is finished; empty when nothing came after it."""
    back = record.get("rolled_back")
    said = [f"run {record.id} was rolled back{f' by run {back}' if back else ''}"] if back is not None else []
    if record.get("closed"):
        said.append(f"run {record.id} was closed by {record.get('closed')['by']}")
    for other in later(see(record), look()):
        how = ", and ended well" if other.state == "finished" else ""
        said.append(f"run {other.run} came after run {record.id}{how}; what it changed stays")
    return tuple(said)


def take_up(record: Journal) -> None:
    """Note that this process goes on with a run. Called under the lock: others may have gone on with it meanwhile."""
    record.next_attempt()
    record.set(**process_id.identity(), resumed=journal.now(), ended=False, rolled_back=None, closed=None)


def close(record: Journal) -> None:
    """Give a run up: it is over, and what it owes is left as it is. What that was stays in its journal."""
    left = [{"kind": d.kind, "name": d.target.name, "ref": d.target.ref} for d in record.pending()]
    me = process_id.identity()
    record.set(closed={"at": journal.now(), "by": f"{me['user']}@{me['machine']}", "left": left})
    record.resolve(*record.pending())


def prunable(among: Sequence[Seen], before: str) -> tuple[Seen, ...]:
    """Return the runs that ended before a moment (UTC, ISO) and owe nothing, the oldest first.

    Not those that came after a run of the same vCenter that still owes something: it has to know what they changed.
    """
    owing = {s.instance: s.since for s in sorted(among, key=lambda s: s.since, reverse=True) if s.owes or s.alive}
    kept = {s.run for s in among if s.owes or s.alive or successor(s.run, among) is not None}
    old = (s for s in among if s.run not in kept and s.since < min(before, owing.get(s.instance, before)))
    return tuple(sorted((s for s in old if s.ended or state_of(s, among) in OVER), key=lambda s: s.since))


def rolled_back(record: Journal) -> None:
    """Note in the journal of the run that a finished rollback went back before."""
    name = record.get("rolls_back")
    if name and record.finished:
        with suppress(Storage, UsageError):  # it was removed, or cannot be written: then it is only offered again
            _mark(name, record.id)


def _mark(run: str, back: str) -> None:
    record = journal.open_run(run)
    record.set(rolled_back=back)
    record.close()
