"""CloneVM_Task and CheckClone_Task: a VM or a template copied, with identities, devices and settings of its own.

Source: vSphere Web Services API, VirtualMachineCloneSpec and VirtualMachineRelocateSpec.
"""

from __future__ import annotations

import copy
import uuid
from dataclasses import dataclass, replace
from typing import Any

from pyVmomi import VmomiSupport as Vmomi
from pyVmomi import vim, vmodl

from vsphere_ai.lab.admission.supply import OVERHEAD
from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.managed import Call, changes, datastores, demand, reads
from vsphere_ai.lab.managed.guests import guest_image
from vsphere_ai.lab.managed.networks.dvs_ports import take
from vsphere_ai.lab.managed.refusals import invalid_argument, not_supported
from vsphere_ai.lab.managed.vcenter.folder import checked_name, refuse_twin
from vsphere_ai.lab.managed.vm_tasks import customization
from vsphere_ai.lab.managed.vm_tasks.new_vms import (
    OWN,
    announce,
    any_host,
    check_datastores,
    check_host,
    fits,
    host_in,
    refuse_other_folder,
    register,
    specify,
)
from vsphere_ai.lab.managed.vm_tasks.power import power_on_now
from vsphere_ai.lab.managed.vm_tasks.reconfigure import privileges_of
from vsphere_ai.lab.managed.vms import disks, vm_resources
from vsphere_ai.lab.managed.vms.virtual_machine import draft, mac_address, stamp
from vsphere_ai.lab.managed.vms.vm_states import refuse_lost
from vsphere_ai.lab.sessions import now
from vsphere_ai.lab.store import ManagedObject
from vsphere_ai.lab.tasks import TaskWork

DEV = vim.vm.device
PCI = DEV.VirtualPCIPassthrough
NIC = DEV.VirtualEthernetCard
IDENTITIES = tuple(name for name in OWN if name != "guestId")
ELSEWHERE = ("service", "cryptoSpec")
"""Fields of a RelocateSpec that the lab does not carry out."""
TPM_POLICIES = ("copy", "replace")
"""What becomes of a virtual TPM (vSphere 8.0): the clone has its secrets, which is the default, or new ones."""
KINDS = {
    (False, False): "Clone",
    (False, True): "CreateTemplateFromVM",
    (True, False): "DeployTemplate",
    (True, True): "CloneTemplate",
}
"""The privilege on the source (VirtualMachine.Provisioning), by whether it and the clone are templates."""


@dataclass(frozen=True)
class CloneRequest:
    """Arguments of a clone, and the objects that they name. `host` is None where DRS chooses one."""

    source: ManagedObject
    folder: ManagedObject
    name: str
    spec: Any
    pool: ManagedObject
    host: ManagedObject | None
    config: Any
    """What is copied: the configuration of the source, or of its snapshot."""

    @property
    def stores(self) -> list[Any]:
        """The datastores that the clone's files go to; those of the source's disks where it names none."""
        where = self.spec.location
        own = {locator.diskId: locator.datastore for locator in where.disk}
        found = [own.get(d.key) or where.datastore or d.backing.datastore for d in datastores.disks_of(self.config)]
        return list({ref._moId: ref for ref in (where.datastore, *found) if ref is not None}.values())


@changes(vim.VirtualMachine, "CloneVM_Task")
def clone(call: Call, folder: Any, name: str, spec: Any) -> Any:
    """Make a VM or a template as another one is, with addresses and identities of its own."""
    _demand(call, folder, spec)
    request = _read(call.farm, call.mo, folder, name, spec)
    farm = call.farm
    announced = announce(farm, request.folder, request.name)

    def work(task: TaskWork) -> Any:
        task.progress(farm.scenario.timing.clone_seconds)
        with farm.store.lock:
            announced.withdraw()
            return _cloned(farm, _elsewhere(farm, request) if task.elsewhere else request)

    # several may run at once
    started = farm.tasks.start(call.mo, "clone", work, hold_lock=False, read_only=True)
    farm.tasks.running[started._moId].ended = announced.withdraw
    return started


