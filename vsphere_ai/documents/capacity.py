"""Document of `capacity`: per GPU what runs and what fits, and the verdict on a playbook."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from vsphere_ai.documents.findings import FindingDocument
from vsphere_ai.documents.part import DocumentPart
from vsphere_ai.documents.printed import PrintedDocument
from vsphere_ai.model.facts import About

Room = Annotated[dict[str, int], Field(description="vGPU type -> how many more of it fit.")]


class RunningVgpuDocument(DocumentPart):
    """A vGPU of a running VM; null is what its guest does not show."""

    vm: str
    profile: str
    gpu_instance: int | None = None
    placement: int | None = None
    guest_driver: str | None = None
    licence: str | None = None


class InstanceDocument(DocumentPart):
    """A MIG instance."""

    profile: str
    start: Annotated[int, Field(description="Where it begins, in memory slices.")]
    in_use: bool


class MoveDocument(DocumentPart):
    """Instances that have to move so that one more of a profile fits."""

    profile: str
    now: int
    after: int
    move_for_one_more: tuple[InstanceDocument, ...]


class GpuRoomDocument(DocumentPart):
    """A GPU: what runs, and how many more vGPUs of each profile fit; one that MIG divides has slices and instances."""

    pci: str
    board: str = ""
    title: str
    mode: str
    sizes: Literal["equal", "mixed"] = "equal"
    running: tuple[RunningVgpuDocument, ...]
    room: Room
    placement_known: bool = True
    slices: int = 0
    picture: tuple[str, ...] = ()
    instances: tuple[InstanceDocument, ...] = ()
    free_slices: tuple[int, ...] = ()
    stranded_slices: Annotated[tuple[int, ...], Field(description="Free, and of no use with the present layout.")] = ()
    defragment: tuple[MoveDocument, ...] = ()


class HostRoomDocument(DocumentPart):
    """A host with its GPUs."""

    host: str
    gpus: tuple[GpuRoomDocument, ...]


class PlacedVgpuDocument(DocumentPart):
    """A vGPU on the GPU that it takes."""

    gpu: str
    profile: str
    start: int | None = None


class PowerOnDocument(DocumentPart):
    """A VM with the host that it powers on on."""

    vm: str
    host: str
    registered_on: str
    vgpus: tuple[PlacedVgpuDocument, ...]


class FitDocument(DocumentPart):
    """Whether the VMs of a playbook fit: the order in which they power on, or who is left over."""

    fits: bool
    exact: bool = True
    decided: bool = True
    spare_hosts: int
    problems: tuple[FindingDocument, ...]
    warnings: tuple[str, ...] = ()
    explanation: str = ""
    left_over: tuple[str, ...] = ()
    room: Room = Field(default_factory=dict)
    power_on_order: tuple[PowerOnDocument, ...] = ()


class CapacityDocument(PrintedDocument):
    """What `capacity` prints."""

    printed_by: ClassVar = ("capacity",)

    vcenter: About
    hosts: tuple[HostRoomDocument, ...]
    verdict: FitDocument | None = None
