"""Clusters, standalone compute resources, their resource pools, folders and the datacenter."""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.scenario import Cluster
from vsphere_ai.lab.store import ManagedObject, fill


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
