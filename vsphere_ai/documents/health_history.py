"""History of health as the state folder keeps it: counters and use of GPUs by VM, and XIDs by GPU."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import AwareDatetime, Field

from vsphere_ai.documents.stored import StoredDocument, StoredPart


class KeptCounters(StoredPart):
    """Counters of a VM, by path in its guest, when they were read, and the XIDs that the check saw of its GPUs."""

    taken: AwareDatetime
    values: dict[str, int]
    xids: tuple[int, ...] | None = None


class KeptUse(StoredPart):
    """When the GPUs of a VM were seen busy last, or from when on every check saw them idle."""

    busy: AwareDatetime | None = None
    idle_since: AwareDatetime | None = None


class KeptXid(StoredPart):
    """An XID of a GPU; `uuid` is "" where it is not known."""

    gpu: str
    uuid: str
    vm: str
    boot: Annotated[int, Field(description="Different for each start of the guest.")]
    kind: Literal["xid", "sxid", "off_the_bus", "init", "nic", "pcie"]
    number: int
    place: str
    text: str
    time: AwareDatetime


class HealthHistoryDocument(StoredDocument):
    """What earlier checks of the VMs of a vCenter saw."""

    remedy: ClassVar[str] = "move the file away: counters, XIDs and idle times of earlier checks are not known then"

    counters: dict[str, KeptCounters]
    use: dict[str, KeptUse]
    xids: tuple[KeptXid, ...]
