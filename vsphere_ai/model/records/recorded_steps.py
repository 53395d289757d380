"""Steps and pending actions of a run as its journal holds them."""

from __future__ import annotations

from dataclasses import dataclass

from vsphere_ai.model.records.pending import Pending
from vsphere_ai.model.state import Target


@dataclass(frozen=True)
class RecordedStep:
    """A step that was begun; in state ``begun`` its outcome is not known. Times are UTC, ISO 8601."""

    attempt: int
    id: str
    target: str
    ref: str
    """Reference of its target."""
    summary: str
    what: str
    """Its type (see `steps.What`)."""
    kinds: str
    """The kinds it serves, separated by spaces."""
    state: str
    began: str
    ended: str
    error: str
    task: str
    """The last task that vCenter made of it, such as ``Task:task-42``."""

    def is_on(self, target: Target) -> bool:
        """Return whether the step is about a target, which may have been renamed since."""
        return self.ref == target.ref


@dataclass(frozen=True)
class RecordedPending:
    """A pending action with its times (UTC, ISO 8601).

    `sent` is when the command that causes it was sent; empty when it never was. `closed` is empty while it is pending.
    """

    pending: Pending
    opened: str
    sent: str
    closed: str
