"""Run of a fleet: its record, its shards carried out side by side, and how each stands."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from vsphere_ai.app.estate.scope import EstateRequest
from vsphere_ai.app.events import Emit, Event, RunStarted
from vsphere_ai.app.runs.apply_plan import ApplyRequest, apply
from vsphere_ai.documents.fleets import LOCAL, FleetRun, RefusedShards, Shard, ShardOutcome
from vsphere_ai.errors import Storage, UsageError, VsphereAiError, most_serious
from vsphere_ai.execution.host_budget import LocalBudget
from vsphere_ai.fleet.address import parse_address
from vsphere_ai.fleet.plan import FleetPlan, PlannedShard, side_by_side
from vsphere_ai.fleet.shard import FleetEmit, ShardExecutor, failed_outcome, find_run, open_or_resume, outcome_of
from vsphere_ai.fleet.takeover import taken_over
from vsphere_ai.language.inventories.inventory import find_inventory
from vsphere_ai.model.names.suggestion import suggest
from vsphere_ai.planning.document import dumps
from vsphere_ai.runs import journal, locks
from vsphere_ai.runs import lease_record as fleet_record
from vsphere_ai.runs.state_files import read_state, write_state
from vsphere_ai.security.state_dir import own_folder, state_dir

if TYPE_CHECKING:
    from vsphere_ai.runs.journal import Journal
    from vsphere_ai.runs.locks import Mode

FOLDER = "fleets"


@dataclass(frozen=True)
class FleetOptions:
    """How a fleet is carried out. `executor` is ``local``, or ``dask:`` and the address of a scheduler."""

    estate: EstateRequest
    lock: Mode | None = None
    halt_on_failure: bool = False
    executor: str = LOCAL


StopShard = Callable[[int, str], None]
"""Stops one shard with the number of a signal, and why where the operator has not sent it."""


class FleetStop:
    """Stops all shards in order, from any thread and from signal handlers; those not yet started never start.

    `number` is the signal that the fleet reports; it stays 0 where `halt` stopped it. `ordered` is the one that shards
    are stopped with, 0 before, and `why` the reason, "" for the operator.
    """

    def __init__(self) -> None:
        self.number = self.ordered = 0
        self.why = ""
        self._stops: list[StopShard] = []

    def __call__(self, number: int = signal.SIGTERM, why: str = "") -> None:
        """Start nothing more in any shard, because this signal came."""
        self.number = self.number or number
        self._pass_on(number, why)

    def halt(self, vcenter: str) -> None:
        """Start nothing more in any shard, because this one has failed."""
        if not self.ordered:
            self._pass_on(signal.SIGTERM, f"stopped because {vcenter} failed (--halt-on-failure)")

    def _pass_on(self, number: int, why: str) -> None:
        if not self.ordered:
            self.ordered, self.why = number, why
        for stop in tuple(self._stops):
            stop(number, why)

    def add(self, stop: StopShard) -> None:
        """Stop this shard too, at once if that was requested before."""
        self._stops.append(stop)
        if self.ordered:
            stop(self.ordered, self.why)

    def drop(self, stop: StopShard) -> None:
        """Forget a shard that has ended."""
        self._stops.remove(stop)


class LocalExecutor:
    """Carries shards out in threads of this process."""

    def __init__(self, stop: FleetStop, budget: int | None = None, *, halt_on_failure: bool = False) -> None:
        self._stop, self._halt = stop, halt_on_failure
        self._budget = LocalBudget(budget) if budget else None

    def run(self, shards: Sequence[Shard], emit: FleetEmit) -> Iterator[ShardOutcome]:
        """Carry shards out; yield the outcome of each as soon as it has ended."""
        with ThreadPoolExecutor(max(1, len(shards)), thread_name_prefix="shard") as pool:
            for done in as_completed([pool.submit(self._one, shard, emit) for shard in shards]):
                outcome = done.result()
                if self._halt and not outcome.over:
                    self._stop.halt(outcome.vcenter)
                yield outcome

    def _one(self, shard: Shard, emit: FleetEmit) -> ShardOutcome:
        def listen(event: Event) -> None:
            if isinstance(event, RunStarted):
                self._stop.add(event.stop)
            emit(shard.vcenter, event)

        if self._stop.ordered:
            return outcome_of(shard)
        try:
            with taken_over(shard, lambda: bool(self._stop.ordered), listen) as free:
                return open_or_resume(shard, listen, self._budget) if free else outcome_of(shard)
        except VsphereAiError as error:  # of the takeover: the others are errors of the run itself
            return failed_outcome(shard, error)


Compare = Callable[[PlannedShard, FleetOptions, Emit], None]


def compare_fleet(
    plan: FleetPlan, options: FleetOptions, emit: Callable[[str], Emit], compare: Compare | None = None
) -> None:
    """Lock, plan again and compare every shard; an error where one is not as planned. Changes nothing.

    `compare` does it elsewhere; None: in this process.
    """
    plans = {s.vcenter: s for s in plan.shards}
    one = compare or _compare
    side_by_side(tuple(plans), lambda name: one(plans[name], options, emit(name)))


def _compare(shard: PlannedShard, options: FleetOptions, emit: Emit) -> None:
    text, estate = dumps(shard.document), replace(options.estate, vcenter=shard.vcenter)
    what = Path(f"the plan of {shard.vcenter}")
    apply(ApplyRequest(what, estate, yes=True, lock=options.lock, document=text, compare_only=True), emit)


def begin_fleet(plan: FleetPlan, options: FleetOptions) -> FleetRun:
    """Write the record of a new fleet run, with the ids of the runs of its shards; it is on the disk then.

    `UsageError` where its executor is not one that `fleet resume` would go on with: a scheduler without TLS.
    """
    if options.executor != LOCAL:
        parse_address(options.executor)
    estate, fleet = options.estate, journal.new_name()
    here = options.executor == LOCAL  # elsewhere each worker has its own
    inventory = str(find_inventory(estate.inventory).path.absolute()) if here else ""
    shards = tuple(
        Shard(
            fleet=fleet,
            vcenter=s.vcenter,
            run=_new_run(),
            plan=dict(s.document),
            inventory=inventory,
            parallel=estate.parallel,
            lock=options.lock,
            ssh_login=estate.ssh_login,
        )
        for s in plan.shards
        if s.plan.steps
    )
    halt, executor = options.halt_on_failure, options.executor
    run = FleetRun(
        fleet=fleet,
        started=journal.now(),
        playbook=plan.playbook,
        shards=shards,
        budget=plan.budget,
        halt_on_failure=halt,
        executor=executor,
    )
    remedy = "nothing was changed; make room or repair the folder"
    write_state(_folder() / f"{fleet}.json", run, remedy, durable=True)
    return run


def _new_run() -> str:
    while True:  # of one second there are 65,536 names
        name = journal.new_name()
        if find_run(name) is None:
            return name


def carry_out_fleet(run: FleetRun, executor: ShardExecutor, emit: FleetEmit) -> tuple[ShardOutcome, ...]:
    """Bring every shard of a fleet run that is not over to its end; return how all of them stand, in order.

    `emit` gets the events of the shards, and at the end of each its outcome.
    """
    with locks.hold_run(f"fleet-{run.fleet}"):
        known = {o.vcenter: o for o in fleet_outcomes(run) if o.over}
        for outcome in known.values():
            emit(outcome.vcenter, outcome)
        _note_refused(run.fleet, ())
        for outcome in executor.run([s for s in run.shards if s.vcenter not in known], emit):
            known[outcome.vcenter] = outcome
            if outcome.state == "refused":
                _note_refused(run.fleet, known.values())
            emit(outcome.vcenter, outcome)
        for outcome in known.values():
            if outcome.over:
                fleet_record.forget(outcome.run)
    return tuple(known[s.vcenter] for s in run.shards)


def fleet_outcomes(run: FleetRun) -> tuple[ShardOutcome, ...]:
    """Return how the shards of a fleet run stand by their journals on this machine; what was refused has none."""
    found, refused = map(outcome_of, run.shards), _refused(run.fleet)
    return tuple(refused.get(o.run, o) if o.state == "not started" else o for o in found)


def fleet_exit_code(outcomes: Sequence[ShardOutcome], number: int = 0) -> int:
    """Return the most serious exit code of shards; 128 + the number of the signal where that stopped them."""
    stopped = (o for o in outcomes if not o.over)
    code = most_serious(1 if o.exit_code >= 128 else o.exit_code for o in stopped)
    return 128 + number if number and code in (0, 1) else code


def _folder() -> Path:
    return own_folder(FOLDER)


def _note_refused(fleet: str, outcomes: Iterable[ShardOutcome]) -> None:
    """Note which shards were refused and why, for who looks later."""
    refused = RefusedShards(shards=tuple(o for o in outcomes if o.state == "refused"))
    with suppress(Storage):  # nothing was changed there: the reason may be lost with the disk
        write_state(_folder() / f"{fleet}.refused", refused)


def _refused(fleet: str) -> dict[str, ShardOutcome]:
    """Return the outcomes of shards that were refused last, by their runs."""
    kept = read_state(_folder() / f"{fleet}.refused", RefusedShards)
    return {outcome.run: outcome for outcome in kept.shards} if kept else {}


def open_fleet(name: str = "") -> FleetRun:
    """Return the record of a fleet run by its name or the beginning of it; the latest one that is not over without."""
    known = [path.stem for path in _files()]
    if not name:
        runs = (_read(run) for run in reversed(known))
        found = next((r for r in runs if not all(o.over for o in fleet_outcomes(r))), None)
        if found is None:
            raise UsageError("no fleet run is unfinished", "vsphere-ai fleet status lists them", rule="run.none")
        return found
    meant = [each for each in known if each.startswith(name)]
    if len(meant) != 1:
        what = f"several fleet runs begin with {name}" if meant else f"there is no fleet run {name}"
        raise UsageError(what, suggest(name, known, "there is") or "none was begun here", rule="run.none")
    return _read(meant[0])


def list_fleets() -> tuple[FleetRun, ...]:
    """Return the fleet runs of this machine, the oldest first."""
    return tuple(_read(path.stem) for path in _files())


def _files() -> list[Path]:
    return sorted(_folder().glob("*.json")) if (state_dir() / FOLDER).exists() else []


def _read(name: str) -> FleetRun:
    path = _folder() / f"{name}.json"
    run = read_state(path, FleetRun)
    if run is None:
        raise Storage(f"{path} was removed", FleetRun.remedy, rule=FleetRun.rule)
    return run


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
