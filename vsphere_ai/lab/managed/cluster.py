"""Clusters, standalone compute resources, their resource pools, folders and the datacenter."""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.managed import Call, changes
from vsphere_ai.lab.managed.refusals import invalid_argument, not_supported
from vsphere_ai.lab.scenario import Cluster
from vsphere_ai.lab.store import ManagedObject, fill, given
from vsphere_ai.lab.tasks import Task


def add_folder(farm: Farm, parent: ManagedObject, name: str, types: list[Any]) -> ManagedObject:
    """Add a folder below a folder or a datacenter."""
    letter = {"VirtualMachine": "v", "ComputeResource": "h", "Datastore": "s", "Network": "n"}[types[-1]._wsdlName]
    mo = farm.store.new(
        vim.Folder,
        prefix=f"group-{letter}",
        name=name,
        parent=parent.ref,
        childEntity=[],
        childType=[vim.Folder, *types],
    )
    if "childEntity" in parent.props:
        parent["childEntity"].append(mo.ref)
        farm.store.touch(parent, "childEntity")
    return mo


def add_compute(farm: Farm, folder: ManagedObject, name: str, cluster: Cluster | None) -> ManagedObject:
    """Add a cluster, or for one host alone a compute resource, with its root resource pool."""
    store = farm.store
    typ = vim.ClusterComputeResource if cluster else vim.ComputeResource
    browser = store.new(vim.EnvironmentBrowser, prefix="envbrowser")
    mo = store.new(
        typ,
        prefix="domain-c" if cluster else "domain-s",
        name=name,
        parent=folder.ref,
        host=[],
        network=[],
        datastore=[],
        environmentBrowser=browser.ref,
        lifecycleManaged=bool(cluster and cluster.image),
        configManagerEnabled=bool(cluster and cluster.configuration_profile),
        summary=vim.ClusterComputeResource.Summary() if cluster else vim.ComputeResource.Summary(),
        configurationEx=_cluster_config(cluster)
        if cluster
        else vim.ComputeResource.ConfigInfo(vmSwapPlacement="vmDirectory"),
    )
    browser.extra["compute"] = mo
    store.set(mo, resourcePool=_add_pool(farm, mo, mo, "Resources").ref)
    for path in cluster.pools if cluster else ():
        _pool_at(farm, mo, path.strip("/"))
    folder["childEntity"].append(mo.ref)
    return mo


def _pool_at(farm: Farm, compute: ManagedObject, path: str) -> ManagedObject:
    """Return the resource pool at a path below the root pool of a compute resource; made where it is not there."""
    if not path:
        return farm.store.get(compute["resourcePool"])
    key = f"pool:{compute['name']}:{path}"
    if key not in farm.named:
        above, _, name = path.rpartition("/")
        farm.named[key] = _add_pool(farm, compute, _pool_at(farm, compute, above), name)
    return farm.named[key]


def into_pool(farm: Farm, vm: ManagedObject, path: str) -> None:
    """Move a VM into a resource pool of its compute resource."""
    old = farm.store.get(vm["resourcePool"])
    pool = _pool_at(farm, farm.store.get(old["owner"]), path)
    farm.store.set(old, vm=[ref for ref in old["vm"] if ref != vm.ref])
    farm.store.set(pool, vm=[*pool["vm"], vm.ref])
    farm.store.set(vm, resourcePool=pool.ref)


def _add_pool(farm: Farm, compute: ManagedObject, parent: ManagedObject, name: str) -> ManagedObject:
    config = fill(vim.ResourceConfigSpec(cpuAllocation=_unlimited(4000), memoryAllocation=_unlimited(163840)))
    runtime = fill(vim.ResourcePool.RuntimeInfo(overallStatus="green"))
    pool = farm.store.new(
        vim.ResourcePool,
        prefix="resgroup",
        name=name,
        owner=compute.ref,
        parent=parent.ref,
        vm=[],
        resourcePool=[],
        config=config,
        runtime=runtime,
        summary=fill(vim.ResourcePool.Summary(name=name, config=config, runtime=runtime)),
    )
    if isinstance(parent.ref, vim.ResourcePool):
        parent["resourcePool"].append(pool.ref)
    return pool


