"""Powering VMs on and off: what the monitor, the host and the GPUs demand."""

from __future__ import annotations

import contextvars
import re
import threading
from typing import Any

from pyVmomi import vim, vmodl

from vsphere_ai.lab import ledger
from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.hardware import vgpu as vgpus
from vsphere_ai.lab.managed import (
    Call,
    changes,
    cluster_rules,
    device_groups,
    devices_pci,
    dvs_bandwidth,
    guest_boot,
    mac_addresses,
    tuned,
    virtual_functions,
)
from vsphere_ai.lab.managed.placement import (
    can_take,
    compatible,
    drs_level,
    hardware_of,
    hosts_of_cluster,
    move,
    newest_hardware,
    release,
    reserved_mb,
    unreserved_mb,
)
from vsphere_ai.lab.managed.refusals import (
    host_not_connected,
    invalid_argument,
    invalid_power_state,
    invalid_state,
    power_on_failed,
)
from vsphere_ai.lab.managed.virtual_machine import guest_changed
from vsphere_ai.lab.managed.vm_states import comes_back, refuse_lost
from vsphere_ai.lab.sessions import now
from vsphere_ai.lab.store import ManagedObject
from vsphere_ai.lab.tasks import Task

DEV = vim.vm.device
VMIOP = DEV.VirtualPCIPassthrough.VmiopBackingInfo

# below this a board's memory fits into the default 64-bit MMIO window of 32 GB and below 4 GB of BIOS
LARGE_BAR_GB = 24
DEFAULT_WINDOW_GB = 32
_FRAME_BUFFER = re.compile(r"-(\d+)[a-z]+$")


def profiles(vm: ManagedObject) -> list[str]:
    """Return the vGPU profiles of a VM, in device order."""
    return [d.backing.vgpu for d in vm["config"].hardware.device if isinstance(d.backing, VMIOP)]


def check_power_on(farm: Farm, vm: ManagedObject, host: ManagedObject) -> None:
    """Raise the fault that a power-on of the VM on this host would end with; claims nothing."""
    machine = farm.host(host)
    if not machine.up:
        raise host_not_connected()
    if machine.in_maintenance or "entering" in host.extra:
        raise invalid_state("the host is in maintenance mode")
    if hardware_of(vm) > newest_hardware(machine.version):
        raise vim.fault.VirtualHardwareVersionNotSupported(
            hostName=machine.name, host=host.ref, msg=f"The host does not support hardware version {hardware_of(vm)}."
        )
    if (reserved := reserved_mb(vm)) and reserved > unreserved_mb(farm, host):
        raise vim.fault.InsufficientMemoryResourcesFault(
            unreserved=unreserved_mb(farm, host) << 20,
            requested=reserved_mb(vm) << 20,
            msg="The host does not have sufficient memory resources to satisfy the reservation.",
        )
    _check_reservation(vm)
    cluster_rules.refuse_mandatory(farm, vm, host)
    tuned.check_power_on(vm, host)
    device_groups.check_power_on(vm, machine)
    devices_pci.check_power_on(farm, vm, host)
    virtual_functions.find(farm, vm, host)
    dvs_bandwidth.check_power_on(farm, vm)
    wanted = profiles(vm)
    if wanted:
        _check_vgpus(farm, vm, host, wanted)
        if not vgpus.fits(machine, wanted, device_groups.together(vm)):
            raise _no_graphics(machine, wanted)


def _check_reservation(vm: ManagedObject) -> None:
    needing = (DEV.VirtualPCIPassthrough, DEV.VirtualVmxnet3Vrdma, DEV.VirtualSriovEthernetCard)
    config = vm["config"]
    if any(isinstance(d, needing) for d in config.hardware.device) and reserved_mb(vm) < config.hardware.memoryMB:
        raise power_on_failed("Invalid memory setting: memory reservation (sched.mem.min) should be equal to memsize.")


def _check_vgpus(farm: Farm, vm: ManagedObject, host: ManagedObject, wanted: list[str]) -> None:
    known, config = vgpus.known_types(farm.host(host)), vm["config"]
    boards = [g.board for g in farm.host(host).gpus]
    for name in wanted:
        if name not in known:
            raise power_on_failed(vgpus.NO_DEVICE.format(name))
    full = [n for n in wanted if any(_frame_buffer(n) == b.memory_gb for b in boards)]
    if len(wanted) > 1 and (len(set(wanted)) > 1 or not full) and release(farm.host(host).version) < (8, 0, 0):
        raise power_on_failed("Multiple vGPUs of a virtual machine must be of one type with the full frame buffer.")
    if not full or _frame_buffer(full[0]) < LARGE_BAR_GB:
        return
    if config.firmware != "efi":
        raise power_on_failed("The firmware cannot map the large BAR of the device; EFI is required.")
    needed = sum(_frame_buffer(n) for n in full)
    if _mmio_window(config) < 2 * _power_of_two(needed):
        raise power_on_failed("The 64-bit MMIO space is too small for the device.", "pciPassthru.64bitMMIOSizeGB")


