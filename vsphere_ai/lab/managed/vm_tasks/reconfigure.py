"""ReconfigVM_Task: a ConfigSpec takes effect as a whole or not at all."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

from pyVmomi import VmomiSupport as Vmomi
from pyVmomi import vim

from vsphere_ai.lab.admission import Occasion, case_of, check
from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.managed import Call, changes, datastores, demand
from vsphere_ai.lab.managed.networks import mac_addresses
from vsphere_ai.lab.managed.property_collector import fingerprint
from vsphere_ai.lab.managed.refusals import invalid_argument, invalid_power_state, not_supported
from vsphere_ai.lab.managed.vms import device_groups, vm_states
from vsphere_ai.lab.managed.vms.devices import DeviceChanges
from vsphere_ai.lab.managed.vms.virtual_machine import GUESTS, refresh, stamp
from vsphere_ai.lab.sessions import now
from vsphere_ai.lab.store import ManagedObject, differs, given, lay_over
from vsphere_ai.lab.tasks import TaskWork

HARDWARE_FIELDS = {
    "numCPUs": "numCPU",
    "memoryMB": "memoryMB",
    "numCoresPerSocket": "numCoresPerSocket",
    "simultaneousThreads": "simultaneousThreads",
}
COLD_FIELDS = ("firmware", "guestId", "cpuHotAddEnabled", "memoryHotAddEnabled", "cpuHotRemoveEnabled")
HOT_FIELDS = ("name", "annotation", "latencySensitivity", "memoryReservationLockedToMax")
KEPT = {
    "alternateGuestName": "alternateGuestName", "swapPlacement": "swapPlacement", "managedBy": "managedBy",
    "locationId": "locationId", "instanceUuid": "instanceUuid", "bootOptions": "bootOptions", "tools": "tools",
    "powerOpInfo": "defaultPowerOps", "guestAutoLockEnabled": "guestAutoLockEnabled",
    "changeTrackingEnabled": "changeTrackingEnabled", "maxMksConnections": "maxMksConnections",
}  # fmt: skip
"""What a VM keeps and shows, without any effect in the lab: field of the specification, of the configuration."""
KEPT_COLD = {
    "nestedHVEnabled": "nestedHVEnabled", "vPMCEnabled": "vPMCEnabled", "uuid": "uuid", "flags": "flags",
    "cpuAffinity": "cpuAffinity",
}  # fmt: skip
"""The same, while the VM is off only."""
SHARES = {
    "cpuAllocation": {"low": 500, "normal": 1000, "high": 2000},
    "memoryAllocation": {"low": 5, "normal": 10, "high": 20},
}
"""Shares by level, per virtual CPU and per MB of memory (vSphere Resource Management, Resource Allocation Shares)."""
ALLOCATIONS = ("memoryAllocation", "cpuAllocation")
KNOWN = {
    *HARDWARE_FIELDS,
    *COLD_FIELDS,
    *HOT_FIELDS,
    *ALLOCATIONS,
    *KEPT,
    *KEPT_COLD,
    "changeVersion",
    "deviceChange",
    "deviceGroups",
    "extraConfig",
    "vAppConfigRemoved",
    "version",
    "dynamicType",
    "dynamicProperty",
}

# keys that mirror real settings: vCenter ignores them in extraConfig without a word
RESERVED_KEYS = {"memsize", "numvcpus", "displayname", "firmware", "virtualhw.version", "guestos", "uuid.bios"} | {
    "virtualhw.productcompatibility"
}


@changes(vim.VirtualMachine, "ReconfigVM_Task")
def reconfigure(call: Call, spec: Any) -> Any:
    """Apply a ConfigSpec to a VM."""
    for privilege in privileges_of(spec):
        demand(call, privilege)
    farm, mo = call.farm, call.mo

    def work(_task: TaskWork) -> None:
        host = farm.host_of(mo)
        vm_states.refuse_change(farm, mo, spec)
        running = mo["runtime"].powerState == "poweredOn"
        config, detail = changed_config(farm, mo, host, spec, powered_on=running)
        if fingerprint(config) == fingerprint(mo["config"]):
            return
        if running:
            check(replace(case_of(farm, mo, host, Occasion.RECONFIGURE), config=config))
        datastores.check_space(farm, config, {})
        config.changeVersion, config.modified = stamp(), now()
        doomed = _destroyed(mo["config"], spec)
        mo.props["config"] = config
        refresh(farm, mo)
        datastores.delete(farm, doomed)
        if "instanceUuid" in detail:
            _note_twin(farm, mo)
        if mo["runtime"].powerState == "poweredOn":
            mac_addresses.claim(farm, mo)
        farm.record(mo, "ReconfigVM_Task", **detail)

    return farm.tasks.start(mo, "reconfigure", work)


def _note_twin(farm: Farm, mo: ManagedObject) -> None:
    """Note whether a VM has the instance UUID of another one."""
    identity = mo["config"].instanceUuid
    vms = farm.store.of(vim.VirtualMachine)
    others = [vm for vm in vms if vm is not mo and vm.props.get("config") and vm["config"].instanceUuid == identity]
    for other in others:
        farm.history.note("uuid", f"{mo['name']} ({mo.moid}) has {identity} of {other['name']} ({other.moid})", True)


def _destroyed(config: Any, spec: Any) -> list[str]:
    """Return the files of the disks that a spec deletes with their devices; those of other removed disks stay."""
    changes = [c for c in spec.deviceChange or () if c.operation == "remove" and c.fileOperation == "destroy"]
    keys = {c.device.key for c in changes}
    disks = [disk for disk in datastores.disks_of(config) if disk.key in keys]
    return [backing.fileName for disk in disks for backing in datastores.chain(disk.backing)]


# what the API reference says of the fields of a VirtualMachineConfigSpec; any other one is a setting
PRIVILEGES = {
    "memoryReservationLockedToMax": "Resource",
    "memoryAllocation": "Resource",
    "cpuAllocation": "Resource",
    "latencySensitivity": "Resource",
    "numCPUs": "CPUCount",
    "numCoresPerSocket": "CPUCount",
    "memoryMB": "Memory",
    "extraConfig": "AdvancedConfig",
    "name": "Rename",
    "annotation": "Annotation",
}


def privileges_of(spec: Any, without: tuple[str, ...] = ()) -> dict[str, None]:
    """Return the privileges a spec takes, in the order of its fields; some fields may be left out."""
    plain = ("changeVersion", "deviceChange", "dynamicType", "dynamicProperty", *without)
    fields = [n for n in given(spec) if n not in plain]
    found = dict.fromkeys(f"VirtualMachine.Config.{PRIVILEGES.get(n, 'Settings')}" for n in fields)
    for change in spec.deviceChange or ():
        own = "EditDevice" if change.operation == "edit" else "AddRemoveDevice"
        if isinstance(change.device, vim.vm.device.VirtualDisk):
            own = {"edit": "DiskExtend", "add": "AddNewDisk", "remove": "RemoveDisk"}[change.operation]
        found[f"VirtualMachine.Config.{own}"] = None
        if change.operation != "remove" and getattr(getattr(change.device, "backing", None), "port", None):
            found["Network.Assign"] = None
    return found


def changed_config(
    farm: Farm, mo: ManagedObject, host: ManagedObject, spec: Any, *, powered_on: bool
) -> tuple[Any, dict[str, Any]]:
    """Return the configuration a spec leads to and what it changes; raise the fault vCenter would."""
    present = mo["config"]
    if spec.changeVersion and spec.changeVersion != present.changeVersion:
        raise vim.fault.ConcurrentAccess(
            msg="The operation cannot be performed because the object has been modified by another operation."
        )
    unknown = [
        name for name in given(spec) if name not in KNOWN and differs(getattr(spec, name), getattr(present, name, None))
    ]
    if unknown:
        raise not_supported(f"the lab does not change {', '.join(unknown)}")
    if spec.version and spec.version != present.version:
        raise invalid_argument("spec.version", "use UpgradeVM_Task")
    config = copy.deepcopy(present)
    detail: dict[str, Any] = {}
    change = DeviceChanges(farm, mo, host, config, powered_on)
    devices = [change.apply(i, d) for i, d in enumerate(spec.deviceChange or ())]
    if any(devices):
        detail["devices"] = [d for d in devices if d]
    detail |= device_groups.settle(change, present, spec)
    _settings(config, spec, detail, powered_on)
    _keep(config, spec, detail, powered_on)
    _vapp(config, spec, detail)
    _extra_config(config, spec, detail)
    _memory(config, spec, detail)
    return config, detail


def _settings(config: Any, spec: Any, detail: dict[str, Any], powered_on: bool) -> None:
    for name, target in HARDWARE_FIELDS.items():
        value = getattr(spec, name)
        if value is not None and value != getattr(config.hardware, target):
            if value <= 0:
                raise invalid_argument(f"spec.{name}", str(value))
            _must_be_off(powered_on and not _is_hot_add(config, name, value))
            setattr(config.hardware, target, value)
            detail[name] = int(value)
    if config.hardware.numCPU % (config.hardware.numCoresPerSocket or 1):
        raise invalid_argument("spec.numCoresPerSocket", "it does not divide the number of CPUs")
    for name in (*COLD_FIELDS, *HOT_FIELDS):
        value = getattr(spec, name)
        if value is None or fingerprint(value) == fingerprint(getattr(config, name)):
            continue
        if name in COLD_FIELDS:
            _must_be_off(powered_on)
        if name == "firmware" and value not in ("bios", "efi"):
            raise invalid_argument("spec.firmware", value)
        if name == "name" and not value:
            raise vim.fault.InvalidName(name=value, msg="The name '' is not valid.")
        setattr(config, name, value)
        if name == "guestId":
            config.guestFullName = GUESTS.get(value, (value, ""))[0]
        detail[name] = value if isinstance(value, (str, bool, int)) else str(getattr(value, "level", value))


def _is_hot_add(config: Any, name: str, value: int) -> bool:
    """Return whether a VM that runs may have more CPUs or memory; memory not beside passthrough devices."""
    if name == "numCPUs":
        return bool(config.cpuHotAddEnabled) and value > config.hardware.numCPU
    whole = any(isinstance(d, vim.vm.device.VirtualPCIPassthrough) for d in config.hardware.device)
    return name == "memoryMB" and bool(config.memoryHotAddEnabled) and value > config.hardware.memoryMB and not whole


def _keep(config: Any, spec: Any, detail: dict[str, Any], powered_on: bool) -> None:
    for name, target in {**KEPT, **KEPT_COLD}.items():
        value, now = getattr(spec, name), getattr(config, target)
        if value is None or not differs(value, now):
            continue
        if name in KEPT_COLD:
            _must_be_off(powered_on)
        if isinstance(value, Vmomi.DataObject) and now is not None:
            lay_over(now, value)
        else:
            setattr(config, target, value)
        detail[name] = value if isinstance(value, (str, bool, int)) else type(value)._wsdlName


def _vapp(config: Any, spec: Any, detail: dict[str, Any]) -> None:
    """Take a VM's vApp options away, its OVF properties among them."""
    if spec.vAppConfigRemoved and config.vAppConfig is not None:
        config.vAppConfig = None
        detail["vAppConfigRemoved"] = True


