"""Fleet runs of this machine, as their reports need them: the latest one, and the journals of its shards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vsphere_ai.errors import UsageError
from vsphere_ai.fleet.run import FleetRun, list_fleets
from vsphere_ai.fleet.shard import find_run

if TYPE_CHECKING:
    from vsphere_ai.runs.journal import Journal


def latest_fleet() -> FleetRun:
    """Return the record of the latest fleet run of this machine, over or not; `UsageError` where there is none."""
    known = list_fleets()
    if not known:
        raise UsageError("no fleet was run here yet", "vsphere-ai fleet apply begins one", rule="run.none")
    return known[-1]


def fleet_records(run: FleetRun) -> dict[str, Journal]:
    """Return the journals of the shards of a fleet run that were begun, by vCenter."""
    found = {shard.vcenter: find_run(shard.run) for shard in run.shards}
    return {name: record for name, record in found.items() if record is not None}
