"""Shapes of what commands print as JSON, for the reports of it: what is read, and nothing else, is required."""

from __future__ import annotations

from typing import Literal, NotRequired

from typing_extensions import TypedDict  # pydantic reads no other one before Python 3.12

from vsphere_ai.documents.findings import FindingDocument
from vsphere_ai.model.finding import Verdict as FindingVerdict


class Vcenter(TypedDict):
    """The vCenter of a document."""

    name: str
    version: str
    build: str
    instance: NotRequired[str]
    api: NotRequired[str]
    api_type: NotRequired[str]
    offered_api: NotRequired[str]


class Findings(TypedDict):
    """What every command with findings prints."""

    verdict: FindingVerdict
    findings: list[FindingDocument]
    vcenter: NotRequired[Vcenter | str]


class PrintedRunning(TypedDict):
    """A vGPU of a running VM."""

    vm: str
    profile: str
    gpu_instance: NotRequired[int | None]
    placement: NotRequired[int | None]
    guest_driver: NotRequired[str | None]
    licence: NotRequired[str | None]


class PrintedInstance(TypedDict):
    """A MIG instance and where it begins, in memory slices."""

    profile: str
    start: int
    in_use: bool


class PrintedMove(TypedDict):
    """Instances that have to move so that one more of a profile fits."""

    profile: str
    now: int
    after: int
    move_for_one_more: list[PrintedInstance]


class PrintedGpu(TypedDict):
    """A GPU; one that MIG divides has slices and instances."""

    pci: str
    board: NotRequired[str]
    title: str
    mode: str
    sizes: NotRequired[Literal["equal", "mixed"]]
    running: list[PrintedRunning]
    room: dict[str, int]
    slices: NotRequired[int]
    picture: NotRequired[list[str]]
    placement_known: NotRequired[bool]
    instances: NotRequired[list[PrintedInstance]]
    free_slices: NotRequired[list[int]]
    stranded_slices: NotRequired[list[int]]
    defragment: NotRequired[list[PrintedMove]]


class PrintedHost(TypedDict):
    """A host with its GPUs."""

    host: str
    gpus: list[PrintedGpu]


class OnGpu(TypedDict):
    """A vGPU on the GPU that it takes."""

    gpu: str
    profile: str
    start: NotRequired[int | None]


class PrintedPowerOn(TypedDict):
    """A VM with the host that it powers on on."""

    vm: str
    host: str
    registered_on: str
    vgpus: list[OnGpu]


class PrintedVerdict(TypedDict):
    """Whether the VMs of a playbook fit."""

    fits: bool
    exact: NotRequired[bool]
    decided: NotRequired[bool]
    spare_hosts: int
    problems: list[FindingDocument]
    warnings: NotRequired[list[str]]
    explanation: NotRequired[str]
    left_over: NotRequired[list[str]]
    room: NotRequired[dict[str, int]]
    power_on_order: NotRequired[list[PrintedPowerOn]]


class Capacity(TypedDict):
    """What `capacity` prints."""

    vcenter: Vcenter
    hosts: list[PrintedHost]
    verdict: NotRequired[PrintedVerdict]
