"""Datastores: what clones take and what is free again, linked disks, snapshots' disks, datastore clusters."""

from __future__ import annotations

import pytest
from pyVmomi import vim, vmodl
from support.farm import DEV, device_spec, devices_of, reconfigure

pytestmark = pytest.mark.lab

GIB = 1 << 30
FARM = """
name: stores
timing: {boot_seconds: 0.3, task_seconds: 0.005, shutdown_seconds: 0.1}
clusters: [{name: a, pools: [research, research/llm]}]
datastore: nfs1
datastores:
  - {name: nfs1, type: NFS, capacity_gb: 1000, free_gb: 100}
  - {name: vsan-a, capacity_gb: 500, free_gb: 300, cluster: pod}
  - {name: vsan-b, capacity_gb: 500, free_gb: 280, cluster: pod}
  - {name: local, type: VMFS, capacity_gb: 200, hosts: [esx02.lab.local]}
  - {name: gone, type: NFS, capacity_gb: 200, accessible: false}
datastore_clusters: [{name: pod}, {name: off, drs: false}]
hosts:
  - {name: "esx[01:02].lab.local", cluster: a}
vms:
  - {name: image, host: esx01.lab.local, disk_gb: 60, more_disks_gb: [100], disk_used_gb: 20, pool: research/llm}
  - {name: golden, host: esx01.lab.local, disk_gb: 60, disk_used_gb: 30, snapshots: [base, tools]}
  - {name: fat, host: esx01.lab.local, disk_gb: 400, datastore: vsan-a}
"""


@pytest.fixture
def soap(make_lab, new_client):
    return new_client(make_lab(FARM))


def store(soap, name):
    return soap.find(vim.Datastore, name)


def free(soap, name):
    return store(soap, name).summary.freeSpace


def clone(soap, source, name="trn-01", *, snapshot=None, config=None, template=False, **location):
    where = vim.vm.RelocateSpec(**location)
    spec = vim.vm.CloneSpec(location=where, template=template, powerOn=False, snapshot=snapshot, config=config)
    return soap.wait(source.CloneVM_Task(source.parent, name, spec))


def disks(vm):
    return devices_of(vm, DEV.VirtualDisk)


def snapshot_of(vm, *path):
    nodes = vm.snapshot.rootSnapshotList
    for name in path:
        node = next(n for n in nodes if n.name == name)
        nodes = node.childSnapshotList
    return node.snapshot


def entry(soap, call):
    return next(e for e in reversed(soap.lab.get("/lab/ledger")["entries"]) if e["call"] == call)["detail"]


def test_the_scenario_describes_datastores_pools_and_disks(soap):
    vm = soap.vm("image")
    assert free(soap, "nfs1") == 100 * GIB
    assert free(soap, "local") == 100 * GIB, "half of it"
    assert [d.capacityInKB >> 20 for d in disks(vm)] == [60, 100]
    assert (vm.resourcePool.name, vm.resourcePool.parent.name) == ("llm", "research")
    assert soap.vm("golden").resourcePool.name == "Resources"
    on = {h.key.name for h in store(soap, "local").host}
    assert on == {"esx02.lab.local"}
    assert store(soap, "local") not in soap.host("esx01").datastore
    assert {d.name for d in soap.find(vim.ClusterComputeResource, "a").datastore} == {
        "nfs1", "vsan-a", "vsan-b", "local", "gone"}  # fmt: skip
    assert soap.find(vim.StoragePod, "pod").summary.freeSpace == 580 * GIB


