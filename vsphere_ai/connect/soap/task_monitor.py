"""Monitor of a vCenter task: woken by the server, bounded by a deadline, with progress every few seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from queue import Empty

from vsphere_ai.connect.soap.faults import error_of
from vsphere_ai.connect.soap.reading import read_objects
from vsphere_ai.connect.soap.session import SoapSession
from vsphere_ai.connect.soap.task_watcher import ENDED, Gone, TaskNotFollowed, TaskWatch, TaskWatcher
from vsphere_ai.errors import Denied, OutcomeUnknown, Unreachable, VimFault
from vsphere_ai.model.plain import Plain, PlainObject, inside

Progress = Callable[[int | None], None]
_WAKE_S = 8
"""Seconds between two signs of life."""
_LOOK = "Look at the task in vCenter, then plan again."


class TaskMonitor:
    """Follows one task to its end; `doing` is what it does, in words."""

    def __init__(self, session: SoapSession, watcher: TaskWatcher, task: str, doing: str) -> None:
        self._session, self._watcher = session, watcher
        self.task, self.doing = task, doing
        self.seen: dict[str, Plain] = {}
        self._updated = False

    def wait(self, subject: str, timeout: float, progress: Progress | None) -> None:
        """Wait for the end. A failed task raises its fault, no end OutcomeUnknown.

        `subject` is the object that the task works on: that a VM asks a question is reported.
        """
        deadline = time.monotonic() + timeout
        try:
            watch = self._watcher.follow(self.task, subject, deadline)
        except (Unreachable, Denied, VimFault) as error:
            raise self._unknown(f"can no longer be followed: {error.message}") from error
        try:
            while self.seen.get("info.state") not in ENDED:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise self._unknown(f"has not ended within {timeout:.0f} s")
                self._take(watch, left)
                if progress is not None:
                    done = self.seen.get("info.progress")
                    progress(done if isinstance(done, int) else None)
                self._look_for_question()
        finally:
            self._watcher.leave(watch)
        if self.seen["info.state"] == "error":
            failed = error_of(self._fault(), self.doing)
            if isinstance(failed, VimFault):
                failed.task = self.task
            raise failed

    def _take(self, watch: TaskWatch, left: float) -> None:
        """Wait for one piece of news, or until it is time for a sign of life."""
        try:
            new = watch.news.get(timeout=min(_WAKE_S, left))
        except Empty:
            if not self._updated and left > _WAKE_S:
                self._read_state()
            return
        if isinstance(new, Gone):
            raise self._gone()
        if isinstance(new, TaskNotFollowed):
            raise self._unknown(new.what) from new.error
        self._updated = self._updated or "info.state" in new
        self.seen.update(new)

    def _read_state(self) -> None:
        """Read the task itself: one that vanished after it was listed, and before its first update, is in no update."""
        try:
            facts = read_objects(self._session, [self.task], {"Task": ("info.progress", "info.state")}).get(self.task)
        except (Unreachable, Denied, VimFault):
            return  # the watcher asks the same server, and reports when it gives up
        if facts is None:
            raise self._gone()
        self.seen.update(facts.properties)

    def _look_for_question(self) -> None:
        question = self.seen.get("runtime.question")
        if question and self.seen.get("info.state") not in ENDED:
            raise self._unknown(
                f"waits for an answer to a question of the virtual machine: {inside(question, 'text') or ''}",
                "Answer it in the vSphere Client, then plan again.",
            )

    def _fault(self) -> PlainObject:
        try:
            found = read_objects(self._session, [self.task], {"Task": ("info.error",)})
        except (Unreachable, Denied, VimFault) as error:
            raise self._unknown(f"has failed, but why cannot be read: {error.message}") from error
        for facts in found.values():
            if isinstance(fault := facts.get("info.error"), Mapping):
                return fault
        raise self._unknown("failed without saying why")

    def _gone(self) -> OutcomeUnknown:
        name = self.task.partition(":")[2]
        return OutcomeUnknown(f"{self.doing}: the task {name} is no longer known to vCenter", _LOOK)

    def _unknown(self, what: str, remedy: str = "") -> OutcomeUnknown:
        name = self.task.partition(":")[2]
        return OutcomeUnknown(f"{self.doing}: the task {name} {what}", remedy or _LOOK, task=self.task)
