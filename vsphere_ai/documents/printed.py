"""Printed documents: what commands print with `-o json`, each with its schema version and the commands it is of."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, JsonValue

from vsphere_ai.documents.part import DocumentPart

SCHEMA_VERSION: Literal[1] = 1
SchemaVersion = Annotated[Literal[1], Field(description="Within a schema version, keys are only ever added.")]


class PrintedDocument(DocumentPart):
    """What a command prints as its only JSON document. Its JSON Schema has the name of its first command."""

    printed_by: ClassVar[tuple[str, ...]] = ()
    """Commands that print it, as they are typed, with the option that makes it another document than without.

    A group of commands stands for those in it that print no other document.
    """

    schema_version: SchemaVersion = SCHEMA_VERSION

    def as_json(self) -> dict[str, JsonValue]:
        """Return the JSON form, the schema version first; `model_validate` reads it."""
        return {"schema_version": self.schema_version, **super().as_json()}


class PrintedLine(DocumentPart):
    """One of several JSON documents of a command, each on a line of its own."""

    printed_by: ClassVar[tuple[str, ...]] = ()
    """Commands that print such lines, as they are typed."""
