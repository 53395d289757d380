"""What inventory scripts on pyVmomi look at: views of every container, recent tasks, numbers of shares."""

from __future__ import annotations

import pytest
from pyVmomi import vim


def names(soap, container, *types, recursive=True):
    view = soap.content.viewManager.CreateContainerView(container, list(types), recursive)
    try:
        return sorted(o.name for o in view.view)
    finally:
        view.Destroy()


def test_clusters_pools_and_hosts_show_their_vms(soap):
    cluster = soap.find(vim.ClusterComputeResource, "gpu-a")
    everyone = ["infra-01", "train-01", "train-02", "train-03", "train-04"]
    assert names(soap, cluster, vim.VirtualMachine) == everyone
    assert names(soap, cluster.resourcePool, vim.VirtualMachine) == everyone
    assert names(soap, cluster.resourcePool, vim.VirtualMachine, recursive=False) == everyone
    assert names(soap, soap.host("esx01"), vim.VirtualMachine) == ["train-01", "train-02"]
    assert names(soap, cluster, recursive=False) == ["Resources", *(f"esx0{n}.lab.local" for n in (1, 2, 3))]


def test_every_vm_is_in_a_view_of_the_root_once(soap):
    assert names(soap, soap.content.rootFolder, vim.VirtualMachine) == sorted(
        [*(f"train-0{n}" for n in (1, 2, 3, 4)), "infra-01", "odd-01"]
    )


def test_what_is_added_to_a_view_later_is_shown(soap):
    host = soap.host("esx02")
    view = soap.content.viewManager.CreateContainerView(host, [vim.VirtualMachine], True)
    assert {v.name for v in view.view} == {"train-03", "train-04"}
    soap.wait(soap.vm("infra-01").MigrateVM_Task(host=host, priority="defaultPriority"))
    assert {v.name for v in view.view} == {"train-03", "train-04", "infra-01"}


def test_tasks_stay_where_scripts_look_for_them(soap):
    vm = soap.vm("train-04")
    on, off = vm.PowerOnVM_Task(), None
    soap.wait(on)
    off = vm.PowerOffVM_Task()
    soap.wait(off)
    assert vm.recentTask == [on, off]
    assert [t.info.state for t in vm.recentTask] == ["success", "success"]
    assert soap.content.taskManager.recentTask[-2:] == [on, off]


@pytest.mark.parametrize(
    ("level", "cpu", "memory"), [("low", 500, 5), ("normal", 1000, 10), ("high", 2000, 20)], ids=str
)
def test_a_level_of_shares_comes_with_its_number(soap, level, cpu, memory):
    vm = soap.vm("train-04")
    shares = vim.SharesInfo(level=level, shares=0)
    spec = vim.vm.ConfigSpec(
        cpuAllocation=vim.ResourceAllocationInfo(shares=shares),
        memoryAllocation=vim.ResourceAllocationInfo(shares=shares),
        numCPUs=8,
        memoryMB=32768,
    )
    soap.wait(vm.ReconfigVM_Task(spec))
    assert vm.config.cpuAllocation.shares.shares == vm.resourceConfig.cpuAllocation.shares.shares == 8 * cpu
    assert vm.config.memoryAllocation.shares.shares == 32768 * memory
    soap.wait(vm.ReconfigVM_Task(vim.vm.ConfigSpec(numCPUs=4)))
    assert vm.config.cpuAllocation.shares.shares == 4 * cpu, "they follow the number of CPUs"


def test_shares_of_ones_own_stay_as_they_are(soap):
    vm = soap.vm("train-04")
    shares = vim.SharesInfo(level="custom", shares=1234)
    soap.wait(vm.ReconfigVM_Task(vim.vm.ConfigSpec(cpuAllocation=vim.ResourceAllocationInfo(shares=shares))))
    soap.wait(vm.ReconfigVM_Task(vim.vm.ConfigSpec(numCPUs=4)))
    assert vm.config.cpuAllocation.shares.shares == 1234


def test_pools_have_the_shares_of_their_level(soap):
    config = soap.find(vim.ClusterComputeResource, "gpu-a").resourcePool.config
    assert (config.cpuAllocation.shares.shares, config.memoryAllocation.shares.shares) == (4000, 163840)
