"""VMs made, cloned, snapshotted and removed, as the community's scripts on pyVmomi do it."""

from __future__ import annotations

import pytest
from pyVmomi import VmomiSupport, vim, vmodl
from support.gates import until

DEV = vim.vm.device
SAMPLES = {bool: False, int: 1, float: 1.0, str: "x"}


def neutral(typ, depth=0):
    """A value of a type in which what has to be set is set; None where there is none to be made up."""
    if typ is object:
        return "x"
    if issubclass(typ, VmomiSupport.Enum):
        return next(str(v) for k, v in vars(typ).items() if isinstance(v, typ))
    if issubclass(typ, list):
        item = neutral(typ.Item, depth + 1)
        return None if item is None else [item]
    if issubclass(typ, VmomiSupport.DataObject):
        return fill(typ(), depth + 1) if depth < 5 else None
    return next((typ(v) if base is not bool else v for base, v in SAMPLES.items() if issubclass(typ, base)), None)


def fill(made, depth=0):
    for info in made._GetPropertyList():
        if not info.flags & VmomiSupport.F_OPTIONAL:
            value = neutral(info.type, depth)
            if value is not None:
                setattr(made, info.name, value)
    return made


def scsi_disk_and_card(gb=10, network="VM Network"):
    """Devices of a new VM, as pyvmomi-community-samples and Ansible's vmware_guest send them: by negative keys."""
    scsi = DEV.VirtualDeviceSpec(operation="add", device=DEV.ParaVirtualSCSIController(key=-7, sharedBus="noSharing"))
    backing = DEV.VirtualDisk.FlatVer2BackingInfo(diskMode="persistent", thinProvisioned=True)
    disk = DEV.VirtualDisk(key=-8, controllerKey=-7, unitNumber=0, capacityInKB=gb << 20, backing=backing)
    cdrom = DEV.VirtualCdrom(
        key=-9, controllerKey=200, backing=DEV.VirtualCdrom.RemotePassthroughBackingInfo(deviceName="", exclusive=False)
    )
    card = DEV.VirtualVmxnet3(key=-10, backing=DEV.VirtualEthernetCard.NetworkBackingInfo(deviceName=network))
    return [
        scsi,
        DEV.VirtualDeviceSpec(operation="add", fileOperation="create", device=disk),
        DEV.VirtualDeviceSpec(operation="add", device=cdrom),
        DEV.VirtualDeviceSpec(operation="add", device=card),
    ]


def creation(name="made", **fields):
    files = vim.vm.FileInfo(vmPathName="[vsan-gpu]")
    return vim.vm.ConfigSpec(
        **{"name": name, "guestId": "ubuntu64Guest", "numCPUs": 4, "memoryMB": 4096, "files": files, **fields}
    )


@pytest.fixture
def center(soap):
    return soap.find(vim.Datacenter, "DC0")


def make(soap, center, spec, host="esx-odd"):
    compute = soap.host(host).parent
    return soap.wait(center.vmFolder.CreateVM_Task(spec, compute.resourcePool, soap.host(host)))


def by_type(vm):
    return {type(d)._wsdlName: d for d in vm.config.hardware.device}


def test_a_vm_is_made_with_its_devices(soap, center):
    vm = make(soap, center, creation(deviceChange=scsi_disk_and_card()))
    assert vm in center.vmFolder.childEntity
    assert vm in soap.host("esx-odd").vm
    assert (vm.runtime.powerState, vm.config.hardware.numCPU, vm.config.hardware.memoryMB) == ("poweredOff", 4, 4096)
    assert vm.config.version == "vmx-14", "the newest of ESXi 6.7"
    assert vm.config.files.vmPathName == "[vsan-gpu] made/made.vmx"
    found = by_type(vm)
    scsi, disk, cdrom = found["ParaVirtualSCSIController"], found["VirtualDisk"], found["VirtualCdrom"]
    assert (scsi.key, disk.key, disk.controllerKey, scsi.device) == (1000, 2000, 1000, [2000])
    assert (disk.deviceInfo.label, disk.backing.fileName) == ("Hard disk 1", "[vsan-gpu] made/made.vmdk")
    assert (cdrom.controllerKey, cdrom.deviceInfo.label) == (200, "CD/DVD drive 1")
    assert vm.network[0].name == "VM Network"
    soap.wait(vm.PowerOnVM_Task())
    assert soap.calls() == [("made", "CreateVM_Task"), ("made", "PowerOnVM_Task")]


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        (creation(name="odd-01"), vim.fault.DuplicateName),
        (creation(name=""), vim.fault.InvalidName),
        (creation(files=vim.vm.FileInfo(vmPathName="[nowhere]")), vim.fault.InvalidDatastorePath),
        (creation(files=None), vmodl.fault.InvalidArgument),
        (creation(version="vmx-19"), vim.fault.VirtualHardwareVersionNotSupported),
        (creation(deviceChange=scsi_disk_and_card(gb=0)), vim.fault.InvalidDeviceSpec),
        (creation(deviceChange=scsi_disk_and_card(network="none")), vim.fault.InvalidDeviceBacking),
        (creation(npivWorldWideNameOp="generate"), vmodl.fault.NotSupported),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_vm_that_cannot_be_is_not_made_by_half(soap, center, spec, fault):
    root = soap.content.rootFolder
    view = soap.content.viewManager.CreateContainerView(root, [vim.VirtualMachine], True)
    before = list(view.view)
    with pytest.raises(fault):
        make(soap, center, spec)
    assert list(view.view) == before
    assert soap.calls() == []


