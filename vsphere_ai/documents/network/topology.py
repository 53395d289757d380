"""Document of `render nccl-topo`: topology files of VMs, and which rails are near which GPU."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from vsphere_ai.documents.part import DocumentPart
from vsphere_ai.documents.printed import PrintedDocument


class NearRailDocument(DocumentPart):
    """A rail, and how far it is from a GPU."""

    rail: str
    rdma_device: str
    distance: Annotated[str, Field(description="In NCCL's word, such as PIX, PXB, PHB or SYS.")]


class GpuRailsDocument(DocumentPart):
    """A GPU with the rails of its VM, the nearest first."""

    gpu: str
    pci: Annotated[str, Field(description="Its address in the guest.")]
    host_pci: str
    numa: Annotated[int | None, Field(description="NUMA node of the host; null: not known.")]
    nccl_ib_hca: Annotated[str | None, Field(description="Value of NCCL_IB_HCA; null: none is advised.")]
    rails: tuple[NearRailDocument, ...]


class TopologyAdviceDocument(DocumentPart):
    """An advice, and the settings of the VM that follow it."""

    snippet: Annotated[str | None, Field(description="A key of a playbook with its value.")]
    reason: str


class VmTopologyDocument(DocumentPart):
    """The topology of a VM."""

    vm: str
    host: str
    topology: Annotated[str | None, Field(description="The file, as XML; null: there is none.")]
    gaps: Annotated[tuple[str, ...], Field(description="Why there is no file.")]
    guest_not_asked: Annotated[str | None, Field(description="Why the guest was not asked; null: it was.")]
    gpus: tuple[GpuRailsDocument, ...]
    advice: tuple[TopologyAdviceDocument, ...]


class TopologiesDocument(PrintedDocument):
    """What `render nccl-topo` prints."""

    printed_by: ClassVar = ("render nccl-topo",)

    vms: tuple[VmTopologyDocument, ...]
