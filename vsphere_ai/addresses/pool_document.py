"""Document of `ipam list`: the pools of an inventory, and for how many VMs each has addresses."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from vsphere_ai.addresses.pool import AddressPool
from vsphere_ai.documents.part import WholePart
from vsphere_ai.documents.printed import PrintedDocument


class PoolDocument(AddressPool, WholePart):
    """A pool as the inventory has it, and what it has for VMs."""

    name: str
    for_vms: Annotated[tuple[str, ...], Field(alias="usable", description="Ranges: without what is reserved.")]
    vms: Annotated[int, Field(description="For how many VMs it has addresses.")]


class PoolsDocument(PrintedDocument):
    """What `ipam list` prints."""

    printed_by: ClassVar = ("ipam list",)

    pools: tuple[PoolDocument, ...]
    reserved: Annotated[tuple[str, ...], Field(description="Ranges that are kept from all pools.")]