def _elsewhere(farm: Farm, request: CloneRequest) -> CloneRequest:
    """Return a request with another host of its pool, and another datastore, where there are such."""
    hosts = [farm.store.get(ref) for ref in farm.store.get(request.pool["owner"])["host"]]
    host = next((h for h in hosts if h is not request.host and fits(farm, h, request.source)), request.host)
    spec = copy.copy(request.spec)
    spec.location = copy.copy(spec.location)
    stores = [mo.ref for mo in farm.store.of(vim.Datastore) if host is None or datastores.reaches(host, [mo.ref])]
    spec.location.datastore = next((ref for ref in stores if ref not in request.stores), spec.location.datastore)
    return replace(request, host=host, spec=spec)


def clone_now(call: Call, source: ManagedObject, folder: Any, name: str, spec: Any) -> Any:
    """Clone a VM as a part of another task; the privileges are those of the clone."""
    on_source = replace(call, mo=source)
    _demand(on_source, folder, spec)
    return _cloned(call.farm, _read(call.farm, source, folder, name, spec))


def _cloned(farm: Farm, request: CloneRequest) -> Any:
    source, spec = request.source, request.spec
    made = _made(farm, request)
    mo = register(farm, made, request.folder, request.pool, tools=source.extra["tools"])
    mo.extra["guest"] = copy.deepcopy(source.extra.get("guest"))
    for name in (guest_image.FIRMWARE, OVERHEAD):
        mo.extra[name] = source.extra.get(name, mo.extra.get(name))
    mo.extra[guest_image.IMAGE] = guest_image.of(source)
    vm_resources.show(mo)
    mo["config"].tools.pendingCustomization = None
    if _customized(spec):
        customization.wait_for_power_on(farm, mo, spec.customization)
    asked = (spec.config.instanceUuid if spec.config is not None else None) or ""
    more = ledger_detail(farm, mo)
    if any(isinstance(device, DEV.VirtualTPM) for device in mo["config"].hardware.device):
        more["tpm"] = spec.tpmProvisionPolicy or "copy"
    farm.record(mo, "CloneVM_Task", source=str(source["name"]), asked_uuid=asked, **more)
    if spec.powerOn and not spec.template:
        farm.tasks.start(mo, "powerOn", lambda _task: power_on_now(farm, mo, farm.host_of(mo), "PowerOnVM_Task"))
    return mo.ref


@reads(vim.vm.check.ProvisioningChecker, "CheckClone_Task")
def check_clone(call: Call, vm: Any, folder: Any, name: str, spec: Any, **_tests: Any) -> Any:
    """Report what a clone would be refused for; it takes no privilege of the clone, and reports none missing."""
    farm, source = call.farm, call.farm.store.get(vm)
    doom = farm.tasks.doom
    finds = doom.finds if doom is not None else None

    def work(_task: TaskWork) -> Any:
        result = vim.vm.check.Result(vm=source.ref)
        if finds is not None:
            result.error = list(finds)
            return Vmomi.GetVmodlType("vim.vm.check.Result[]")([result])
        try:
            result.host = _made(farm, _read(farm, source, folder, name, spec))["runtime"].host
        except vmodl.MethodFault as error:
            result.error = [error]
        return Vmomi.GetVmodlType("vim.vm.check.Result[]")([result])

    return farm.tasks.start(source, "checkClone", work, read_only=True)


def ledger_detail(farm: Farm, mo: ManagedObject) -> dict[str, Any]:
    """Return what the ledger says of a new VM: identity, places, disks with what they are children of, addresses."""
    config = mo["config"]
    found = datastores.disks_of(config)
    return {
        "host": str(farm.host_of(mo)["name"]),
        "pool": str(farm.store.get(mo["resourcePool"])["name"]),
        "instance_uuid": config.instanceUuid,
        "disks": {d.backing.fileName: getattr(d.backing.parent, "fileName", "") for d in found},
        "macs": [d.macAddress for d in config.hardware.device if isinstance(d, NIC)],
    }


