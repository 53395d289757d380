"""Documents of `render`: files that were checked, and manifests of Kubernetes that were written or checked."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field, JsonValue

from vsphere_ai.documents.findings import FindingsDocument
from vsphere_ai.documents.part import DocumentPart
from vsphere_ai.model.facts import About

OPERATORS = ("render spiderpool", "render network-operator")


class CheckedFileDocument(FindingsDocument):
    """What `render --check` prints of a file for another tool."""

    printed_by: ClassVar = ("render --check",)


class WrittenManifestsDocument(FindingsDocument):
    """What `render` of an operator prints: the objects as they are written."""

    printed_by: ClassVar = OPERATORS

    vcenter: About
    objects: tuple[dict[str, JsonValue], ...]


class ManifestObjectDocument(DocumentPart):
    """An object of a manifest."""

    kind: str
    name: Annotated[str, Field(description='"" where it has none.')]
    namespace: Annotated[str, Field(description='"" where it has none.')]


class CheckedManifestsDocument(FindingsDocument):
    """What `render --check` of an operator prints."""

    printed_by: ClassVar = tuple(f"{command} --check" for command in OPERATORS)

    objects: Annotated[tuple[ManifestObjectDocument, ...], Field(description="Those that rules were applied to.")]
    not_judged: Annotated[tuple[ManifestObjectDocument, ...], Field(description="Of kinds without rules here.")]
    not_checked: Annotated[int, Field(description="Objects of other API groups.")]
