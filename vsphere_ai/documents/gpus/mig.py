"""Documents of MIG: whether a layout fits and what leads to it, the layouts of a board, files of mig-parted."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from vsphere_ai.documents.part import DocumentPart
from vsphere_ai.documents.printed import PrintedDocument

Start = Annotated[int, Field(description="Where it begins, in memory slices.")]


class NewInstanceDocument(DocumentPart):
    """An instance of a layout that fits."""

    profile: str
    id: Annotated[int, Field(description="Number of the profile.")]
    start: Start


class StandingInstanceDocument(DocumentPart):
    """An instance that is there, stays, goes or comes."""

    profile: str
    start: Start
    gpu_instance: int | None = None
    in_use: Annotated[bool | str, Field(description="By whom, where that is known.")] = False


class NamedLayoutDocument(DocumentPart):
    """A layout that the board takes."""

    layout: str
    cgi: Annotated[str, Field(description="The list for nvidia-smi mig -cgi.")]


class MigCommandDocument(DocumentPart):
    """A command of nvidia-smi, and what it does."""

    command: str
    summary: str


class MigLayoutPart(DocumentPart):
    """Whether a layout fits on a GPU: how it is made there, or why not and what would fit."""

    board: str
    fits: Annotated[bool | None, Field(description="null: not known, NVIDIA does not publish its placements.")]
    verified: Annotated[bool, Field(description="Whether NVIDIA publishes the ids for this board.")]
    instances: tuple[NewInstanceDocument, ...] = ()
    cgi: Annotated[str, Field(description="The list for nvidia-smi mig -cgi.")] = ""
    wanted: tuple[str, ...] = ()
    reasons: Annotated[tuple[str, ...], Field(description="Why it does not fit.")] = ()
    nearest: tuple[NamedLayoutDocument, ...] = ()
    pool: Annotated[tuple[NamedLayoutDocument, ...], Field(description="All valid instances of it, on several.")] = ()
    present: tuple[StandingInstanceDocument, ...] = ()
    before: Annotated[tuple[str, ...], Field(description="Picture of the slices now.")] = ()
    kept: tuple[StandingInstanceDocument, ...] = ()
    destroyed: tuple[StandingInstanceDocument, ...] = ()
    created: tuple[StandingInstanceDocument, ...] = ()
    after: Annotated[tuple[str, ...], Field(description="Picture of the slices then.")] = ()
    commands: Annotated[tuple[MigCommandDocument, ...], Field(description="In the order to run them.")] = ()


class MigLayoutDocument(MigLayoutPart, PrintedDocument):
    """What `mig explain` and `mig plan` print of a GPU."""

    printed_by: ClassVar = ("mig explain", "mig plan")

    notes: tuple[str, ...] = ()


class MigGpuDocument(MigLayoutPart):
    """The way to a layout on a GPU of a host."""

    pci: str
    notes: tuple[str, ...]


class MigHostDocument(PrintedDocument):
    """What `mig plan --host` prints."""

    printed_by: ClassVar = ("mig plan --host",)

    host: str
    gpus: tuple[MigGpuDocument, ...]


class MigProfileDocument(DocumentPart):
    """A MIG profile of a board."""

    profile: str
    id: int
    compute_slices: int
    memory_slices: int
    starts: Annotated[tuple[int, ...], Field(description="Memory slices where an instance may begin.")]
    max_instances: int


class MigLayoutsDocument(PrintedDocument):
    """What `mig layouts` prints."""

    printed_by: ClassVar = ("mig layouts",)

    board: str
    title: str
    verified: bool
    profiles: tuple[MigProfileDocument, ...]
    named_profiles: Annotated[tuple[str, ...], Field(description="Profiles of which only the names are published.")]
    layouts: Annotated[tuple[NamedLayoutDocument, ...], Field(description="Those that fill the GPU.")]


class PartedFitDocument(DocumentPart):
    """A configuration of mig-parted on a board, or on a GPU of a host."""

    config: str
    board: str
    host: str = ""
    pci: str = ""
    applies: Annotated[bool, Field(description="Whether the configuration is about the GPU.")]
    fits: bool
    reasons: tuple[str, ...]
    mig_enabled: bool | None
    layout: tuple[str, ...]
    compute_instances: Annotated[tuple[str, ...], Field(description="Made inside of the layout; a play has none.")] = ()


class PartedDocument(PrintedDocument):
    """What `mig parted` prints."""

    printed_by: ClassVar = ("mig parted",)

    configs: tuple[PartedFitDocument, ...]