def test_a_full_clone_takes_what_is_written_and_destroying_it_frees_it(soap):
    source, before = soap.vm("image"), free(soap, "nfs1")
    vm = clone(soap, source)
    assert free(soap, "nfs1") == before - 40 * GIB, "20 GiB of each of two thin disks"
    files = [d.backing.fileName for d in disks(vm)]
    assert files == ["[nfs1] trn-01/trn-01.vmdk", "[nfs1] trn-01/trn-01_1.vmdk"]
    assert all(d.backing.parent is None for d in disks(vm))
    assert vm.resourcePool == source.resourcePool
    soap.wait(vm.Destroy_Task())
    assert free(soap, "nfs1") == before
    gone = entry(soap, "Destroy_Task")
    assert (gone["disks"], gone["kept"]) == (files, [])


def test_a_clone_without_space_is_refused_and_leaves_nothing(soap):
    source, before = soap.vm("image"), free(soap, "nfs1")
    for name in ("trn-01", "trn-02"):
        clone(soap, source, name)
    with pytest.raises(vim.fault.NoDiskSpace) as full:
        clone(soap, source, "trn-03")
    assert full.value.datastore == "nfs1"
    assert free(soap, "nfs1") == before - 80 * GIB
    checker = soap.content.vmProvisioningChecker
    spec = vim.vm.CloneSpec(location=vim.vm.RelocateSpec(), template=False, powerOn=False)
    (found,) = soap.wait(checker.CheckClone_Task(source, source.parent, "trn-03", spec))
    assert isinstance(found.error[0], vim.fault.NoDiskSpace)
    assert clone(soap, source, "trn-03", datastore=store(soap, "vsan-a")).datastore[0].name == "vsan-a"


def test_a_thick_disk_takes_its_capacity(soap):
    source, before = soap.vm("golden"), free(soap, "vsan-b")
    (disk,) = disks(source)
    thick = DEV.VirtualDisk.FlatVer2BackingInfo(fileName="", diskMode="persistent", thinProvisioned=False)
    locator = vim.vm.RelocateSpec.DiskLocator(diskId=disk.key, datastore=store(soap, "vsan-b"), diskBackingInfo=thick)
    vm = clone(soap, source, disk=[locator])
    assert free(soap, "vsan-b") == before - 60 * GIB
    assert {d.name for d in vm.datastore} == {"nfs1", "vsan-b"}, "its own files stay where those of its source are"
    (grown,) = disks(vm)
    grown.capacityInKB = 80 << 20
    reconfigure(soap, vm, deviceChange=[device_spec(grown, "edit")])
    assert free(soap, "vsan-b") == before - 80 * GIB
    grown.capacityInKB, grown.capacityInBytes = 4000 << 20, 4000 << 30
    with pytest.raises(vim.fault.NoDiskSpace):
        reconfigure(soap, vm, deviceChange=[device_spec(grown, "edit")])
    grown.capacityInKB, grown.capacityInBytes = 70 << 20, 70 << 30
    with pytest.raises(vim.fault.InvalidDeviceOperation):
        reconfigure(soap, vm, deviceChange=[device_spec(grown, "edit")])


def test_the_datastore_is_one_that_the_host_has(soap):
    source = soap.vm("golden")
    with pytest.raises(vim.fault.InvalidDatastore):
        clone(soap, source, datastore=store(soap, "local"))
    with pytest.raises(vim.fault.InaccessibleDatastore):
        clone(soap, source, datastore=store(soap, "gone"))
    pool = source.resourcePool
    hosts = {clone(soap, source, f"l-{n}", datastore=store(soap, "local"), pool=pool).runtime.host.name for n in "123"}
    assert hosts == {"esx02.lab.local"}, "DRS chooses a host that has it"


