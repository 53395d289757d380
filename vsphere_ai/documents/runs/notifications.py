"""Documents that a command or a webhook gets: how a run ended, and how the drift of an estate changed."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from vsphere_ai.documents.part import DocumentPart
from vsphere_ai.documents.printed import SchemaVersion
from vsphere_ai.documents.runs.drift_lines import DriftPart
from vsphere_ai.documents.runs.summaries import RunSummaryDocument


class FailureDocument(DocumentPart):
    """A step that failed, or whose outcome is not known."""

    target: str
    summary: str
    state: Literal["done", "failed", "unknown", "skipped"]
    error: str
    rule: str


class RunEnded(RunSummaryDocument):
    """How a run ended: counts of its steps, failures, and what is still pending."""

    event: Literal["run.ended"]
    time: str
    schema_version: SchemaVersion
    exit_code: int
    seconds: float
    done: int
    failed: int
    unknown: int
    skipped: int
    interrupted: bool
    open: Annotated[tuple[str, ...], Field(description="What could not be put back, in sentences.")]
    failures: Annotated[tuple[FailureDocument, ...], Field(description="The first 50; the counts are of all.")]


class NamedVcenter(DocumentPart):
    """A vCenter by its name and the UUID of its instance."""

    name: str
    instance: str


class DriftChanged(DriftPart):
    """How the drift of an estate changed; the first 50 differences of each sort, and how many there are."""

    event: Literal["drift.changed"]
    time: str
    playbook: str
    schema_version: SchemaVersion
    vcenter: NamedVcenter
    appeared_count: int
    gone_count: int
