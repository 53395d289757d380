"""Runs of this machine as they go on, read from their journals: also those of other processes."""

from __future__ import annotations

from dataclasses import dataclass

from vsphere_ai.errors import Storage, UsageError
from vsphere_ai.planning.document import Approved
from vsphere_ai.runs import journal, process_id
from vsphere_ai.runs.journal_files import stamps


@dataclass(frozen=True)
class RunProgress:
    """How a run stands: `alive` in a process, and the counts of its steps; `steps` are those of its approved plan."""

    run: str
    alive: bool
    ended: bool
    steps: int
    begun: int
    done: int
    failed: int


class RunFollower:
    """Finds the runs that have changed since it was asked last; asking costs little where none has."""

    def __init__(self) -> None:
        self._seen = stamps()
        self._alive: dict[str, tuple[int, str]] = {}
        self._known = {run: self._look(run) for run in self._seen}

    def changes(self) -> list[RunProgress]:
        """Return the runs whose journals were written since, or whose process is gone, by name."""
        now = stamps()
        changed = {run for run, stamp in now.items() if self._seen.get(run) != stamp}
        changed |= {run for run, of in self._alive.items() if not process_id.runs(*of, own=True)}
        self._seen = now
        # a journal that was only opened has changed as a file
        looked = {run: found for run in sorted(changed) if (found := self._look(run)) and found != self._known.get(run)}
        self._known.update(looked)
        return list(looked.values())

    def _look(self, run: str) -> RunProgress | None:
        self._alive.pop(run, None)
        try:
            record = journal.open_run(run)
        except (Storage, UsageError):  # damaged, of another version, or removed
            return None
        try:
            about, steps = record.run, record.steps()
            alive = journal.is_alive(record)
            if alive:
                self._alive[run] = about.pid, about.born
            states = {(s.attempt, s.id): s.state for s in steps}
            begun, done, failed = (sum(state == each for state in states.values()) for each in _STATES)
            whole = len(Approved.model_validate(record.documents.approved).steps)
            return RunProgress(run, alive, about.ended, whole, begun, done, failed)
        except Storage:
            return None
        finally:
            record.close()


_STATES = ("begun", "done", "failed")
