"""Document of `assess`: beside its findings, what was assessed, and the rules that apply to nothing of it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from vsphere_ai.documents.part import DocumentPart


class AssessmentDocument(DocumentPart):
    """The keys that the document has beside those of findings and the vCenter."""

    hosts: Annotated[tuple[str, ...], Field(description="Hosts with GPUs.")]
    vms: Annotated[tuple[str, ...], Field(description="VMs that train.")]
    not_applicable: Annotated[tuple[str, ...], Field(description="Rules that are about nothing here.")]
