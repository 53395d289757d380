"""New VMs: CreateVM_Task, CloneVM_Task, and templates made of VMs and back.

A VM is new in full or not at all: what its specification asks for is checked as a reconfigure of it would be.
"""

from __future__ import annotations

import copy
import re
import uuid
from typing import Any

from pyVmomi import vim, vmodl

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.managed import Call, changes, demand
from vsphere_ai.lab.managed.dvs_ports import take
from vsphere_ai.lab.managed.folder import checked_name, refuse_twin
from vsphere_ai.lab.managed.placement import newest_hardware
from vsphere_ai.lab.managed.power import power_on_now
from vsphere_ai.lab.managed.reconfigure import changed_config
from vsphere_ai.lab.managed.refusals import (
    host_not_connected,
    invalid_argument,
    invalid_power_state,
    invalid_state,
    not_supported,
)
from vsphere_ai.lab.managed.virtual_machine import (
    bare_devices,
    config_of,
    enroll,
    equip,
    mac_address,
    publish,
    refresh,
    stamp,
)
from vsphere_ai.lab.managed.vm_states import refuse_lost
from vsphere_ai.lab.scenario import Vm
from vsphere_ai.lab.sessions import now
from vsphere_ai.lab.store import ManagedObject, given
from vsphere_ai.lab.tasks import Task

DEV = vim.vm.device
PCI = DEV.VirtualPCIPassthrough
_DATASTORE = re.compile(r"\[(.+?)\]")
NEW_MEMORY_MB, MOST_MEMORY_MB = 32, 24576 * 1024
OWN = ("name", "version", "files", "guestId", "uuid", "instanceUuid")
"""Fields of a specification that a new VM has from the start."""


@changes(vim.Folder, "CreateVM_Task", "VirtualMachine.Inventory.Create")
def create(call: Call, config: Any, pool: Any, host: Any = None) -> Any:
    """Create a VM in a folder, off."""
    farm, folder = call.farm, call.mo
    _refuse_other_folder(folder)
    name = checked_name(config.name or "")
    _check_datastore(farm, config)
    target, into = _place(farm, farm.store.get(pool), host)

    def work(_task: Task) -> Any:
        _check_host(farm, target)
        refuse_twin(farm, folder, name)
        version = _version(farm, target, config.version)
        mo = enroll(farm, folder, target, name, tools="none")
        spec = Vm(
            name=name,
            host="",
            guest=config.guestId or "otherGuest64",
            hardware=version,
            firmware="bios",
            cpus=1,
            tools="none",
        )
        first = config_of(farm, mo, spec, bare_devices())
        first.hardware.memoryMB = NEW_MEMORY_MB
        first.uuid, first.instanceUuid = config.uuid or first.uuid, config.instanceUuid or first.instanceUuid
        _finish(farm, mo, first, config, into)
        farm.record(mo, "CreateVM_Task", host=str(target["name"]))
        return mo.ref

    return farm.tasks.start(folder, "createVm", work)


@changes(vim.VirtualMachine, "CloneVM_Task")
def clone(call: Call, folder: Any, name: str, spec: Any) -> Any:
    """Make a VM or a template as another one is, with addresses and identities of its own."""
    farm, source = call.farm, call.mo
    template = bool(source["config"].template)
    demand(call, f"VirtualMachine.Provisioning.{'DeployTemplate' if template else 'Clone'}")
    into_folder, name = farm.store.get(folder), checked_name(name)
    _refuse_other_folder(into_folder)
    if spec.customization is not None:
        raise not_supported("the lab has no guests to customize")
    location = spec.location or vim.vm.RelocateSpec()
    if template and location.pool is None and not spec.template:
        raise invalid_argument("spec.location.pool", "a virtual machine made of a template needs a resource pool")
    pool = farm.store.get(location.pool or source["resourcePool"])
    target, into = _place(farm, pool, location.host, source["runtime"].host)

    def work(_task: Task) -> Any:
        refuse_lost(farm, source)
        _check_host(farm, target)
        refuse_twin(farm, into_folder, name)
        found = farm.store.get(spec.snapshot)["config"] if spec.snapshot is not None else source["config"]
        mo = enroll(farm, into_folder, target, name, tools=source.extra["tools"])
        mo.extra["guest"] = copy.deepcopy(source.extra.get("guest"))
        config = _copy(farm, mo, found, template=bool(spec.template))
        _take_identity(farm, config, spec.config)
        _finish(farm, mo, config, spec.config, into)
        farm.record(mo, "CloneVM_Task", source=str(source["name"]), host=str(target["name"]))
        if spec.powerOn:
            power_on_now(farm, mo, target, "CloneVM_Task")
        return mo.ref

    return farm.tasks.start(source, "clone", work, read_only=True)  # several may run at once


