"""Watch over shards that Dask is to find places for: what it loses is placed again, and given up after a while."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import JsonValue

from vsphere_ai.app.events import Remark
from vsphere_ai.documents.fleets import Shard
from vsphere_ai.errors import Unreachable, VsphereAiError
from vsphere_ai.fleet.coordinator import Coordinator
from vsphere_ai.fleet.dask import DaskFleet, WorkerInfo, answer_of
from vsphere_ai.fleet.shard import FleetEmit, outcome_of
from vsphere_ai.fleet.takeover import waiting
from vsphere_ai.fleet.wire import error_of

if TYPE_CHECKING:
    from distributed import Future

MOST_PLACES = 20
"""How often a shard is placed again before it is given up."""


@dataclass
class _Placed:
    """A shard with its task; `seen` is when it was carried out, or there was a worker for it, last."""

    shard: Shard
    future: Future
    seen: float
    places: int = 1
    left: str = ""
    """The worker that was lost last, from which it was taken."""
    warned: bool = False


class ShardWatch:
    """Shards that are not settled. `where` is how workers reach the coordinator."""

    def __init__(
        self, fleet: DaskFleet, coordinator: Coordinator, emit: FleetEmit, where: dict[str, JsonValue]
    ) -> None:
        self._fleet, self._coordinator, self._emit, self._where = fleet, coordinator, emit, where
        self.placed: dict[str, _Placed] = {}
        self._said_lost = False

    def place(self, shard: Shard) -> None:
        """Have a shard carried out by any worker of its vCenter."""
        self.placed[shard.run] = _Placed(shard, self._submit(shard), time.monotonic())
        wait = self._coordinator.wait(shard.run)
        if wait:
            self._emit(shard.vcenter, waiting(wait))

    def drop(self, run: str) -> None:
        """Forget a shard that is settled."""
        self.placed.pop(run).future.release()

    def _submit(self, shard: Shard, on: tuple[str, ...] = ()) -> Future:
        values: JsonValue = shard.model_copy(update={"inventory": "", "plan": {}}).as_json()
        return self._fleet.submit(shard.vcenter, {"op": "shard", "shard": values, **self._where}, on)

    def look(self) -> None:
        """Look at every shard on which no worker works: place it again, or settle it."""
        idle = [each for run, each in self.placed.items() if self._is_idle(run, each)]
        self._say_lost()
        if not idle:
            return
        offers = () if self._fleet.lost else self._fleet.offers()
        for each in idle:
            self._look(each, offers)

    def _say_lost(self) -> None:
        """Say once that the scheduler is gone, also while no shard needs it."""
        if self._said_lost or not self.placed or not self._fleet.lost:
            return
        self._said_lost = True
        name = next(iter(self.placed.values())).shard.vcenter
        text = f"the scheduler at {self._fleet.address} was lost: workers end what they are at, and take nothing new"
        self._emit(name, Remark("fleet.scheduler", text))

    def _is_idle(self, run: str, each: _Placed) -> bool:
        if not self._coordinator.is_held(run):
            return True
        each.seen, each.warned = time.monotonic(), False
        return False

    def _look(self, each: _Placed, offers: tuple[WorkerInfo, ...]) -> None:
        run, name, coordinator = each.shard.run, each.shard.vcenter, self._coordinator
        stored = outcome_of(each.shard)
        if stored.over or coordinator.stop.ordered:
            coordinator.give_up(run, stored)
            return
        lost = "" if each.future.done() else coordinator.lost_by(run)  # who has come back is as good as others
        fit = tuple(o for o in offers if name in o.vcenters and o.name != lost)
        if fit:
            each.seen, each.warned = time.monotonic(), False
        error = _failure(each.future)
        if error is not None and error.rule != "fleet.dask":
            self._give_up(each, error)
        elif fit and (each.future.done() or (lost not in ("", each.left) and not coordinator.is_wanted(run))):
            each.left = lost
            self._again(each, tuple(o.address for o in fit) if lost else (), error)
        elif not fit:
            self._wait(each)

    def _again(self, each: _Placed, on: tuple[str, ...], error: VsphereAiError | None) -> None:
        if each.places >= MOST_PLACES:
            text = f"vCenter {each.shard.vcenter} was given to workers {each.places} times, and none has finished it"
            self._give_up(each, error or Unreachable(text, "look at the workers' output", rule="fleet.dask"))
            return
        each.future.release()
        each.future, each.places = self._submit(each.shard, on), each.places + 1

    def _wait(self, each: _Placed) -> None:
        patience, name = self._fleet.terms.patience, each.shard.vcenter
        what = f"the scheduler at {self._fleet.address} was lost" if self._fleet.lost else f"no worker serves {name}"
        if time.monotonic() - each.seen > patience:
            rule = "fleet.scheduler" if self._fleet.lost else "fleet.no-worker"
            remedy = f"start it, then: vsphere-ai fleet resume {each.shard.fleet}"
            self._give_up(each, Unreachable(f"{what}, for {patience:g} s", remedy, rule=rule))
        elif not each.warned:
            each.warned = True
            text = f"{what}: waiting {patience:g} s for one, then this vCenter is left as it is"
            self._emit(name, Remark("fleet.no-worker", text))

    def _give_up(self, each: _Placed, error: VsphereAiError) -> None:
        """Settle a shard by what is known of it here, with why no one goes on."""
        stored = outcome_of(each.shard)
        go_on = f"vsphere-ai fleet resume {each.shard.fleet}"
        said = {"message": error.message, "rule": error.rule, "exit_code": error.exit_code, "go_on": go_on}
        self._coordinator.give_up(each.shard.run, stored.model_copy(update=said))


def _failure(future: Future) -> VsphereAiError | None:
    """Return why a task that has ended has failed; None where it has not, or goes on."""
    if not future.done():
        return None
    try:
        found = answer_of(future)
    except VsphereAiError as error:
        return error
    return error_of(found["error"]) if "error" in found else None
