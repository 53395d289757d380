"""Record of the leases of a shard, as the coordinator of a fleet keeps it on its disk."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field

from vsphere_ai.documents.stored import StoredDocument


class LeaseRecord(StoredDocument):
    """What outlives the coordinator: the epoch of a shard, and the vCenter sessions of those who held a lease."""

    model_config = ConfigDict(frozen=False)
    remedy: ClassVar[str] = "end the sessions of the fleet's account in vCenter by hand, then remove this file"
    rule: ClassVar[str] = "fleet.record"

    run: str
    epoch: int = 0
    held: Annotated[bool, Field(description="Whether a lease was granted and not given back.")] = False
    lease: Annotated[float, Field(description="Its time in seconds.")] = 0.0
    sessions: Annotated[
        tuple[tuple[int, str], ...], Field(description="Keys of login sessions, each with the epoch it was made in.")
    ] = ()

    def before(self, epoch: int) -> tuple[str, ...]:
        """Return the sessions of earlier epochs."""
        return tuple(key for made, key in self.sessions if made < epoch)
