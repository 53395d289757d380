"""Alarms: their definitions, which are triggered on a host, and where in the inventory they show."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.managed import Call, changes, reads
from vsphere_ai.lab.managed.refusals import invalid_argument
from vsphere_ai.lab.store import ManagedObject, fill

CONNECTION = "Host connection and power state"
"""vCenter's own alarm for a host that does not respond; it is red until the host is connected again."""
MANAGER = "AlarmManager"


def raise_alarm(farm: Farm, entity: ManagedObject, name: str, status: str = "red") -> None:
    """Trigger an alarm on an object; one that has this status already keeps its time. The caller holds `store.lock`."""
    alarm = _definition(farm, name)
    states, key = _states(farm), (entity.moid, alarm.moid)
    if key in states and states[key].overallStatus == status:
        return
    states[key] = vim.alarm.AlarmState(
        key=f"{alarm.moid}.{entity.moid}",
        entity=entity.ref,
        alarm=alarm.ref,
        overallStatus=status,
        time=datetime.now(UTC),
        acknowledged=False,
    )
    _show(farm, entity)


def clear_alarm(farm: Farm, entity: ManagedObject, name: str) -> None:
    """Let an alarm of an object be green again; nothing happens when it is not triggered."""
    gone = [k for k, s in _states(farm).items() if k[0] == entity.moid and _name(farm, s) == name]
    for key in gone:
        del _states(farm)[key]
    if gone:
        _show(farm, entity)


def follow_connection(farm: Farm, host: ManagedObject, *, up: bool) -> None:
    """Trigger the alarm of a host that does not respond, and clear it when the host is back."""
    if up:
        clear_alarm(farm, host, CONNECTION)
    else:
        raise_alarm(farm, host, CONNECTION)


def worst(farm: Farm, entity: ManagedObject) -> str:
    """Return the health of an object by its alarms: red, yellow or green."""
    found = {s.overallStatus for (moid, _), s in _states(farm).items() if moid == entity.moid}
    return next((status for status in ("red", "yellow") if status in found), "green")


def _definition(farm: Farm, name: str) -> ManagedObject:
    store = farm.store
    known = next((a for a in store.of(vim.alarm.Alarm) if a["info"].name == name), None)
    if known is not None:
        return known
    made = store.new(vim.alarm.Alarm, prefix="alarm")
    info = vim.alarm.AlarmInfo(
        name=name,
        description=name,
        enabled=True,
        expression=fill(vim.alarm.EventAlarmExpression(eventType=vim.event.EventEx, objectType=vim.HostSystem)),
        key="",
        alarm=made.ref,
        entity=farm.named["rootFolder"].ref,
        lastModifiedTime=datetime(2021, 3, 9, tzinfo=UTC),
        lastModifiedUser="",
        creationEventId=0,
    )
    store.set(made, info=fill(info))
    return made


def _states(farm: Farm) -> dict[tuple[str, str], Any]:
    states: dict[tuple[str, str], Any] = farm.store.objects[MANAGER].extra.setdefault("states", {})
    return states


def _name(farm: Farm, state: Any) -> str:
    return str(farm.store.get(state.alarm)["info"].name)


def _show(farm: Farm, entity: ManagedObject) -> None:
    """Show the triggered alarms on an object and, as vCenter does, on everything above it."""
    for mo in (entity, *_above(farm, entity)):
        below = [s for s in _states(farm).values() if _is_within(farm, s.entity, mo)]
        farm.store.set(mo, triggeredAlarmState=sorted(below, key=lambda s: (s.time, s.key)))
    if entity.moid in farm.hosts:
        farm.mark(entity)  # its overall status follows


def _above(farm: Farm, mo: ManagedObject) -> Iterator[ManagedObject]:
    while mo["parent"] is not None:
        mo = farm.store.get(mo["parent"])
        yield mo


def _is_within(farm: Farm, ref: Any, mo: ManagedObject) -> bool:
    inner = farm.store.get(ref)
    return inner is mo or any(at is mo for at in _above(farm, inner))


@reads(vim.alarm.AlarmManager, "GetAlarm")
def get_alarm(call: Call, entity: Any = None) -> Any:
    """Return the alarm definitions, which all belong to the root folder; none for any other object."""
    if entity is not None and call.farm.store.get(entity) is not call.farm.named["rootFolder"]:
        return []
    return [a.ref for a in call.farm.store.of(vim.alarm.Alarm)]


@changes(vim.alarm.AlarmManager, "AcknowledgeAlarm", "Alarm.Acknowledge")
def acknowledge(call: Call, alarm: Any, entity: Any) -> None:
    """Note that a user has seen an alarm; it stays as red as it is."""
    farm = call.farm
    mo = farm.store.get(entity)
    state = _states(farm).get((mo.moid, farm.store.get(alarm).moid))
    if state is None:
        raise invalid_argument("alarm")
    if not state.acknowledged:
        state.acknowledged, state.acknowledgedTime = True, datetime.now(UTC)
        state.acknowledgedByUser = call.login.user
        _show(farm, mo)
        farm.record(mo, "AcknowledgeAlarm", alarm=_name(farm, state))


@changes(vim.alarm.AlarmManager, "ClearTriggeredAlarms", "Alarm.SetStatus")
def clear_triggered(call: Call, filter: Any) -> None:
    """Let triggered alarms be green again: those of hosts or of everything, of the given statuses or of any."""
    if filter.typeEntity not in (None, "entityTypeAll", "entityTypeHost"):
        return
    farm = call.farm
    for state in list(_states(farm).values()):
        mo = farm.store.get(state.entity)
        if (not filter.status or state.overallStatus in filter.status) and _name(farm, state) != CONNECTION:
            clear_alarm(farm, mo, _name(farm, state))
            farm.record(mo, "ClearTriggeredAlarms", alarm=_name(farm, state))
