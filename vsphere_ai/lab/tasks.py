"""Tasks: queued, running, then success with a result or error with a fault."""

from __future__ import annotations

import contextvars
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from pyVmomi import vim, vmodl

from vsphere_ai.lab.sessions import now
from vsphere_ai.lab.store import ManagedObject, Store

RECENT = timedelta(minutes=10)
MOST_RECENT = 200


@dataclass(frozen=True)
class Doom:
    """What a fault makes of a task: it ends with `error`, stands still until `released`, or is not found any more.

    `percent` is where it stands; -1 means that it does not even begin. A task that is `gone` still takes effect; one
    with `elsewhere` puts what it makes somewhere else than it was asked to. It is refused where `most` others run.
    """

    error: Exception | None
    percent: int | None
    gone: bool
    released: threading.Event
    elsewhere: bool = False
    most: int = 0
    finds: tuple[Exception, ...] | None = None
    """What a check finds, whatever there is; None: what the lab's requirements find."""


class TaskWork:
    """What the work behind a task may see and say."""

    def __init__(self, tasks: Tasks, mo: ManagedObject, read_only: bool = False) -> None:
        self._tasks, self.mo, self.read_only = tasks, mo, read_only
        self.cancelled = False
        self.ended: Callable[[], None] = lambda: None
        """Called under the lock when it has ended, however it did."""
        self.elsewhere = False
        """Whether what it makes is to come somewhere else than asked: a fault."""

    def update(self, **fields: Any) -> None:
        """Write fields of TaskInfo and wake everyone who watches."""
        with self._tasks.store.lock:
            info = self.mo["info"]
            for name, value in fields.items():
                setattr(info, name, value)
            self._tasks.store.touch(self.mo, "info")

    def progress(self, seconds: float) -> None:
        """Let time pass, in ten parts with a percentage each; raise RequestCanceled when the task is cancelled."""
        for tenth in range(1, 11) if seconds else ():
            time.sleep(seconds / 10)
            self.check()
            self.update(progress=min(tenth * 10, 99))

    def check(self) -> None:
        """Raise RequestCanceled when the task was cancelled."""
        if self.cancelled:
            raise vmodl.fault.RequestCanceled(msg="The task was canceled by a user.")


Work = Callable[[TaskWork], Any]


