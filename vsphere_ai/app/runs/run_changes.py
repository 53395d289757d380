"""Changes of each run: a rollback puts back what its run changed, a resumed run leaves what a later one changed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from vsphere_ai.language.playbooks.play import Play, Playbook
from vsphere_ai.model.records.recorded_steps import RecordedStep
from vsphere_ai.model.state import Target
from vsphere_ai.runs import journal
from vsphere_ai.runs.history import RunSummary
from vsphere_ai.runs.journal import Journal

CHANGED = ("done", "begun", "unknown")
"""States of a step that took effect, or may have."""


@dataclass(frozen=True)
class RunChanges:
    """The changes that the steps of a run were about, from its journal."""

    run: str
    what: str
    started: str
    steps: tuple[RecordedStep, ...]

    def at(self, target: Target, kind: str, states: Collection[str] = CHANGED) -> str:
        """Return when a kind of a target was last changed (UTC, ISO); empty when it was not."""
        own = (s.began for s in self.steps if s.state in states and s.is_on(target) and kind in s.kinds.split())
        return max(own, default="")

    def tried(self, target: Target, kind: str) -> bool:
        """Return whether a step about this was sent, also one that was refused."""
        return bool(self.at(target, kind, (*CHANGED, "failed")))


def own(record: Journal, among: Sequence[RunSummary]) -> RunChanges:
    """Return what a run has changed, and those that went on with it in its stead (`resume --reboot-again`)."""
    steps = _steps(record)
    for run in _went_on(record.id, among):
        other = journal.open_run(run)
        steps = (*steps, *_steps(other))
        other.close()
    return RunChanges(record.id, record.run.what, record.run.started, steps)


def after(record: Journal, among: Sequence[RunSummary]) -> tuple[RunChanges, ...]:
    """Return what other runs on the same vCenter changed since a run began, the oldest run first.

    A run that was rolled back is left out, and so are its rollback and the rollbacks of the run itself: after both,
    things are as they were.
    """
    mine = {record.id, *_went_on(record.id, among)}
    this = next(s for s in among if s.run == record.id)
    started = record.run.started
    others = [s for s in among if s.run not in mine and s.instance == this.instance and s.worked and this.instance]
    since = {s.run for s in others if s.since > started}
    found = []
    for seen in sorted((s for s in others if s.run in since), key=lambda s: s.since):
        if seen.rolled_back or seen.rolls_back in mine | since:
            continue
        other = journal.open_run(seen.run)
        found.append(RunChanges(seen.run, other.run.what, other.run.started, _steps(other)))
        other.close()
    return tuple(found)


def touched(target: Target, kind: str, since: str, others: Sequence[RunChanges]) -> RunChanges | None:
    """Return the last of these runs that changed a kind of a target after a moment (UTC, ISO)."""
    later = [o for o in others if o.at(target, kind) > since]
    return max(later, key=lambda o: o.at(target, kind), default=None)


def rollback_scope(playbook: Playbook, mine: RunChanges, others: Sequence[RunChanges]) -> Playbook:
    """Return of a playbook of how things were what a run has changed itself.

    What was refused to it, and changed by a later run, is that one's.
    """

    def keeps(target: Target, kind: str) -> bool:
        changed = bool(mine.at(target, kind))
        return changed or (mine.tried(target, kind) and touched(target, kind, mine.started, others) is None)

    return narrowed(playbook, keeps)


def to_finish(playbook: Playbook, mine: RunChanges, others: Sequence[RunChanges]) -> tuple[Playbook, tuple[str, ...]]:
    """Return of an approved playbook what no later run has changed, and in words what is left out of it."""
    left: dict[str, None] = {}

    def keeps(target: Target, kind: str) -> bool:
        last = touched(target, kind, mine.at(target, kind) or mine.started, others)
        if last is not None:
            left[f"{target.name}: {kind} was changed by the later run {last.run} ({last.what}); it stays so"] = None
        return last is None

    return narrowed(playbook, keeps), tuple(left)


def narrowed(playbook: Playbook, keeps: Callable[[Target, str], bool]) -> Playbook:
    """Return a pinned playbook with those kinds of its targets only; how to treat a target is kept in any case."""
    return replace(playbook, plays=tuple(each for play in playbook.plays for each in _narrowed(play, keeps)))


def _narrowed(play: Play, keeps: Callable[[Target, str], bool]) -> Iterator[Play]:
    if play.targets is None:
        yield play
        return
    groups: dict[tuple[str, ...], list[Target]] = {}
    for target in play.targets:
        kept = tuple(s.state.kind for s in play.states if keeps(target, s.state.kind))
        groups.setdefault(kept, []).append(target)
    for kinds, targets in groups.items():
        states = tuple(s for s in play.states if s.state.kind in kinds)
        yield replace(play, states=states, targets=tuple(targets))


def _went_on(run: str, among: Sequence[RunSummary]) -> tuple[str, ...]:
    own = [s.run for s in among if s.takes_over == run and not s.rolls_back]
    return tuple(each for one in own for each in (one, *_went_on(one, among)))


def _steps(record: Journal) -> tuple[RecordedStep, ...]:
    return tuple(s for s in record.steps() if s.what == "change")
