"""Powering VMs on and off: what the monitor, the host and the GPUs demand."""

from __future__ import annotations

import contextvars
import threading
from typing import Any

from pyVmomi import vim

from vsphere_ai.lab import ledger
from vsphere_ai.lab.admission import Occasion, case_of, check, refusals
from vsphere_ai.lab.admission.requirements.hardware import gpus
from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.hardware import vgpu as vgpus
from vsphere_ai.lab.managed import Call, changes
from vsphere_ai.lab.managed.clusters import cluster_rules
from vsphere_ai.lab.managed.networks import mac_addresses
from vsphere_ai.lab.managed.placement import drs_level, hosts_of_cluster, move
from vsphere_ai.lab.managed.refusals import invalid_argument, invalid_power_state, invalid_state, no_compatible_host
from vsphere_ai.lab.managed.vm_tasks import guest_boot
from vsphere_ai.lab.managed.vms import (
    cpu_features,
    device_groups,
    devices_pci,
    pci_slots,
    swap_files,
    virtual_functions,
)
from vsphere_ai.lab.managed.vms.encryption import take_key
from vsphere_ai.lab.managed.vms.virtual_machine import guest_changed
from vsphere_ai.lab.managed.vms.vm_states import comes_back, refuse_lost
from vsphere_ai.lab.sessions import now
from vsphere_ai.lab.store import ManagedObject
from vsphere_ai.lab.tasks import TaskWork

FULL = (vim.fault.InsufficientResourcesFault, vim.fault.GenericVmConfigFault, vim.fault.NoDiskSpace)
"""Faults of a host that a VM suits, but that has nothing left for it just now."""


def profiles(vm: ManagedObject) -> list[str]:
    """Return the vGPU profiles of a VM, in device order."""
    return gpus.profiles(vm["config"])


def check_power_on(farm: Farm, vm: ManagedObject, host: ManagedObject, *, by_drs: bool = False) -> None:
    """Raise the fault that a power-on of the VM on this host would end with; claims nothing."""
    check(case_of(farm, vm, host, Occasion.POWER_ON, by_drs=by_drs))


def power_on_now(
    farm: Farm, vm: ManagedObject, host: ManagedObject, call: str, occasion: Occasion = Occasion.POWER_ON
) -> None:
    """Power a VM on; the caller holds the store's lock and has seen that it is off."""
    check(case_of(farm, vm, host, occasion))
    machine = farm.host(host)
    try:
        vgpus.power_on(machine, vm["name"], profiles(vm), device_groups.together(vm))
    except vgpus.NoGraphicsResource as error:
        raise gpus.no_graphics(machine, profiles(vm)) from error
    devices_pci.claim(farm, vm, host)
    pci_slots.give(vm)
    vm.extra[virtual_functions.HELD] = virtual_functions.find(farm, vm, host)
    if vm["runtime"].host != host.ref:
        move(farm, vm, host)
    take_key(farm, vm, host)
    vm["runtime"].powerState, vm["runtime"].bootTime = "poweredOn", now()
    vm["runtime"].cleanPowerOff = None
    swap_files.hold(farm, vm)
    _power_changed(farm, vm)
    farm.store.touch(vm, "config")
    guest_boot.booted(farm, vm)
    farm.record(vm, call, host=machine.name, vgpu=profiles(vm))


def power_off_now(farm: Farm, vm: ManagedObject, call: str, *, state: str = "poweredOff") -> None:
    """Power a VM off and give its vGPUs back; the caller holds the store's lock and has seen that it is on."""
    vgpus.power_off(farm.host(farm.host_of(vm)), vm["name"])
    devices_pci.release(vm)
    swap_files.drop(farm, vm)
    vm["runtime"].powerState, vm["runtime"].bootTime = state, None
    vm["runtime"].cleanPowerOff = True
    _power_changed(farm, vm)
    farm.record(vm, call)


