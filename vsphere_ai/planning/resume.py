"""Pending actions of an unfinished run, laid over the estate, so that planning again brings it to its end."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import get_args

from vsphere_ai.admission.requirements.ha import CONTROL as FAILOVER
from vsphere_ai.admission.requirements.pool import RUNTIME as POOL_USE
from vsphere_ai.fabric.api_types import VirtualDevice
from vsphere_ai.language.playbooks.play import Playbook
from vsphere_ai.model.bounded import json_value
from vsphere_ai.model.estate.maintenance import TASKS
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.records.pending import Pending
from vsphere_ai.model.records.recorded_steps import RecordedStep
from vsphere_ai.model.state import Target, TargetKind
from vsphere_ai.model.steps import Destroy, EnterMaintenance, Healthy, Shell, Step, what
from vsphere_ai.planning.document import Approved, ChangeDocument, ItemDocument
from vsphere_ai.planning.planner import Plan
from vsphere_ai.planning.scheduling.windows import BOOT_JITTER, DRIVER_TIMEOUT, SSH_SERVICE, gpus_answer

_DEVICES = "config.hardware.device"


@dataclass(frozen=True)
class Resumed:
    """The estate as it was before the run, and steps that make each target's window come to its end."""

    estate: Estate
    extra: Mapping[Target, Sequence[Step]]
    true: tuple[Pending, ...]
    """Pending actions that the facts confirm; the others were never opened, or someone else has resolved them."""
    unclear: tuple[Pending, ...] = ()
    """Pending actions whose state cannot be read; they stay as they are."""


def overlay_pending(estate: Estate, all_pending: Iterable[Pending], looks: Collection[str] = ()) -> Resumed:
    """Show a host we put into maintenance as one that was not in it, and so on: then the plan puts it back.

    Only what the world confirms counts: a step may have been begun and never sent. `looks` are references of hosts
    whose GPUs have to answer as before their reboot; a crash may have come between.
    """
    objects = dict(estate.objects)
    extra: dict[Target, list[Step]] = {}
    confirmed, unclear = [], []
    for each in all_pending:
        facts = objects.get(each.target.ref)
        true = facts is not None and _is_true(each, facts)
        if true is None:
            unclear.append(each)
        if facts is None or not true:
            continue
        confirmed.append(each)
        target = replace(each.target, name=facts.name)  # it may have been renamed since
        objects[target.ref] = facts.having(_before_the_run(each, facts))
        if each.kind == "maintenance":
            objects |= _without_figures(objects, str(facts.get("parent") or ""))
        for step in _finishing(each.kind, target, look=target.ref in looks):
            extra.setdefault(target, []).append(step)
    return Resumed(Estate(estate.about, objects), extra, tuple(confirmed), tuple(unclear))


def _finishing(kind: str, target: Target, *, look: bool) -> Iterator[Step]:
    """Yield the steps by which planning brings a pending action to its end; `look`: the GPUs have to answer."""
    match kind:
        case "maintenance":
            yield Step(target=target, summary="finish the window that was begun", needs_maintenance=True)
            yield _gate(target)
            if look:
                yield replace(gpus_answer(target, DRIVER_TIMEOUT), after_reboot=True)
        case "off":
            yield Step(target=target, summary="power on again", needs_power_off=True)
        case "restart":
            summary = "restart, which makes effective what was changed"
            yield Step(target=target, summary=summary, needs_maintenance=True, needs_reboot=True)
        case "gate":
            yield _gate(target)
        case "ssh":
            yield Shell(target=target, argv=("true",), summary="use SSH once more")


def gone(playbook: Playbook, all_pending: Iterable[Pending], estate: Estate, approved: Approved) -> tuple[Target, ...]:
    """Return the approved targets of a run, and those of its pending actions, that are no longer in the inventory.

    VMs that the run was to destroy are none of them.
    """
    meant = {t.ref: t for play in playbook.plays for t in play.targets or ()}
    meant |= {d.target.ref: d.target for d in all_pending if d.kind != "lock"}
    there = {t.ref for kind in get_args(TargetKind) for t in estate.targets(kind)}
    there |= {vm.ref for vm in approved.impact.destroyed}
    return tuple(sorted(t for ref, t in meant.items() if ref not in there))


def beyond(plan: Plan, approved: Approved) -> tuple[str, ...]:
    """Return what a plan changes that was not approved; a resumed run may do less, never more."""
    known = {_change(i, c) for i in approved.items for c in i.changes}
    items = map(ItemDocument.of, plan.items)
    more = [f"{i.target.name}: {i.kind} {c.field}" for i in items for c in i.changes if _change(i, c) not in known]
    cycled = {t.ref for t in (*approved.impact.power_cycles, *approved.impact.reboots)}
    gone = {(each.host.ref, what) for each in approved.impact.lost for what in each.what}
    more += [f"{e.host.name} loses {w}" for e in plan.impact.lost for w in e.what if (e.host.ref, w) not in gone]
    entered = {s.target.ref for s in approved.steps if s.action == EnterMaintenance.action}
    enter = {p.step.target.ref for p in plan.steps if isinstance(p.step, EnterMaintenance)}
    theirs = "is rebooted in the maintenance mode that someone else has put it into"
    more += [f"{t.name} {theirs}" for t in plan.impact.reboots if t.ref in entered - enter]
    may_go = approved_to_go(plan, approved)
    more += [f"{t.name} is destroyed, with all disks" for t in plan.impact.destroyed if t.ref not in may_go]
    hit = (*plan.impact.power_cycles, *plan.impact.reboots)
    return (*more, *(f"{t.name} is switched off or rebooted" for t in hit if t.ref not in cycled))