def _demand(call: Call, folder: Any, spec: Any) -> None:
    """Refuse a clone for which the user lacks a privilege on one of the objects that it uses."""
    farm, source, location = call.farm, call.mo, spec.location
    kind = KINDS[bool(source["config"].template), bool(spec.template)]
    demand(call, f"VirtualMachine.Provisioning.{kind}")
    if _customized(spec):
        demand(call, "VirtualMachine.Provisioning.Customize")
    into = farm.store.get(location.folder or folder)
    demand(call, "VirtualMachine.Inventory.CreateFromExisting", into)
    if (location.pool or source["resourcePool"]) and not spec.template:
        demand(call, "Resource.AssignVMToPool", farm.store.get(location.pool or source["resourcePool"]))
    for store in [location.datastore] if location.datastore else source["datastore"]:
        demand(call, "Datastore.AllocateSpace", farm.store.get(store))
    if spec.config is None:
        return
    for privilege in privileges_of(spec.config, without=IDENTITIES):
        if privilege == "Network.Assign":
            for network in _networks(farm, spec.config):
                demand(call, privilege, network)
        else:
            demand(call, privilege, into)


def _networks(farm: Farm, config: Any) -> list[ManagedObject]:
    """Return the port groups that a specification connects NICs to."""
    ports = [getattr(getattr(c.device, "backing", None), "port", None) for c in config.deviceChange or ()]
    keys = dict.fromkeys(port.portgroupKey for port in ports if port is not None and port.portgroupKey)
    return [farm.store.objects[key] for key in keys if key in farm.store.objects]


def _read(farm: Farm, source: ManagedObject, folder: Any, name: str, spec: Any) -> CloneRequest:
    """Return what a clone is asked for; raise for arguments that cannot be so."""
    location = spec.location
    into, name = farm.store.get(location.folder or folder), checked_name(name)
    refuse_other_folder(into)
    if (spec.tpmProvisionPolicy or "copy") not in TPM_POLICIES:
        raise invalid_argument("spec.tpmProvisionPolicy", spec.tpmProvisionPolicy)
    if spec.memory:
        raise not_supported("the lab copies no memory of a virtual machine")
    for field in ELSEWHERE:
        if getattr(location, field) is not None:
            raise not_supported(f"the lab clones nothing with spec.location.{field}")
    if source["config"].template and location.pool is None and not spec.template:
        raise invalid_argument("spec.location.pool", "a virtual machine made of a template needs a resource pool")
    if spec.snapshot is not None and farm.store.get(spec.snapshot)["vm"] != source.ref:
        raise invalid_argument("spec.snapshot", "it is a snapshot of another virtual machine")
    disks.check_moves(spec)
    pool = farm.store.get(location.pool or source["resourcePool"])
    host = location.host or (source["runtime"].host if location.pool is None else None)
    found = farm.store.get(spec.snapshot)["config"] if spec.snapshot is not None else source["config"]
    return CloneRequest(source, into, name, spec, pool, host_in(farm, pool, host), found)


def bytes_of_clone(farm: Farm, source: ManagedObject, spec: Any) -> int:
    """Return the bytes that the disks of a clone would take."""
    found = farm.store.get(spec.snapshot)["config"] if spec.snapshot is not None else source["config"]
    config = copy.deepcopy(found)
    sizes = disks.copy_disks(farm, config, spec.location, str(source["name"]))
    return sum(datastores.size_of(disk, sizes) for disk in datastores.disks_of(config))