class Tasks:
    """Starts tasks; each runs in a thread of its own after `seconds`."""

    def __init__(self, store: Store, seconds: float) -> None:
        self.store, self.seconds = store, seconds
        self.running: dict[str, TaskWork] = {}
        self._last: list[ManagedObject] = []
        self.doom: Doom | None = None
        """Awaits the next task that is started; set and unset under the store's lock."""

    def start(
        self, entity: ManagedObject, operation: str, work: Work, *, hold_lock: bool = True, read_only: bool = False
    ) -> Any:
        """Start `work` as a task on an entity and return its reference.

        With `hold_lock` the work runs in one piece under the store's lock; else it takes the lock itself where needed.
        A VM that already has a task running refuses with TaskInProgress, unless one of them is `read_only`.
        """
        busy = None if read_only else self._changing(entity)
        if busy is not None and isinstance(entity.ref, vim.VirtualMachine):
            raise vim.fault.TaskInProgress(
                task=busy.mo.ref, msg="The operation is not allowed because another task is already in progress."
            )
        if self.doom is not None and 0 < self.doom.most <= len(self.running):
            # how a vCenter words it that takes no more is documented nowhere: unverified
            raise vmodl.fault.SystemError(
                reason="", msg="A general system error occurred: too many concurrent operations"
            )
        info = self._info(entity, operation)
        info.cancelable = not hold_lock
        mo = self.store.new(vim.Task, prefix="task", info=info)
        info.key, info.task = mo.moid, mo.ref
        task = TaskWork(self, mo, read_only)
        doom, self.doom = self.doom, None
        self.running[mo.moid] = task
        self._last.append(mo)
        self._list(entity, mo.ref)
        # in the caller's context: what a task does belongs to the operation that started it
        task.elsewhere = doom is not None and doom.elsewhere
        run = partial(contextvars.copy_context().run, self._run, task, work, hold_lock, doom)
        thread = threading.Thread(target=run, daemon=True, name=mo.moid)
        thread.start()
        return mo.ref

    def note(self, entity: ManagedObject, operation: str) -> None:
        """List a call that ended when it returned as a task, as vCenter does with those it shows in its task list."""
        info = self._info(entity, operation)
        info.state, info.startTime, info.completeTime = "success", info.queueTime, now()
        mo = self.store.new(vim.Task, prefix="task", info=info)
        info.key, info.task = mo.moid, mo.ref
        self._last.append(mo)
        self._list(entity, mo.ref)

    def _info(self, entity: ManagedObject, operation: str) -> Any:
        return vim.TaskInfo(
            key="",
            descriptionId=f"{entity.type_name}.{operation}",
            entity=entity.ref,
            entityName=entity["name"] if "name" in entity.props else None,
            state="queued",
            cancelled=False,
            cancelable=False,
            queueTime=now(),
            eventChainId=0,
            reason=vim.TaskReasonUser(userName="administrator@vsphere.local"),
        )

    def _changing(self, entity: ManagedObject) -> TaskWork | None:
        found = (t for t in list(self.running.values()) if not t.read_only and t.mo["info"].entity == entity.ref)
        return next(found, None)

    def _list(self, entity: ManagedObject, started: Any) -> None:
        """Show a new task at its entity and in the TaskManager; as documented, one stays for minutes after its end."""
        since = now() - RECENT
        self._last = [t for t in self._last if t.moid in self.store.objects and not _ended_before(t["info"], since)]
        listed = {t.moid for t in self._last}
        own = [ref for ref in entity["recentTask"] or () if ref._moId in listed]
        self.store.set(entity, recentTask=[*own, started])
        manager = self.store.objects.get("TaskManager")
        if manager is not None:
            self.store.set(manager, recentTask=[t.ref for t in self._last[-MOST_RECENT:]])

    def _run(self, task: TaskWork, work: Work, hold_lock: bool, doom: Doom | None) -> None:
        try:
            if doom is not None:
                self._befall(task, doom)
            task.update(state="running", startTime=now(), progress=0)
            time.sleep(self.seconds)
            if doom is not None:
                _meet(task, doom)
            task.check()  # it was cancelled while it was queued
            if hold_lock:
                with self.store.lock:
                    self._finish(task, state="success", result=work(task))
            else:
                self._finish(task, state="success", result=work(task))
        except vmodl.MethodFault as error:
            self._finish(task, state="error", error=error)
        except Exception as error:  # a bug of the lab must reach the client, not hang it
            traceback.print_exc()
            self._finish(task, state="error", error=vmodl.fault.SystemError(reason=repr(error), msg=repr(error)))

    def _befall(self, task: TaskWork, doom: Doom) -> None:
        if doom.gone:
            self.store.delete(task.mo)
        if doom.percent == -1:
            _stand_still(task, doom)

    def _finish(self, task: TaskWork, **fields: Any) -> None:
        with self.store.lock:
            self.running.pop(task.mo.moid, None)
            task.ended()
            if fields.get("result") is None:
                fields.pop("result", None)
            task.update(completeTime=now(), progress=None, **fields)


def _ended_before(info: Any, since: datetime) -> bool:
    return info.completeTime is not None and info.completeTime < since


def _meet(task: TaskWork, doom: Doom) -> None:
    if doom.error is not None:
        raise doom.error
    if doom.percent is not None and doom.percent >= 0:
        task.update(progress=doom.percent)
        _stand_still(task, doom)


def _stand_still(task: TaskWork, doom: Doom) -> None:
    while not doom.released.wait(0.1):
        task.check()
