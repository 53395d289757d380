"""Document of the address ledger, as custom attributes of vCenter's root folder keep it."""

from __future__ import annotations

import json
from typing import Annotated, Literal

from pydantic import Field

from vsphere_ai.documents.stored import StoredPart


class HoldingDocument(StoredPart):
    """What a NIC of all VMs of a set holds."""

    block: Annotated[int, Field(description="Addresses of a block, one block per VM.")]
    spare: Annotated[int, Field(description="The last blocks are for VMs that the set may get later.")]
    held: Annotated[tuple[str, ...], Field(description="`POOL RANGE`, in the order of the VMs.")]
    released: Annotated[tuple[str, ...], Field(description="`POOL RANGE SECONDS`: held until then, since 1970.")]


class LedgerDocument(StoredPart):
    """All that is leased; `holdings` are by `SET/NIC/FAMILY`."""

    version: Literal[1]
    vms: int
    holdings: dict[str, HoldingDocument]

    def as_text(self) -> str:
        """Return the JSON form without spaces, keys in order: equal ledgers are equal texts."""
        return json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