def test_linked_clones_share_the_disks_of_a_snapshot_and_keep_them_from_going(soap):
    source, before = soap.vm("golden"), free(soap, "nfs1")
    base = snapshot_of(source, "base")
    made = [
        clone(soap, source, name, snapshot=base, diskMoveType="createNewChildDiskBacking") for name in ("l-1", "l-2")
    ]
    assert before - GIB < free(soap, "nfs1") < before
    for vm in made:
        (disk,) = disks(vm)
        assert disk.backing.fileName == f"[nfs1] {vm.name}/{vm.name}.vmdk"
        assert disk.backing.parent.fileName == "[nfs1] golden/golden.vmdk"
    assert entry(soap, "CloneVM_Task")["disks"] == {"[nfs1] l-2/l-2.vmdk": "[nfs1] golden/golden.vmdk"}
    (disk,) = disks(made[0])
    disk.capacityInKB, disk.capacityInBytes = 80 << 20, 80 << 30
    with pytest.raises(vim.fault.InvalidDeviceOperation):
        reconfigure(soap, made[0], deviceChange=[device_spec(disk, "edit")])
    soap.wait(source.Destroy_Task())
    gone = entry(soap, "Destroy_Task")
    assert gone["kept"] == ["[nfs1] golden/golden.vmdk"]
    assert gone["disks"] == ["[nfs1] golden/golden-000001.vmdk", "[nfs1] golden/golden-000002.vmdk"]
    for vm in made:
        soap.wait(vm.Destroy_Task())
    assert entry(soap, "Destroy_Task")["disks"] == ["[nfs1] golden/golden.vmdk", "[nfs1] l-2/l-2.vmdk"]
    assert before + 29 * GIB < free(soap, "nfs1") < before + 31 * GIB


def test_a_clone_of_a_snapshot_in_full_has_what_was_there_then(soap):
    source = soap.vm("golden")
    reconfigure(soap, source, annotation="later")
    vm = clone(soap, source, snapshot=snapshot_of(source, "base"))
    assert vm.config.annotation == ""
    assert disks(vm)[0].backing.parent is None


def test_a_template_with_a_snapshot_shares_its_base_where_it_stays_on_its_datastore(soap):
    source = soap.vm("golden")
    pool, before = source.resourcePool, {name: free(soap, name) for name in ("nfs1", "vsan-a")}
    source.MarkAsTemplate()
    way = "moveAllDiskBackingsAndAllowSharing"
    here = clone(soap, source, "here", pool=pool, diskMoveType=way)
    there = clone(soap, source, "there", pool=pool, diskMoveType=way, datastore=store(soap, "vsan-a"))
    assert disks(here)[0].backing.parent.fileName == "[nfs1] golden/golden-000001.vmdk"
    assert free(soap, "nfs1") > before["nfs1"] - GIB
    assert disks(there)[0].backing.parent is None
    assert free(soap, "vsan-a") < before["vsan-a"] - 29 * GIB


def test_snapshots_let_a_vm_go_on_in_children_and_merge_them_again(soap):
    vm = soap.vm("image")
    base = [d.backing.fileName for d in disks(vm)]
    taken = [soap.wait(vm.CreateSnapshot_Task(name, "", False, False)) for name in ("one", "two")]
    first = disks(vm)[0].backing
    assert first.fileName == "[nfs1] image/image-000002.vmdk"
    assert (first.parent.fileName, first.parent.parent.fileName) == ("[nfs1] image/image-000001.vmdk", base[0])
    soap.wait(taken[0].RevertToSnapshot_Task())
    assert disks(vm)[0].backing.parent.fileName == base[0]
    soap.wait(taken[1].RemoveSnapshot_Task(False))
    soap.wait(vm.RemoveAllSnapshots_Task())
    assert [d.backing.fileName for d in disks(vm)] == base
    assert all(d.backing.parent is None for d in disks(vm))


def test_removing_a_snapshot_of_linked_clones_keeps_their_disk(soap):
    source = soap.vm("golden")
    linked = clone(soap, source, snapshot=snapshot_of(source, "base"), diskMoveType="createNewChildDiskBacking")
    soap.wait(source.RemoveAllSnapshots_Task())
    assert disks(linked)[0].backing.parent.fileName == "[nfs1] golden/golden.vmdk"
    names = []
    at = disks(source)[0].backing
    while at is not None:
        names.append(at.fileName)
        at = at.parent
    assert names[-1] == "[nfs1] golden/golden.vmdk"
    assert len(names) == 2, "only what nothing else uses is merged"


