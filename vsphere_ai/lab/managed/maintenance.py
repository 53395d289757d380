"""Maintenance mode: it is reached when no powered-on VM is left, and DRS moves only what can be moved."""

from __future__ import annotations

import time
from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.hardware.host import HostRefused
from vsphere_ai.lab.managed import Call, handles
from vsphere_ai.lab.managed.host_managers import demand, is_pinned
from vsphere_ai.lab.managed.host_system import powered_on
from vsphere_ai.lab.managed.placement import can_take, move
from vsphere_ai.lab.managed.refusals import host_not_connected, invalid_argument, invalid_state
from vsphere_ai.lab.store import ManagedObject
from vsphere_ai.lab.tasks import Task

POLL = 0.02


@handles(vim.HostSystem, "EnterMaintenanceMode_Task")
def enter(call: Call, timeout: int, evacuatePoweredOffVms: bool = False, maintenanceSpec: Any = None) -> Any:
    """Wait until no VM runs, at most `timeout` seconds (0 or less: for ever); DRS evacuates meanwhile."""
    demand(call, "Host.Config.Maintenance")
    farm, mo = call.farm, call.mo
    if evacuatePoweredOffVms and not _drs_automated(farm, mo):
        raise invalid_argument("evacuatePoweredOffVms", "needs DRS in fully automated mode")

    def work(task: Task) -> None:
        _refuse(farm, mo)
        mo.extra["entering"] = task
        try:
            _wait_until_empty(farm, mo, task, timeout)
        finally:
            mo.extra.pop("entering", None)
        with farm.store.lock:
            if evacuatePoweredOffVms:
                _move_powered_off(farm, mo)
            farm.host(mo).set_maintenance(True)
            farm.settle()
            farm.record(mo, "EnterMaintenanceMode_Task", timeout=int(timeout))

    return farm.tasks.start(mo, "enterMaintenanceMode", work, hold_lock=False)


@handles(vim.HostSystem, "ExitMaintenanceMode_Task")
def leave(call: Call, timeout: int) -> Any:
    """Leave maintenance mode."""
    demand(call, "Host.Config.Maintenance")
    farm, mo = call.farm, call.mo

    def work(_task: Task) -> None:
        if not farm.host(mo).up:
            raise host_not_connected()
        if not farm.host(mo).set_maintenance(False):
            raise invalid_state("the host is not in maintenance mode")
        farm.settle()
        farm.record(mo, "ExitMaintenanceMode_Task")

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


def _wait_until_empty(farm: Farm, mo: ManagedObject, task: Task, timeout: int) -> None:
    end = time.monotonic() + timeout if timeout > 0 else float("inf")
    task.update(progress=2)
    while True:
        with farm.store.lock:
            left = powered_on(farm, mo)
        if not left:
            return
        task.check()
        if time.monotonic() > end or farm.closed:
            raise vim.fault.Timedout(msg="Operation timed out.")
        movable = [vm for vm in left if not is_pinned(vm) and _drs_automated(farm, mo, vm)]
        if not movable or not _evacuate(farm, mo, movable[0], task):
            time.sleep(POLL)


def _evacuate(farm: Farm, mo: ManagedObject, vm: ManagedObject, task: Task) -> bool:
    arrives = time.monotonic() + farm.scenario.timing.vmotion_seconds
    while time.monotonic() < arrives:
        task.check()  # a migration that has not switched over yet is given up with its task
        time.sleep(max(0.0, min(POLL, arrives - time.monotonic())))
    with farm.store.lock:
        target = _best(farm, mo, vm)
        if target is None or vm["runtime"].powerState != "poweredOn" or vm["runtime"].host != mo.ref:
            return False
        move(farm, vm, target)
        farm.record(vm, "DrsMigration", source=str(mo["name"]), target=str(target["name"]))
        return True


def _move_powered_off(farm: Farm, mo: ManagedObject) -> None:
    for ref in list(mo["vm"]):
        vm = farm.store.get(ref)
        target = _best(farm, mo, vm)
        if target is not None:
            move(farm, vm, target)
            farm.record(vm, "DrsMigration", source=str(mo["name"]), target=str(target["name"]))


def _best(farm: Farm, mo: ManagedObject, vm: ManagedObject) -> ManagedObject | None:
    cluster = farm.store.get(mo["parent"])
    others = [farm.store.get(ref) for ref in cluster["host"] if ref != mo.ref]
    fitting = [h for h in others if "entering" not in h.extra and can_take(farm, h, vm)]
    return min(fitting, key=lambda h: (len(powered_on(farm, h)), h["name"]), default=None)


def _drs_automated(farm: Farm, mo: ManagedObject, vm: ManagedObject | None = None) -> bool:
    """Tell whether DRS acts by itself in the cluster of a host; for one VM its own automation level counts."""
    parent = farm.store.get(mo["parent"])
    if not isinstance(parent.ref, vim.ClusterComputeResource):
        return False
    config = parent["configurationEx"]
    drs, level = config.drsConfig, config.drsConfig.defaultVmBehavior
    if vm is not None and drs.enableVmBehaviorOverrides is not False:
        own = next((c for c in config.drsVmConfig or () if c.key == vm.ref), None)
        if own is not None and own.enabled is False:
            return False
        level = (own.behavior if own is not None else None) or level
    return bool(drs.enabled) and level == "fullyAutomated"
