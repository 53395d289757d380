"""Watcher of tasks: one property collector of a session, and one request that waits, follow all that are under way.

Tasks, and the VMs they work on, are the objects of one list view, so that following one more takes a request at most,
and several that begin together take one together.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue

from vsphere_ai.connect.soap.cursor import without_gone
from vsphere_ai.connect.soap.outage import AnswerTrial, RequestLost
from vsphere_ai.connect.soap.reading import read_objects
from vsphere_ai.connect.soap.session import SoapSession
from vsphere_ai.connect.wire.plain import to_object, to_plain, to_ref
from vsphere_ai.connect.wire.vmomi import Collector, RemoteObject, Update, vim, vmodl
from vsphere_ai.errors import VimFault, VsphereAiError
from vsphere_ai.model.plain import Plain

_WAKE_S = 8
"""Longest wait in seconds in one request."""
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.1, 10.0
_NOT_FOUND = "ManagedObjectNotFound"
ENDED = ("success", "error")
_TASK, _VM = ["info.progress", "info.state"], ["runtime.question"]


@dataclass(frozen=True)
class Gone:
    """The task is no longer known to vCenter."""


@dataclass(frozen=True)
class TaskNotFollowed:
    """The task cannot be followed any more; why, in words, and the error that says so."""

    what: str
    error: Exception


News = dict[str, Plain] | Gone | TaskNotFollowed
"""Property paths of the task, or of the VM it works on, with new values; or that it is not followed any more."""


@dataclass(eq=False)
class TaskWatch:
    """One task that is followed until a time, and the object it works on, or ``""``. `news` comes in order."""

    task: str
    subject: str
    until: float
    news: SimpleQueue[News] = field(default_factory=SimpleQueue)


class TaskWatcher:
    """Follows the tasks of one session; usable from several threads. Its own thread lives while there are tasks."""

    def __init__(self, session: SoapSession) -> None:
        self._session = session
        self._lock = threading.Lock()
        self._listing = threading.Lock()
        self._watches: list[TaskWatch] = []
        self._thread: threading.Thread | None = None
        self._collector: RemoteObject | None = None
        self._view: RemoteObject | None = None
        self._version = ""
        self._listed: set[str] = set()
        self._asking: set[str] = set()
        self._trial: AnswerTrial | None = None
        self._broken_since, self._pause = 0.0, _SHORTEST_PAUSE

    def follow(self, task: str, subject: str, until: float) -> TaskWatch:
        """Follow a task, with the pending question of a VM it works on, until `leave`. Raises what a read raises.

        `until` is the time (of the monotonic clock) when it is given up.
        """
        watch = TaskWatch(task, subject if subject.startswith("VirtualMachine:") else "", until)
        with self._lock:
            self._watches.append(watch)
            asks = watch.subject in self._asking
        try:
            if asks:  # it did when an earlier task was followed, and may have been answered since
                found = read_objects(self._session, [watch.subject], {"VirtualMachine": _VM})
                watch.news.put(dict(found[watch.subject].properties) if found else {})
            self._list()
        except BaseException:
            self.leave(watch)
            raise
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="tasks", daemon=True)
                self._thread.start()
        return watch

    def leave(self, watch: TaskWatch) -> None:
        """Follow a task no longer. It goes off the list with the next request."""
        with self._lock:
            if watch in self._watches:
                self._watches.remove(watch)

    def _list(self) -> None:
        """Bring the list view up to date. Threads that come while another one is at it go together in the next request.

        Without a view there is nothing to do: the watcher's thread is about to make one.
        """
        with self._listing:
            with self._lock:
                view = self._view
                wanted = {ref for w in self._watches for ref in (w.task, w.subject) if ref}
                added, removed = sorted(wanted - self._listed), sorted(self._listed - wanted)
            if view is None or not added:
                return
            try:
                modify = partial(self._session.invoke, view, "ModifyListView")
                gone = [to_object(ref) for ref in removed]
                unknown = self._session.reading(lambda: without_gone(added, lambda there: modify(there, gone)))
            except VimFault as error:
                if error.fault != _NOT_FOUND:
                    raise
                self._forget(view)  # views end with their session; the watcher's thread notices that as well
                return
            with self._lock:
                if self._view is view:
                    self._listed = self._listed - {*removed} | {*added}
                    self._asking.difference_update(removed)
                for ref in unknown:
                    self._report(ref, Gone())

    def _report(self, ref: str, news: News) -> None:
        """Pass on news of a task, or of a VM; that a VM is gone does not end the task."""
        for watch in self._watches:
            if ref == watch.task or (ref == watch.subject and not isinstance(news, Gone)):
                watch.news.put(news)

    # -- the watcher's thread

    def _run(self) -> None:
        while self._goes_on():
            try:
                self._look()
            except Exception as error:  # a bug must not leave anyone waiting
                self._give_up(f"can no longer be followed ({type(error).__name__})", error)

    def _goes_on(self) -> bool:
        with self._lock:
            if self._thread is not threading.current_thread():
                return False
            if not self._watches:
                self._thread = None
            return bool(self._watches)

    def _look(self) -> None:
        """Wait for one update, and pass it on."""
        try:
            collector = self._collector or self._subscribe()
            options = Collector.WaitOptions(maxWaitSeconds=self._seconds())
            update = self._session.invoke(collector, "WaitForUpdatesEx", self._version, options)
        except RequestLost as lost:
            self._forget(self._view)
            self._trial = self._trial or AnswerTrial(self._session.outage, self._session.limits)
            if not self._trial.again(lost):
                self._give_up(f"can no longer be followed: {lost.refusal(self._session.endpoint)}", lost)
        except (
            vim.fault.NotAuthenticated,
            vmodl.query.InvalidCollectorVersion,
            vmodl.fault.ManagedObjectNotFound,
            vmodl.fault.RequestCanceled,
        ) as error:
            # Collectors live in the session: whatever happened to it, start over with a new one.
            self._start_over(error)
        except (vmodl.MethodFault, VsphereAiError) as error:
            if isinstance(error, VimFault) and error.fault == _NOT_FOUND:
                self._start_over(error)  # the session ended while the collector was made
            else:
                why = error.message if isinstance(error, VsphereAiError) else _name(error)
                self._give_up(f"can no longer be followed: {why}", error)
        else:
            self._answered()
            self._version = update.version if update else self._version
            for changed in (each for part in update.filterSet for each in part.objectSet) if update else ():
                self._take(changed)

    def _seconds(self) -> int:
        """Return how long a request may wait: not longer than any of the tasks is waited for."""
        with self._lock:
            left = max((w.until for w in self._watches), default=0.0) - time.monotonic()
        return max(1, min(_WAKE_S, int(left)))

    def _answered(self) -> None:
        self._session.outage.over()
        self._trial, self._broken_since, self._pause = None, 0.0, _SHORTEST_PAUSE

    def _take(self, changed: Update) -> None:
        ref = to_ref(changed.obj)
        values = {change.name: to_plain(change.val) for change in changed.changeSet}
        with self._lock:
            if changed.kind == "leave":
                self._report(ref, Gone())
                return
            if "runtime.question" in values:
                (self._asking.add if values["runtime.question"] else self._asking.discard)(ref)
            self._report(ref, values)
            if values.get("info.state") in ENDED:  # before its thread has noticed: nothing more is asked for it
                self._watches = [watch for watch in self._watches if watch.task != ref]
                if not self._watches:  # the next task gets a thread of its own, after it is on the list
                    self._thread = None

    def _subscribe(self) -> RemoteObject:
        """Make a collector (readings go to the session's, and might have to wait) and a list view of present tasks."""
        self._version = ""
        with self._lock:
            first = {ref for w in self._watches for ref in (w.task, w.subject) if ref}
        collector, view, unknown = self._session.reading(lambda: self._made(sorted(first)))
        with self._lock:
            self._collector, self._view, self._listed = collector, view, first
            for ref in unknown:
                self._report(ref, Gone())
        self._list()  # those that have come since
        return collector

    def _made(self, first: Iterable[str]) -> tuple[RemoteObject, RemoteObject, list[str]]:
        content, invoke = self._session.content, self._session.invoke
        collector: RemoteObject = invoke(content.propertyCollector, "CreatePropertyCollector")
        views, listed = list[RemoteObject](), partial(invoke, content.viewManager, "CreateListView")
        unknown = without_gone(first, lambda there: views.append(listed(there)))
        view = views[0] if views else listed()
        follow = Collector.TraversalSpec(name="view", type=vim.view.ListView, path="view", skip=False)
        spec = Collector.FilterSpec(
            objectSet=[Collector.ObjectSpec(obj=view, skip=True, selectSet=[follow])],
            propSet=[
                Collector.PropertySpec(type=vim.Task, all=False, pathSet=_TASK),
                Collector.PropertySpec(type=vim.VirtualMachine, all=False, pathSet=_VM),
            ],
        )
        invoke(collector, "CreateFilter", spec, False)
        return collector, view, unknown

    def _forget(self, view: RemoteObject | None) -> None:
        """Start over with a new collector, unless there is another one already."""
        with self._lock:
            if self._view is view:
                self._collector = self._view = None
                self._listed, self._asking = set(), set()

    def _start_over(self, error: Exception) -> None:
        """Pause before a new collector is made; give up where none has held for too long."""
        self._forget(self._view)
        now = time.monotonic()
        self._broken_since = self._broken_since or now
        if now - self._broken_since > self._session.outage.budget:
            self._give_up(f"can no longer be followed ({_name(error)})", error)
            return
        time.sleep(self._pause)
        self._pause = min(self._pause * 2, _LONGEST_PAUSE)

    def _give_up(self, what: str, error: Exception) -> None:
        """Follow none of the present tasks any longer."""
        self._forget(self._view)
        self._trial, self._broken_since, self._pause = None, 0.0, _SHORTEST_PAUSE
        with self._lock:
            given_up, self._watches = self._watches, []
        for watch in given_up:
            watch.news.put(TaskNotFollowed(what, error))


def _name(error: Exception) -> str:
    """Return the name of a fault, or of another error."""
    return error.fault if isinstance(error, VimFault) else type(error).__name__.rpartition(".")[2]
