"""Executor of a fleet over Dask: a coordinator in this process, and a task for each shard at its vCenter."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING

from pydantic import JsonValue

from vsphere_ai.app.fleet_address import context, require_loopback
from vsphere_ai.app.fleet_coordinator import Coordinator
from vsphere_ai.app.fleet_dask import LOOK, DaskFleet, answer_of
from vsphere_ai.app.fleet_rpc import Listener
from vsphere_ai.app.fleet_run import FleetStop
from vsphere_ai.app.fleet_shard import FleetEmit, Shard, ShardOutcome, failed_outcome, outcome_of
from vsphere_ai.app.fleet_wire import error_of
from vsphere_ai.errors import Unreachable, VsphereAiError
from vsphere_ai.execution.host_budget import LocalBudget

if TYPE_CHECKING:
    from distributed import Future


@dataclass(frozen=True)
class DaskOptions:
    """Where this coordinator listens: a host of this machine that workers reach, and a port, 0 for any.

    `budget`: hosts that may be out of service at once in all vCenters together.
    """

    host: str = ""
    port: int = 0
    budget: int | None = None
    halt_on_failure: bool = False


@dataclass
class _Placed:
    """A shard that Dask is to find a place for."""

    shard: Shard
    future: Future
    seen: float
    """When a worker of its vCenter was seen last."""
    warned: bool = False
    tried: list[str] = field(default_factory=list)


class DaskExecutor:
    """Carries shards out on the workers of a scheduler."""

    def __init__(self, fleet: DaskFleet, stop: FleetStop, options: DaskOptions) -> None:
        self._fleet, self._stop, self._options = fleet, stop, options
        self._emit: FleetEmit = lambda _vcenter, _event: None

    def run(self, shards: Sequence[Shard], emit: FleetEmit) -> Iterator[ShardOutcome]:
        """Carry shards out; yield the outcome of each as soon as it is known."""
        self._emit = emit
        budget = LocalBudget(self._options.budget) if self._options.budget else None
        coordinator = Coordinator(shards, self._fleet.terms, emit, lambda: self._stop.ordered, budget)
        host = self._options.host or own_address(self._fleet.address.host)
        if self._fleet.settings is None:
            require_loopback(host, f"--listen {host}")
        tls = context(self._fleet.settings, "client", listens=True)
        with Listener(host, self._options.port, tls, coordinator.answer) as listener:
            where: dict[str, JsonValue] = {"host": host, "port": listener.server_address[1], "token": listener.token}
            placed = {s.run: _Placed(s, self._submit(s, where), time.monotonic()) for s in shards}
            yield from self._outcomes(coordinator, placed)

    def _submit(self, shard: Shard, where: dict[str, JsonValue]) -> Future:
        return self._fleet.submit(
            shard.vcenter, {"op": "shard", "shard": asdict(replace(shard, inventory="")), **where}
        )

    def _outcomes(self, coordinator: Coordinator, placed: dict[str, _Placed]) -> Iterator[ShardOutcome]:
        looked = 0.0
        while placed:
            with coordinator.changed:
                known = {o.run: o for o in coordinator.settled() if o.run in placed}
                if not known:
                    coordinator.changed.wait(LOOK / 5)
            for run, outcome in known.items():
                placed.pop(run).future.release()
                if self._options.halt_on_failure and not outcome.over and not self._stop.ordered:
                    self._stop.halt()
                yield outcome
            if time.monotonic() - looked > LOOK:
                self._look(coordinator, placed)
                looked = time.monotonic()

    def _look(self, coordinator: Coordinator, placed: dict[str, _Placed]) -> None:
        """Settle what Dask does not carry out."""
        for run, each in placed.items():
            if not each.future.done():
                continue
            try:
                found = answer_of(each.future)
                error: VsphereAiError | None = error_of(found["error"]) if "error" in found else None
            except VsphereAiError as failed:
                error = failed
            if error is not None:
                coordinator.settle(run, failed_outcome(each.shard, error))
            elif coordinator.care(run).settled is None:
                coordinator.settle(run, outcome_of(each.shard))


def own_address(peer: str) -> str:
    """Return the address of this machine that is used towards another one."""
    from distributed.utils import get_ip

    try:
        return str(get_ip(peer))
    except (OSError, ValueError) as error:
        text = f"this machine has no address towards {peer}: {error}"
        raise Unreachable(text, "give one that workers reach: --listen HOST", rule="fleet.listen") from error
