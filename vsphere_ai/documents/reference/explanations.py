"""Documents of `explain`: what is known of a name, topics, and the list of what can be explained."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from vsphere_ai.documents.part import DocumentPart, WholePart
from vsphere_ai.documents.printed import PrintedDocument
from vsphere_ai.model.records.explained import Group


class LabelledText(DocumentPart):
    """A label, and its text."""

    name: str
    text: str


class ExplanationPartDocument(DocumentPart):
    """A part of an explanation: labelled texts, or code."""

    title: str
    pairs: tuple[LabelledText, ...]
    code: str


class NameDocument(DocumentPart):
    """What is known of a name."""

    name: str
    group: Group
    title: str
    text: tuple[str, ...]
    parts: tuple[ExplanationPartDocument, ...]
    source: str
    page: Annotated[str, Field(description="The page of the documentation.")]


class ExplanationDocument(PrintedDocument):
    """What `explain NAME` prints of a name."""

    printed_by: ClassVar = ("explain",)

    topic: str
    found: tuple[NameDocument, ...]


class NamesDocument(PrintedDocument):
    """What `explain` prints of several names: those of each group."""

    printed_by: ClassVar = ("explain",)

    topics: dict[Group, tuple[str, ...]]


class PodRdmaMode(WholePart):
    """How pods get RDMA; `runs_on` is where its makers document it, `namespaces` the mode of the node's RDMA devices.

    `in_a_vm` is what the VM has to own for it, `objects` what `render` writes.
    """

    name: str
    runs_on: str
    verbs: str
    namespaces: str
    gpudirect: str
    in_a_vm: str
    vmotion: str
    objects: str
    sources: tuple[str, ...]
    unverified: Annotated[tuple[str, ...], Field(description="What no source proves.")] = ()


class RdmaDeviceOption(WholePart):
    """What a VM owns: the kind of a playbook that gives it, and what it can do."""

    name: str
    kind: str
    rdma: str
    vmotion: str
    gpudirect: str
    sources: tuple[str, ...]
    unverified: Annotated[tuple[str, ...], Field(description="What no source proves.")] = ()


class RdmaOptionsDocument(PrintedDocument):
    """What `explain rdma-options` prints."""

    printed_by: ClassVar = ("explain",)

    topic: str
    modes: tuple[PodRdmaMode, ...]
    devices: tuple[RdmaDeviceOption, ...]


class RdmaTransport(WholePart):
    """A transport of RDMA: the network it needs, how VMs get it on vSphere, and what it asks for and costs."""

    name: str
    network: str
    vsphere: str
    performance: str
    scale: str
    upkeep: str
    cost: str
    vendors: str
    sources: tuple[str, ...]
    unverified: Annotated[tuple[str, ...], Field(description="What no source proves.")] = ()


class RdmaTransportsDocument(PrintedDocument):
    """What `explain infiniband` prints."""

    printed_by: ClassVar = ("explain",)

    topic: str
    text: tuple[str, ...]
    transports: tuple[RdmaTransport, ...]


class CollectiveFactor(DocumentPart):
    """The factor by which algorithm bandwidth of a collective becomes bus bandwidth."""

    collective: str
    factor: str
    size: str


class BusBandwidthDocument(PrintedDocument):
    """What `explain busbw` prints."""

    printed_by: ClassVar = ("explain",)

    topic: str
    text: tuple[str, ...]
    collectives: tuple[CollectiveFactor, ...]
    source: str
