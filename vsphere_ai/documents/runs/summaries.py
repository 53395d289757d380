"""Documents of runs in a few keys: who ran what, where and when, and how it ended."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from vsphere_ai.documents.part import DocumentPart
from vsphere_ai.documents.printed import PrintedDocument
from vsphere_ai.model.records.run_record import Closed
from vsphere_ai.model.steps import PendingKind


class PendingNameDocument(DocumentPart):
    """A pending action of a run."""

    kind: PendingKind
    name: str


class RunSummaryDocument(DocumentPart):
    """A run; times are UTC, ISO 8601."""

    run: str
    state: str
    started: str
    user: Annotated[str, Field(description="USER@MACHINE.")]
    vcenter: Annotated[str, Field(description="Its name in the inventory.")]
    what: Annotated[str, Field(description="The playbook or saved plan, or `rollback RUN`.")]
    exit_code: Annotated[int | None, Field(description="null: it has not ended, or was cut off.")]
    resume_command: Annotated[str | None, Field(description="The command that finishes it; null: it is over.")]
    pending: tuple[PendingNameDocument, ...]
    closed: Closed | None


class RunsDocument(PrintedDocument):
    """What `run list` prints."""

    printed_by: ClassVar = ("run list",)

    runs: tuple[RunSummaryDocument, ...]
    unreadable: Annotated[tuple[str, ...], Field(description="Journals that cannot be read, and why.")]