def test_a_disk_that_is_only_detached_stays_and_a_new_vm_takes_another_directory(soap):
    before = free(soap, "nfs1")
    vm = clone(soap, soap.vm("golden"))
    reconfigure(soap, vm, deviceChange=[device_spec(disks(vm)[0], "remove")])
    soap.wait(vm.Destroy_Task())
    assert entry(soap, "Destroy_Task")["disks"] == []
    assert free(soap, "nfs1") == before - (30 * GIB + 2 * (16 << 20))
    again = clone(soap, soap.vm("golden"))
    assert again.config.files.vmPathName == "[nfs1] trn-01_1/trn-01_1.vmx"
    assert disks(again)[0].backing.fileName == "[nfs1] trn-01_1/trn-01_1.vmdk"
    vm = clone(soap, soap.vm("image"), "two", datastore=store(soap, "vsan-a"))
    changes = [device_spec(disk, "remove") for disk in disks(vm)]
    changes[1].fileOperation = "destroy"
    space = free(soap, "vsan-a")
    reconfigure(soap, vm, deviceChange=changes)
    assert free(soap, "vsan-a") == space + 20 * GIB, "one is deleted, one stays"


def test_a_vm_shows_what_it_takes_and_what_of_it_others_share(soap):
    def usage(vm):
        return {u.datastore.name: (u.committed, u.unshared, u.uncommitted) for u in vm.storage.perDatastoreUsage}

    source, delta = soap.vm("golden"), 16 << 20
    assert usage(source) == {"nfs1": (30 * GIB + 2 * delta, 30 * GIB + 2 * delta, 60 * GIB - delta)}
    linked = clone(soap, source, snapshot=snapshot_of(source, "base"), diskMoveType="createNewChildDiskBacking")
    assert usage(source)["nfs1"][:2] == (30 * GIB + 2 * delta, 2 * delta)
    assert usage(linked) == {"nfs1": (30 * GIB + delta, delta, 60 * GIB - delta)}


def placement(soap, source, pod="pod", name="trn-01", **more):
    clone_spec = vim.vm.CloneSpec(location=vim.vm.RelocateSpec(), template=False, powerOn=False)
    return vim.storageDrs.StoragePlacementSpec(
        type="clone",
        vm=source,
        folder=source.parent,
        cloneName=name,
        cloneSpec=clone_spec,
        podSelectionSpec=vim.storageDrs.PodSelectionSpec(storagePod=soap.find(vim.StoragePod, pod)),
        **more,
    )


def test_a_datastore_cluster_recommends_the_emptiest_and_the_same_again_unless_it_is_leased(soap):
    manager, source = soap.content.storageResourceManager, soap.vm("golden")

    def recommended(**more):
        found = manager.RecommendDatastores(placement(soap, source, **more)).recommendations
        return [r.action[0].destination.name for r in found]

    assert recommended() == ["vsan-a", "vsan-b"]
    assert recommended(resourceLeaseDurationSec=600) == ["vsan-a", "vsan-b"]
    assert recommended() == ["vsan-b", "vsan-a"], "30 GiB of vsan-a are kept"
    assert recommended(pod="off") == []


def test_applying_a_recommendation_is_the_clone(soap):
    manager, source = soap.content.storageResourceManager, soap.vm("golden")
    first = manager.RecommendDatastores(placement(soap, source)).recommendations[0]
    made = soap.wait(manager.ApplyStorageDrsRecommendation_Task([first.key]))
    assert (made.vm.name, made.vm.datastore[0].name) == ("trn-01", "vsan-a")
    assert soap.calls() == [("trn-01", "CloneVM_Task")]
    with pytest.raises(vmodl.fault.InvalidArgument):
        manager.ApplyStorageDrsRecommendation_Task([first.key])
