"""MigrateVM_Task and RelocateVM_Task: compute vMotion of running VMs, cold moves of others, and what refuses them.

The order of the checks and the wording of the faults were not seen on a real vCenter; that DirectPath and SR-IOV
devices pin a running VM, and that a vGPU moves only where `vgpu.hotmigrate.enabled` is set, is documented.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.admission import CheckTests, LabCase, Occasion, case_of, refusals
from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.hardware import vgpu as vgpus
from vsphere_ai.lab.managed import Call, changes, demand
from vsphere_ai.lab.managed.option_manager import HOT_VGPU
from vsphere_ai.lab.managed.placement import move
from vsphere_ai.lab.managed.refusals import (
    host_not_connected,
    invalid_argument,
    invalid_power_state,
    migration_failed,
    not_supported,
)
from vsphere_ai.lab.managed.vm_tasks.power import profiles
from vsphere_ai.lab.managed.vms import device_groups, swap_files
from vsphere_ai.lab.managed.vms.vm_states import refuse_lost
from vsphere_ai.lab.store import ManagedObject, given
from vsphere_ai.lab.tasks import TaskWork

DEV = vim.vm.device
VMIOP = DEV.VirtualPCIPassthrough.VmiopBackingInfo
POLL = 0.02
STORAGE = {"datastore", "disk", "transform", "deviceChange", "profile", "service", "cryptoSpec", "folder"}
"""Fields of a RelocateSpec with which more than the compute resource of a VM would move."""


@changes(vim.VirtualMachine, "MigrateVM_Task")
def migrate(call: Call, priority: str, pool: Any = None, host: Any = None, state: str | None = None) -> Any:
    """Bring a VM to another host, another resource pool, or both; running or not."""
    return _start(call, pool, host, "MigrateVM_Task", state)


@changes(vim.VirtualMachine, "RelocateVM_Task")
def relocate(call: Call, spec: Any, priority: str | None = None) -> Any:
    """Bring a VM to another host or pool; its disks stay where they are."""
    more = STORAGE & {*given(spec)}
    if spec.datastore is not None and list(call.mo["datastore"]) == [spec.datastore]:
        more.discard("datastore")
    if more:
        raise not_supported(f"the lab moves no storage: {', '.join(sorted(more))}")
    if spec.pool is None and spec.host is None:
        return call.farm.tasks.start(call.mo, "relocate", lambda _task: None)
    return _start(call, spec.pool, spec.host, "RelocateVM_Task", None)


def _start(call: Call, pool: Any, host: Any, name: str, state: str | None) -> Any:
    farm, mo = call.farm, call.mo
    running = mo["runtime"].powerState == "poweredOn"
    demand(call, "Resource.HotMigrate" if running else "Resource.ColdMigrate")
    if pool is not None:
        demand(call, "Resource.AssignVMToPool")
    if state is not None and state != mo["runtime"].powerState:
        raise invalid_power_state(mo["runtime"].powerState, state)
    target, into = _destination(farm, mo, pool, host)

    def work(task: TaskWork) -> None:
        hot = mo["runtime"].powerState == "poweredOn"
        with farm.store.lock:
            refuse_lost(farm, mo)
            check(farm, mo, target, into)
        _copy_memory(farm, mo, task, seconds=farm.scenario.timing.vmotion_seconds if hot else 0.0)
        with farm.store.lock:
            if (mo["runtime"].powerState == "poweredOn") != hot:
                raise migration_failed("the power state of the virtual machine changed during the migration")
            check(farm, mo, target, into)  # another VM may have taken the place since then
            source = farm.host_of(mo)
            if carry(farm, mo, target, into):
                farm.record(mo, name, source=str(source["name"]), target=str(target["name"]), running=hot)

    return farm.tasks.start(mo, "migrate", work, hold_lock=False)


def check(farm: Farm, vm: ManagedObject, target: ManagedObject, pool: ManagedObject | None = None) -> None:
    """Raise the fault with which vCenter refuses to bring a VM to a host, or into a pool; claims nothing."""
    for fault in faults(arrival(farm, vm, target, pool)):
        raise fault


def faults(case: LabCase, groups: frozenset[CheckTests] = frozenset(CheckTests)) -> Iterator[Exception]:
    """Yield what is against an `arrival`, what vCenter names first the first; with `groups` what these tests find."""
    farm, vm = case.farm, case.vm
    source, state = farm.host_of(vm), vm["runtime"].powerState
    if not farm.host(source).up:
        yield host_not_connected()
    elif source is case.host:
        if state == "poweredOn" and case.pool.ref != vm["resourcePool"]:
            yield from refusals(case, groups)
    else:
        if state != "poweredOff" and CheckTests.HOST in groups:
            yield from _of_devices(farm, vm, source, case.host)
        yield from refusals(case, groups)


def arrival(
    farm: Farm, vm: ManagedObject, target: ManagedObject, pool: ManagedObject | None = None, *, by_drs: bool = False
) -> LabCase:
    """Return the case of a VM that comes to a host as it is: running, or not."""
    running = vm["runtime"].powerState == "poweredOn"
    moves = Occasion.EVACUATE if by_drs else Occasion.VMOTION
    case = case_of(farm, vm, target, moves if running else Occasion.COLD, by_drs=by_drs)
    return replace(case, pool=pool) if pool is not None else case


def pinned_by(vm: ManagedObject) -> Any:
    """Return the first device that keeps a running VM on its host on every version of vSphere, None without one."""
    return next((d for d in vm["config"].hardware.device if _pins(d)), None)


def _pins(device: Any) -> bool:
    whole = isinstance(device, DEV.VirtualPCIPassthrough) and not isinstance(device.backing, VMIOP)
    return whole or isinstance(device, DEV.VirtualSriovEthernetCard)


def _of_devices(farm: Farm, vm: ManagedObject, source: ManagedObject, target: ManagedObject) -> Iterator[Exception]:
    pin = pinned_by(vm)
    if pin is not None:
        label = pin.deviceInfo.label
        yield vim.fault.DeviceNotSupported(
            device=label, msg=f"Device '{label}' is a passthrough device, which cannot be migrated while in use."
        )
    if profiles(vm):
        yield from _of_vgpus(farm, source, target, profiles(vm))


def _of_vgpus(farm: Farm, source: ManagedObject, target: ManagedObject, wanted: list[str]) -> Iterator[Exception]:
    settings = {s.key: s.value for s in farm.store.objects["VpxSettings"]["setting"]}
    if not settings.get(HOT_VGPU):
        yield migration_failed(f"the virtual machine has a vGPU, and {HOT_VGPU} is not set in vCenter")
    here, there = farm.host(source), farm.host(target)
    stuck = next((machine for machine in (here, there) if not machine.migrates_vgpus), None)
    if stuck is not None:
        yield migration_failed(f"the NVIDIA host driver of {stuck.name} does not support migration of vGPUs")
    missing = [name for name in wanted if name not in vgpus.known_types(there)]
    if missing:
        yield migration_failed(f"{there.name} has no GPU for the vGPU type {missing[0]}")
    if _branch(there) < _branch(here):
        yield migration_failed(
            f"the NVIDIA host driver {there.driver} of {there.name} is older than {here.driver} of {here.name}"
        )


def _branch(machine: Any) -> int:
    return int((machine.driver or "0").partition(".")[0])


def carry(farm: Farm, vm: ManagedObject, target: ManagedObject, pool: ManagedObject | None = None) -> bool:
    """Bring a VM to a host that `check` has no fault for, with the vGPUs it runs on; return whether anything changed.

    The caller holds the store's lock.
    """
    source, changed = farm.host_of(vm), False
    if target is not source:
        if vm["runtime"].powerState == "poweredOn" and profiles(vm):
            vgpus.power_on(farm.host(target), vm["name"], profiles(vm), device_groups.together(vm))
            vgpus.power_off(farm.host(source), vm["name"])
        move(farm, vm, target)
        if vm["runtime"].powerState == "poweredOn":
            swap_files.hold(farm, vm)
        changed = True
    old = farm.store.get(vm["resourcePool"])
    if pool is not None and pool is not old:
        farm.store.set(old, vm=[ref for ref in old["vm"] if ref != vm.ref])
        farm.store.set(pool, vm=[*pool["vm"], vm.ref])
        compute = farm.store.get(pool["owner"])
        farm.store.set(vm, resourcePool=pool.ref, environmentBrowser=compute["environmentBrowser"])
        changed = True
    farm.settle()
    return changed


def _destination(farm: Farm, vm: ManagedObject, pool: Any, host: Any) -> tuple[ManagedObject, ManagedObject | None]:
    """Return the host and the pool a VM is to go to; without a host one of the pool's, its own if it is there."""
    if pool is None and host is None:
        raise invalid_argument("host", "neither a host nor a resource pool is given")
    into = farm.store.get(pool) if pool is not None else None
    owner = (into or farm.store.get(vm["resourcePool"]))["owner"]
    if host is None:
        own = farm.host_of(vm)
        if own["parent"] == owner:
            return own, into
        hosts = [farm.store.get(ref) for ref in farm.store.get(owner)["host"]]
        drs = len(hosts) == 1 or farm.store.get(owner)["configurationEx"].drsConfig.enabled
        fitting = [h for h in hosts if farm.host(h).up and not farm.host(h).in_maintenance]
        if not drs or not fitting:
            raise invalid_argument("host", "a cluster without DRS chooses no host")
        return fitting[0], into
    target = farm.store.get(host)
    if target["parent"] != owner:
        raise invalid_argument("pool" if into else "host", "host and resource pool are of different compute resources")
    return target, into


def _copy_memory(farm: Farm, vm: ManagedObject, task: TaskWork, seconds: float) -> None:
    arrives = time.monotonic() + seconds
    while time.monotonic() < arrives:
        task.check()  # a migration that has not switched over yet is given up with its task
        task.update(progress=min(99, int(100 - 100 * (arrives - time.monotonic()) / seconds)))
        time.sleep(max(0.0, min(POLL, arrives - time.monotonic())))
    task.check()
    farm.store.get(vm.ref)