def test_a_clone_has_what_its_source_has_and_an_identity_of_its_own(soap, center):
    source = soap.vm("train-04")
    spec = vim.vm.CloneSpec(
        location=vim.vm.RelocateSpec(host=soap.host("esx03"), pool=source.resourcePool),
        powerOn=True,
        template=False,
        config=vim.vm.ConfigSpec(numCPUs=2, annotation="a clone"),
    )
    made = soap.wait(source.CloneVM_Task(source.parent, "train-05", spec))
    until(lambda: made.runtime.powerState == "poweredOn", why="the clone is powered on by a task of its own")
    assert made.runtime.host.name == "esx03.lab.local"
    assert (made.config.hardware.numCPU, made.config.annotation) == (2, "a clone")
    assert source.config.hardware.numCPU == 16
    for name in ("uuid", "instanceUuid"):
        assert getattr(made.config, name) != getattr(source.config, name)
    old, new = (by_type(vm)["VirtualVmxnet3"] for vm in (source, made))
    assert old.macAddress != new.macAddress
    assert old.backing.port.portgroupKey == new.backing.port.portgroupKey
    assert old.backing.port.portKey != new.backing.port.portKey
    assert by_type(made)["VirtualDisk"].backing.fileName == "[vsan-gpu] train-05/train-05.vmdk"
    with pytest.raises(vim.fault.DuplicateName):
        soap.wait(source.CloneVM_Task(source.parent, "train-05", spec))


def test_templates_are_made_deployed_and_made_vms_again(soap):
    vm = soap.vm("train-04")
    pool = vm.resourcePool
    with pytest.raises(vim.fault.InvalidPowerState):
        soap.vm("train-01").MarkAsTemplate()
    vm.MarkAsTemplate()
    assert vm.config.template
    assert vm.summary.config.template
    with pytest.raises(vim.fault.InvalidState):
        soap.wait(vm.PowerOnVM_Task())
    bare = vim.vm.CloneSpec(location=vim.vm.RelocateSpec(), powerOn=False, template=False)
    with pytest.raises(vmodl.fault.InvalidArgument):
        vm.CloneVM_Task(vm.parent, "new", bare)
    bare.location.pool = pool
    made = soap.wait(vm.CloneVM_Task(vm.parent, "new", bare))
    assert not made.config.template
    vm.MarkAsVirtualMachine(pool, soap.host("esx02"))
    soap.wait(vm.PowerOnVM_Task())


def tree(vm):
    def below(nodes):
        return {node.name: below(node.childSnapshotList) for node in nodes}

    return below(vm.snapshot.rootSnapshotList) if vm.snapshot else {}


def snap(soap, vm, name, *, memory=False):
    return soap.wait(vm.CreateSnapshot_Task(name, "for a test", memory, False))


def test_snapshots_form_a_tree_and_are_gone_back_to(soap):
    vm = soap.vm("train-04")
    one = snap(soap, vm, "one")
    soap.wait(vm.ReconfigVM_Task(vim.vm.ConfigSpec(numCPUs=2)))
    two = snap(soap, vm, "two")
    assert tree(vm) == {"one": {"two": {}}}
    assert (vm.snapshot.currentSnapshot, vm.rootSnapshot, one.childSnapshot) == (two, [one], [two])
    assert (one.config.hardware.numCPU, two.config.hardware.numCPU) == (16, 2)
    soap.wait(one.RevertToSnapshot_Task())
    assert (vm.config.hardware.numCPU, vm.snapshot.currentSnapshot) == (16, one)
    three = snap(soap, vm, "three")
    assert tree(vm) == {"one": {"two": {}, "three": {}}}
    three.RenameSnapshot("third")
    soap.wait(one.RemoveSnapshot_Task(False))
    assert tree(vm) == {"two": {}, "third": {}}
    soap.wait(three.RemoveSnapshot_Task(True))
    assert tree(vm) == {"two": {}}
    soap.wait(two.RemoveSnapshot_Task(False))
    assert (tree(vm), vm.rootSnapshot) == ({}, [])
    snap(soap, vm, "again")
    with pytest.raises(vmodl.fault.ManagedObjectNotFound):
        _ = three.config
    soap.wait(vm.RemoveAllSnapshots_Task())
    assert (vm.snapshot, vm.rootSnapshot) == (None, [])
    with pytest.raises(vim.fault.NotFound):
        vm.RevertToCurrentSnapshot_Task()


