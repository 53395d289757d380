"""Clusters, standalone compute resources, their resource pools, folders and the datacenter."""

from __future__ import annotations

from typing import Any

from pyVmomi import VmomiSupport as Vmomi
from pyVmomi import vim

from vsphere_ai.lab.admission import pool_tree, supply
from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.managed.clusters import high_availability, resource_pools
from vsphere_ai.lab.scenario import Cluster
from vsphere_ai.lab.store import ManagedObject, fill

LONG = Vmomi.vmodlTypes["long"]


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
    store.set(mo, resourcePool=resource_pools.add_root(farm, mo).ref)
    for pool in cluster.pools if cluster else ():
        resource_pools.describe(farm, mo, pool)
    folder["childEntity"].append(mo.ref)
    return mo


def _cluster_config(cluster: Cluster) -> Any:
    behavior = cluster.drs if cluster.drs != "off" else "fullyAutomated"
    options = [vim.option.OptionValue(key=k, value=v) for k, v in cluster.drs_options.items()]
    drs = vim.cluster.DrsConfigInfo(
        enabled=cluster.drs != "off",
        defaultVmBehavior=behavior,
        enableVmBehaviorOverrides=True,
        vmotionRate=3,
        option=options,
    )
    return fill(
        vim.cluster.ConfigInfoEx(
            dasConfig=high_availability.configuration(cluster.ha),
            drsConfig=drs,
            rule=[],
            group=[],
            vmSwapPlacement=cluster.swap,
        )
    )


def describe(farm: Farm, mo: ManagedObject, cluster: Cluster) -> None:
    """Give a cluster what names its hosts and VMs: the policy of its admission control, and overrides of single VMs."""
    high_availability.describe(farm, mo, cluster.ha)
    config = mo["configurationEx"]
    for vm in farm.store.of(vim.VirtualMachine):
        level = vm.extra["spec"].drs if farm.host_of(vm)["parent"] == mo.ref and "spec" in vm.extra else ""
        if level:
            behavior = None if level == "off" else level
            config.drsVmConfig.append(
                vim.cluster.DrsVmConfigInfo(key=vm.ref, enabled=level != "off", behavior=behavior)
            )


def summarise(farm: Farm, mo: ManagedObject) -> None:
    """Show the totals of a compute resource once its hosts are there, as they are whenever they are read."""
    hosts = [farm.store.get(ref) for ref in mo["host"]]
    networks = list(dict.fromkeys(ref for h in hosts for ref in h["network"]))
    stores = list(dict.fromkeys(ref for h in hosts for ref in h["datastore"]))
    summary = mo["summary"]
    farm.store.set(mo, summary=lambda _me: _totals(farm, mo, summary), network=networks, datastore=stores)


def _totals(farm: Farm, mo: ManagedObject, summary: Any) -> Any:
    """Bring the totals up to date: effective is what hosts that take VMs have for them."""
    boards = [farm.host(host).mainboard for host in supply.hosts_of(farm, mo)]
    summary.numHosts, summary.numEffectiveHosts = len(boards), len(supply.counted(farm, mo))
    summary.totalMemory = LONG(sum(b.memory_mb for b in boards) << 20)
    summary.effectiveMemory = LONG(pool_tree.capacity(farm, mo, pool_tree.MEMORY))
    summary.numCpuCores, summary.numCpuThreads = sum(b.cores for b in boards), sum(b.threads for b in boards)
    summary.totalCpu = sum(b.cores * b.mhz for b in boards)
    summary.effectiveCpu = pool_tree.capacity(farm, mo, pool_tree.MHZ)
    summary.overallStatus = "green"
    if isinstance(mo.ref, vim.ClusterComputeResource):
        high_availability.show(farm, mo, summary)
        evc = {b.evc for b in boards}
        summary.currentEVCModeKey = f"intel-{evc.pop()}" if len(evc) == 1 and "" not in evc else None
    return summary
