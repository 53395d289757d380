"""Count of HA admission control: the resources of good hosts, the needs of running VMs, percentages and slots.

vSphere Availability 6.7, and the 6.0 book of Epping (public copy: equelin/vsphere-ha-deepdive): a VM needs 32 MHz
(`das.vmcpuminmhz`) where it reserves nothing, and its overhead. Percentages are weighed as they are, without rounding,
and shown rounded down; how a real vCenter rounds is unverified. No public source names a least number of hosts for
percentages (ClusterFailoverResourcesAdmissionControlPolicy lists the whole calculation), so the lab has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.admission.supply import cpu_need, hosts_of, is_good, memory_need, running
from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.store import ManagedObject

DEFAULT_MHZ = 32

Needs = list[tuple[int, int]]
"""MHz and MB of each VM that runs."""


@dataclass(frozen=True)
class Slots:
    """Size of a slot, how many each good host has, and how many each VM takes, in the order of their needs."""

    mhz: int
    memory_mb: int
    of_hosts: dict[str, int]
    taken: list[int]

    @property
    def used(self) -> int:
        """How many slots the VMs take together."""
        return sum(self.taken)


def settings(cluster: ManagedObject | None) -> Any:
    """Return the HA configuration of a cluster whose admission control is on; None otherwise."""
    if cluster is None:
        return None
    config = cluster["configurationEx"].dasConfig
    return config if config is not None and config.enabled and config.admissionControlEnabled else None


def covers(farm: Farm, cluster: ManagedObject, vm: ManagedObject | None = None, config: Any = None) -> bool:
    """Return whether a failover is covered, with one more VM, or one that is changed, if that is given."""
    das = settings(cluster)
    if das is None:
        return True
    policy = das.admissionControlPolicy
    others = [each for each in running(farm, cluster) if each is not vm]
    needs = [need(das, each) for each in others] + ([need(das, vm, config)] if vm is not None else [])
    if isinstance(policy, vim.cluster.FailoverLevelAdmissionControlPolicy):
        found = slots(farm, cluster, das, needs)
        return _without_largest(found, int(policy.failoverLevel)) >= found.used
    if isinstance(policy, vim.cluster.FailoverResourcesAdmissionControlPolicy):
        left = shares_left(farm, cluster, needs)
        kept = int(policy.cpuFailoverResourcesPercent), int(policy.memoryFailoverResourcesPercent)
        return left[0] >= kept[0] and left[1] >= kept[1]
    return True


def need(das: Any, vm: ManagedObject, config: Any = None) -> tuple[int, int]:
    """Return the MHz and the MB that HA counts for a VM."""
    options = {o.key.lower(): str(o.value) for o in das.option or ()}
    least = _number(options.get("das.vmcpuminmhz"), DEFAULT_MHZ)
    spare = _number(options.get("das.vmmemoryminmb"), 0)
    reserved = int((config or vm["config"]).memoryAllocation.reservation or 0)
    return max(cpu_need(vm, config), least), memory_need(vm, config) + max(0, spare - reserved)


def good_hosts(farm: Farm, cluster: ManagedObject) -> list[ManagedObject]:
    """Return the hosts that a failover can count on."""
    return [host for host in hosts_of(farm, cluster) if is_good(farm, host)]


def shares_left(farm: Farm, cluster: ManagedObject, needs: Needs) -> tuple[float, float]:
    """Return the percentages of CPU and memory of the good hosts that these needs leave."""
    boards = [farm.host(host).mainboard for host in good_hosts(farm, cluster)]
    cpu, memory = sum(b.mhz_for_vms for b in boards), sum(b.memory_for_vms for b in boards)
    return _left(cpu, sum(n[0] for n in needs)), _left(memory, sum(n[1] for n in needs))


def _left(capacity: int, needed: int) -> float:
    return max(0.0, 100 * (capacity - needed) / capacity) if capacity else 0.0


def slots(farm: Farm, cluster: ManagedObject, das: Any, needs: Needs) -> Slots:
    """Return the slots of a cluster in which VMs with these needs run."""
    options = {o.key.lower(): str(o.value) for o in das.option or ()}
    fixed = getattr(das.admissionControlPolicy, "slotPolicy", None)
    if isinstance(fixed, vim.cluster.FixedSizeSlotPolicy):
        mhz, memory = int(fixed.cpu), int(fixed.memory)
    else:
        mhz = max((n[0] for n in needs), default=DEFAULT_MHZ)
        memory = max((n[1] for n in needs), default=0)
        mhz = min(mhz, _number(options.get("das.slotcpuinmhz"), mhz) or mhz)
        memory = min(memory, _number(options.get("das.slotmeminmb"), memory) or memory)
    mhz, memory = max(1, mhz), max(1, memory)
    of_hosts = {}
    for host in good_hosts(farm, cluster):
        board = farm.host(host).mainboard
        of_hosts[host.moid] = min(board.mhz_for_vms // mhz, board.memory_for_vms // memory)
    taken = [max(1, -(-n[0] // mhz), -(-n[1] // memory)) for n in needs]
    return Slots(mhz, memory, of_hosts, taken)


def _without_largest(found: Slots, level: int) -> int:
    counts = sorted(found.of_hosts.values(), reverse=True)
    return sum(counts[level:])


def unreserved_slots(found: Slots, level: int) -> int:
    """Return the slots that are neither used nor kept for a failover."""
    return max(0, _without_largest(found, level) - found.used)


def failover_level(found: Slots) -> int:
    """Return how many hosts, the largest first, can go while the rest has slots for all VMs."""
    return max((n for n in range(len(found.of_hosts)) if _without_largest(found, n) >= found.used), default=0)


def needs_of(farm: Farm, cluster: ManagedObject, das: Any) -> Needs:
    """Return the needs of the VMs that run in a cluster."""
    return [need(das, vm) for vm in running(farm, cluster)]


def percentages(policy: Any, hosts: int) -> tuple[int, int]:
    """Return the percentages that a policy keeps: those typed, or the share of its failover level of the hosts."""
    if policy.autoComputePercentages and hosts:
        share = min(100, round(100 * int(policy.failoverLevel or 1) / hosts))
        return share, share
    return int(policy.cpuFailoverResourcesPercent), int(policy.memoryFailoverResourcesPercent)


def _number(text: str | None, otherwise: int) -> int:
    return int(text) if text and text.strip().isdigit() else otherwise


def host_statuses(farm: Farm, hosts: Sequence[Any]) -> list[Any]:
    """Return the state of dedicated failover hosts: green, yellow where VMs run, red where they take none."""
    made = []
    for ref in hosts:
        host = farm.store.get(ref)
        busy = any(farm.store.get(vm)["runtime"].powerState == "poweredOn" for vm in host["vm"])
        status = "red" if not is_good(farm, host) else "yellow" if busy else "green"
        made.append(vim.cluster.FailoverHostAdmissionControlInfo.HostStatus(host=ref, status=status))
    return made
