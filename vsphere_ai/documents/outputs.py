"""Documents of outputs: values of the VMs of a playbook, and why one is not known or refused."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from vsphere_ai.documents.part import DocumentPart
from vsphere_ai.documents.printed import PrintedDocument
from vsphere_ai.model.facts import About

Scalar = str | int | float | bool


class OutputProblemDocument(DocumentPart):
    """Why an output must not be used."""

    vm: Annotated[str, Field(description='"" where it is about no VM.')]
    rule: str
    message: str
    help: str
    place: Annotated[str, Field(description="File, line and column of the output.")]


class OutputDocument(DocumentPart):
    """An output of a playbook."""

    value: Annotated[
        Scalar | tuple[Scalar | None, ...] | None,
        Field(description="Its value, or of a list one for each VM; null where it is not known, or refused."),
    ]
    vms: Annotated[
        str | tuple[str | None, ...] | None, Field(description="The VM of the value, or of each value of a list.")
    ]
    reasons: Annotated[tuple[str, ...], Field(description="Why parts of it are not known.")]
    problems: tuple[OutputProblemDocument, ...]


class OutputsDocument(PrintedDocument):
    """What `output` prints."""

    printed_by: ClassVar = ("output",)

    vcenter: About
    playbook: str
    outputs: Annotated[dict[str, OutputDocument], Field(description="Outputs by name.")]