def approved_to_go(plan: Plan, approved: Approved, done: Collection[RecordedStep] = ()) -> frozenset[str]:
    """Return the references of VMs whose destruction was approved, with every disk that would go with them now.

    One that a step of `done` has destroyed already, and that is there again, was not approved.
    """
    known = {s.target.ref: set((s.model_extra or {}).get("disks", ())) for s in approved.steps if s.do == "destroy"}
    steps = (p.step for p in plan.steps)
    return frozenset(
        s.target.ref
        for s in steps
        if isinstance(s, Destroy) and s.target.ref in known and known[s.target.ref].issuperset(s.disks)
        and not any(d.is_on(s.target) and d.summary == s.summary for d in done)
    )  # fmt: skip


def rebooted_twice(plan: Plan, done: Collection[RecordedStep]) -> tuple[str, ...]:
    """Return the names of hosts that the run has rebooted already, and the plan would reboot again."""
    reboots = [s for s in done if s.what == "reboot"]
    return tuple(t.name for t in plan.impact.reboots if any(s.is_on(t) for s in reboots))


def done_again(plan: Plan, done: Collection[RecordedStep]) -> tuple[str, ...]:
    """Return the changes that the run has made and verified already, and that the plan makes once more.

    A change is known by its summary: the same one may have other device keys by now, or belong to a later stage.
    Windows, restarts and what is only looked at come back whenever a run goes on.
    """
    verified = [s for s in done if s.what == "as-planned"]
    found = []
    for step in (p.step for p in plan.steps if what(p.step) == "change"):
        same = any(s.summary == step.summary and s.is_on(step.target) for s in done)
        if same and any(s.is_on(step.target) for s in verified):
            found.append(f"{step.target.name}: {step.summary}")
    return tuple(found)


def _change(item: ItemDocument, change: ChangeDocument) -> tuple[str, str, str, str]:
    return item.target.ref, item.kind, change.field, repr(change.after)


def _gate(host: Target) -> Step:
    return Healthy(target=host, summary="see that the host is healthy again")


def still_so(pending: Pending, facts: Facts) -> bool | None:
    """Return whether an object is still as a pending action says that it was left; None when that could not be read."""
    if pending.kind == "ssh-on":
        runs = _is_true(Pending("ssh", pending.target), facts)
        return None if runs is None else not runs
    if pending.kind == "moved":
        now, home = facts.get("runtime.host"), json_value(pending.detail)["to"]
        return None if now is None else bool(now != home)
    if pending.kind == "service":
        services = facts.get("config.service.service")
        return None if services is None else any(s["key"] == pending.detail and not s["running"] for s in services)
    if pending.kind == "reboot":
        return _has_not_booted(facts.get("runtime.bootTime"), pending.detail)
    return _is_true(pending, facts)


def _is_true(pending: Pending, facts: Facts) -> bool | None:
    """Return whether something is as a pending action says; None when that could not be read (a host may be away)."""
    if pending.kind == "maintenance":
        return bool(facts.get("runtime.inMaintenanceMode"))
    if pending.kind == "ssh":
        services = facts.get("config.service.service")
        return None if services is None else any(s["key"] == SSH_SERVICE and s["running"] for s in services)
    if pending.kind == "restart":
        return _has_not_booted(facts.get("runtime.bootTime"), pending.detail)
    if pending.kind == "gate":
        return True  # the run has not seen how the host is
    return pending.kind == "off" and facts.get("runtime.powerState") == "poweredOff"


def _has_not_booted(now: str | None, before: str) -> bool | None:
    if not now or not before:
        return None
    return datetime.fromisoformat(now) <= datetime.fromisoformat(before) + BOOT_JITTER


def _without_figures(objects: Mapping[str, Facts], cluster: str) -> dict[str, Facts]:
    """Return a cluster without what vCenter shows of it while a host is out of service that the plan puts back.

    What HA keeps free and what pools have left counts the host out: unread, it is reckoned from the hosts or unknown.
    """
    made = {cluster: objects[cluster].having({FAILOVER: None})} if cluster in objects else {}
    pools = (each for ref, each in objects.items() if ref.startswith("ResourcePool:") and each.get("owner") == cluster)
    return made | {pool.ref: pool.having({POOL_USE: None}) for pool in pools}


def _before_the_run(pending: Pending, facts: Facts) -> dict[str, object]:
    if pending.kind == "maintenance":
        return {"runtime.inMaintenanceMode": False, TASKS: ()}
    if pending.kind == "ssh":
        services = facts.get("config.service.service", ())
        stopped = ({**s, "running": False} if s["key"] == SSH_SERVICE else s for s in services)
        return {"config.service.service": tuple(stopped)}
    if pending.kind in ("gate", "restart"):
        return {}
    # it was running, and its guest could be shut down: that is how it went off
    running: dict[str, object] = {"runtime.powerState": "poweredOn", "guest.toolsRunningStatus": "guestToolsRunning"}
    devices = facts.get(_DEVICES)
    return running if devices is None else {**running, _DEVICES: tuple(map(_plugged_in, devices))}


def _plugged_in(device: VirtualDevice) -> Mapping[str, object]:
    """Show a device of a VM that is off as it is once the VM runs: nothing is connected before."""
    info = device.get("connectable")
    return {**device, "connectable": {**info, "connected": info.get("startConnected")}} if info else device
