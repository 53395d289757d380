"""Document of `vgpu list`: the vGPU types of boards."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from vsphere_ai.documents.part import WholePart
from vsphere_ai.documents.printed import PrintedDocument


class ProductTypes(WholePart):
    """A product of a board."""

    name: str
    pci: Annotated[tuple[str, ...], Field(description="PCI device ids.")]
    spellings: Annotated[tuple[str, ...], Field(description="How the names of its vGPU types begin.")]


class TimeSlicedSize(WholePart):
    """A size of time-sliced vGPUs."""

    framebuffer_gb: int
    series: str
    max_equal: int
    max_mixed: Annotated[int | None, Field(description="null: NVIDIA does not publish it.")]
    names: tuple[str, ...]


class MigBacked(WholePart):
    """A vGPU type on a GPU instance of a MIG profile."""

    profile: str
    framebuffer_gb: int
    compute_slices: int
    memory_slices: int
    max_per_instance: int
    max_per_gpu: int
    names: tuple[str, ...]


class BoardTypes(WholePart):
    """The vGPU types of a board; the names of each are in the order of `spellings`."""

    board: str
    title: str
    memory_gb: int | None
    spellings: tuple[str, ...]
    products: tuple[ProductTypes, ...]
    time_sliced: tuple[TimeSlicedSize, ...]
    mig: tuple[MigBacked, ...]


class VgpuTypesDocument(PrintedDocument):
    """What `vgpu list` prints."""

    printed_by: ClassVar = ("vgpu list",)

    boards: tuple[BoardTypes, ...]
