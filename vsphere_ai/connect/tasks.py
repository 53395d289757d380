"""Monitor of a vCenter task: woken by the server, bounded by a deadline, with progress every few seconds."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping

from vsphere_ai.connect.faults import error_of
from vsphere_ai.connect.outage import Lost, Trial
from vsphere_ai.connect.plain import to_object, to_plain
from vsphere_ai.connect.session import Session
from vsphere_ai.connect.vmomi import Collector, ManagedObject, Update, vim, vmodl
from vsphere_ai.errors import Denied, OutcomeUnknown, Unreachable, VimFault, VsphereAiError
from vsphere_ai.model.plain import Plain, PlainObject, inside

Progress = Callable[[int | None], None]
_WAKE_S = 8
"""Longest wait in seconds in one request; `progress` is called after each one."""
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.1, 10.0
_LOOK = "Look at the task in vCenter, then plan again."
_ENDED = ("success", "error")


class TaskMonitor:
    """Follows one task. `subject` is the object the task works on: a VM's pending question is reported."""

    def __init__(self, session: Session, task: str, subject: str, doing: str) -> None:
        self.session = session
        self.task = task
        self.subject = subject
        self.doing = doing
        self.seen: dict[str, Plain] = {}
        self._collector: ManagedObject | None = None
        self._version = ""
        self._trial: Trial | None = None
        self._broken_since = 0.0
        self._pause = _SHORTEST_PAUSE

    def wait(self, timeout: float, progress: Progress | None) -> None:
        """Wait for the end. A failed task raises its fault, no end OutcomeUnknown."""
        deadline = time.monotonic() + timeout
        try:
            while self.seen.get("info.state") not in _ENDED:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise self._unknown(f"has not ended within {timeout:.0f} s")
                self._wait(left)
                if progress is not None:
                    done = self.seen.get("info.progress")
                    progress(done if isinstance(done, int) else None)
                self._look_for_question()
        finally:
            self._unsubscribe()
        if self.seen["info.state"] == "error":
            raise error_of(self._fault(), self.doing)

    def _wait(self, left: float) -> None:
        try:
            collector = self._collector or self._subscribe()
            options = Collector.WaitOptions(maxWaitSeconds=max(1, min(_WAKE_S, int(left))))
            update = self.session.invoke(collector, "WaitForUpdatesEx", self._version, options)
        except Lost as lost:
            self._collector = None
            self._trial = self._trial or Trial(self.session.outage, self.session.limits)
            if not self._trial.again(lost):
                raise self._unknown(f"can no longer be followed: {lost.refusal(self.session.endpoint)}") from lost
            return
        except (
            vim.fault.NotAuthenticated,
            vmodl.query.InvalidCollectorVersion,
            vmodl.fault.ManagedObjectNotFound,
            vmodl.fault.RequestCanceled,
        ) as error:
            # Collectors live in the session: whatever happened to it, start over with a new one.
            self._collector = None
            if isinstance(error, vmodl.fault.ManagedObjectNotFound):
                self.subject = ""  # the object may be gone, which does not end the task
            self._start_over(error, left)
            return
        except OutcomeUnknown:
            raise
        except (vmodl.MethodFault, VsphereAiError) as error:
            why = error.message if isinstance(error, VsphereAiError) else type(error).__name__.rpartition(".")[2]
            raise self._unknown(f"can no longer be followed: {why}") from error
        self._answered()
        if update is not None:
            self._version = update.version
            for of_filter in update.filterSet:
                for changed in of_filter.objectSet:
                    self._take(changed)

    def _answered(self) -> None:
        self.session.outage.over()
        self._trial, self._broken_since, self._pause = None, 0.0, _SHORTEST_PAUSE

    def _start_over(self, error: Exception, left: float) -> None:
        """Pause before a new collector is made, unless no collector has held for too long."""
        now = time.monotonic()
        self._broken_since = self._broken_since or now
        if now - self._broken_since > self.session.outage.budget:
            raise self._unknown(f"can no longer be followed ({type(error).__name__.rpartition('.')[2]})") from error
        time.sleep(min(left, self._pause))
        self._pause = min(self._pause * 2, _LONGEST_PAUSE)

    def _take(self, changed: Update) -> None:
        if changed.kind == "leave" and isinstance(changed.obj, vim.Task):
            raise self._gone()
        for change in changed.changeSet:
            self.seen[change.name] = to_plain(change.val)

    def _subscribe(self) -> ManagedObject:
        self._version = ""
        try:
            self._collector = collector = self.session.reading(self._new_collector)
        except (Unreachable, Denied) as error:
            raise self._unknown(f"can no longer be followed: {error.message}") from error
        except VimFault as error:
            if error.fault != "ManagedObjectNotFound":
                raise self._unknown(f"can no longer be followed: {error.message}") from error
            if not self.subject:
                raise self._gone() from error
            # one of the two is gone: the object, which does not end the task, or the task
            self.subject = ""
            return self._subscribe()
        return collector

    def _new_collector(self) -> ManagedObject:
        objects = [Collector.ObjectSpec(obj=to_object(self.task), skip=False)]
        wanted = [Collector.PropertySpec(type=vim.Task, all=False, pathSet=["info.progress", "info.state"])]
        if self.subject.startswith("VirtualMachine:"):
            objects.append(Collector.ObjectSpec(obj=to_object(self.subject), skip=False))
            wanted.append(Collector.PropertySpec(type=vim.VirtualMachine, all=False, pathSet=["runtime.question"]))
        collector: ManagedObject = self.session.invoke(
            self.session.content.propertyCollector, "CreatePropertyCollector"
        )
        self.session.invoke(collector, "CreateFilter", Collector.FilterSpec(objectSet=objects, propSet=wanted), False)
        return collector

    def _unsubscribe(self) -> None:
        if self._collector is not None:
            with contextlib.suppress(Lost, vmodl.MethodFault, VsphereAiError):
                self.session.invoke(self._collector, "DestroyPropertyCollector")
            self._collector = None

    def _look_for_question(self) -> None:
        question = self.seen.get("runtime.question")
        if question and self.seen.get("info.state") not in _ENDED:
            raise self._unknown(
                f"waits for an answer to a question of the virtual machine: {inside(question, 'text') or ''}",
                "Answer it in the vSphere Client, then plan again.",
            )

    def _fault(self) -> PlainObject:
        spec = Collector.FilterSpec(
            objectSet=[Collector.ObjectSpec(obj=to_object(self.task), skip=False)],
            propSet=[Collector.PropertySpec(type=vim.Task, all=False, pathSet=["info.error"])],
        )
        try:
            page = self.session.reading(
                lambda: self.session.page("RetrievePropertiesEx", [spec], Collector.RetrieveOptions())
            )
        except (Unreachable, Denied, VimFault) as error:
            raise self._unknown(f"has failed, but why cannot be read: {error.message}") from error
        for fault in (value for content in (page.objects if page else ()) for value in content.values.values()):
            if isinstance(fault, Mapping):
                return fault
        raise self._unknown("failed without saying why")

    def _gone(self) -> OutcomeUnknown:
        name = self.task.partition(":")[2]
        return OutcomeUnknown(f"{self.doing}: the task {name} is no longer known to vCenter", _LOOK)

    def _unknown(self, what: str, remedy: str = "") -> OutcomeUnknown:
        name = self.task.partition(":")[2]
        return OutcomeUnknown(f"{self.doing}: the task {name} {what}", remedy or _LOOK, task=self.task)
