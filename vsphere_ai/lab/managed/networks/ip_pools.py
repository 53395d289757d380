"""IP pools of a datacenter: ranges whose addresses vCenter gives to vApps."""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.managed import Call, changes, reads
from vsphere_ai.lab.managed.refusals import not_found

_POOLS = "ip_pools"


@reads(vim.IpPoolManager, "QueryIpPools")
def query(call: Call, dc: Any) -> Any:
    """Return the IP pools of a datacenter."""
    return vim.vApp.IpPool.Array(call.farm.store.get(dc).extra.get(_POOLS, {}).values())


@changes(vim.IpPoolManager, "CreateIpPool", "Datacenter.IpPoolConfig")
def create(call: Call, dc: Any, pool: Any) -> int:
    """Make an IP pool, and return its number."""
    center = call.farm.store.get(dc)
    pools = center.extra.setdefault(_POOLS, {})
    pool.id = call.farm.store.next_id()
    pools[pool.id] = pool
    call.farm.record(center, "CreateIpPool", name=str(pool.name))
    return int(pool.id)


@changes(vim.IpPoolManager, "DestroyIpPool", "Datacenter.IpPoolConfig")
def destroy(call: Call, dc: Any, id: int, force: bool) -> None:
    """Remove an IP pool."""
    center = call.farm.store.get(dc)
    if center.extra.get(_POOLS, {}).pop(id, None) is None:
        raise not_found(f"the IP pool {id}")
    call.farm.record(center, "DestroyIpPool", id=int(id), force=bool(force))
