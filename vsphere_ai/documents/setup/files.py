"""Documents of files that the tool writes or carries: examples, schemas, a project, certificates of a fleet."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import AwareDatetime, Field

from vsphere_ai.documents.part import DocumentPart
from vsphere_ai.documents.printed import PrintedDocument

State = Literal["written", "unchanged", "would-be-written"]
FileState = Annotated[
    State,
    Field(description="unchanged: it was there already, the same. would-be-written: --dry-run."),
]


class WrittenFile(DocumentPart):
    """A file, and whether it was written."""

    path: str
    state: FileState


class WrittenFilesDocument(PrintedDocument):
    """What a command prints that wrote files."""

    printed_by: ClassVar = ("examples --to", "schema --to", "completion install")

    files: tuple[WrittenFile, ...]


def written_files(*files: tuple[State, Path]) -> WrittenFilesDocument:
    """Return the document of files, each with whether it was written."""
    return WrittenFilesDocument(files=tuple(WrittenFile(path=str(path), state=state) for state, path in files))


class ExampleEntry(DocumentPart):
    """An example."""

    name: str
    about: Annotated[str, Field(description="Its first sentence.")]
    text: Annotated[str | None, Field(description="The file, where this example was named; null in a list.")]


class ExamplesDocument(PrintedDocument):
    """What `examples` prints."""

    printed_by: ClassVar = ("examples",)

    examples: tuple[ExampleEntry, ...]


class SchemaEntry(DocumentPart):
    """A JSON Schema."""

    name: str
    of: Annotated[str, Field(description="What it is the schema of.")]


class SchemasDocument(PrintedDocument):
    """What `schema` prints without a name; with one, it prints the schema itself."""

    printed_by: ClassVar = ("schema",)

    schemas: tuple[SchemaEntry, ...]


class ProjectDocument(PrintedDocument):
    """What `init` prints."""

    printed_by: ClassVar = ("init",)

    files: tuple[WrittenFile, ...]
    hosts: Annotated[int, Field(description="Hosts that the inventory was written from.")]
    vms: int
    left_out: Annotated[int, Field(description="Objects of which comments in the playbook say what is left out.")]
    named_inventory: Annotated[
        str | None,
        Field(description='Why the inventory has to be named with -i; "": it is found. null: it was not written.'),
    ]
    next: Annotated[tuple[str, ...], Field(description="Commands to continue with.")]


class CertificateFile(DocumentPart):
    """A certificate of a fleet and its key."""

    name: str
    certificate: str
    key: str
    state: Annotated[Literal["made", "kept", "would-be-made"], Field(description="would-be-made: --dry-run.")]
    expires: AwareDatetime


class CertificatesDocument(PrintedDocument):
    """What `fleet certificates` prints."""

    printed_by: ClassVar = ("fleet certificates",)

    certificates: Annotated[tuple[CertificateFile, ...], Field(description="That of the authority first.")]