def _cluster_config(cluster: Cluster) -> Any:
    behavior = cluster.drs if cluster.drs != "off" else "fullyAutomated"
    options = [vim.option.OptionValue(key=k, value=v) for k, v in cluster.drs_options.items()]
    drs = vim.cluster.DrsConfigInfo(
        enabled=cluster.drs != "off", defaultVmBehavior=behavior, vmotionRate=3, option=options
    )
    das = vim.cluster.DasConfigInfo(enabled=cluster.ha, admissionControlEnabled=False)
    return fill(vim.cluster.ConfigInfoEx(dasConfig=das, drsConfig=drs, rule=[], group=[]))


def _unlimited(shares: int) -> Any:
    return vim.ResourceAllocationInfo(
        reservation=0, expandableReservation=True, limit=-1, shares=vim.SharesInfo(shares=shares, level="normal")
    )


def summarise(farm: Farm, mo: ManagedObject) -> None:
    """Bring the totals of a compute resource up to date once its hosts are there."""
    hosts = [farm.store.get(ref) for ref in mo["host"]]
    summary = mo["summary"]
    summary.numHosts = summary.numEffectiveHosts = len(hosts)
    summary.totalMemory = sum(h["summary"].hardware.memorySize for h in hosts)
    summary.effectiveMemory = summary.totalMemory >> 20
    summary.numCpuCores = sum(h["summary"].hardware.numCpuCores for h in hosts)
    summary.numCpuThreads = 2 * summary.numCpuCores
    summary.totalCpu = summary.effectiveCpu = 2600 * summary.numCpuCores
    summary.overallStatus = "green"
    networks = list(dict.fromkeys(ref for h in hosts for ref in h["network"]))
    stores = list(dict.fromkeys(ref for h in hosts for ref in h["datastore"]))
    farm.store.set(mo, summary=summary, network=networks, datastore=stores)


DRS_SETTINGS = ("enabled", "defaultVmBehavior", "enableVmBehaviorOverrides", "vmotionRate", "option")


def _override(farm: Farm, mo: ManagedObject, specs: Any) -> dict[str, Any]:
    """Add, edit or remove automation levels of single VMs; return what changed, for the ledger."""
    config, detail = mo["configurationEx"], {}
    present = {c.key._moId: c for c in config.drsVmConfig or ()}
    for spec in specs:
        ref = spec.removeKey if spec.operation == "remove" else spec.info.key
        vm = farm.store.get(ref)
        if (vm.moid in present) == (spec.operation == "add") or farm.host_of(vm)["parent"] != mo.ref:
            raise invalid_argument(
                "drsVmConfigSpec", "there is one already, there is none, or it is of another cluster"
            )
        if spec.operation == "remove":
            del present[vm.moid]
        else:
            present[vm.moid] = spec.info
        detail[str(vm["name"])] = spec.operation
    if detail:
        config.drsVmConfig = list(present.values())
    return detail


@changes(vim.ComputeResource, "ReconfigureComputeResource_Task", "Host.Inventory.EditCluster")
def reconfigure_compute(call: Call, spec: Any, modify: bool) -> Any:
    """Change DRS settings of a cluster; with `modify` false everything not named would be reset, which is refused."""
    farm, mo = call.farm, call.mo
    drs, own = getattr(spec, "drsConfig", None), getattr(spec, "drsVmConfigSpec", None) or []
    others = [
        name for name in given(spec) if name not in ("drsConfig", "drsVmConfigSpec", "dynamicType", "dynamicProperty")
    ]
    if others or not (drs or own) or not modify:
        what = ", ".join(others) or "this"
        raise not_supported(f"the lab changes drsConfig and drsVmConfig with modify=true only, not {what}")

    def work(_task: Task) -> None:
        detail = _override(farm, mo, own)
        present = mo["configurationEx"].drsConfig
        for name in DRS_SETTINGS if drs else ():
            value = getattr(drs, name)
            if value not in (None, []) and value != getattr(present, name):
                setattr(present, name, value)
                detail[name] = value if isinstance(value, (str, bool, int)) else str(value)
        if detail:
            farm.store.touch(mo, "configurationEx")
            farm.record(mo, "ReconfigureComputeResource_Task", **detail)

    return farm.tasks.start(mo, "reconfigure", work)
