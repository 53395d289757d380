"""What became of earlier runs: one definition of which of them somebody still has to bring to an end."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from vsphere_ai import journal, processes
from vsphere_ai.errors import Storage, UsageError
from vsphere_ai.journal import Journal

State = Literal["finished", "rolled back", "superseded", "unfinished", "stopped", "failed"]
OVER: tuple[State, ...] = ("finished", "rolled back", "superseded")
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
    worked: bool
    """It began a step, so it may have changed something."""
    rolled_back: bool
    takes_over: str
    """The run whose debts became this one's when it began."""
    rolls_back: str
    """The run that this one goes back before."""

    @property
    def way_back(self) -> bool:
        """It was rolled back, or is itself a rollback: after both, things are as they were."""
        return self.rolled_back or bool(self.rolls_back)


def see(book: Journal) -> Seen:
    """Return what a journal tells of its run."""
    owes, back = bool(book.debts()), book.get("rolled_back")
    state: State = "failed"
    if back is not None and not owes:
        state = "rolled back"
    elif book.finished:
        state = "finished"
    elif not book.ended:
        state = "unfinished"
    elif book.get("signal") and not book.get("exit_code"):
        state = "stopped"
    since = str(book.get("resumed") or book.get("started") or "")
    return Seen(
        book.id,
        str(book.get("instance") or ""),
        since,
        state,
        owes,
        journal.is_alive(book),
        bool(book.steps()),
        back is not None,
        str(book.get("takes_over") or ""),
        str(book.get("rolls_back") or ""),
    )


def look() -> tuple[Seen, ...]:
    """Return every run of this machine, the oldest first; what cannot be read is left out.

    What a run that was killed had yet to note in the journal of the run before it is noted now.
    """
    found = _look()
    noted = [_noted(seen, found) for seen in found if seen.takes_over or seen.rolls_back]
    return _look() if any(noted) else found


def _look() -> tuple[Seen, ...]:
    found = []
    for book in journal.every():
        found.append(see(book))
        book.close()
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


def _hand_over(run: str, before: str) -> bool:
    """Settle in an earlier journal what stands in a later one: the same debt, opened at the same moment."""
    mine, theirs = journal.open_run(run), journal.open_run(before)
    taken = {(o.debt.kind, o.debt.target.ref, o.opened) for o in mine.owed()}
    both = [o.debt for o in theirs.owed() if not o.settled and (o.debt.kind, o.debt.target.ref, o.opened) in taken]
    if both:
        theirs.settle(*both)
    mine.close()
    theirs.close()
    return bool(both)


def state_of(seen: Seen, among: Sequence[Seen]) -> State:
    """Return how a run ended; ``superseded`` when it owes nothing and a later one on its vCenter ended well."""
    over = seen.state in OVER or seen.owes or seen.alive
    if over or not any(s.state == "finished" and not s.way_back for s in later(seen, among)):
        return seen.state
    return "superseded"


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
    found = (s for s in among if state_of(s, among) not in OVER and heir(s.run, among) is None)
    return tuple(sorted(found, key=lambda s: s.since))


def unfinished(instance: str) -> tuple[str, ...]:
    """Return the names of the runs on a vCenter that somebody has to finish; not of those that are under way."""
    return tuple(s.run for s in waiting(look()) if s.instance == instance and not s.alive)


def latest() -> Journal:
    """Open the run that a `resume` without a name is about; one that is under way only when there is no other."""
    found = waiting(look())
    if not found:
        for damaged in (e for e in journal.unreadable() if not isinstance(e, journal.Foreign)):
            raise damaged
        raise UsageError("no run is unfinished", "vsphere-ai runs lists what there is")
    return journal.open_run(max(found, key=lambda s: (not s.alive, s.since)).run)


def heir(run: str, among: Sequence[Seen]) -> Seen | None:
    """Return the run that took over what a run owed, and still owes it: that one has to be finished first."""
    for each in (s for s in among if s.takes_over == run):
        found = each if each.owes else heir(each.run, among)
        if found is not None:
            return found
    return None


def doubts(book: Journal) -> tuple[str, ...]:
    """Return why finishing a run may undo what was approved since; empty when nothing was."""
    back = book.get("rolled_back")
    said = [f"run {book.id} was rolled back{f' by run {back}' if back else ''}"] if back is not None else []
    for other in later(see(book), look()):
        how = ", and ended well" if other.state == "finished" else ""
        said.append(f"run {other.run} came after run {book.id}{how}: finishing the earlier one may undo what it did")
    return tuple(said)


def take_up(book: Journal) -> None:
    """Note that this process goes on with a run. Called under the lock: others may have gone on with it meanwhile."""
    book.next_attempt()
    book.set(**processes.identity(), resumed=journal.now(), ended=False, rolled_back=None)


def rolled_back(book: Journal) -> None:
    """Note in the journal of the run that a finished rollback went back before."""
    name = book.get("rolls_back")
    if name and book.finished:
        with suppress(Storage, UsageError):  # it was removed, or cannot be written: then it is only offered again
            _mark(name, book.id)


def _mark(run: str, back: str) -> None:
    book = journal.open_run(run)
    book.set(rolled_back=back)
    book.close()
