"""Resource pools: what the scenario makes of them, and how each shows what it has and what is used of it.

Memory is in MB in a configuration and in bytes in a runtime, CPU in MHz in both (vSphere API, ResourceAllocationInfo
and ResourcePoolResourceUsage).
"""

from __future__ import annotations

from typing import Any

from pyVmomi import VmomiSupport as Vmomi
from pyVmomi import vim

from vsphere_ai.lab.admission import pool_tree
from vsphere_ai.lab.admission.pool_tree import MEMORY, MHZ, Kind
from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.scenario import Pool
from vsphere_ai.lab.store import ManagedObject, fill

LONG = Vmomi.vmodlTypes["long"]
SHARES = {"cpu": 4000, "memory": 163840}
MIB = 1 << 20


def add_root(farm: Farm, compute: ManagedObject) -> ManagedObject:
    """Add the root pool of a compute resource, which has what its hosts have."""
    root = _add(farm, compute, compute, Pool("Resources"))
    plain = root["config"]

    def config(_me: Any) -> Any:
        for kind, allocation in ((MEMORY, plain.memoryAllocation), (MHZ, plain.cpuAllocation)):
            allocation.reservation = allocation.limit = LONG(pool_tree.capacity(farm, compute, kind))
            allocation.expandableReservation = False
        return plain

    farm.store.set(root, config=config)
    return root


def describe(farm: Farm, compute: ManagedObject, pool: Pool) -> None:
    """Add a pool of the scenario; one that stands for a part of a path already is given its values."""
    mo, made = at(farm, compute, pool.path.strip("/")), _config(pool)
    farm.store.set(mo, config=made)


def at(farm: Farm, compute: ManagedObject, path: str) -> ManagedObject:
    """Return the resource pool at a path below the root pool of a compute resource; made where it is not there."""
    if not path:
        return farm.store.get(compute["resourcePool"])
    key = f"pool:{compute['name']}:{path}"
    if key not in farm.named:
        above, _, name = path.rpartition("/")
        farm.named[key] = _add(farm, compute, at(farm, compute, above), Pool(name))
    return farm.named[key]


def into(farm: Farm, vm: ManagedObject, path: str) -> None:
    """Move a VM into a resource pool of its compute resource."""
    old = farm.store.get(vm["resourcePool"])
    pool = at(farm, farm.store.get(old["owner"]), path)
    farm.store.set(old, vm=[ref for ref in old["vm"] if ref != vm.ref])
    farm.store.set(pool, vm=[*pool["vm"], vm.ref])
    farm.store.set(vm, resourcePool=pool.ref)


def _add(farm: Farm, compute: ManagedObject, parent: ManagedObject, spec: Pool) -> ManagedObject:
    pool = farm.store.new(
        vim.ResourcePool,
        prefix="resgroup",
        name=spec.path,
        owner=compute.ref,
        parent=parent.ref,
        vm=[],
        resourcePool=[],
    )
    show(farm, pool, spec)
    if isinstance(parent.ref, vim.ResourcePool):
        parent["resourcePool"].append(pool.ref)
    return pool


def show(farm: Farm, pool: ManagedObject, spec: Pool) -> None:
    """Give a pool, or a vApp, its configuration; what it has and uses is shown as it is when it is read."""
    farm.store.set(
        pool,
        config=_config(spec),
        runtime=lambda _me: runtime(farm, pool),
        summary=lambda _me: _summary(farm, pool),
    )


def _config(spec: Pool) -> Any:
    return fill(
        vim.ResourceConfigSpec(
            cpuAllocation=_allocation(spec.cpu_reservation_mhz, spec.cpu_limit_mhz, "cpu", spec.cpu_expandable),
            memoryAllocation=_allocation(
                spec.memory_reservation_mb, spec.memory_limit_mb, "memory", spec.memory_expandable
            ),
        )
    )


def _allocation(reservation: int, limit: int, what: str, expandable: bool) -> Any:
    return vim.ResourceAllocationInfo(
        reservation=reservation,
        expandableReservation=expandable,
        limit=limit,
        shares=vim.SharesInfo(shares=SHARES[what], level="normal"),
    )


def runtime(farm: Farm, pool: ManagedObject) -> Any:
    """Return what is used of a pool, and what it can still give, as it is now."""
    return fill(
        vim.ResourcePool.RuntimeInfo(
            overallStatus="green", memory=_usage(farm, pool, MEMORY, MIB), cpu=_usage(farm, pool, MHZ, 1)
        )
    )


def _usage(farm: Farm, pool: ManagedObject, kind: Kind, unit: int) -> Any:
    left = max(0, pool_tree.unreserved(farm, pool, kind))
    limit = int(getattr(pool["config"], kind.field).limit)
    whole = pool_tree.capacity(farm, farm.store.get(pool["owner"]), kind)
    return vim.ResourcePool.ResourceUsage(
        reservationUsed=LONG(pool_tree.used(farm, pool, kind) * unit),
        reservationUsedForVm=LONG(pool_tree.used_by_vms(farm, pool, kind) * unit),
        unreservedForPool=LONG(left * unit),
        unreservedForVm=LONG(left * unit),
        overallUsage=LONG(0),
        maxUsage=LONG((whole if limit < 0 else min(limit, whole)) * unit),
    )


def _summary(farm: Farm, pool: ManagedObject) -> Any:
    return fill(vim.ResourcePool.Summary(name=pool["name"], config=pool["config"], runtime=runtime(farm, pool)))