def _made(farm: Farm, request: CloneRequest) -> ManagedObject:
    """Return the clone as a draft; raise the fault that it would be refused with. It changes nothing."""
    source, spec = request.source, request.spec
    refuse_lost(farm, source)
    refuse_twin(farm, request.folder, request.name)
    host = request.host or any_host(farm, request.pool, source, request.name, request.stores)
    check_host(farm, host)
    check_datastores(farm, host, request.stores)
    made = draft(farm, request.name, host)
    config = _copy(farm, made, request)
    _take_identity(farm, config, spec.config)
    specify(farm, made, config, _asked(spec), IDENTITIES)
    made.extra[guest_image.IMAGE] = guest_image.of(source)
    if _customized(spec):
        customization.check(made, spec.customization, tools=source.extra["tools"])
    return made


def _customized(spec: Any) -> bool:
    """Return whether the guest of a clone is customized; that of a template never is."""
    return spec.customization is not None and not spec.template


def _asked(spec: Any) -> Any:
    """Return the changes that a clone comes with: its ConfigSpec, and the networks of its location.

    Of the devices in the location only the backing of a NIC is looked at, as documented.
    """
    moved = [c for c in spec.location.deviceChange or () if c.operation == "edit" and isinstance(c.device, NIC)]
    asked = copy.copy(spec.config) if spec.config is not None else vim.vm.ConfigSpec()
    networks = []
    for each in moved:
        device = type(each.device)(key=each.device.key, backing=each.device.backing)
        networks.append(DEV.VirtualDeviceSpec(operation="edit", device=device))
    asked.deviceChange = [*networks, *map(_of_the_clone, asked.deviceChange or ())]
    return asked


def _of_the_clone(change: Any) -> Any:
    """Return the change of a disk of the source without its file: it means the disk that is copied of it."""
    if change.operation != "edit" or not isinstance(change.device, DEV.VirtualDisk):
        return change
    device = copy.copy(change.device)
    device.backing = None
    return DEV.VirtualDeviceSpec(operation="edit", device=device)


def _copy(farm: Farm, mo: ManagedObject, request: CloneRequest) -> Any:
    """Return the configuration of the source, or of its snapshot, with what every VM has of its own."""
    spec = request.spec
    config = copy.deepcopy(request.config)
    identity = uuid.uuid5(uuid.NAMESPACE_DNS, f"{farm.scenario.name}/{mo.moid}/{mo['name']}")
    config.name, config.template = str(mo["name"]), bool(spec.template)
    config.changeVersion, config.modified = stamp(), now()
    config.uuid, config.instanceUuid = f"42{str(identity)[2:]}", f"50{str(identity)[2:]}"
    home = farm.store.get(spec.location.datastore) if spec.location.datastore else datastores.home_of(farm, config)
    folder = datastores.directory(farm, home, config.name)
    config.files.vmPathName = f"[{home['name']}] {folder}/{folder}.vmx"
    config.managedBy = config.ftInfo = None
    for number, device in enumerate(config.hardware.device):
        if isinstance(device, NIC):
            if device.addressType != "manual":
                device.macAddress, device.addressType = mac_address(mo, number), "assigned"
            port = getattr(device.backing, "port", None)
            if port is not None:
                port.portKey = take(farm, farm.store.objects[port.portgroupKey])
        elif isinstance(device, PCI) and isinstance(device.backing, PCI.DynamicBackingInfo):
            device.backing.assignedId = None
    mo.extra[datastores.SIZES] = disks.copy_disks(farm, config, spec.location, folder)
    return config


def _take_identity(farm: Farm, config: Any, asked: Any) -> None:
    """Give a clone the identities that are asked for; vCenter keeps its own where another VM has one of them."""
    if asked is not None and asked.uuid:
        config.uuid = asked.uuid
    if asked is None or not asked.instanceUuid:
        return
    wanted = asked.instanceUuid
    if not any(vm.props["config"].instanceUuid == wanted for vm in farm.store.of(vim.VirtualMachine)):
        config.instanceUuid = wanted