def host_failed_under(farm: Farm, vm: ManagedObject) -> None:
    """Show a VM as off that ran on a host when it went dark; its swap file lies where it lay.

    The caller holds the store's lock.
    """
    if vm["runtime"].powerState != "poweredOn":
        return
    vgpus.power_off(farm.host(farm.host_of(vm)), vm["name"])
    devices_pci.release(vm)
    vm["runtime"].powerState, vm["runtime"].bootTime = "poweredOff", None
    vm["runtime"].cleanPowerOff = False
    _power_changed(farm, vm)


def _power_changed(farm: Farm, vm: ManagedObject) -> None:
    cpu_features.show(farm, vm)
    guest_changed(farm, vm)
    (mac_addresses.claim if vm["runtime"].powerState == "poweredOn" else mac_addresses.release)(farm, vm)
    farm.note_power(vm, on=vm["runtime"].powerState == "poweredOn", by=ledger.client.get())
    farm.store.touch(vm, "runtime", "summary")
    farm.settle()


@changes(vim.VirtualMachine, "PowerOnVM_Task", "VirtualMachine.Interact.PowerOn")
def power_on(call: Call, host: Any = None) -> Any:
    """Power a VM on, on its own host or on the one given; on its own where the one given is not compatible.

    Where DRS would place it and no host is given, rules between VMs bind as for DRS (unverified: DRS might as well
    choose another host, or let it be).
    """
    farm, mo = call.farm, call.mo
    asked = farm.store.get(host) if host else None
    if asked is not None and asked["parent"] != farm.host_of(mo)["parent"]:
        raise invalid_argument("host", "it is of another compute resource")

    def work(_task: TaskWork) -> None:
        refuse_unless_off(farm, mo, resumes=True)
        own = farm.host_of(mo)
        if asked is None and drs_level(farm, mo):
            check_power_on(farm, mo, own, by_drs=True)
        power_on_now(farm, mo, asked if asked and _takes(farm, asked, mo) else own, "PowerOnVM_Task")

    return farm.tasks.start(mo, "powerOn", work)


def _takes(farm: Farm, host: ManagedObject, vm: ManagedObject) -> bool:
    """Return whether a host is compatible with a VM; what it has left of memory and GPUs is looked at afterwards."""
    found = refusals(case_of(farm, vm, host, Occasion.POWER_ON))
    return not any(not isinstance(fault, FULL) for fault in found)


@changes(vim.VirtualMachine, "PowerOffVM_Task", "VirtualMachine.Interact.PowerOff")
def power_off(call: Call) -> Any:
    """Pull the plug."""
    farm, mo = call.farm, call.mo

    def work(_task: TaskWork) -> None:
        refuse_lost(farm, mo)
        if mo["runtime"].powerState != "suspended":  # whose memory is thrown away
            _refuse_unless_on(farm, mo, "poweredOff")
        power_off_now(farm, mo, "PowerOffVM_Task")
        comes_back(farm, mo, 5 * farm.tasks.seconds, power_on_now)

    return farm.tasks.start(mo, "powerOff", work)


@changes(vim.VirtualMachine, "ResetVM_Task", "VirtualMachine.Interact.Reset")
def reset(call: Call) -> Any:
    """Press the reset button: the VM stays on, devices are not read again."""
    farm, mo = call.farm, call.mo

    def work(_task: TaskWork) -> None:
        _refuse_unless_on(farm, mo, "poweredOn")
        farm.record(mo, "ResetVM_Task")

    return farm.tasks.start(mo, "reset", work)