def _frame_buffer(profile: str) -> int:
    found = _FRAME_BUFFER.search(profile)
    return int(found.group(1)) if found else 0


def _power_of_two(number: int) -> int:
    return 1 << (number - 1).bit_length()


def _mmio_window(config: Any) -> int:
    keys = {o.key.lower(): str(o.value) for o in config.extraConfig or ()}
    if keys.get("pcipassthru.use64bitmmio", "").lower() != "true":
        return 0
    size = keys.get("pcipassthru.64bitmmiosizegb", "")
    return int(size) if size.isdigit() else DEFAULT_WINDOW_GB


def _no_graphics(machine: Any, wanted: list[str]) -> Exception:
    offered = vgpus.supported_types(machine)
    missing = next((n for n in wanted if n not in offered), None)
    if missing is not None and offered:
        return power_on_failed(vgpus.NO_DEVICE.format(missing))
    error: Exception = vim.fault.InsufficientGraphicsResourcesFault(msg=vgpus.NO_CAPACITY)
    return error


def power_on_now(farm: Farm, vm: ManagedObject, host: ManagedObject, call: str) -> None:
    """Power a VM on; the caller holds the store's lock and has seen that it is off."""
    check_power_on(farm, vm, host)
    machine = farm.host(host)
    try:
        vgpus.power_on(machine, vm["name"], profiles(vm), device_groups.together(vm))
    except vgpus.NoGraphicsResource as error:
        raise _no_graphics(machine, profiles(vm)) from error
    devices_pci.claim(farm, vm, host)
    vm.extra[virtual_functions.HELD] = virtual_functions.find(farm, vm, host)
    if vm["runtime"].host != host.ref:
        move(farm, vm, host)
    vm["runtime"].powerState, vm["runtime"].bootTime = "poweredOn", now()
    vm["runtime"].cleanPowerOff = None
    _power_changed(farm, vm)
    guest_boot.booted(farm, vm)
    farm.record(vm, call, host=machine.name, vgpu=profiles(vm))


def power_off_now(farm: Farm, vm: ManagedObject, call: str, *, state: str = "poweredOff") -> None:
    """Power a VM off and give its vGPUs back; the caller holds the store's lock and has seen that it is on."""
    vgpus.power_off(farm.host(farm.host_of(vm)), vm["name"])
    devices_pci.release(vm)
    vm["runtime"].powerState, vm["runtime"].bootTime = state, None
    vm["runtime"].cleanPowerOff = True
    _power_changed(farm, vm)
    farm.record(vm, call)


def _power_changed(farm: Farm, vm: ManagedObject) -> None:
    guest_changed(farm, vm)
    (mac_addresses.claim if vm["runtime"].powerState == "poweredOn" else mac_addresses.release)(farm, vm)
    farm.note_power(vm, on=vm["runtime"].powerState == "poweredOn", by=ledger.client.get())
    farm.store.touch(vm, "runtime", "summary")
    farm.settle()


@changes(vim.VirtualMachine, "PowerOnVM_Task", "VirtualMachine.Interact.PowerOn")
def power_on(call: Call, host: Any = None) -> Any:
    """Power a VM on, on its own host or on the one given; on its own where the one given is not compatible."""
    farm, mo = call.farm, call.mo
    asked = farm.store.get(host) if host else None
    if asked is not None and asked["parent"] != farm.host_of(mo)["parent"]:
        raise invalid_argument("host", "it is of another compute resource")

    def work(_task: Task) -> None:
        refuse_unless_off(farm, mo, resumes=True)
        own = farm.host_of(mo)
        power_on_now(farm, mo, asked if asked and _takes(farm, asked, mo) else own, "PowerOnVM_Task")

    return farm.tasks.start(mo, "powerOn", work)


def _takes(farm: Farm, host: ManagedObject, vm: ManagedObject) -> bool:
    """Return whether a host is compatible with a VM; what it has left of memory and GPUs is looked at afterwards."""
    try:
        cluster_rules.refuse_mandatory(farm, vm, host)
    except vmodl.MethodFault:
        return False
    return compatible(farm, host, vm) and "entering" not in host.extra


@changes(vim.VirtualMachine, "PowerOffVM_Task", "VirtualMachine.Interact.PowerOff")
def power_off(call: Call) -> Any:
    """Pull the plug."""
    farm, mo = call.farm, call.mo

    def work(_task: Task) -> None:
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

    def work(_task: Task) -> None:
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

    def work(_task: Task) -> None:
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

    Raise the fault of the host that was tried first.
    """
    own = farm.host_of(vm)
    candidates = cluster_rules.best_first(farm, vm, hosts_of_cluster(farm, vm)) if drs_level(farm, vm) else [own]
    refusal: Exception | None = None
    for host in candidates:
        try:
            if host is not own and not can_take(farm, host, vm):
                continue
            check_power_on(farm, vm, host)
            return host
        except vmodl.MethodFault as error:
            refusal = refusal or error
    raise refusal or host_not_connected()
