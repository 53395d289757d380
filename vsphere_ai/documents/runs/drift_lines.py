"""Lines of `verify --watch`: what drifted and what is gone since the reading before, and readings that failed."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, JsonValue

from vsphere_ai.documents.findings import FindingDocument
from vsphere_ai.documents.part import DocumentPart
from vsphere_ai.documents.printed import PrintedLine, SchemaVersion
from vsphere_ai.model.state import Target

WATCH = ("verify --watch",)


class DifferenceDocument(DocumentPart):
    """A field that is not in the desired state, or a problem that prevents comparing."""

    target: Target
    kind: str = ""
    field: Annotated[str, Field(description='"" where the whole is to be recreated.')] = ""
    before: JsonValue = None
    after: JsonValue = None
    problem: FindingDocument | None = None


class DriftPart(DocumentPart):
    """How the drift of an estate changed."""

    as_wanted: bool
    drifted: Annotated[int, Field(description="Settings that are not in the desired state.")]
    problems: int
    appeared: tuple[DifferenceDocument, ...]
    gone: tuple[DifferenceDocument, ...]


class DriftLine(DriftPart, PrintedLine):
    """A reading."""

    printed_by: ClassVar = WATCH

    schema_version: SchemaVersion
    type: Literal["drift"]
    time: str
    first: Annotated[bool, Field(description="Whether there was no reading before.")]


class NotReadLine(PrintedLine):
    """A reading that failed."""

    printed_by: ClassVar = WATCH

    schema_version: SchemaVersion
    type: Literal["not-read"]
    time: str
    error: str
    rule: str


class ReadAgainLine(PrintedLine):
    """The first reading after some that failed."""

    printed_by: ClassVar = WATCH

    schema_version: SchemaVersion
    type: Literal["read-again"]
    time: str
    seconds: Annotated[float, Field(description="Since the last reading that did not fail.")]
