"""Clones: what one CloneVM_Task carries, where it goes, what refuses it, and the check that changes nothing."""

import pytest
from pyVmomi import vim, vmodl
from support.farm import DEV, device_spec, devices_of, option, reconfigure

ID = "50000000-1111-4222-8333-444444444444"
NIC = DEV.VirtualEthernetCard


def clone_spec(*, config=None, template=False, on=False, snapshot=None, **location):
    where = vim.vm.RelocateSpec(**location)
    spec = vim.vm.CloneSpec(location=where, template=template, powerOn=on, snapshot=snapshot)
    spec.config = vim.vm.ConfigSpec(**config) if config is not None else None
    return spec


def clone(soap, source, name="trn-01", folder=None, **spec):
    return soap.wait(source.CloneVM_Task(folder or source.parent, name, clone_spec(**spec)))


def check(soap, source, name="trn-01", folder=None, **spec):
    checker = soap.content.vmProvisioningChecker
    (found,) = soap.wait(checker.CheckClone_Task(source, folder or source.parent, name, clone_spec(**spec)))
    return found


def our_nic(group, mac, key=-1, typ=DEV.VirtualVmxnet3):
    port = vim.dvs.PortConnection(switchUuid=group.config.distributedVirtualSwitch.uuid, portgroupKey=group.key)
    backing = NIC.DistributedVirtualPortBackingInfo(port=port)
    return typ(key=key, backing=backing, addressType="manual", macAddress=mac)


def template(soap):
    vm = soap.vm("train-04")
    vm.MarkAsTemplate()
    return vm


def pool_of(soap):
    return soap.vm("train-01").resourcePool


def vms(soap):
    view = soap.content.viewManager.CreateContainerView(soap.content.rootFolder, [vim.VirtualMachine], True)
    return sorted(vm.name for vm in view.view)


def test_one_clone_carries_identity_settings_hardware_and_nics(soap):
    source = soap.vm("train-04")
    reconfigure(soap, source, annotation="the image", extraConfig=[option("owner", "a-team"), option("kept", "1")])
    lan, rdma = (soap.find(vim.dvs.DistributedVirtualPortgroup, n) for n in ("dvpg-lan", "dvpg-rdma"))
    source.MarkAsTemplate()
    (old,) = devices_of(source, NIC)
    (disk,) = devices_of(source, DEV.VirtualDisk)
    disk.capacityInKB = 300 << 20
    disk.capacityInBytes = None
    changes = [
        device_spec(old, "remove"),
        device_spec(our_nic(lan, "00:50:56:00:00:01")),
        device_spec(our_nic(rdma, "00:50:56:00:00:02", -2)),
        device_spec(disk, "edit"),
    ]
    config = {
        "instanceUuid": ID,
        "name": "ignored",
        "numCPUs": 32,
        "memoryMB": 65536,
        "guestId": "rhel8_64Guest",
        "annotation": "",
        "vAppConfigRemoved": True,
        "extraConfig": [option("mark", ID), option("kept", "2")],
        "deviceChange": changes,
    }
    made = clone(soap, source, pool=pool_of(soap), host=soap.host("esx01"), config=config)
    found = made.config
    assert (made.name, found.instanceUuid, found.template, made.runtime.powerState) == (
        "trn-01", ID, False, "poweredOff")  # fmt: skip
    assert (found.hardware.numCPU, found.hardware.memoryMB, found.guestId) == (32, 65536, "rhel8_64Guest")
    assert found.guestFullName.startswith("Red Hat")
    assert {o.key: o.value for o in found.extraConfig} == {"owner": "a-team", "mark": ID, "kept": "2"}
    assert found.annotation == ""
    assert [(n.macAddress, n.backing.port.portgroupKey) for n in devices_of(made, NIC)] == [
        ("00:50:56:00:00:01", lan.key),
        ("00:50:56:00:00:02", rdma.key),
    ]
    assert [d.capacityInKB for d in devices_of(made, DEV.VirtualDisk)] == [300 << 20]
    assert made.runtime.host.name == "esx01.lab.local"
    assert made.resourcePool == pool_of(soap)
    assert [d.capacityInKB for d in devices_of(source, DEV.VirtualDisk)] == [200 << 20]
    assert soap.calls()[-1] == ("trn-01", "CloneVM_Task")
    assert len([call for call in soap.calls() if call[0] == "trn-01"]) == 1


def test_a_clone_without_a_host_is_on_any_compatible_one_of_its_pool(soap):
    source, pool = template(soap), pool_of(soap)
    names = [f"trn-{n:02d}" for n in range(12)]
    hosts = {clone(soap, source, name, pool=pool).runtime.host.name for name in names}
    assert len(hosts) > 1, "DRS chooses by chance, not the source's host"
    assert hosts <= {"esx01.lab.local", "esx02.lab.local", "esx03.lab.local"}


