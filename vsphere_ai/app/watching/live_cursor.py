"""Live cursor: an estate that is read again and again is read where it has changed; at times all of it is."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from vsphere_ai.language.inventories.selected import RECORD
from vsphere_ai.model.facts import Estate

if TYPE_CHECKING:
    from vsphere_ai.app.estate.session import Session
    from vsphere_ai.connect.soap.live_reads import LiveReads

LONGEST = 600.0
"""Seconds after which all of an estate is read although vCenter reports no change: what hosts answer by calls of their
own and over SSH, and tags, are no properties that vCenter reports changes of."""
_AT_WORK = ("queued", "running")


class LiveCursor:
    """Follows what is read of one vCenter in a session, and in those that are made of it.

    It begins with the second reading: the first one is not to be waited for longer.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._reads: LiveReads | None = None
        self._began = 0.0
        self.began = 0.0
        """When all of it was read last, since the epoch."""
        self._settled = False

    def unchanged(self) -> bool:
        """Take up what has changed since the call before this one, before anything is read.

        Return whether nothing has, and what was read before is lasting (see `keep`): then it need not be read.
        """
        settled, self._settled = self._settled, False
        begins = not self.began
        self._reads = self._reads or (None if begins else self._session.connection.vcenter.live())
        changed = self._reads.refresh() if self._reads else None
        if begins or time.monotonic() - self._began >= LONGEST:
            self._began, self.began = time.monotonic(), time.time()
            self._session.connection.remembered.begin()
            if self._reads:
                self._reads.forget()
            return False
        if changed is None:
            return False
        self._settled = settled and not changed
        return self._settled

    def keep(self, lasting: bool) -> None:
        """Say whether what was read since `unchanged` is `lasting`: whether it holds while no change is reported."""
        self._settled = lasting


def is_lasting(estate: Estate) -> bool:
    """Return whether only what vCenter reports changes of decides about an estate.

    Not so with conditions of selectors, which look at tags, and while tasks are at work on VMs.
    """
    return RECORD not in estate.objects and not is_at_work(estate)


def is_at_work(estate: Estate) -> bool:
    """Return whether a task was at work on a VM that was read."""
    return any(task.get("info.state") in _AT_WORK for task in estate.of_type("Task"))