@changes(vim.VirtualMachine, "MarkAsTemplate", "VirtualMachine.Provisioning.MarkAsTemplate")
def mark_as_template(call: Call) -> None:
    """Make a template of a VM that is off."""
    farm, mo = call.farm, call.mo
    refuse_lost(farm, mo)
    if mo["runtime"].powerState != "poweredOff":
        raise invalid_power_state(mo["runtime"].powerState, "poweredOff")
    if not mo["config"].template:
        _mark(farm, mo, template=True)
        farm.record(mo, "MarkAsTemplate")


@changes(vim.VirtualMachine, "MarkAsVirtualMachine", "VirtualMachine.Provisioning.MarkAsVM")
def mark_as_vm(call: Call, pool: Any, host: Any = None) -> None:
    """Make a VM of a template."""
    farm, mo = call.farm, call.mo
    if not mo["config"].template:
        raise not_supported("it is no template")
    target = farm.host_of(mo) if host is None else farm.store.get(host)
    if farm.store.get(pool)["owner"] != target["parent"]:
        raise invalid_argument("pool", "host and resource pool are of different compute resources")
    _mark(farm, mo, template=False)
    farm.record(mo, "MarkAsVirtualMachine")


def _mark(farm: Farm, mo: ManagedObject, *, template: bool) -> None:
    config = mo["config"]
    config.template, config.changeVersion, config.modified = template, stamp(), now()
    refresh(farm, mo)


def _finish(farm: Farm, mo: ManagedObject, config: Any, spec: Any, pool: ManagedObject) -> None:
    """Give a new VM its configuration, changed as the specification says, and show it; or make it not have been."""
    try:
        equip(farm, mo, config)
        if spec is not None:
            asked = copy.copy(spec)
            for name in OWN:
                setattr(asked, name, None)
            asked.changeVersion = None
            host = farm.host_of(mo)
            if given(asked):
                changed, _detail = changed_config(farm, mo, host, asked, powered_on=False)
                mo.props["config"] = changed
        if mo["config"].hardware.memoryMB > MOST_MEMORY_MB:
            raise invalid_argument("spec.memoryMB", str(mo["config"].hardware.memoryMB))
        refresh(farm, mo)
    except vmodl.MethodFault:
        for network in farm.store.of(vim.Network):
            if mo.ref in (network["vm"] or ()):
                farm.store.set(network, vm=[ref for ref in network["vm"] if ref != mo.ref])
        farm.store.delete(mo)
        raise
    farm.store.set(mo, resourcePool=pool.ref)
    publish(farm, mo)
    farm.note_power(mo, on=False)


