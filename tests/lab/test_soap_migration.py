"""Moving VMs between hosts by hand: what vCenter carries while it runs, and what it refuses to."""

from __future__ import annotations

import pytest
from pyVmomi import vim, vmodl
from support.farm import option

pytestmark = pytest.mark.lab

FARM = """
name: moves
timing: {boot_seconds: 0.3, task_seconds: 0.005, shutdown_seconds: 0.1, vmotion_seconds: 0.05}
clusters: [{name: a}, {name: b}]
switches: [{name: dvs, port_groups: [{name: lan}]}, {name: dvs2, port_groups: [{name: rare}]}]
hosts:
  - name: esx[01:02].lab.local
    cluster: a
    nvidia_driver: 470.256.02
    gpus: [{pci: "0000:3b:00.0", board: a100-40gb, device_id: 20f1, graphics_type: sharedDirect}]
    nics: [{name: vmnic0, pci: "0000:18:00.0", switch: dvs}, {name: vmnic1, pci: "0000:18:00.1", switch: dvs2}]
  - name: esx03.lab.local
    cluster: a
    nvidia_driver: 470.256.02
    gpus: [{pci: "0000:3b:00.0", board: a30-24gb, graphics_type: sharedDirect}]
    nics: [{name: vmnic0, pci: "0000:18:00.0", switch: dvs}]
  - name: esx04.lab.local
    cluster: a
    nvidia_driver: 450.248.02
    gpus: [{pci: "0000:3b:00.0", board: a100-40gb, device_id: 20f1, graphics_type: sharedDirect}]
    nics: [{name: vmnic0, pci: "0000:18:00.0", switch: dvs}]
  - name: esx05.lab.local
    cluster: b
    nics: [{name: vmnic0, pci: "0000:18:00.0", switch: dvs}]
vms:
  - {name: plain, host: esx01.lab.local, power: on, network: lan}
  - {name: rare, host: esx01.lab.local, power: on, network: rare}
  - {name: cold, host: esx01.lab.local, network: rare}
  - name: gpu
    host: esx01.lab.local
    power: on
    network: lan
    memory_reservation_locked: true
    vgpu: [grid_a100-20c]
  - {name: "other-[1:2]", host: esx02.lab.local, network: lan, memory_reservation_locked: true, vgpu: [grid_a100-20c]}
"""


@pytest.fixture
def moves(make_lab, new_client):
    return new_client(make_lab(FARM))


def go(soap, vm, host, **more):
    return soap.vm(vm).MigrateVM_Task(host=soap.host(host), priority="defaultPriority", **more)


def why(error):
    return error.value.faultMessage[-1].message


def test_a_running_vm_goes_to_another_host_and_runs_on(moves):
    vm, source = moves.vm("plain"), moves.host("esx01")
    boot = vm.runtime.bootTime
    moves.wait(go(moves, "plain", "esx02"))
    assert vm.runtime.host == moves.host("esx02")
    assert (vm.runtime.powerState, vm.runtime.bootTime) == ("poweredOn", boot)
    assert vm in moves.host("esx02").vm
    assert vm not in source.vm
    (entry,) = moves.lab.get("/lab/ledger")["entries"]
    assert (entry["object"], entry["call"]) == ("plain", "MigrateVM_Task")
    assert entry["detail"] == {"source": "esx01.lab.local", "target": "esx02.lab.local", "running": True}


def test_to_where_it_is_changes_nothing(moves):
    moves.wait(go(moves, "plain", "esx01"))
    assert moves.calls() == []


def test_relocate_goes_the_same_way_and_moves_no_storage(moves):
    vm, there = moves.vm("plain"), moves.host("esx02")
    store = there.datastore[0]
    moves.wait(vm.RelocateVM_Task(vim.vm.RelocateSpec(host=there, datastore=store)))
    assert vm.runtime.host == there
    assert moves.calls() == [("plain", "RelocateVM_Task")]
    locator = vim.vm.RelocateSpec.DiskLocator(diskId=2000, datastore=store)
    with pytest.raises(vmodl.fault.NotSupported):
        moves.wait(vm.RelocateVM_Task(vim.vm.RelocateSpec(disk=[locator])))