@changes(vim.VirtualMachine, "ShutdownGuest", "VirtualMachine.Interact.PowerOff")
def shutdown_guest(call: Call) -> None:
    """Ask the guest to shut down; it is off a little later."""
    farm, mo = call.farm, call.mo
    _refuse_unless_on(farm, mo, "poweredOff")
    _refuse_without_tools(mo)
    if mo.extra.get("shutting_down"):
        return
    mo.extra["shutting_down"] = True
    farm.tasks.note(mo, "shutdownGuest")
    doom, farm.tasks.doom = farm.tasks.doom, None
    boot = mo["runtime"].bootTime

    def later() -> None:
        if doom is not None:
            doom.released.wait()
        with farm.store.lock:
            mo.extra["shutting_down"] = False
            still_on = mo["runtime"].powerState == "poweredOn" and mo["runtime"].bootTime == boot
            if still_on and mo.moid in farm.store.objects and not mo.extra.get("ignores_shutdown"):
                power_off_now(farm, mo, "ShutdownGuest")
                comes_back(farm, mo, 5 * farm.tasks.seconds, power_on_now)

    # in the caller's context, which names the operation that this belongs to
    run = contextvars.copy_context().run
    timer = threading.Timer(farm.scenario.timing.shutdown_seconds, run, (later,))
    timer.daemon = True
    timer.start()


@changes(vim.VirtualMachine, "RebootGuest", "VirtualMachine.Interact.Reset")
def reboot_guest(call: Call) -> None:
    """Ask the guest to reboot; the VM stays on, devices are not read again."""
    _refuse_unless_on(call.farm, call.mo, "poweredOn")
    _refuse_without_tools(call.mo)
    call.farm.record(call.mo, "RebootGuest")


@changes(vim.VirtualMachine, "SuspendVM_Task", "VirtualMachine.Interact.Suspend")
def suspend(call: Call) -> Any:
    """Write a VM's memory to disk and stop it; powering it on goes on from there."""
    farm, mo = call.farm, call.mo

    def work(_task: TaskWork) -> None:
        _refuse_unless_on(farm, mo, "suspended")
        suspend_now(farm, mo, "SuspendVM_Task")

    return farm.tasks.start(mo, "suspend", work)


def suspend_now(farm: Farm, vm: ManagedObject, call: str) -> None:
    """Suspend a VM and give its vGPUs back; the caller holds the store's lock and has seen that it is on."""
    power_off_now(farm, vm, call, state="suspended")


def refuse_unless_off(farm: Farm, vm: ManagedObject, *, resumes: bool = False) -> None:
    """Refuse a power-on of a VM that is on, cannot be reached or waits for an answer, or of a template."""
    refuse_lost(farm, vm)
    if vm["runtime"].powerState not in (("poweredOff", "suspended") if resumes else ("poweredOff",)):
        raise invalid_power_state(vm["runtime"].powerState, "poweredOn")
    if vm["config"].template:
        raise invalid_state("the virtual machine is a template")


def _refuse_unless_on(farm: Farm, vm: ManagedObject, wanted: str) -> None:
    refuse_lost(farm, vm)
    if vm["runtime"].powerState != "poweredOn":
        raise invalid_power_state(vm["runtime"].powerState, wanted)


def _refuse_without_tools(vm: ManagedObject) -> None:
    if vm["guest"].toolsRunningStatus != "guestToolsRunning":
        raise vim.fault.ToolsUnavailable(
            msg="Cannot complete operation because VMware Tools is not running in this virtual machine."
        )


def place(farm: Farm, vm: ManagedObject) -> ManagedObject:
    """Return the host DRS powers a VM on at: the first one on which it breaks the fewest rules, its own if possible.

    Raise its fault where every host has the same, NoCompatibleHost with that of each host otherwise (unverified).
    """
    own = farm.host_of(vm)
    if not drs_level(farm, vm):
        check_power_on(farm, vm, own)
        return own
    faults: list[tuple[ManagedObject, Exception]] = []
    for host in cluster_rules.best_first(farm, vm, hosts_of_cluster(farm, vm)):
        fault = next(refusals(case_of(farm, vm, host, Occasion.POWER_ON, by_drs=True)), None)
        if fault is None:
            return host
        faults.append((host, fault))
    if len({type(fault) for _, fault in faults}) == 1:
        raise faults[0][1]
    raise no_compatible_host([host.ref for host, _ in faults], [fault for _, fault in faults])