def test_the_location_names_networks_and_the_folder(soap):
    source = soap.vm("train-04")
    rdma = soap.find(vim.dvs.DistributedVirtualPortgroup, "dvpg-rdma")
    (nic,) = devices_of(source, NIC)
    nic.backing = our_nic(rdma, "").backing
    nic.addressType, nic.macAddress = "manual", "00:50:56:00:00:07"
    other = soap.find(vim.Folder, "ai")
    made = clone(soap, source, folder=other.parent, **{"deviceChange": [device_spec(nic, "edit")]})
    assert [n.backing.port.portgroupKey for n in devices_of(made, NIC)] == [rdma.key]
    assert devices_of(made, NIC)[0].macAddress != "00:50:56:00:00:07", "only the backing of a NIC is looked at there"
    spec = clone_spec()
    spec.location.folder = other
    assert soap.wait(source.CloneVM_Task(source.parent, "trn-02", spec)).parent == other


REFUSALS = {
    "name taken": ({"name": "train-01"}, vim.fault.DuplicateName),
    "name too long": ({"name": "x" * 81}, vim.fault.InvalidName),
    "no network": ({"config": "no network"}, vim.fault.InvalidDeviceBacking),
    "bad address": ({"config": "bad address"}, vim.fault.InvalidDeviceSpec),
    "no memory": ({"config": {"memoryMB": 1 << 30}}, vmodl.fault.InvalidArgument),
    "another cluster's host": ({"host": "esx-odd"}, vmodl.fault.InvalidArgument),
    "folder of hosts": ({"folder": "host"}, vmodl.fault.NotSupported),
}


def with_objects(soap, asked):
    asked = dict(asked)
    lan = soap.find(vim.dvs.DistributedVirtualPortgroup, "dvpg-lan")
    if asked.get("config") == "no network":
        nic = our_nic(lan, "00:50:56:00:00:01")
        nic.backing.port.portgroupKey = "dvportgroup-0"
        asked["config"] = {"deviceChange": [device_spec(nic)]}
    if asked.get("config") == "bad address":
        asked["config"] = {"deviceChange": [device_spec(our_nic(lan, "00:50:56:80:00:01"))]}
    if "host" in asked:
        asked["host"] = soap.host(asked["host"])
    if "folder" in asked:
        asked["folder"] = soap.find(vim.Folder, asked["folder"])
    return asked


@pytest.mark.parametrize(("asked", "fault"), REFUSALS.values(), ids=REFUSALS)
def test_the_check_reports_what_the_clone_is_refused_for_and_changes_nothing(soap, asked, fault):
    source, asked = soap.vm("train-04"), with_objects(soap, asked)
    before = vms(soap)
    found = check(soap, source, **asked)
    assert found.vm == source
    assert [type(error) for error in found.error] == [fault]
    with pytest.raises(fault):
        clone(soap, source, **asked)
    assert vms(soap) == before
    assert soap.calls() == []


def test_a_clone_that_can_be_has_no_error_and_is_not_made_by_the_check(soap):
    source = template(soap)
    found = check(soap, source, pool=pool_of(soap), config={"instanceUuid": ID})
    assert not found.error
    assert found.host.name.startswith("esx0")
    assert "trn-01" not in vms(soap)
    assert soap.content.searchIndex.FindByUuid(None, ID, True, True) is None


def test_a_template_needs_a_pool_and_a_snapshot_is_of_its_own_vm(soap):
    source, other = soap.vm("train-04"), soap.vm("train-03")
    taken = soap.wait(other.CreateSnapshot_Task("base", "", False, False))
    for bad in ({"snapshot": taken}, {"diskMoveType": "createNewChildDiskBacking"}):
        assert isinstance(check(soap, source, **bad).error[0], vmodl.fault.InvalidArgument)
        with pytest.raises(vmodl.fault.InvalidArgument):
            clone(soap, source, **bad)
    source.MarkAsTemplate()
    assert check(soap, source).error[0].invalidProperty == "spec.location.pool"
    assert not check(soap, source, pool=pool_of(soap)).error
    assert clone(soap, source, "copy", template=True).config.template, "a template of a template needs none"


def test_a_clone_of_a_clone_has_the_settings_of_the_first_but_not_its_identity(soap):
    first = clone(soap, soap.vm("train-04"), config={"instanceUuid": ID, "extraConfig": [option("mark", ID)]})
    second = clone(soap, first, "trn-02")
    assert {o.key: o.value for o in second.config.extraConfig} == {"mark": ID}
    assert second.config.instanceUuid != ID


DENIED = {
    "VirtualMachine.Provisioning.DeployTemplate": "train-04",
    "VirtualMachine.Inventory.CreateFromExisting on training": "training",
    "Resource.AssignVMToPool on gpu-a": "Resources",
    "Datastore.AllocateSpace on vsan-gpu": "vsan-gpu",
    "Network.Assign on dvpg-rdma": "dvpg-rdma",
    "VirtualMachine.Config.AdvancedConfig on ai": "training",
}