def test_another_cluster_takes_its_resource_pool(moves):
    vm, there = moves.vm("plain"), moves.host("esx05")
    with pytest.raises(vmodl.fault.InvalidArgument):
        go(moves, "plain", "esx05")
    pool = there.parent.resourcePool
    moves.wait(go(moves, "plain", "esx05", pool=pool))
    assert (vm.runtime.host, vm.resourcePool) == (there, pool)
    assert vm in pool.vm
    assert vm not in moves.host("esx01").parent.resourcePool.vm
    back = moves.host("esx01").parent.resourcePool
    moves.wait(vm.MigrateVM_Task(pool=back, priority="highPriority"))
    assert vm.runtime.host.parent == back.owner


def test_a_network_that_is_not_there_refuses_a_running_vm_only(moves):
    with pytest.raises(vim.fault.CannotAccessNetwork) as error:
        moves.wait(go(moves, "rare", "esx03"))
    assert error.value.network.name == "rare"
    moves.wait(go(moves, "cold", "esx03"))
    assert moves.vm("cold").runtime.host == moves.host("esx03")
    with pytest.raises(vim.fault.VmConfigFault):
        raise error.value  # clients that look for the kind of fault find it


def test_a_host_in_maintenance_takes_no_vm(moves):
    there = moves.host("esx02")
    moves.wait(there.EnterMaintenanceMode_Task(5))
    for vm in ("plain", "cold"):
        with pytest.raises(vim.fault.InvalidHostState):
            moves.wait(go(moves, vm, "esx02"))


def test_a_power_state_that_is_not_so_is_refused(moves):
    with pytest.raises(vim.fault.InvalidPowerState):
        go(moves, "cold", "esx02", state="poweredOn")
    with pytest.raises(vmodl.fault.InvalidArgument):
        moves.vm("cold").MigrateVM_Task(priority="defaultPriority")


def test_a_vgpu_moves_only_where_vcenter_allows_it_and_a_slot_is_free(moves):
    with pytest.raises(vim.fault.MigrationFault) as error:
        moves.wait(go(moves, "gpu", "esx02"))
    assert "vgpu.hotmigrate.enabled" in why(error)
    moves.content.setting.UpdateOptions([option("vgpu.hotmigrate.enabled", True)])
    for name in ("other-1", "other-2"):
        moves.wait(moves.vm(name).PowerOnVM_Task())
    with pytest.raises(vim.fault.InsufficientGraphicsResourcesFault):
        moves.wait(go(moves, "gpu", "esx02"))
    moves.wait(moves.vm("other-2").PowerOffVM_Task())
    moves.wait(go(moves, "gpu", "esx02"))
    vm = moves.vm("gpu")
    assert [i.vm for i in moves.host("esx02").config.graphicsInfo] == [[moves.vm("other-1"), vm]]
    assert [i.vm for i in moves.host("esx01").config.graphicsInfo] == [[]]


@pytest.mark.parametrize(("host", "text"), [("esx03", "no GPU for the vGPU type"), ("esx04", "is older than")])
def test_a_vgpu_does_not_move_to_an_unlike_gpu_or_an_older_driver(moves, host, text):
    moves.content.setting.UpdateOptions([option("vgpu.hotmigrate.enabled", True)])
    with pytest.raises(vim.fault.MigrationFault) as error:
        moves.wait(go(moves, "gpu", host))
    assert text in why(error)
    assert moves.vm("gpu").runtime.host == moves.host("esx01")


def test_a_migration_that_is_cancelled_leaves_the_vm_where_it_was(make_lab, new_client):
    soap = new_client(make_lab(FARM.replace("vmotion_seconds: 0.05", "vmotion_seconds: 30")))
    task = go(soap, "plain", "esx02")
    soap.until(lambda: task.info.state == "running" and task.info.progress is not None)
    with pytest.raises(vim.fault.TaskInProgress):
        go(soap, "plain", "esx02")
    task.CancelTask()
    with pytest.raises(vmodl.fault.RequestCanceled):
        soap.wait(task)
    assert soap.vm("plain").runtime.host == soap.host("esx01")
