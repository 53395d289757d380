"""Address pools of an inventory, which no vCenter is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from vsphere_ai.addresses.pool import Pool
from vsphere_ai.language.inventory import find_inventory
from vsphere_ai.model.networks import Range


@dataclass(frozen=True)
class PoolsRequest:
    """An inventory file; None: the one that is found, see `EstateRequest`."""

    inventory: Path | None = None


@dataclass(frozen=True)
class PoolsResult:
    """The pools of an inventory by name, and the addresses that none of them gives away."""

    inventory: Path
    pools: Mapping[str, Pool]
    reserved: tuple[Range, ...]


def list_pools(request: PoolsRequest) -> PoolsResult:
    """Return the pools of an inventory; `InputError` when one is wrong or conflicts with another."""
    inventory = find_inventory(request.inventory)
    return PoolsResult(inventory.path, inventory.pools, inventory.reserved)