def _copy(farm: Farm, mo: ManagedObject, source: Any, *, template: bool) -> Any:
    config = copy.deepcopy(source)
    identity = uuid.uuid5(uuid.NAMESPACE_DNS, f"{farm.scenario.name}/{mo.moid}/{mo['name']}")
    config.name, config.template = str(mo["name"]), template
    config.changeVersion, config.modified = stamp(), now()
    config.uuid, config.instanceUuid = f"42{str(identity)[2:]}", f"50{str(identity)[2:]}"
    config.files.vmPathName = f"[{farm.scenario.datastore}] {config.name}/{config.name}.vmx"
    config.managedBy = config.ftInfo = None
    for number, device in enumerate(config.hardware.device):
        if isinstance(device, DEV.VirtualEthernetCard):
            if device.addressType != "manual":
                device.macAddress, device.addressType = mac_address(mo, number), "assigned"
            port = getattr(device.backing, "port", None)
            if port is not None:
                port.portKey = take(farm, farm.store.objects[port.portgroupKey])
        elif isinstance(device, PCI) and isinstance(device.backing, PCI.DynamicBackingInfo):
            device.backing.assignedId = None
        elif isinstance(device, DEV.VirtualDisk) and getattr(device.backing, "fileName", None):
            disk = device.key - 2000
            name = f"{config.name}/{config.name}{f'_{disk}' if disk else ''}.vmdk"
            device.backing.fileName = f"[{farm.scenario.datastore}] {name}"
    return config


def _take_identity(farm: Farm, config: Any, asked: Any) -> None:
    """Give a clone the identities that are asked for; vCenter keeps its own where another VM has one of them."""
    taken = {vm["config"].instanceUuid for vm in farm.store.of(vim.VirtualMachine) if vm.props.get("config")}
    if asked is not None and asked.uuid:
        config.uuid = asked.uuid
    if asked is not None and asked.instanceUuid and asked.instanceUuid not in taken:
        config.instanceUuid = asked.instanceUuid


def _place(farm: Farm, pool: ManagedObject, host: Any, own: Any = None) -> tuple[ManagedObject, ManagedObject]:
    """Return the host a new VM is registered on, and its pool: the host asked for, that of its source, or DRS's."""
    compute = farm.store.get(pool["owner"])
    if host is not None:
        target = farm.store.get(host)
        if target["parent"] != compute.ref:
            raise invalid_argument("host", "host and resource pool are of different compute resources")
        return target, pool
    hosts = [farm.store.get(ref) for ref in compute["host"]]
    if own is not None and farm.store.get(own) in hosts:
        return farm.store.get(own), pool
    drs = isinstance(compute.ref, vim.ClusterComputeResource) and compute["configurationEx"].drsConfig.enabled
    fitting = [h for h in hosts if farm.host(h).up and not farm.host(h).in_maintenance]
    if not (drs or len(hosts) == 1) or not fitting:
        raise invalid_argument("host", "a cluster without DRS chooses no host")
    return min(fitting, key=lambda h: len(h["vm"])), pool


def _check_host(farm: Farm, host: ManagedObject) -> None:
    machine = farm.host(host)
    if not machine.up:
        raise host_not_connected()
    if machine.in_maintenance or "entering" in host.extra:
        raise invalid_state("the host is in maintenance mode")


def _check_datastore(farm: Farm, config: Any) -> None:
    path = (config.files and config.files.vmPathName) or ""
    found = _DATASTORE.match(path)
    if not found:
        raise invalid_argument("config.files.vmPathName", path)
    if found[1] != farm.scenario.datastore:
        raise vim.fault.InvalidDatastorePath(datastorePath=path, msg=f"Invalid datastore path '{path}'.", name=found[1])


def _version(farm: Farm, host: ManagedObject, asked: str | None) -> int:
    newest = newest_hardware(farm.host(host).version)
    if not asked:
        return newest
    if not (asked.startswith("vmx-") and asked[4:].isdigit()):
        raise invalid_argument("config.version", asked)
    if int(asked[4:]) > newest:
        raise vim.fault.VirtualHardwareVersionNotSupported(
            hostName=str(host["name"]), host=host.ref, msg=f"The host does not support hardware version {asked[4:]}."
        )
    return int(asked[4:])


def _refuse_other_folder(folder: ManagedObject) -> None:
    if vim.VirtualMachine not in (folder["childType"] or ()):
        raise not_supported("the folder takes no virtual machines")
