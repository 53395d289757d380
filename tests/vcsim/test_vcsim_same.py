"""One script before VMware's simulator and before the lab: what both carry out comes out the same."""

from __future__ import annotations

import ssl
import time

import pytest
from pyVmomi import SoapStubAdapter, vim, vmodl
from support.gates import LONG

DEV = vim.vm.device
VERSION = "vim.version.version11"


class Script:
    """A pyVmomi client and the steps both servers are put through; results without names and ids."""

    def __init__(self, port, ca, user, password):
        context = ssl.create_default_context(cafile=str(ca))
        self.stub = SoapStubAdapter("127.0.0.1", port, sslContext=context, version=VERSION)
        self.content = vim.ServiceInstance("ServiceInstance", self.stub).RetrieveContent()
        self.content.sessionManager.Login(user, password)

    def all(self, typ, root=None):
        view = self.content.viewManager.CreateContainerView(root or self.content.rootFolder, [typ], True)
        return list(view.view)

    def wait(self, task):
        end = time.monotonic() + LONG
        while time.monotonic() < end:
            info = task.info
            if info.state == "success":
                return info.result
            if info.state == "error":
                raise info.error
            time.sleep(0.01)
        raise AssertionError("the task does not end")

    def views(self):
        """Whether clusters, pools and hosts show the VMs that say they are there."""
        vms = self.all(vim.VirtualMachine)
        clusters, hosts = self.all(vim.ClusterComputeResource), self.all(vim.HostSystem)
        return {
            "once": len(vms) == len(set(vms)),
            "clusters": all(
                set(self.all(vim.VirtualMachine, c)) == {v for v in vms if v.runtime.host.parent == c} for c in clusters
            ),
            "pools": all(
                set(self.all(vim.VirtualMachine, c.resourcePool)) == {v for v in vms if v.runtime.host.parent == c}
                for c in clusters
            ),
            "hosts": all(
                set(self.all(vim.VirtualMachine, h)) == {v for v in vms if v.runtime.host == h} for h in hosts
            ),
        }

    def lifecycle(self):
        """Make a VM with a disk, snapshot it, go back, clone it, and destroy both."""
        center = self.all(vim.Datacenter)[0]
        host = self.all(vim.ClusterComputeResource)[0].host[0]
        store = host.datastore[0].name
        scsi = DEV.VirtualDeviceSpec(
            operation="add", device=DEV.ParaVirtualSCSIController(key=-7, sharedBus="noSharing")
        )
        backing = DEV.VirtualDisk.FlatVer2BackingInfo(diskMode="persistent", thinProvisioned=True, fileName="")
        disk = DEV.VirtualDisk(key=-8, controllerKey=-7, unitNumber=0, capacityInKB=1 << 20, backing=backing)
        added = DEV.VirtualDeviceSpec(operation="add", fileOperation="create", device=disk)
        spec = vim.vm.ConfigSpec(
            name="same", guestId="otherGuest", numCPUs=1, memoryMB=256, deviceChange=[scsi, added],
            files=vim.vm.FileInfo(vmPathName=f"[{store}]"),
        )  # fmt: skip
        pool = host.parent.resourcePool
        vm = self.wait(center.vmFolder.CreateVM_Task(spec, pool, host))
        found = {
            "folder": vm in center.vmFolder.childEntity,
            "disks": sum(isinstance(d, DEV.VirtualDisk) for d in vm.config.hardware.device),
            "scsi": sum(isinstance(d, DEV.ParaVirtualSCSIController) for d in vm.config.hardware.device),
            "power": vm.runtime.powerState,
        }
        for name in ("one", "two"):
            self.wait(vm.CreateSnapshot_Task(name, "", False, False))
        (root,) = vm.snapshot.rootSnapshotList
        found["tree"] = (root.name, [c.name for c in root.childSnapshotList])
        self.wait(vm.RevertToCurrentSnapshot_Task())
        found["current"] = vm.snapshot.currentSnapshot == root.childSnapshotList[0].snapshot
        self.wait(vm.RemoveAllSnapshots_Task())
        where = vim.vm.RelocateSpec(pool=pool, host=host, datastore=host.datastore[0])
        as_it_is = vim.vm.CloneSpec(location=where, powerOn=False, template=False, config=vim.vm.ConfigSpec())
        clone = self.wait(vm.CloneVM_Task(center.vmFolder, "copy", as_it_is))
        found["clone"] = (clone.runtime.powerState, clone.config.uuid != vm.config.uuid)
        self.wait(vm.PowerOnVM_Task())
        try:
            self.wait(vm.Destroy_Task())
        except vmodl.MethodFault as fault:
            found["running"] = type(fault).__name__
        self.wait(vm.PowerOffVM_Task())
        for each in (clone, vm):
            self.wait(each.Destroy_Task())
        found["left"] = [v.name for v in self.all(vim.VirtualMachine) if v.name in ("same", "copy")]
        return found


@pytest.fixture
def both(vcsim, make_lab, quick_scenario):
    lab = make_lab(quick_scenario.read_text(encoding="utf-8"))
    password = (lab.directory / "password").read_text(encoding="utf-8").strip()
    theirs = Script(vcsim.port, vcsim.ca_file, "user", "pass")
    ours = Script(lab.port, lab.directory / "ca.pem", "administrator@vsphere.local", password)
    yield theirs, ours
    for each in (theirs, ours):
        each.stub.DropConnections()


@pytest.mark.parametrize("part", ["views", "lifecycle"])
def test_both_come_to_the_same(both, part):
    theirs, ours = (getattr(script, part)() for script in both)
    assert ours == theirs
