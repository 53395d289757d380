"""Maintenance mode: it is reached when no powered-on VM is left, and DRS moves only what can be moved."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyVmomi import vim

from vsphere_ai.lab import ledger
from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.hardware.host import HostRefused
from vsphere_ai.lab.managed import Call, changes
from vsphere_ai.lab.managed.drs import evacuation
from vsphere_ai.lab.managed.placement import drs_level, move
from vsphere_ai.lab.managed.refusals import host_not_connected, invalid_argument, invalid_state
from vsphere_ai.lab.managed.running_vms import powered_on
from vsphere_ai.lab.managed.vm_tasks import migration
from vsphere_ai.lab.managed.vm_tasks.power import power_off_now, power_on_now
from vsphere_ai.lab.managed.vms.vm_states import VCLS, is_kept_by_vcenter
from vsphere_ai.lab.store import ManagedObject
from vsphere_ai.lab.tasks import TaskWork

POLL = 0.02
STOOD_ASIDE = "agents off"
"""Among what the lab keeps of a host: the agent VMs that vCenter powered off for its maintenance mode."""
STUCK = "drs faults"
"""Among what the lab keeps of a host that enters maintenance mode: the faults of VMs that find no place."""


@changes(vim.HostSystem, "EnterMaintenanceMode_Task", "Host.Config.Maintenance")
def enter(call: Call, timeout: int, evacuatePoweredOffVms: bool = False, maintenanceSpec: Any = None) -> Any:
    """Wait until no VM runs, at most `timeout` seconds (0 or less: for ever); DRS evacuates during that time."""
    farm, mo = call.farm, call.mo
    if evacuatePoweredOffVms and not _drs_automated(farm, mo):
        raise invalid_argument("evacuatePoweredOffVms", "needs DRS in fully automated mode")

    def work(task: TaskWork) -> None:
        _refuse(farm, mo)
        mo.extra["entering"] = task
        try:
            _wait_until_empty(farm, mo, task, timeout)
        finally:
            with farm.store.lock:
                mo.extra.pop("entering", None)
                if mo.extra.pop(STUCK, None) is not None:
                    _show_faults(farm, farm.store.get(mo["parent"]))
        with farm.store.lock:
            if evacuatePoweredOffVms:
                _move_powered_off(farm, mo)
            farm.host(mo).set_maintenance(True)
            farm.settle()
            farm.record(mo, "EnterMaintenanceMode_Task", timeout=int(timeout))

    return farm.tasks.start(mo, "enterMaintenanceMode", work, hold_lock=False)


@changes(vim.HostSystem, "ExitMaintenanceMode_Task", "Host.Config.Maintenance")
def leave(call: Call, timeout: int) -> Any:
    """Leave maintenance mode."""
    farm, mo = call.farm, call.mo

    def work(_task: TaskWork) -> None:
        if not farm.host(mo).up:
            raise host_not_connected()
        if not farm.host(mo).set_maintenance(False):
            raise invalid_state("the host is not in maintenance mode")
        farm.settle()
        farm.record(mo, "ExitMaintenanceMode_Task")
        _bring_agents_back(farm, mo)

    return farm.tasks.start(mo, "exitMaintenanceMode", work)


def serve_shell(farm: Farm, mo: ManagedObject) -> None:
    """Let the machine's own shell enter and leave maintenance mode (``esxcli system maintenanceMode set``)."""
    machine = farm.host(mo)

    def request(enabled: bool, seconds: float) -> None:
        if not enabled:
            machine.set_maintenance(False)
            return
        end = time.monotonic() + seconds
        while powered_on(farm, mo):
            if seconds > 0 and time.monotonic() > end:
                raise HostRefused("A timeout occurred while entering maintenance mode.")
            time.sleep(POLL)
        machine.set_maintenance(True)

    machine.maintenance = request


def _refuse(farm: Farm, mo: ManagedObject) -> None:
    if not farm.host(mo).up:
        raise host_not_connected()
    if farm.host(mo).in_maintenance:
        raise invalid_state("the host is already in maintenance mode")
    if "entering" in mo.extra:
        raise invalid_state("the host is already entering maintenance mode")


def _wait_until_empty(farm: Farm, mo: ManagedObject, task: TaskWork, timeout: int) -> None:
    end = time.monotonic() + timeout if timeout > 0 else float("inf")
    task.update(progress=2)
    looked_at = -1
    while True:
        with farm.store.lock:
            left, revision = powered_on(farm, mo), farm.store.revision
        if not left:
            return
        for vm in filter(is_kept_by_vcenter, left):
            _stand_aside(farm, mo, vm)
        task.check()
        if time.monotonic() > end or farm.closed:
            raise vim.fault.Timedout(msg="Operation timed out.")
        # what DRS has found no place for is looked at again when something has changed
        first = _next(farm, mo) if revision != looked_at else None
        if first is None or not _evacuate(farm, mo, first, task):
            with farm.store.lock:
                looked_at = farm.store.revision if first is None else -1
            time.sleep(POLL)


