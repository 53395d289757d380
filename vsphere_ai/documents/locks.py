"""Note beside a lock on this machine: who holds it, and what it has in vCenter."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field

from vsphere_ai.documents.stored import StoredDocument

LockMode = Literal["none", "local", "vcenter"]


class LockNote(StoredDocument):
    """What the holder of a lock of the operating system writes beside it."""

    model_config = ConfigDict(frozen=False)
    remedy: ClassVar[str] = (
        "remove the file once no run works on this vCenter here; vsphere-ai run unlock then shows its lock in vCenter"
    )

    user: str
    machine: str
    pid: int
    born: Annotated[str, Field(description='Start of the process; "" where the system does not say.')]
    run: str
    since: str
    advisory: Annotated[
        tuple[str, ...], Field(description="Locks in vCenter that it made, or found of a holder that is dead.")
    ] = ()
