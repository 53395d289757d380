"""Advice of vCenter: where it would put a VM, which rules the VM is in, and the memory it needs beside its own."""

from __future__ import annotations

from typing import Any

from pyVmomi import VmomiSupport as Vmomi
from pyVmomi import vim

from vsphere_ai.lab.admission import supply
from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.managed import Call, reads
from vsphere_ai.lab.managed.clusters import cluster_rules
from vsphere_ai.lab.managed.refusals import invalid_argument, invalid_state, not_found, not_supported
from vsphere_ai.lab.managed.vm_tasks import migration
from vsphere_ai.lab.managed.vm_tasks.new_vms import fits
from vsphere_ai.lab.sessions import now
from vsphere_ai.lab.store import ManagedObject, fill

LONG = Vmomi.vmodlTypes["long"]
CLUSTER = vim.ClusterComputeResource


@reads(CLUSTER, "PlaceVm")
def place_vm(call: Call, placementSpec: Any) -> Any:
    """Return where a VM could be relocated, or cloned, within the hosts named or those of the cluster."""
    farm, cluster, spec = call.farm, call.mo, placementSpec
    if not cluster["configurationEx"].drsConfig.enabled:
        raise invalid_state("DRS is not enabled")
    if spec.placementType not in (None, "relocate", "clone") or spec.vm is None:
        raise not_supported("the lab places virtual machines that are relocated or cloned")
    vm = farm.store.get(spec.vm)
    hosts = [farm.store.get(ref) for ref in spec.hosts or cluster["host"]]
    if any(host["parent"] != cluster.ref for host in hosts):
        raise invalid_argument("placementSpec.hosts", "one is of another cluster")
    clones = spec.placementType == "clone"
    faults = {host.moid: [] if clones else list(migration.faults(migration.arrival(farm, vm, host))) for host in hosts}
    fitting = [host for host in hosts if (fits(farm, host, vm) if clones else not faults[host.moid])]
    if not fitting:
        found = [fault for each in faults.values() for fault in each[:1]]
        by_vm = vim.cluster.DrsFaults.FaultsByVm(
            vm=vm.ref, fault=found or [vim.fault.NoCompatibleHost(host=[h.ref for h in hosts], msg="No host fits.")]
        )
        return vim.cluster.PlacementResult(
            drsFault=vim.cluster.DrsFaults(reason="xvmotionPlacement", faultsByVm=[by_vm])
        )
    best = min(fitting, key=lambda host: (len(host["vm"]), str(host["name"])))
    return fill(vim.cluster.PlacementResult(recommendations=[_recommendation(cluster, vm, best)]))


def _recommendation(cluster: ManagedObject, vm: ManagedObject, host: ManagedObject) -> Any:
    where = vim.vm.RelocateSpec(host=host.ref, pool=cluster["resourcePool"])
    action = vim.cluster.PlacementAction(
        type="PlacementV1", target=vm.ref, vm=vm.ref, targetHost=host.ref, relocateSpec=where
    )
    return vim.cluster.Recommendation(
        key=vm.moid, type="V1", time=now(), rating=5, reason="xvmotionPlacement",
        reasonText="Place the virtual machine", action=[action], target=cluster.ref,
    )  # fmt: skip


@reads(CLUSTER, "FindRulesForVm")
def find_rules(call: Call, vm: Any) -> Any:
    """Return the rules between VMs that a VM is in, enabled or not; those between VMs and hosts are not among them."""
    between = (cluster_rules.TOGETHER, cluster_rules.APART)
    rules = call.mo["configurationEx"].rule or ()
    found = [rule for rule in rules if isinstance(rule, between) and vm in rule.vm]
    return Vmomi.GetVmodlType("vim.cluster.RuleInfo[]")(found)


@reads(vim.OverheadMemoryManager, "LookupVmOverheadMemory", "Global.VCServer")
def lookup_overhead(call: Call, vm: Any, host: Any) -> Any:
    """Return the bytes that a VM needs on a host beside its own memory."""
    target = call.farm.store.get(host)
    mo = call.farm.store.get(vm)
    if call.farm.host_of(mo)["parent"] != target["parent"]:
        raise not_found("the overhead of this virtual machine on this host")
    return LONG(supply.overhead_mb(mo) << 20)


@reads(vim.HostSystem, "QueryMemoryOverheadEx")
def query_overhead(_call: Call, vmConfigInfo: Any) -> Any:
    """Return the bytes that a VM of this configuration would need beside its own memory."""
    made_up = ManagedObject(vim.VirtualMachine("vm-0"))
    return LONG(supply.overhead_mb(made_up, vmConfigInfo) << 20)


@reads(CLUSTER, "GetResourceUsage")
def resource_usage(call: Call) -> Any:
    """Return what the hosts of a cluster have and what its VMs consume, which is not what they have reserved."""
    farm, cluster = call.farm, call.mo
    boards = [farm.host(host).mainboard for host in supply.counted(farm, cluster)]
    vms = supply.running(farm, cluster)
    return fill(
        vim.cluster.ResourceUsageSummary(
            cpuUsedMHz=0,
            cpuCapacityMHz=sum(board.mhz_for_vms for board in boards),
            memUsedMB=sum(int(vm["config"].hardware.memoryMB) // 4 for vm in vms),
            memCapacityMB=sum(board.memory_for_vms for board in boards),
            storageUsedMB=_storage(farm, cluster)[0],
            storageCapacityMB=_storage(farm, cluster)[1],
        )
    )


def _storage(farm: Farm, cluster: ManagedObject) -> tuple[Any, Any]:
    stores = [farm.store.get(ref)["summary"] for ref in cluster["datastore"]]
    capacity, free = sum(s.capacity for s in stores) >> 20, sum(s.freeSpace for s in stores) >> 20
    return LONG(capacity - free), LONG(capacity)
