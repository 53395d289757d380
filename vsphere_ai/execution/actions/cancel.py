"""Cancellation of a request to enter maintenance mode, so that a host does not enter it after the run has ended."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from datetime import datetime, timedelta

from vsphere_ai.errors import OutcomeUnknown, VsphereAiError
from vsphere_ai.execution.actions.context import Context, Say, Withdrawn, polling
from vsphere_ai.model.estate.maintenance import TASK_PATHS, is_entering, is_of_maintenance
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.state import Target

LOOK = 0.2  # seconds between two looks whether the run was stopped
AGAIN = 1.0  # seconds between two tries to cancel
SETTLED = 60.0  # seconds a cancelled task is given to end
TWINS = timedelta(seconds=5)
"""How far apart the two tasks of one request that arrived twice are queued."""
_ORIGIN = ("info.descriptionId", "info.state", "info.queueTime", "info.completeTime", "info.reason")


def entering(context: Context, host: Target) -> tuple[str, ...]:
    """Return the tasks that are about to bring a host into maintenance mode."""
    refs = [str(ref) for ref in context.read(host, "recentTask").get("recentTask") or ()]
    if not refs:
        return ()
    return tuple(
        ref for ref, task in context.vcenter.read_objects(refs, {"Task": TASK_PATHS}).items() if is_entering(task)
    )


def recent_tasks(context: Context, host: Target) -> tuple[str, ...]:
    """Return the latest tasks of a host."""
    return tuple(str(ref) for ref in context.read(host, "recentTask").get("recentTask") or ())


def arrived_twice(context: Context, host: Target, refused: str) -> bool:
    """Return whether a request to enter maintenance mode was refused because the same one had arrived a moment before.

    Such a twin was queued at about the same time, before the other was refused, by the same account, and works or has
    worked. What began later is not of this run.
    """
    found = context.vcenter.read_objects(sorted({*recent_tasks(context, host), refused}), {"Task": _ORIGIN})
    mine = found.pop(refused, None)
    if mine is None or not mine.get("info.queueTime"):
        return False
    return any(_is_twin(mine, other) for other in found.values())


def _is_twin(mine: Facts, other: Facts) -> bool:
    if not is_of_maintenance(other):
        return False
    if other.get("info.state") not in ("queued", "running", "success") or not other.get("info.queueTime"):
        return False
    queued, its = (datetime.fromisoformat(f.get("info.queueTime")) for f in (mine, other))
    refused = mine.get("info.completeTime")
    in_time = its <= datetime.fromisoformat(refused) if refused else True
    return in_time and abs(its - queued) <= TWINS and other.get("info.reason") == mine.get("info.reason")


def arrives_all_the_same(context: Context, host: Target, known: Collection[str], limit: float) -> bool:
    """Return, waiting at most `limit` seconds, whether a host whose request was refused gets there by the twin of that.

    `known` are the host's latest tasks from before the request.
    """
    new = [ref for ref in recent_tasks(context, host) if ref not in known]
    states = context.vcenter.read_objects(new, {"Task": ("info.descriptionId", "info.state")}) if new else {}
    failed = [r for r, t in states.items() if t.get("info.state") == "error"]
    if not any(arrived_twice(context, host, ref) for ref in failed):
        return False
    for _ in polling(limit, fastest=LOOK):
        if context.in_maintenance(host) or not entering(context, host):
            break
    return context.in_maintenance(host)


def cancel_entering(context: Context, host: Target) -> bool:
    """Ask vCenter to cancel what brings a host into maintenance mode; False when there was nothing to ask.

    vCenter cancels in its own time, and refuses what has ended: only the host shows the result.
    """
    tasks = entering(context, host)
    for task in tasks:
        context.vcenter.call(task, "CancelTask")
    return bool(tasks)


def leave_alone(context: Context, host: Target) -> bool:
    """See to it that a host does not enter maintenance mode any more; False when it is in it.

    `OutcomeUnknown` when vCenter neither cancels that nor comes to an end with it.
    """
    asked = False
    for _ in polling(SETTLED, fastest=LOOK):
        if not entering(context, host):
            return not context.in_maintenance(host)
        if not asked:
            cancel_entering(context, host)
            asked = True
    raise OutcomeUnknown(
        f"{host.name} may still enter maintenance mode: vCenter was asked to cancel that, and has not",
        "look at the host's tasks in the vSphere Client; once the host has come to rest, resume the run",
        rule="host.may-enter-maintenance",
    )


def enter_unless_stopped(context: Context, host: Target, enter: Callable[[], None], say: Say) -> None:
    """Bring a host into maintenance mode; when the run is stopped before that ends, cancel it and raise `Withdrawn`.

    Nothing is raised when the host gets there all the same; then it is brought out again as planned.
    """
    if context.stop.is_set():  # an answer was lost, and this is the second try
        if leave_alone(context, host):
            raise Withdrawn
        return
    watch = _Watch(context, host, say)
    watch.start()
    try:
        enter()
    except OutcomeUnknown:
        raise  # it is looked what happened, and then this is tried again
    except VsphereAiError as error:
        if watch.tried and leave_alone(context, host):
            raise Withdrawn from error
        raise
    finally:
        watch.end()


class _Watch(threading.Thread):
    """Cancels the request from a thread of its own, because the one that sent it waits for its end."""

    def __init__(self, context: Context, host: Target, say: Say) -> None:
        super().__init__(name=f"withdraw-{host.name}", daemon=True)
        self._context, self._host, self._say = context, host, say
        self._over = threading.Event()
        self.tried = False

    def run(self) -> None:
        while not self._over.wait(AGAIN if self.tried else LOOK):
            if self._context.stop.is_set():
                self._try()

    def _try(self) -> None:
        self.tried = True
        try:
            if cancel_entering(self._context, self._host):
                self._say("stopped: the host is asked not to enter maintenance mode")
                self._over.set()
        except VsphereAiError as error:
            self._say(f"the host cannot be asked not to enter maintenance mode: {error.message}")

    def end(self) -> None:
        """Stop watching; returns when no call is under way any more."""
        self._over.set()
        self.join()
