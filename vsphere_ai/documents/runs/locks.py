"""Document of `run unlock`: who holds the locks of a vCenter, and whether the one in vCenter was removed."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import AwareDatetime, Field

from vsphere_ai.documents.part import DocumentPart
from vsphere_ai.documents.printed import PrintedDocument


class LocalLockDocument(DocumentPart):
    """The holder of a lock on this machine."""

    user: str
    machine: str
    pid: int
    run: str
    since: str


class VcenterLockDocument(DocumentPart):
    """The holder of a lock in vCenter, by vCenter's clock; "" and 0 where the lock does not say it."""

    user: str
    machine: str
    pid: int
    run: str
    since: AwareDatetime | None
    expires: Annotated[AwareDatetime | None, Field(description="null: it was never completed.")]
    expired: bool


class LocksDocument(PrintedDocument):
    """What `run unlock` prints."""

    printed_by: ClassVar = ("run unlock",)

    vcenter: str
    local: Annotated[LocalLockDocument | None, Field(description="null: free, or the holder is not known.")]
    advisory: VcenterLockDocument | None
    out_of_service: Annotated[tuple[str, ...], Field(description="What runs have out of service, in sentences.")]
    removed: Annotated[bool, Field(description="Whether the lock in vCenter was removed.")]
