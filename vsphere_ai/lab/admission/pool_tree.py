"""Resource pools as a tree: what each has used, and what it can still give to VMs, in MB and in MHz.

A pool takes its reservation out of the pool above, whether it uses it or not, and where it is expandable what its VMs
and pools need beyond it. A limit caps what is reserved in a pool (unverified). What a pool has reserved stays its own
while the pool above has lost a host (unverified).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.admission.supply import counted, cpu_need, memory_need
from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.store import ManagedObject


@dataclass(frozen=True)
class Kind:
    """One of the two resources of a pool: its part of the configuration, a VM's need, what a host gives."""

    field: str
    need: Callable[[ManagedObject], int]
    of_host: Callable[[Any], int]


MEMORY = Kind("memoryAllocation", memory_need, lambda board: int(board.memory_for_vms))
MHZ = Kind("cpuAllocation", cpu_need, lambda board: int(board.mhz_for_vms))


def is_plain(farm: Farm, pool: ManagedObject) -> bool:
    """Return whether no pool of a compute resource keeps or limits anything: then its hosts alone bound its VMs."""
    root = farm.store.get(farm.store.get(pool["owner"])["resourcePool"])
    level = [farm.store.get(ref) for ref in root["resourcePool"]]
    while level:
        each = level.pop()
        level += [farm.store.get(ref) for ref in each["resourcePool"]]
        for kind in (MEMORY, MHZ):
            allocation = getattr(each["config"], kind.field)
            limit = -1 if allocation.limit is None else int(allocation.limit)
            if allocation.reservation or limit >= 0 or not allocation.expandableReservation:
                return False
    return True


def capacity(farm: Farm, compute: ManagedObject, kind: Kind) -> int:
    """Return what the root pool of a compute resource has: that of its hosts which take VMs."""
    return sum(kind.of_host(farm.host(host).mainboard) for host in counted(farm, compute))


def used_by_vms(farm: Farm, pool: ManagedObject, kind: Kind, without: ManagedObject | None = None) -> int:
    """Return what the running VMs of a pool itself have reserved."""
    vms = (farm.store.objects.get(ref._moId) for ref in pool["vm"])
    return sum(
        kind.need(vm) for vm in vms if vm is not None and vm is not without and vm["runtime"].powerState == "poweredOn"
    )


def used(farm: Farm, pool: ManagedObject, kind: Kind, without: ManagedObject | None = None) -> int:
    """Return what is taken out of a pool: by its VMs, and by the pools below it."""
    below = (farm.store.get(ref) for ref in pool["resourcePool"])
    return used_by_vms(farm, pool, kind, without) + sum(_taken(farm, each, kind, without) for each in below)


def _taken(farm: Farm, pool: ManagedObject, kind: Kind, without: ManagedObject | None) -> int:
    allocation = getattr(pool["config"], kind.field)
    own = int(allocation.reservation or 0)
    return max(own, used(farm, pool, kind, without)) if allocation.expandableReservation else own


def unreserved(farm: Farm, pool: ManagedObject, kind: Kind, without: ManagedObject | None = None) -> int:
    """Return what a pool can still give to a VM in it."""
    inside = used(farm, pool, kind, without)
    above = farm.store.get(pool["parent"])
    if not isinstance(above.ref, vim.ResourcePool):
        return capacity(farm, farm.store.get(pool["owner"]), kind) - inside
    allocation = getattr(pool["config"], kind.field)
    left = int(allocation.reservation or 0) - inside
    if allocation.expandableReservation:
        left = max(0, left) + max(0, unreserved(farm, above, kind, without))
    limit = int(allocation.limit if allocation.limit is not None else -1)
    return left if limit < 0 else min(left, limit - inside)
