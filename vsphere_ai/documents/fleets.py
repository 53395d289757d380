"""Documents of fleets: plans of several vCenters, the record of a fleet run, and how its shards stand."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field, JsonValue

from vsphere_ai.documents.locks import LockMode
from vsphere_ai.documents.part import DocumentPart, WholePart
from vsphere_ai.documents.printed import PrintedDocument
from vsphere_ai.documents.stored import StoredDocument, StoredPart

ShardState = Literal["done", "nothing to do", "failed", "stopped", "unfinished", "refused", "not started"]
LOCAL = "local"


class Shard(StoredPart):
    """The part of a fleet in one vCenter. Plain values, which can be sent to another machine; no secret is in it.

    `run` is the id of its one run, chosen by the coordinator (`journal.new_name`) and written into the fleet's record
    before any shard starts: each process that carries the shard out works on this run and makes no other.
    `plan` is the saved plan, as `plan --to` writes it, which names vCenter and limit; `inventory` the file in which its
    vCenter is looked up, where the shard is carried out: secrets are resolved there. `yes` lets a run that is resumed
    do more than was approved.
    """

    fleet: str
    vcenter: str
    run: str
    plan: dict[str, JsonValue]
    inventory: str = ""
    parallel: int = 8
    lock: LockMode | None = None
    ssh_login: bool = True
    yes: bool = False


class FleetRun(StoredDocument):
    """Record of a fleet run, written before its first shard starts, and never changed: the journals say how it goes."""

    remedy: ClassVar[str] = "finish its runs one by one: vsphere-ai run list"
    rule: ClassVar[str] = "journal.damaged"

    fleet: str
    started: str
    playbook: str
    shards: tuple[Shard, ...]
    budget: int | None = None
    halt_on_failure: bool = False
    executor: Annotated[str, Field(description="local, or dask: and the address of a scheduler.")] = LOCAL


class ShardOutcome(WholePart):
    """How the shard of one vCenter stands. Plain values, few, which can be sent to another machine."""

    model_config = ConfigDict(strict=True)

    fleet: str
    vcenter: str
    run: str
    state: ShardState
    exit_code: Annotated[int, Field(description="That of `apply` of this vCenter alone.")] = 0
    changed: Annotated[int, Field(description="Targets that were changed.")] = 0
    verified: Annotated[int, Field(description="Targets that were read back.")] = 0
    failed: Annotated[int, Field(description="Steps of the last attempt that failed.")] = 0
    unknown: Annotated[int, Field(description="Steps whose outcome is not known.")] = 0
    skipped: int = 0
    left_open: Annotated[tuple[str, ...], Field(description="What was not put back, in sentences.")] = ()
    message: Annotated[str, Field(description="Why it ended early.")] = ""
    rule: str = ""
    go_on: Annotated[str, Field(description="The command that finishes it.")] = ""

    @property
    def over(self) -> bool:
        """Whether nothing of it is left to do."""
        return self.state in ("done", "nothing to do")


class RefusedShards(StoredDocument):
    """Shards of a fleet run that were refused last: they have no journal that says why."""

    remedy: ClassVar[str] = "move the file away: why shards were refused last is not known then"

    shards: tuple[ShardOutcome, ...]


class FleetTotals(DocumentPart):
    """What all vCenters do together."""

    vcenters: int
    steps: int
    reboots: int
    power_cycles: int
    destroyed: int
    seconds: Annotated[float, Field(description="The slowest vCenter, or what the budget makes of it.")]
    budget_bound: Annotated[bool, Field(description="Whether the budget makes it as long.")]


class ShardPlanDocument(DocumentPart):
    """The plan of one vCenter, as `plan --to` saves it; the plan has a schema of its own."""

    vcenter: str
    plan: dict[str, JsonValue]


class FleetPlanDocument(PrintedDocument):
    """A fleet plan: as `fleet plan -o json` prints it, or as `fleet plan --to FILE` saves it."""

    printed_by: ClassVar = ("fleet plan", "fleet apply --dry-run")

    fleet_version: int
    vsphere_ai: str
    playbook: str
    digest: str
    totals: FleetTotals
    budget: int | None
    without: Annotated[tuple[str, ...], Field(description="vCenters for which the playbook has nothing.")]
    shards: tuple[ShardPlanDocument, ...]
    seal: Annotated[str, Field(description="SHA-256 of a saved plan: one that was edited is refused.")] = ""


class FleetAppliedDocument(PrintedDocument):
    """What `fleet apply` and `fleet resume` print at their end."""

    printed_by: ClassVar = ("fleet apply", "fleet resume")

    fleet: str
    exit_code: int
    shards: tuple[ShardOutcome, ...]


class FleetStatusDocument(DocumentPart):
    """A fleet run, by the journals on this machine."""

    fleet: str
    started: str
    playbook: str
    shards: tuple[ShardOutcome, ...]


class FleetStatusesDocument(PrintedDocument):
    """What `fleet status` prints."""

    printed_by: ClassVar = ("fleet status", "fleet resume --dry-run")

    fleets: tuple[FleetStatusDocument, ...]