def test_a_snapshot_with_memory_runs_when_gone_back_to(soap):
    vm = soap.vm("train-01")
    snap(soap, vm, "running", memory=True)
    snap(soap, vm, "disks only")
    soap.wait(vm.PowerOffVM_Task())
    soap.wait(vm.snapshot.rootSnapshotList[0].snapshot.RevertToSnapshot_Task())
    assert vm.runtime.powerState == "poweredOn"
    soap.wait(vm.snapshot.rootSnapshotList[0].childSnapshotList[0].snapshot.RevertToSnapshot_Task())
    assert vm.runtime.powerState == "poweredOff"


def test_a_vm_that_is_destroyed_leaves_nothing(soap):
    vm = soap.vm("train-04")
    snapshot = snap(soap, vm, "one")
    with pytest.raises(vim.fault.InvalidPowerState):
        soap.wait(soap.vm("train-01").Destroy_Task())
    host, store, folder = vm.runtime.host, vm.datastore[0], vm.parent
    soap.wait(vm.Destroy_Task())
    for owner, name in ((host, "vm"), (store, "vm"), (folder, "childEntity")):
        assert vm not in getattr(owner, name)
    for gone in (vm, snapshot):
        with pytest.raises(vmodl.fault.ManagedObjectNotFound):
            _ = gone.config


def test_controllers_and_drives_come_and_go(soap):
    vm = soap.vm("train-04")
    soap.wait(vm.ReconfigVM_Task(vim.vm.ConfigSpec(deviceChange=scsi_disk_and_card(network="none")[:3])))
    found = [d for d in vm.config.hardware.device if isinstance(d, DEV.ParaVirtualSCSIController)]
    assert [(d.key, d.busNumber, d.device) for d in found] == [(1000, 0, [2000]), (1001, 1, [2001])]
    disk = next(d for d in vm.config.hardware.device if d.key == 2001)
    gone = [DEV.VirtualDeviceSpec(operation="remove", device=d) for d in (found[1], disk)]
    with pytest.raises(vim.fault.InvalidDeviceSpec):
        soap.wait(vm.ReconfigVM_Task(vim.vm.ConfigSpec(deviceChange=gone)))  # the disk is still on it
    soap.wait(vm.ReconfigVM_Task(vim.vm.ConfigSpec(deviceChange=gone[::-1])))
    assert 1001 not in {d.key for d in vm.config.hardware.device}


def fault_of(soap, vm, **spec):
    """The fault a reconfigure ends with, None for none."""
    try:
        soap.wait(vm.ReconfigVM_Task(vim.vm.ConfigSpec(**spec)))
    except vmodl.MethodFault as fault:
        return fault
    return None


BUGS = (vmodl.fault.SystemError, vmodl.fault.InvalidRequest)


def test_every_kind_of_device_is_added_or_refused_with_a_fault(soap):
    names = [name for space, name in VmomiSupport._wsdlDefMap if space == "urn:vim25" and name.startswith("Virtual")]
    types = [VmomiSupport.GetWsdlType("urn:vim25", name) for name in names]
    kinds = [t for t in types if issubclass(t, DEV.VirtualDevice)]
    assert len(kinds) > 40
    vm, faults, keys = soap.vm("train-04"), {}, {d.key for d in soap.vm("train-04").config.hardware.device}
    for typ in kinds:
        spec = DEV.VirtualDeviceSpec(operation="add", device=fill(typ()))
        spec.device.key, spec.device.controllerKey = -1, None
        faults[typ] = fault_of(soap, vm, deviceChange=[spec])
        now = {d.key for d in vm.config.hardware.device}
        assert len(now) == len(keys) + (faults[typ] is None), typ
        keys = now
    assert {t: f.msg for t, f in faults.items() if isinstance(f, BUGS)} == {}
    assert sum(f is None for f in faults.values()) > 15


def test_every_field_of_a_specification_is_taken_or_refused_with_a_fault(soap):
    vm, faults = soap.vm("train-04"), {}
    for info in vim.vm.ConfigSpec._GetPropertyList():
        value = neutral(info.type)
        if VmomiSupport.IsChildVersion(soap.stub.version, info.version) and value is not None:
            faults[info.name] = fault_of(soap, vm, **{info.name: value})
    assert {name: f.msg for name, f in faults.items() if isinstance(f, BUGS)} == {}
    assert sum(f is None for f in faults.values()) > 15
