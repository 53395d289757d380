"""Document of `render netplan`: the network files that VMs carry for their guests, and what is wrong with them."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from vsphere_ai.documents.findings import FindingDocument
from vsphere_ai.documents.part import DocumentPart
from vsphere_ai.documents.printed import PrintedDocument
from vsphere_ai.model.facts import About


class GuestNetworkDocument(DocumentPart):
    """The network file of a VM."""

    vm: str
    network: Annotated[str | None, Field(description="The file as YAML; null: there is none.")]
    reason: Annotated[str, Field(description="Why there is none.")]
    nics: Annotated[tuple[str, ...], Field(description="A line for each NIC.")]
    problems: tuple[FindingDocument, ...]


class GuestNetworksDocument(PrintedDocument):
    """What `render netplan` prints."""

    printed_by: ClassVar = ("render netplan",)

    vcenter: About
    vms: tuple[GuestNetworkDocument, ...]
