"""Shapes of what the fleet commands print as JSON: a plan, and how the shards of runs stand."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from pydantic import Field, JsonValue
from typing_extensions import TypedDict  # pydantic reads no other one before Python 3.12

State = Literal["done", "nothing to do", "failed", "stopped", "unfinished", "refused", "not started"]


class SavedTotals(TypedDict):
    """What all vCenters do together."""

    vcenters: int
    steps: int
    reboots: int
    power_cycles: int
    destroyed: int
    seconds: Annotated[float, Field(description="The slowest vCenter, or what the budget makes of it.")]
    budget_bound: Annotated[bool, Field(description="Whether the budget makes it as long.")]


class SavedShardPlan(TypedDict):
    """The plan of one vCenter, as `plan --to` saves it; the plan has a schema of its own."""

    vcenter: str
    plan: dict[str, JsonValue]


class FleetPlanned(TypedDict):
    """A fleet plan: as `fleet plan -o json` prints it, or as `fleet plan --to FILE` saves it."""

    fleet_version: int
    vsphere_ai: str
    playbook: str
    digest: str
    totals: SavedTotals
    budget: int | None
    without: Annotated[list[str], Field(description="vCenters for which the playbook has nothing.")]
    shards: list[SavedShardPlan]
    seal: NotRequired[Annotated[str, Field(description="SHA-256 of a saved plan: one that was edited is refused.")]]


class SavedShardOutcome(TypedDict):
    """How the shard of one vCenter stands."""

    fleet: str
    vcenter: str
    run: str
    state: State
    exit_code: Annotated[int, Field(description="That of `apply` of this vCenter alone.")]
    changed: Annotated[int, Field(description="Targets that were changed.")]
    verified: Annotated[int, Field(description="Targets that were read back.")]
    failed: Annotated[int, Field(description="Steps of the last attempt that failed.")]
    unknown: Annotated[int, Field(description="Steps whose outcome is not known.")]
    skipped: int
    left_open: Annotated[list[str], Field(description="What was not put back, in sentences.")]
    message: Annotated[str, Field(description="Why it ended early.")]
    rule: str
    go_on: Annotated[str, Field(description="The command that finishes it.")]


class FleetApplied(TypedDict):
    """What `fleet apply` and `fleet resume` print at their end."""

    fleet: str
    exit_code: int
    shards: list[SavedShardOutcome]


class FleetStatus(TypedDict):
    """A fleet run, by the journals on this machine."""

    fleet: str
    started: str
    playbook: str
    shards: list[SavedShardOutcome]


class FleetStatuses(TypedDict):
    """What `fleet status` prints."""

    fleets: list[FleetStatus]
