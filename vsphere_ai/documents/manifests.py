"""Document of `render --check` of manifests: beside its findings, the objects that were looked at."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from vsphere_ai.documents.part import DocumentPart


class ManifestObjectDocument(DocumentPart):
    """An object of a manifest."""

    kind: str
    name: Annotated[str, Field(description='"" where it has none.')]
    namespace: Annotated[str, Field(description='"" where it has none.')]


class ManifestsDocument(DocumentPart):
    """The keys that the document has beside those of findings."""

    objects: Annotated[tuple[ManifestObjectDocument, ...], Field(description="Those that rules were applied to.")]
    not_judged: Annotated[tuple[ManifestObjectDocument, ...], Field(description="Of kinds without rules here.")]
    not_checked: Annotated[int, Field(description="Objects of other API groups.")]
