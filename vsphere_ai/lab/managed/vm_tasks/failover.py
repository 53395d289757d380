"""Failover by HA: VMs of a host that goes dark are restarted where a host admits them; else an event has the reason.

vSphere Availability 6.5 (GUID-1D8B1384, GUID-E137A9F8): HA asks neither admission control nor resource pools. Agent VMs
come first, then VMs in the order of their restart priority (6.0 book of Epping, "Restarting Virtual Machines"), and
hosts that are kept for a failover are tried first. Unverified: that among other hosts the one is taken on which the
fewest VM-Host rules are broken and most memory is left, and that HA tries again when a host of the cluster is back.
"""

from __future__ import annotations

import threading
from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.admission import Occasion, case_of, refusals
from vsphere_ai.lab.admission.supply import cluster_of, free_memory, hosts_of, is_good
from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.managed import events
from vsphere_ai.lab.managed.clusters import cluster_rules
from vsphere_ai.lab.managed.vm_tasks import power
from vsphere_ai.lab.store import ManagedObject

WAITING = "waiting for a restart by HA"
"""Among what the lab keeps of a cluster: the VMs that HA has to restart, in the order in which it does so."""
CALL = "vSphere HA"
PRIORITIES = ("highest", "high", "medium", "low", "lowest")
NEVER, USUAL, OF_CLUSTER = "disabled", "medium", "clusterRestartPriority"


def host_failed(farm: Farm, host: ManagedObject, vms: list[ManagedObject]) -> None:
    """Let HA restart VMs that ran on a host when it went dark; the caller holds the store's lock.

    Nothing comes of it without HA, and of a host in maintenance mode, which HA does not watch.
    """
    cluster = cluster_of(farm, host)
    if cluster is None or not _watches(cluster) or farm.host(host).in_maintenance:
        return
    events.post_failed_host(farm, cluster, host)
    ranked = [(rank, number, vm) for number, vm in enumerate(vms) if (rank := _rank(cluster, vm)) is not None]
    if ranked:
        cluster.extra.setdefault(WAITING, []).extend(vm for _, _, vm in sorted(ranked, key=lambda each: each[:2]))
        _later(farm, cluster)


def host_returned(farm: Farm, host: ManagedObject) -> None:
    """Let HA try again what found no host; the caller holds the store's lock."""
    cluster = cluster_of(farm, host)
    if cluster is not None and cluster.extra.get(WAITING):
        _later(farm, cluster)


def restart(farm: Farm, cluster: ManagedObject) -> None:
    """Restart the VMs of a cluster that wait for it; those that no host admits go on waiting.

    The caller holds the store's lock.
    """
    waiting: list[ManagedObject] = cluster.extra.pop(WAITING, [])
    left = [vm for vm in waiting if not _is_settled(farm, vm) and not _restarted(farm, cluster, vm)]
    if left:
        cluster.extra[WAITING] = left


def _later(farm: Farm, cluster: ManagedObject) -> None:
    def due() -> None:
        with farm.store.lock:
            if not farm.closed and cluster.moid in farm.store.objects:
                farm.settle()
                restart(farm, cluster)

    timer = threading.Timer(farm.scenario.timing.failover_seconds, due)
    timer.daemon = True
    timer.start()


def _watches(cluster: ManagedObject) -> bool:
    das = cluster["configurationEx"].dasConfig
    return bool(das is not None and das.enabled and das.hostMonitoring != "disabled")


def _rank(cluster: ManagedObject, vm: ManagedObject) -> int | None:
    """Return the place of a VM in the order of restarts, agent VMs first; None where HA does not restart it."""
    config = cluster["configurationEx"]
    usual = getattr(config.dasConfig.defaultVmSettings, "restartPriority", None) or USUAL
    own = next((each.dasSettings for each in config.dasVmConfig or () if each.key == vm.ref), None)
    level = str(getattr(own, "restartPriority", None) or OF_CLUSTER)
    level = str(usual) if level == OF_CLUSTER else level
    if level == NEVER:
        return None
    if vm.extra.get("agent"):
        return -1
    return PRIORITIES.index(level) if level in PRIORITIES else PRIORITIES.index(USUAL)


def _is_settled(farm: Farm, vm: ManagedObject) -> bool:
    """Return whether a VM is gone, or another user has powered it on since."""
    if vm.moid not in farm.store.objects:
        return True
    return bool(vm["runtime"].powerState == "poweredOn" and farm.host(farm.host_of(vm)).up)


def _restarted(farm: Farm, cluster: ManagedObject, vm: ManagedObject) -> bool:
    source, fault = farm.host_of(vm), None
    for host in _best_first(farm, cluster, vm):
        fault = next(refusals(case_of(farm, vm, host, Occasion.HA_RESTART)), None)
        if fault is None:
            power.host_failed_under(farm, vm)
            power.power_on_now(farm, vm, host, CALL, Occasion.HA_RESTART)
            vm["runtime"].connectionState = vm.extra["connection"]
            farm.store.touch(vm, "runtime", "summary")
            events.post_restarted(farm, vm, source)
            return True
    why = str(getattr(fault, "msg", "") or "no host of the cluster is available")
    name = str(cluster["name"])
    message = f"Insufficient resources to fail over {vm['name']} in {name}. vSphere HA will retry. Reason: {why}"
    kind: Any = vim.event.NotEnoughResourcesToStartVmEvent
    events.post(farm, vm, kind, message, reason=why)
    return False


def _best_first(farm: Farm, cluster: ManagedObject, vm: ManagedObject) -> list[ManagedObject]:
    """Return the hosts of a cluster that are in service, in the order in which HA tries them for a VM."""
    policy = cluster["configurationEx"].dasConfig.admissionControlPolicy
    kept = [ref._moId for ref in getattr(policy, "failoverHosts", None) or ()]

    def place(host: ManagedObject) -> tuple[bool, int, int]:
        broken = sum(isinstance(r, cluster_rules.HOSTS) for r in cluster_rules.broken_by(farm, vm, host))
        return host.moid not in kept, broken, -free_memory(farm, host)

    return sorted((host for host in hosts_of(farm, cluster) if is_good(farm, host)), key=place)
