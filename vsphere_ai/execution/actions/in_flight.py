"""Tasks of a run that are under way in one vCenter: fewer at a time once it has refused one for lack of resources.

vCenter runs some 640 tasks at once and queues what comes beyond that (blogs.vmware.com/performance/2021/02,
vcenter-limits-for-tasks-running-at-the-same-time); when it refuses instead, and in which words, is documented nowhere.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from vsphere_ai.errors import VimFault, VsphereAiError

REFUSALS = ("TooManyConcurrentNativeClones",)
"""Faults, of a call or of its task, that nothing happened because too much is under way already."""
_WORDS = re.compile(
    r"too many (concurrent|pending|outstanding|queued|simultaneous)"
    r"|(maximum|limit)[\w ]{0,20} (concurrent|pending|outstanding|simultaneous) (tasks?|operations?|requests?)",
    re.IGNORECASE,
)
"""How a SystemError is worded that says so. Unverified: no such answer of a vCenter was seen."""
LONGEST = 120.0
"""Seconds after which a task is sent all the same: those that are under way may take hours."""


def is_refusal(error: VsphereAiError) -> bool:
    """Return whether vCenter has refused something only because too much is under way, so that nothing happened.

    A SystemError counts only where the call itself was refused: of a task it does not show how far that came. HTTP 503
    never does: the proxy may answer it after vCenter has got the request, and while vCenter starts [fk].
    """
    if not isinstance(error, VimFault):
        return False
    worded = error.fault == "SystemError" and not error.task and _WORDS.search(error.message) is not None
    return error.fault in REFUSALS or worded


class InFlight:
    """Counts tasks under way. There is no limit until one is refused; then half of what was under way.

    Refusals of what was sent before the last cut count as one with it. For each round of tasks that end well, one more
    is sent at a time.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._now = self._well = self._cuts = 0
        self.most: int | None = None
        """How many tasks are sent at a time; None while vCenter has refused none."""

    @contextmanager
    def one(self, notice: Callable[[str], None]) -> Iterator[None]:
        """Wait until one more task may be under way, and count what is done within as one.

        `notice` gets a line when vCenter refuses one for the first time.
        """
        with self._changed:
            self._changed.wait_for(self._may_begin, LONGEST)
            self._now += 1
            cuts = self._cuts
        try:
            yield
        except VsphereAiError as error:
            if is_refusal(error):
                self._cut(cuts, error, notice)
            raise
        else:
            self._ended_well()
        finally:
            with self._changed:
                self._now -= 1
                self._changed.notify()

    def _may_begin(self) -> bool:
        return self.most is None or self._now < self.most

    def _cut(self, cuts: int, error: VsphereAiError, notice: Callable[[str], None]) -> None:
        with self._changed:
            if cuts != self._cuts:
                return
            first = self.most is None
            self.most = max(1, min(self.most or self._now, self._now) // 2)
            self._cuts, self._well = self._cuts + 1, 0
        if first:
            text = "vCenter takes no more tasks at a time; it is given fewer, and what it has refused is sent again"
            notice(f"{text} ({error.message})")

    def _ended_well(self) -> None:
        with self._changed:
            if self.most is None:
                return
            self._well += 1
            if self._well >= self.most:
                self.most, self._well = self.most + 1, 0
                self._changed.notify()
