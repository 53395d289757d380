"""Document of `assess`: beside its findings, what was assessed, and the rules that apply to nothing of it."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from vsphere_ai.documents.findings import FindingsDocument
from vsphere_ai.model.facts import About


class AssessmentDocument(FindingsDocument):
    """What `assess` prints."""

    printed_by: ClassVar = ("assess",)

    vcenter: About
    hosts: Annotated[tuple[str, ...], Field(description="Hosts with GPUs.")]
    vms: Annotated[tuple[str, ...], Field(description="VMs that train.")]
    not_applicable: Annotated[tuple[str, ...], Field(description="Rules that are about nothing here.")]
