"""What a journal holds of a step and of a debt, as values."""

from __future__ import annotations

from dataclasses import dataclass

from vsphere_ai.model.pending import Pending
from vsphere_ai.model.state import Target


@dataclass(frozen=True)
class Step:
    """A step that was begun: ``begun`` means that nobody knows how it ended."""

    attempt: int
    id: str
    target: str
    summary: str
    state: str
    began: str
    ended: str
    error: str
    task: str
    """The last task vCenter made of it, such as ``Task:task-42``."""
    what: str
    """What it is (see `steps.What`); of a step from before format 3 only whether it is a reboot or a reading back."""
    ref: str
    """Reference of its target; empty where a step from before format 4 does not tell which of several it was."""
    kinds: str
    """The kinds it serves, separated by spaces; empty for steps from before format 4."""

    def is_on(self, target: Target) -> bool:
        """Tell whether it is about a target, which may have another name since."""
        return self.ref == target.ref if self.ref else self.target == target.name


@dataclass(frozen=True)
class Owed:
    """A debt as it was written down. `sent` is when the command that makes it left; empty: it never did."""

    pending: Pending
    opened: str
    sent: str
    settled: str