def _next(farm: Farm, mo: ManagedObject) -> ManagedObject | None:
    """Return the VM that DRS moves next; show in the cluster what keeps those that it cannot move."""
    with farm.store.lock:
        if not any(_drs_automated(farm, mo, vm) for vm in powered_on(farm, mo)):
            return None
        found = evacuation.search(farm, [mo])
        cluster = farm.store.get(mo["parent"])
        mo.extra[STUCK] = evacuation.drs_faults(found) if found.stuck else None
        _show_faults(farm, cluster)
        return next((vm for vm, _ in found.targets if _drs_automated(farm, mo, vm)), None)


def _show_faults(farm: Farm, cluster: ManagedObject) -> None:
    faults = [farm.store.get(ref).extra.get(STUCK) for ref in cluster["host"]]
    shown = [each for each in faults if each is not None]
    if [str(each) for each in cluster["drsFault"] or ()] != [str(each) for each in shown]:
        farm.store.set(cluster, drsFault=shown)


def _stand_aside(farm: Farm, mo: ManagedObject, vm: ManagedObject) -> None:
    """Let vCenter take its own agent VM off a host: vCLS VMs move where they can, others are powered off."""
    with farm.store.lock, _by_itself():
        if vm["runtime"].powerState != "poweredOn" or vm["runtime"].host != mo.ref:
            return
        target = _best(farm, vm) if vm.extra["agent"] == VCLS else None
        if target is not None:
            move(farm, vm, target)
            farm.record(vm, "vCenter moved its agent", source=str(mo["name"]), target=str(target["name"]))
            return
        power_off_now(farm, vm, "vCenter powered its agent off")
        mo.extra.setdefault(STOOD_ASIDE, []).append(vm.moid)


def _bring_agents_back(farm: Farm, mo: ManagedObject) -> None:
    with _by_itself():
        for moid in mo.extra.pop(STOOD_ASIDE, ()):
            vm = farm.store.objects.get(moid)
            if vm is not None and vm["runtime"].powerState == "poweredOff":
                power_on_now(farm, vm, mo, "vCenter powered its agent on")


@contextmanager
def _by_itself() -> Iterator[None]:
    """What happens in here is vCenter's own doing, no client's."""
    before = ledger.client.set(None), ledger.operation.set("")
    try:
        yield
    finally:
        ledger.client.reset(before[0])
        ledger.operation.reset(before[1])


def _evacuate(farm: Farm, mo: ManagedObject, vm: ManagedObject, task: TaskWork) -> bool:
    arrives = time.monotonic() + farm.scenario.timing.vmotion_seconds
    while time.monotonic() < arrives:
        task.check()  # a migration that has not switched over yet is given up with its task
        time.sleep(max(0.0, min(POLL, arrives - time.monotonic())))
    with farm.store.lock:
        if vm["runtime"].powerState != "poweredOn" or vm["runtime"].host != mo.ref:
            return False
        targets = {each.moid: host for each, host in evacuation.search(farm, [mo]).targets}
        target = targets.get(vm.moid)
        if target is None:
            return False
        migration.carry(farm, vm, target)
        farm.record(vm, "DrsMigration", source=str(mo["name"]), target=str(target["name"]))
        return True


def _move_powered_off(farm: Farm, mo: ManagedObject) -> None:
    for ref in list(mo["vm"]):
        vm = farm.store.get(ref)
        target = _best(farm, vm)
        if target is not None:
            move(farm, vm, target)
            farm.record(vm, "DrsMigration", source=str(mo["name"]), target=str(target["name"]))


def _best(farm: Farm, vm: ManagedObject) -> ManagedObject | None:
    return next(iter(evacuation.choices(farm, vm)[0]), None)


def _drs_automated(farm: Farm, mo: ManagedObject, vm: ManagedObject | None = None) -> bool:
    """Return whether DRS acts by itself in the cluster of a host; for one VM its own automation level counts."""
    parent = farm.store.get(mo["parent"])
    if not isinstance(parent.ref, vim.ClusterComputeResource):
        return False
    if vm is not None:
        return drs_level(farm, vm) == "fullyAutomated"
    drs = parent["configurationEx"].drsConfig
    return bool(drs.enabled) and drs.defaultVmBehavior == "fullyAutomated"
