"""Document of `doctor --permissions`: the privileges that a playbook takes, and which of them the account has."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from vsphere_ai.documents.part import DocumentPart
from vsphere_ai.documents.printed import PrintedDocument


class PrivilegeDocument(DocumentPart):
    """A privilege on an object, what it is for, and whether the account has it there."""

    name: Annotated[str, Field(description="The object.")]
    ref: str
    privilege: str
    reason: str
    granted: bool


class PrivilegesDocument(PrintedDocument):
    """What `doctor --permissions` prints."""

    printed_by: ClassVar = ("doctor --permissions",)

    account: str
    complete: Annotated[bool, Field(description="false: the plan has problems, and may take more.")]
    privileges: tuple[PrivilegeDocument, ...]