@pytest.mark.parametrize("denied", DENIED)
def test_a_clone_takes_its_privileges_on_each_object_and_the_check_none(make_lab, new_client, quick_scenario, denied):
    text = quick_scenario.read_text(encoding="utf-8")
    soap = new_client(make_lab(f'{text}\nprivileges_denied: ["{denied}"]\n'))
    source = template(soap)
    rdma = soap.find(vim.dvs.DistributedVirtualPortgroup, "dvpg-rdma")
    config = {"deviceChange": [device_spec(our_nic(rdma, "00:50:56:00:00:01"))], "extraConfig": [option("mark", "1")]}
    wanted = {"pool": pool_of(soap), "config": config}
    assert not check(soap, source, **wanted).error
    with pytest.raises(vim.fault.NoPermission) as refused:
        clone(soap, source, **wanted)
    privilege = denied.partition(" on ")[0]
    on = refused.value.object
    assert (refused.value.privilegeId, on.name) == (privilege, DENIED[denied])
    manager, key = soap.content.authorizationManager, soap.content.sessionManager.currentSession.key
    assert manager.HasPrivilegeOnEntity(on, key, [privilege, "System.View"]) == [False, True]
    assert soap.calls() == [("train-04", "MarkAsTemplate")]


@pytest.mark.parametrize(("policy", "kept"), [(None, "copy"), ("replace", "replace")])
def test_the_ledger_says_whether_a_clone_shares_the_secrets_of_a_tpm(make_lab, new_client, policy, kept):
    text = (
        "name: tpm\nvcenter: {version: 8.0.3}\nclusters: [{name: a}]\nhosts: [{name: esx01.lab.local, cluster: a}]\n"
        "timing: {task_seconds: 0.005}\nvms: [{name: safe, host: esx01.lab.local, tpm: true}]\n"
    )
    soap = new_client(make_lab(text), version="vim.version.v8_0_3_0")
    source, spec = soap.vm("safe"), clone_spec()
    spec.tpmProvisionPolicy = policy
    soap.wait(source.CloneVM_Task(source.parent, "copy", spec))
    (entry,) = soap.lab.get("/lab/ledger")["entries"]
    assert entry["detail"]["tpm"] == kept
    spec.tpmProvisionPolicy = "both"
    with pytest.raises(vmodl.fault.InvalidArgument):
        soap.wait(source.CloneVM_Task(source.parent, "other", spec))


def progress(soap, source):
    """Start a clone that stands still, and return its task and the object that stands for the VM."""
    soap.lab.set_faults([{"on": "CloneVM_Task", "nth": 1, "do": {"task-stuck": 40}}])
    task = source.CloneVM_Task(source.parent, "trn-01", clone_spec())
    soap.until(lambda: task.info.progress == 40)
    return task, soap.vm("trn-01")


def test_a_vm_is_seen_by_name_while_it_is_made_and_by_nothing_else(soap):
    source = soap.vm("train-04")
    task, seen = progress(soap, source)
    assert seen.parent == source.parent
    assert (seen.config, seen.runtime.host) == (None, None)
    assert soap.content.searchIndex.FindByUuid(None, ID, True, True) is None
    with pytest.raises(vmodl.fault.ManagedObjectNotFound):
        seen.PowerOnVM_Task()
    with pytest.raises(vim.fault.DuplicateName):
        clone(soap, source)
    soap.lab.clear_faults()
    made = soap.wait(task)
    assert made._moId != seen._moId
    assert vms(soap).count("trn-01") == 1


def test_a_clone_that_is_cancelled_or_fails_leaves_nothing(soap):
    source = soap.vm("train-04")
    task, _seen = progress(soap, source)
    task.CancelTask()
    with pytest.raises(vmodl.fault.RequestCanceled):
        soap.wait(task)
    assert "trn-01" not in vms(soap)
    soap.lab.set_faults([{"on": "CloneVM_Task", "nth": 1, "do": {"task-fails": "InsufficientStorageSpace"}}])
    with pytest.raises(vim.fault.InsufficientStorageSpace):
        clone(soap, source)
    assert "trn-01" not in vms(soap)


def test_a_clone_takes_its_time_and_may_land_elsewhere(make_lab, new_client):
    timing = "timing: {task_seconds: 0.01, clone_seconds: 0.4}"
    hosts = "hosts: [{name: esx01.lab.local, cluster: a}, {name: esx02.lab.local, cluster: a}]"
    stores = "datastores: [{name: one}, {name: two}]"
    vm = "vms: [{name: image, host: esx01.lab.local, datastore: one}]"
    lab = make_lab("\n".join(("name: slow", timing, "clusters: [{name: a, drs: fullyAutomated}]", hosts, stores, vm)))
    soap = new_client(lab)
    lab.set_faults([{"on": "CloneVM_Task", "nth": 1, "do": "clone-elsewhere"}])
    source = soap.vm("image")
    one = soap.find(vim.Datastore, "one")
    asked = {"host": soap.host("esx01"), "datastore": one, "pool": source.resourcePool}
    task = source.CloneVM_Task(source.parent, "trn-01", clone_spec(**asked))
    soap.until(lambda: 0 < (task.info.progress or 0) < 100)
    made = soap.wait(task)
    assert made.runtime.host.name == "esx02.lab.local"
    assert one not in made.datastore
