"""Documents of `ipam`: leases of addresses, how pools are used, and what was changed."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from vsphere_ai.documents.findings import FindingsDocument
from vsphere_ai.documents.part import DocumentPart
from vsphere_ai.documents.printed import PrintedDocument

Changed = Annotated[bool, Field(description="Whether it was confirmed, and done.")]


class LeaseDocument(DocumentPart):
    """What one NIC of one VM of a set holds."""

    set: str
    index: Annotated[int, Field(description="Number of the VM in its set.")]
    nic: str
    version: Annotated[int, Field(description="Family of the address: 4 or 6.")]
    pool: str
    address: str
    prefix: int
    given: Annotated[str, Field(description="What the pool gave: the address, or a block.")]
    gateway: str | None


class JudgedLeaseDocument(LeaseDocument):
    """A lease with what VMs, hosts and vCenter's IP pools say about it."""

    state: str
    why: str


class PoolUseDocument(DocumentPart):
    """Numbers of addresses of a pool; of one with blocks, numbers of blocks, but for reservations."""

    name: str
    usable: int
    held: int
    spare: int
    reserved: int
    quarantined: int
    free: int
    out_of_range: int


class ReservationDocument(DocumentPart):
    """A range of a pool that is kept from all sets."""

    pool: str
    addresses: str
    note: str


class LeasesDocument(PrintedDocument):
    """What `ipam show` prints."""

    printed_by: ClassVar = ("ipam show",)

    vcenter: str
    pools: tuple[PoolUseDocument, ...]
    leases: tuple[LeaseDocument, ...]
    reservations: tuple[ReservationDocument, ...]


class VerifiedLeasesDocument(FindingsDocument):
    """What `ipam verify` prints."""

    printed_by: ClassVar = ("ipam verify",)

    vcenter: str
    vms: Annotated[int, Field(description="VMs that were seen.")]
    leases: tuple[JudgedLeaseDocument, ...]


class ReclaimedDocument(PrintedDocument):
    """What `ipam reclaim` prints."""

    printed_by: ClassVar = ("ipam reclaim",)

    vcenter: str
    changed: Changed
    reclaimed: tuple[JudgedLeaseDocument, ...]
    left: tuple[JudgedLeaseDocument, ...]


class NewLeasesDocument(PrintedDocument):
    """What `ipam lease` prints."""

    printed_by: ClassVar = ("ipam lease",)

    vcenter: str
    changed: Changed
    leases: tuple[LeaseDocument, ...]


class AddressChangeDocument(PrintedDocument):
    """What `ipam release` and `ipam reserve` print."""

    printed_by: ClassVar = ("ipam release", "ipam reserve")

    vcenter: str
    summary: str
    changed: Changed
