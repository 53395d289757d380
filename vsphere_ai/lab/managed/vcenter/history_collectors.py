"""Histories of tasks and events: every task of the lab, and the TaskEvent vCenter writes for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyVmomi import VmomiSupport as Vmomi
from pyVmomi import vim, vmodl

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.managed import Call, events, reads
from vsphere_ai.lab.managed.refusals import invalid_argument
from vsphere_ai.lab.store import ManagedObject

PAGE, MOST = 10, 1000
Read = Callable[[], list[Any]]


@reads(vim.TaskManager, "CreateCollectorForTasks")
def collect_tasks(call: Call, filter: Any) -> Any:
    """Make a collector of the tasks that pass a filter, oldest first."""
    _refuse_unknown(filter, {"entity", "time", "userName", "state", "maxCount"})
    states = list(filter.state or ())

    def found() -> list[Any]:
        infos = [mo["info"] for mo in call.farm.store.of(vim.Task)]
        return [i for i in infos if (not states or i.state in states) and _passes(call.farm, filter, i)]

    return _collector(call, vim.TaskHistoryCollector, filter, found, "vim.TaskInfo[]")


@reads(vim.event.EventManager, "CreateCollectorForEvents")
def collect_events(call: Call, filter: Any) -> Any:
    """Make a collector of the events that pass a filter, oldest first."""
    return _collector(
        call, vim.event.EventHistoryCollector, filter, lambda: _events(call.farm, filter), "vim.event.Event[]"
    )


@reads(vim.event.EventManager, "QueryEvents")
def query_events(call: Call, filter: Any, **_view: Any) -> Any:
    """Return the events that pass a filter, at most a thousand."""
    return _events(call.farm, filter)[-MOST:]


def _events(farm: Farm, filter: Any) -> list[Any]:
    _refuse_unknown(filter, {"entity", "time", "userName", "type", "eventTypeId", "maxCount", "disableFullMessage"})
    kinds = {getattr(t, "_wsdlName", str(t)) for t in filter.type or ()} | {str(t) for t in filter.eventTypeId or ()}
    infos = [mo["info"] for mo in farm.store.of(vim.Task)] if _is_of(vim.event.TaskEvent, kinds) else []
    found = [_event(farm, i) for i in infos if _passes(farm, filter, i)]
    for event in events.posted(farm):
        entity = event.vm.vm if event.vm is not None else event.computeResource.computeResource
        shown = vim.TaskInfo(entity=entity, queueTime=event.createdTime)
        if _is_of(type(event), kinds) and _passes(farm, filter, shown):
            found.append(event)
    return sorted(found, key=lambda event: event.createdTime)


def _is_of(typ: Any, kinds: set[str]) -> bool:
    """Return whether events of a type are among the kinds that are asked for; without kinds every one is."""
    names = {
        name for each in typ.__mro__ if (own := getattr(each, "_wsdlName", "")) for name in (own, f"vim.event.{own}")
    }
    return not kinds or bool(kinds & names)


def _event(farm: Farm, info: Any) -> Any:
    event = vim.event.TaskEvent(
        key=int(info.key.rpartition("-")[2]),
        chainId=int(info.key.rpartition("-")[2]),
        createdTime=info.queueTime,
        userName=getattr(info.reason, "userName", "") or "",
        fullFormattedMessage=f"Task: {info.descriptionId}",
        info=info,
    )
    if isinstance(info.entity, vim.VirtualMachine):
        event.vm = vim.event.VmEventArgument(name=info.entityName or "", vm=info.entity)
    elif isinstance(info.entity, vim.HostSystem):
        event.host = vim.event.HostEventArgument(name=info.entityName or "", host=info.entity)
    return event


def _passes(farm: Farm, filter: Any, info: Any) -> bool:
    if filter.entity is not None and not _is_below(farm, info.entity, filter.entity):
        return False
    begin, end = getattr(filter.time, "beginTime", None), getattr(filter.time, "endTime", None)
    if (begin and info.queueTime < begin) or (end and info.queueTime > end):
        return False
    users = getattr(filter.userName, "userList", None) if filter.userName is not None else None
    return not users or getattr(info.reason, "userName", None) in users


def _is_below(farm: Farm, ref: Any, within: Any) -> bool:
    wanted, recursion = within.entity._moId, str(within.recursion)
    if ref._moId == wanted:
        return recursion != "children"
    mo = farm.store.objects.get(ref._moId)
    above = mo["parent"] if mo is not None else None
    while above is not None and recursion != "self":
        if above._moId == wanted:
            return True
        above = farm.store.get(above)["parent"]
    return False


def _refuse_unknown(filter: Any, known: set[str]) -> None:
    for info in filter._GetPropertyList():
        if getattr(filter, info.name) not in (None, [], False) and info.name not in known:
            raise invalid_argument(f"filter.{info.name}", "the lab does not look for this")


def _collector(call: Call, typ: Any, filter: Any, found: Read, kind: str) -> Any:
    array = Vmomi.GetVmodlType(kind)
    mo = call.farm.store.new(typ, prefix=f"session[{call.login.key}]", filter=filter)
    mo.extra.update(found=found, at=0, page=PAGE)
    latest = lambda _session: array(found()[-mo.extra["page"] :][::-1])  # noqa: E731
    call.farm.store.set(mo, latestPage=latest)
    call.login.objects.append(mo)
    return mo.ref


def _read(mo: ManagedObject, count: int, step: int) -> list[Any]:
    if not 0 < count <= MOST:
        raise invalid_argument("maxCount", str(count))
    everything, at = mo.extra["found"](), mo.extra["at"]
    first, last = (at, min(at + count, len(everything))) if step > 0 else (max(0, at - count), at)
    mo.extra["at"] = last if step > 0 else first
    return list(everything[first:last])


@reads(vim.event.EventHistoryCollector, "ReadNextEvents")
def next_events(call: Call, maxCount: int) -> Any:
    """Return the next, newer events."""
    return _read(call.mo, maxCount, 1)


@reads(vim.event.EventHistoryCollector, "ReadPreviousEvents")
def previous_events(call: Call, maxCount: int) -> Any:
    """Return the events before."""
    return _read(call.mo, maxCount, -1)


@reads(vim.TaskHistoryCollector, "ReadNextTasks")
def next_tasks(call: Call, maxCount: int) -> Any:
    """Return the next, newer tasks."""
    return _read(call.mo, maxCount, 1)


@reads(vim.TaskHistoryCollector, "ReadPreviousTasks")
def previous_tasks(call: Call, maxCount: int) -> Any:
    """Return the tasks before."""
    return _read(call.mo, maxCount, -1)


@reads(vim.HistoryCollector, "RewindCollector")
def rewind(call: Call) -> None:
    """Go to the oldest item."""
    call.mo.extra["at"] = 0


@reads(vim.HistoryCollector, "ResetCollector")
def reset(call: Call) -> None:
    """Go behind the newest item."""
    call.mo.extra["at"] = len(call.mo.extra["found"]())


@reads(vim.HistoryCollector, "SetCollectorPageSize")
def page_size(call: Call, maxCount: int) -> None:
    """Say how many items the latest page has."""
    if not 0 < maxCount <= MOST:
        raise invalid_argument("maxCount", str(maxCount))
    call.mo.extra["page"] = int(maxCount)
    call.farm.store.touch(call.mo, "latestPage")


@reads(vim.HistoryCollector, "DestroyCollector")
def destroy(call: Call) -> None:
    """Forget a collector."""
    if call.mo not in call.login.objects:
        raise vmodl.fault.ManagedObjectNotFound(obj=call.mo.ref, msg="The collector is of another session.")
    call.farm.store.delete(call.mo)
