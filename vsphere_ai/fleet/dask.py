"""Fleet over Dask: the workers that its scheduler knows, and planning and comparing on them.

Dask only chooses the place. What is sent to it is a request as JSON text, for `fleet_task.carry_out`.
"""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import JsonValue, TypeAdapter

from vsphere_ai import __version__
from vsphere_ai.app.events import Emit, Event
from vsphere_ai.errors import InputError, Mark, Refused, Unreachable, UsageError
from vsphere_ai.fleet.address import Address, needed, security
from vsphere_ai.fleet.bundle import bundle_values, pack
from vsphere_ai.fleet.certificates import TlsFiles
from vsphere_ai.fleet.lease import LeaseTimings
from vsphere_ai.fleet.plan import FleetPlanRequest, Found, PlannedShard
from vsphere_ai.fleet.planner import estate_values
from vsphere_ai.fleet.probe import require_mutual_tls, unreachable
from vsphere_ai.fleet.task import carry_out
from vsphere_ai.fleet.wire import error_of, event_of
from vsphere_ai.language.inventories.inventory import find_inventory
from vsphere_ai.model.bounded import json_value
from vsphere_ai.model.names.suggestion import did_you_mean
from vsphere_ai.planning.document import open_saved

if TYPE_CHECKING:
    from distributed import Client, Future
    from distributed.security import Security

    from vsphere_ai.fleet.run import FleetOptions

RESOURCE = "vcenter:"
"""Prefix of the Dask resource that a worker has for each of its vCenters."""
IDENTITY = "vsphere_ai"
"""Key of what a worker says of itself."""
CONNECT = 10.0
LOOK = 0.5
"""Seconds."""
_MARK: TypeAdapter[Mark] = TypeAdapter(Mark)


@dataclass(frozen=True)
class WorkerInfo:
    """A worker of a fleet, as the scheduler knows it."""

    address: str
    name: str
    version: str
    vcenters: tuple[str, ...]


