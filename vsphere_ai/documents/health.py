"""Document of `health`: beside its findings, the VMs that were checked, each with its worst verdict and its GPUs."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import AwareDatetime, Field

from vsphere_ai.documents.findings import FindingsDocument
from vsphere_ai.documents.part import DocumentPart
from vsphere_ai.documents.printed import PrintedDocument
from vsphere_ai.model.finding import Verdict
from vsphere_ai.model.nodes import Node, NodeGpu

UseState = Literal["busy", "idle", "off", "unknown"]


class GpuDocument(DocumentPart):
    """A GPU of a VM."""

    index: Annotated[int, Field(description="Number in the guest, from 0 on.")]
    host_pci: Annotated[str, Field(description='PCI address on the host; "" where it is not known.')]
    uuid: str
    profile: Annotated[str, Field(description='vGPU profile; "" for a whole GPU.')]

    @classmethod
    def of(cls, gpu: NodeGpu) -> Self:
        """Return a GPU as JSON."""
        return cls(index=gpu.index, host_pci=gpu.host_pci, uuid=gpu.uuid, profile=gpu.profile)


class CheckedVmDocument(DocumentPart):
    """A VM that was checked."""

    vm: str
    host: str
    verdict: Annotated[Verdict, Field(description="The worst of its findings; pass where there is none.")]
    gpus: tuple[GpuDocument, ...]

    @classmethod
    def of(cls, node: Node, verdict: Verdict) -> Self:
        """Return a VM and its verdict as JSON."""
        return cls(vm=node.vm, host=node.host, verdict=verdict, gpus=tuple(map(GpuDocument.of, node.gpus)))


class HealthDocument(FindingsDocument):
    """What `health` prints."""

    printed_by: ClassVar = ("health",)

    vcenter: Annotated[str, Field(description="The name of the vCenter.")]
    vms: tuple[CheckedVmDocument, ...]


class GpuUseDocument(DocumentPart):
    """A VM that holds GPUs, and whether it uses them."""

    vm: str
    host: str
    gpus: Annotated[tuple[str, ...], Field(description="Their profiles, or addresses of whole GPUs.")]
    state: UseState
    since: Annotated[AwareDatetime | None, Field(description="Idle at least since then; null: not idle, or not known.")]


class IdleDocument(PrintedDocument):
    """What `health --idle` prints."""

    printed_by: ClassVar = ("health --idle",)

    vcenter: str
    vms: tuple[GpuUseDocument, ...]
