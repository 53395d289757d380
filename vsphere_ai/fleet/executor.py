"""Executor of a fleet over Dask: a coordinator in this process, and a task for each shard at its vCenter."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from vsphere_ai.documents.fleets import Shard, ShardOutcome
from vsphere_ai.errors import Unreachable
from vsphere_ai.execution.host_budget import LocalBudget
from vsphere_ai.fleet.address import context
from vsphere_ai.fleet.coordinator import Coordinator
from vsphere_ai.fleet.dask import LOOK, DaskFleet
from vsphere_ai.fleet.rpc import WorkerListener
from vsphere_ai.fleet.run import FleetStop
from vsphere_ai.fleet.shard import FleetEmit
from vsphere_ai.fleet.watch import ShardWatch


@dataclass(frozen=True)
class DaskOptions:
    """Where this coordinator listens: a host of this machine that workers reach, and a port, 0 for any.

    `budget`: hosts that may be out of service at once in all vCenters together.
    """

    host: str = ""
    port: int = 0
    budget: int | None = None
    halt_on_failure: bool = False


class DaskExecutor:
    """Carries shards out on the workers of a scheduler."""

    def __init__(self, fleet: DaskFleet, stop: FleetStop, options: DaskOptions) -> None:
        self._fleet, self._stop, self._options = fleet, stop, options

    def run(self, shards: Sequence[Shard], emit: FleetEmit) -> Iterator[ShardOutcome]:
        """Carry shards out; yield the outcome of each as soon as it is known."""
        budget = LocalBudget(self._options.budget) if self._options.budget else None
        coordinator = Coordinator(shards, self._fleet.terms, self._stop, budget)
        host = self._options.host or own_address(self._fleet.address.host)
        tls = context(self._fleet.settings, "client", listens=True)
        with WorkerListener(host, self._options.port, tls, coordinator.answer) as listener:
            where: dict[str, JsonValue] = {"host": host, "port": listener.server_address[1], "token": listener.token}
            watch = ShardWatch(self._fleet, coordinator, emit, where)
            for shard in shards:
                watch.place(shard)
            yield from self._outcomes(coordinator, watch, emit)

    def _outcomes(self, coordinator: Coordinator, watch: ShardWatch, emit: FleetEmit) -> Iterator[ShardOutcome]:
        pause, looked = min(LOOK, self._fleet.terms.lease / 4), 0.0
        while watch.placed:
            with coordinator.changed:
                known = [o for o in coordinator.settled() if o.run in watch.placed]
                if not known:
                    coordinator.changed.wait(pause / 4)
            for vcenter, event in coordinator.events():
                emit(vcenter, event)
            for outcome in known:
                watch.drop(outcome.run)
                if self._options.halt_on_failure and not outcome.over:
                    self._stop.halt(outcome.vcenter)
                yield outcome
            if time.monotonic() - looked > pause:
                watch.look()
                looked = time.monotonic()


def own_address(peer: str) -> str:
    """Return the address of this machine that is used towards another one."""
    from distributed.utils import get_ip

    try:
        return str(get_ip(peer))
    except (OSError, ValueError) as error:
        text = f"this machine has no address towards {peer}: {error}"
        raise Unreachable(text, "give one that workers reach: --listen HOST", rule="fleet.listen") from error