class DaskFleet:
    """A scheduler and its workers; see `connected`."""

    def __init__(self, client: Client, address: Address, settings: Security, terms: LeaseTimings) -> None:
        self.client, self.address, self.settings, self.terms = client, address, settings, terms
        self._seen: tuple[float, tuple[WorkerInfo, ...]] = float("-inf"), ()
        self._looking = threading.Lock()

    @property
    def lost(self) -> bool:
        """Whether the scheduler is gone."""
        return str(self.client.status) != "running"

    def offers(self) -> tuple[WorkerInfo, ...]:
        """Return the workers as they were within the last half second."""
        with self._looking:
            if time.monotonic() - self._seen[0] > LOOK:
                self._seen = time.monotonic(), self._offers()
            return self._seen[1]

    def _offers(self) -> tuple[WorkerInfo, ...]:
        """Return the workers that were started by `fleet worker`; none where the scheduler does not answer."""
        try:
            workers = self.client.scheduler_info()["workers"]
        except (OSError, RuntimeError, TimeoutError):
            return ()
        said = ((address, each.get(IDENTITY)) for address, each in workers.items())
        return tuple(
            WorkerInfo(str(address), str(own["name"]), str(own["version"]), tuple(own["vcenters"]))
            for address, own in said
            if isinstance(own, Mapping)
        )

    def chosen(self, request: FleetPlanRequest) -> tuple[str, ...]:
        """Return the vCenters that are named, else all of the inventory; an error where one has no fitting worker.

        Never those that workers offer: one whose worker is away would be left out, and no one would see it.
        """
        offers = self.offers()
        names = tuple(dict.fromkeys(request.vcenters)) or _of_inventory(request)
        if not names and offers:
            offered = ",".join(sorted({n for o in offers for n in o.vcenters}))
            text = f"there is no inventory that says which vCenters are meant; workers offer {offered} now"
            remedy = f"give -i INVENTORY, of which only these names are used, or --vcenter {offered} where that is all"
            raise UsageError(text, remedy, rule="usage.vcenter")
        self.require_workers(names, offers)
        return names

    def require_workers(self, names: Sequence[str], offers: Sequence[WorkerInfo] | None = None) -> None:
        """`Unreachable` where a vCenter has no worker, `Refused` where one is of another version."""
        offers = self.offers() if offers is None else offers
        offered = {name for o in offers for name in o.vcenters}
        missing = [n for n in names if n not in offered]
        if missing or not names:
            what = f"for vCenter {', '.join(missing)}" if missing else "of a fleet"
            near = did_you_mean(missing[0], offered) if missing else ""
            served = ",".join(n for n in names if n in offered)
            rest = near or (f"or leave it out: --vcenter {served}" if served else "")
            remedy = f"start one: vsphere-ai fleet worker {self.address} -i INVENTORY{'; ' if rest else ''}{rest}"
            raise Unreachable(f"the scheduler at {self.address} has no worker {what}", remedy, rule="fleet.no-worker")
        others = [o for o in offers if o.version != __version__ and set(o.vcenters) & set(names)]
        if others:
            of = ", ".join(f"{o.name}: {o.version}" for o in others)
            text = f"workers are of another version than this one, {__version__}: {of}"
            raise Refused(text, "install the same version everywhere", rule="fleet.version")

    def submit(self, name: str, request: Mapping[str, JsonValue], on: Sequence[str] = ()) -> Future:
        """Hand a request to a worker of a vCenter; `on`: the addresses of those that may take it."""
        return self.client.submit(
            carry_out,
            json.dumps({**request, "version": __version__}),
            key=f"{request['op']}-{name}-{secrets.token_hex(8)}",
            resources={f"{RESOURCE}{name}": 1},
            workers=list(on) or None,
            allow_other_workers=False,
            pure=False,
            retries=0,
        )

    def plan(self, request: FleetPlanRequest, name: str, emit: Emit) -> Found:
        """Plan one vCenter on a worker of it."""
        bundle = bundle_values(pack(request.playbook, request.estate.vars_files))
        named = _of_inventory(request) or (n for o in self.offers() for n in o.vcenters)
        others: list[JsonValue] = [*sorted({*named, *request.vcenters})]
        asked: dict[str, JsonValue] = {"op": "plan", "vcenter": name, "bundle": bundle}
        asked |= {"estate": estate_values(request.estate), "others": others}
        found = self._asked(name, asked, emit)
        plays = {_MARK.validate_python(mark): _input_error(why) for mark, why in _pairs(found["plays"])}
        document = found["document"]
        if not isinstance(document, dict):
            return None, plays
        return PlannedShard(name, document, open_saved(json.dumps(document), name)), plays

    def compare(self, shard: PlannedShard, options: FleetOptions, emit: Emit) -> None:
        """Lock, plan again and compare one vCenter on a worker of it."""
        self.require_workers([shard.vcenter])
        request: dict[str, JsonValue] = {"op": "compare", "vcenter": shard.vcenter, "document": dict(shard.document)}
        request |= {"estate": estate_values(options.estate), "lock": options.lock}
        self._asked(shard.vcenter, request, emit)

    def _asked(self, name: str, request: Mapping[str, JsonValue], emit: Emit) -> Mapping[str, JsonValue]:
        future = self.submit(name, request)
        try:
            found = self._awaited(future, name)
        finally:
            future.cancel()
        said = found.get("said")
        for each in said if isinstance(said, list) else ():
            event: Event = event_of(each)  # type: ignore[assignment]
            emit(event)
        if "error" in found:
            raise error_of(found["error"])
        return found

    def _awaited(self, future: Future, name: str) -> Mapping[str, JsonValue]:
        seen = time.monotonic()
        while not future.done():
            time.sleep(LOOK / 5)
            now = time.monotonic()
            if self.lost:
                text = f"the scheduler at {self.address} was lost"
                raise Unreachable(text, "start it, and this again: nothing was changed", rule="fleet.scheduler")
            if now - seen > LOOK and any(name in o.vcenters for o in self.offers()):
                seen = now
            if now - seen > self.terms.patience:
                text = f"the last worker for vCenter {name} was lost {self.terms.patience:g} s ago"
                raise Unreachable(text, "start one; nothing was changed", rule="fleet.no-worker")
        return answer_of(future)


def _of_inventory(request: FleetPlanRequest) -> tuple[str, ...]:
    """Return the vCenters of this machine's inventory, of which nothing else is used; () where there is none."""
    try:
        return tuple(find_inventory(request.estate.inventory).vcenters)
    except UsageError as error:
        if error.rule != "inventory.none":
            raise
        return ()


def answer_of(future: Future) -> Mapping[str, JsonValue]:
    """Return what a task answered; an error of Dask itself as one of ours."""
    if future.status == "finished":
        found = json_value(future.result())
        return found if isinstance(found, dict) else {}
    why = str(future.exception()) if future.status == "error" else future.status
    raise Unreachable(f"Dask has not carried a task out: {why}", "look at the workers' output", rule="fleet.dask")


def _pairs(values: JsonValue) -> Iterator[tuple[JsonValue, JsonValue]]:
    for each in values if isinstance(values, list) else ():
        if isinstance(each, list):
            yield each[0], each[1]


def _input_error(values: JsonValue) -> InputError | None:
    error = error_of(values) if values is not None else None
    return error if isinstance(error, InputError) else None


@contextmanager
def connected(address: Address, files: TlsFiles, terms: LeaseTimings) -> Iterator[DaskFleet]:
    """Connect to a scheduler; `Unreachable` where it does not answer, `Denied` where it serves others too."""
    settings = security(address, files)
    with needed():
        from distributed import Client
    require_mutual_tls(address, settings)
    try:
        client = Client(str(address), security=settings, set_as_default=False, timeout=CONNECT, name="vsphere-ai")
    except OSError as error:
        raise unreachable(address, error) from error
    try:
        yield DaskFleet(client, address, settings, terms)
    finally:
        client.close(timeout=2)
