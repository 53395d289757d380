"""Documents of `run close` and `run prune`: what became of runs of this machine."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from vsphere_ai.documents.part import DocumentPart
from vsphere_ai.documents.printed import PrintedDocument


class LeftOpenDocument(DocumentPart):
    """An action that a run has pending."""

    kind: Annotated[str, Field(description="What is left, such as maintenance.")]
    name: Annotated[str, Field(description="The host or VM.")]


class ClosedRunDocument(PrintedDocument):
    """What `run close` prints."""

    printed_by: ClassVar = ("run close",)

    run: str
    result: Annotated[
        Literal["closed", "declined", "over"],
        Field(description="over: there was nothing to close. declined: the answer was no, or --dry-run."),
    ]
    state: Annotated[str, Field(description="State of the run, as `run list` shows it.")]
    pending: Annotated[tuple[LeftOpenDocument, ...], Field(description="What it had pending.")]


class PrunedRunsDocument(PrintedDocument):
    """What `run prune` prints."""

    printed_by: ClassVar = ("run prune",)

    runs: Annotated[tuple[str, ...], Field(description="Runs whose journals are old enough and have nothing pending.")]
    removed: Annotated[bool, Field(description="false: the answer was no, or --dry-run; nothing was removed.")]