def _extra_config(config: Any, spec: Any, detail: dict[str, Any]) -> None:
    present = {o.key: o.value for o in config.extraConfig or ()}
    for option in spec.extraConfig or ():
        if option.key.lower() in RESERVED_KEYS:
            continue
        value = "" if option.value is None else str(option.value)
        if present.get(option.key, "") == value:
            continue
        detail.setdefault("extraConfig", {})[option.key] = value
        if value:
            present[option.key] = value
        else:
            present.pop(option.key)  # an empty value removes the key
    config.extraConfig = [vim.option.OptionValue(key=k, value=v) for k, v in present.items()]


def _memory(config: Any, spec: Any, detail: dict[str, Any]) -> None:
    for name in ALLOCATIONS:
        wanted = getattr(spec, name)
        if wanted is None:
            continue
        target = getattr(config, name)
        for field in ("reservation", "limit", "shares"):
            value = getattr(wanted, field)
            if value is not None and _differs(value, getattr(target, field)):
                setattr(target, field, value)
                detail[f"{name}.{field}"] = int(value) if isinstance(value, int) else str(value.level)
    for name, amount in (("cpuAllocation", config.hardware.numCPU), ("memoryAllocation", config.hardware.memoryMB)):
        shares = getattr(config, name).shares
        if shares is not None and shares.level in SHARES[name]:
            shares.shares = SHARES[name][shares.level] * int(amount)
    allocation, size = config.memoryAllocation, config.hardware.memoryMB
    if allocation.reservation < 0 or config.cpuAllocation.reservation < 0:
        raise invalid_argument("spec.memoryAllocation.reservation", "negative")
    if config.memoryReservationLockedToMax:
        allocation.reservation = type(allocation.reservation)(size)  # locked: it follows the memory size
    elif allocation.reservation > size:
        raise invalid_argument("spec.memoryAllocation.reservation", "larger than the memory size")


def _differs(value: Any, present: Any) -> bool:
    """Return whether a part of an allocation is another one; the number of shares counts with a custom level only."""
    if isinstance(value, vim.SharesInfo) and value.level != "custom":
        return bool(present is None or value.level != present.level)
    return bool(fingerprint(value) != fingerprint(present))


def _must_be_off(powered_on: bool) -> None:
    if powered_on:
        raise invalid_power_state("poweredOn", "poweredOff")
