"""Plan of a fleet: one playbook planned in several vCenters side by side, as one document with totals."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from pydantic import ValidationError

from vsphere_ai import __version__
from vsphere_ai.app.estate.references import load
from vsphere_ai.app.estate.scope import EstateRequest
from vsphere_ai.app.events import Emit
from vsphere_ai.app.events.results import exit_code_of
from vsphere_ai.app.project.new_files import require_absent
from vsphere_ai.app.runs.plan_playbook import PlanRequest, plan_loaded
from vsphere_ai.documents.fleets import FleetPlanDocument, FleetTotals, ShardPlanDocument
from vsphere_ai.documents.stored import first_fault
from vsphere_ai.errors import Conflict, InputError, Mark, Refused, UsageError, VsphereAiError, most_serious
from vsphere_ai.language.inventories.inventory import find_inventory
from vsphere_ai.language.yaml_files.document import content_of
from vsphere_ai.model.bounded import json_value
from vsphere_ai.model.names.suggestion import suggest
from vsphere_ai.planning.document import SavedPlan, checksum, dumps, open_saved
from vsphere_ai.security.files import DOCUMENT, create_private, not_written, write_private

if TYPE_CHECKING:
    from pydantic import JsonValue

FLEET_VERSION = 1
AGAIN = "make it again with: vsphere-ai fleet plan PLAYBOOK --to FILE"
T = TypeVar("T")


@dataclass(frozen=True)
class FleetPlanRequest:
    """Which playbook to plan, in which vCenters of an inventory (all of them where none is named).

    `budget`: hosts out of service at the same time in all vCenters together; None: no such limit. `others` are vCenters
    that exist, whether or not this process knows them: plays for them are no mistakes.
    """

    playbook: Path
    estate: EstateRequest = field(default_factory=EstateRequest)
    vcenters: tuple[str, ...] = ()
    budget: int | None = None
    others: tuple[str, ...] = ()


@dataclass(frozen=True)
class PlannedShard:
    """The plan of one vCenter: its saved document, and the same as values."""

    vcenter: str
    document: Mapping[str, JsonValue]
    plan: SavedPlan


Found = tuple[PlannedShard | None, Mapping[Mark, InputError | None]]
"""The plan of one vCenter, and the plays for it: each with why it matches nothing there, None where it does."""


class Sites(Protocol):
    """Where vCenters are planned that this process does not reach."""

    def chosen(self, request: FleetPlanRequest) -> tuple[str, ...]:
        """Return the names of the vCenters that are planned."""

    def plan(self, request: FleetPlanRequest, name: str, emit: Emit) -> Found:
        """Plan one of them."""


@dataclass(frozen=True)
class FleetPlan:
    """Plans of several vCenters. `without` are chosen vCenters for which the playbook has nothing."""

    playbook: str
    shards: tuple[PlannedShard, ...]
    without: tuple[str, ...] = ()
    budget: int | None = None

    @property
    def exit_code(self) -> int:
        """0, or why the fleet is refused: the most serious code of a shard."""
        refused = (s.plan.problems for s in self.shards if s.plan.problems)
        return most_serious(exit_code_of(problems) for problems in refused)

    @property
    def digest(self) -> str:
        """SHA-256 over the digests of all shards."""
        return checksum([[s.vcenter, s.plan.digest] for s in self.shards])

    @property
    def totals(self) -> FleetTotals:
        """What all shards do together."""
        plans = [s.plan for s in self.shards]
        impacts = [p.impact for p in plans]
        slowest = max((p.expected.seconds for p in plans if p.expected), default=0.0)
        windows = sum(len({*p.impact.reboots, *p.impact.maintenance}) * p.expected.host for p in plans if p.expected)
        bound = windows / self.budget if self.budget else 0.0
        return FleetTotals(
            vcenters=len(plans),
            steps=sum(len(p.steps) for p in plans),
            reboots=sum(len(i.reboots) for i in impacts),
            power_cycles=sum(len(i.power_cycles) for i in impacts),
            destroyed=sum(len(i.destroyed) for i in impacts),
            seconds=max(slowest, bound),
            budget_bound=bound > slowest,
        )

    @property
    def document(self) -> FleetPlanDocument:
        """The plan as it is printed."""
        return FleetPlanDocument(
            fleet_version=FLEET_VERSION,
            vsphere_ai=__version__,
            playbook=self.playbook,
            digest=self.digest,
            totals=self.totals,
            budget=self.budget,
            without=self.without,
            shards=tuple(ShardPlanDocument(vcenter=s.vcenter, plan=dict(s.document)) for s in self.shards),
        )

    def saved(self) -> Mapping[str, JsonValue]:
        """Return the content of the file of a fleet plan, which `fleet apply` takes."""
        content = self.document.as_json()
        return {**content, "seal": checksum(content)}


def plan_fleet(request: FleetPlanRequest, emit: Callable[[str], Emit], sites: Sites | None = None) -> FleetPlan:
    """Plan a playbook in every chosen vCenter side by side. `emit` makes a listener for a vCenter. Changes nothing.

    `sites` plan it elsewhere, with their own inventories; None: this process does.

    A play without `vcenter` is for all of them; where its pattern matches no object in one, but one in another,
    it is left out there. `InputError` where it matches none in any. The limit likewise leaves a vCenter out, and is a
    `UsageError` where it leaves nothing of any. Any other error of a vCenter is one of the fleet.
    """
    names = sites.chosen(request) if sites else chosen_vcenters(request)
    plan = sites.plan if sites else plan_one
    beyond: dict[str, VsphereAiError] = {}

    def within_limit(name: str) -> Found:
        try:
            return plan(request, name, emit(name))
        except VsphereAiError as error:
            if not request.estate.limit or error.rule != "usage.limit":
                raise
            beyond[name] = error
            return None, {}

    planned = side_by_side(names, within_limit)
    if len(beyond) == len(names):
        raise _together({name: beyond[name] for name in names})
    if not beyond:  # what a play matches in a vCenter that the limit leaves out is not known
        _require_matched([unmatched for _, unmatched in planned], names)
    shards = tuple(shard for shard, _ in planned if shard is not None)
    if not shards:
        text = f"{request.playbook} has no play for {', '.join(names)}"
        raise UsageError(text, "name the vCenters of its plays with --vcenter", rule="usage.vcenter")
    _require_unlike(shards)
    with_plan = {s.vcenter for s in shards}
    without = tuple(n for n in names if n not in with_plan)
    return FleetPlan(str(request.playbook), shards, without, request.budget)


def chosen_vcenters(request: FleetPlanRequest) -> tuple[str, ...]:
    """Return the vCenters that are named, else all of the inventory; `UsageError` for one that it has not."""
    known = find_inventory(request.estate.inventory).vcenters
    for name in request.vcenters:
        if name not in known:
            raise UsageError(f"the inventory has no vCenter '{name}'", suggest(name, known, "it has"))
    return tuple(dict.fromkeys(request.vcenters)) or tuple(known)


def side_by_side(names: Sequence[str], work: Callable[[str], T]) -> list[T]:
    """Do something for every vCenter at once; one error for all that fail, as serious as the most serious of them."""

    def one(name: str) -> T | VsphereAiError:
        try:
            return work(name)
        except VsphereAiError as error:
            return error

    with ThreadPoolExecutor(max(1, len(names)), thread_name_prefix="fleet") as pool:
        found = list(pool.map(one, names))
    errors = {n: e for n, e in zip(names, found, strict=True) if isinstance(e, VsphereAiError)}
    if errors:
        raise _together(errors)
    return [each for each in found if not isinstance(each, VsphereAiError)]


def _together(errors: Mapping[str, VsphereAiError]) -> VsphereAiError:
    if all(isinstance(e, InputError) for e in errors.values()):
        return InputError({d for e in errors.values() if isinstance(e, InputError) for d in e.diagnostics})
    code = most_serious(e.exit_code for e in errors.values())
    worst = next(e for e in errors.values() if e.exit_code == code)
    text = "\n".join(f"{name}: {e.message}" for name, e in errors.items())
    made = Refused(text, worst.remedy or "nothing was changed in any vCenter", rule=worst.rule)
    made.exit_code, made.title = code, worst.title
    return made


def plan_one(request: FleetPlanRequest, name: str, emit: Emit) -> Found:
    """Return the plan of one vCenter, and its plays: each with why it matches nothing there, None where it does."""
    estate = replace(request.estate, vcenter=name)
    playbook = load(request.playbook, estate, emit)
    unmatched: dict[Mark, InputError] = {}
    plays = tuple(p for p in playbook.plays if p.vcenter == name or p.vcenter not in request.others)
    playbook = replace(playbook, plays=plays, unmatched=unmatched)
    own = [p.mark for p in playbook.plays if p.vcenter in ("", name)]
    if not own:
        return None, {}
    result = plan_loaded(playbook, PlanRequest(request.playbook, estate), emit)
    found = {mark: unmatched.get(mark) for mark in own}
    if all(found.values()):
        return None, found
    kept = tuple(p for p in result.playbook.plays if p.mark not in unmatched and p.vcenter in ("", name))
    document = replace(result, playbook=replace(result.playbook, plays=kept)).saved()
    values: Mapping[str, JsonValue] = json_value(json.dumps(document))
    return PlannedShard(name, values, open_saved(json.dumps(values), name)), found


def _require_matched(found: Iterable[Mapping[Mark, InputError | None]], names: Sequence[str]) -> None:
    """Refuse a play whose pattern matches no object in any of its vCenters."""
    plays: dict[Mark, list[InputError | None]] = {}
    for each in found:
        for mark, why in each.items():
            plays.setdefault(mark, []).append(why)
    errors = [[e for e in why if e is not None] for why in plays.values() if all(why)]
    if errors:
        error = InputError({d for each in errors for e in each for d in e.diagnostics})
        error.compared_with = f"vCenters {', '.join(names)}"
        raise error


def _require_unlike(shards: Iterable[PlannedShard]) -> None:
    """Refuse a vCenter under two names: both shards would do the same, and one waits for the lock of the other."""
    known: dict[str, str] = {}
    for shard in shards:
        first = known.setdefault(shard.plan.vcenter.instance, shard.vcenter)
        if first != shard.vcenter:
            text = f"{first} and {shard.vcenter} are the same vCenter: instance {shard.plan.vcenter.instance}"
            raise UsageError(text, "choose one of them with --vcenter", rule="usage.vcenter")


def save_fleet_plan(plan: FleetPlan, path: Path) -> None:
    """Write a fleet plan to a new file that only its owner can read."""
    require_absent([path])
    try:
        create_private(path)  # one that came since stays
        write_private(path, f"{dumps(plan.saved())}\n".encode())
    except OSError as error:
        raise not_written(path, error) from None


def open_fleet_plan(path: Path) -> FleetPlan:
    """Read the file of a fleet plan; `Conflict` where it is none, or was edited."""
    return fleet_plan_of(content_of(path, "plan", DOCUMENT).decode("utf-8", "replace"), path, saved=True)


def fleet_plan_of(text: str, path: Path, *, saved: bool = False) -> FleetPlan:
    """Return a fleet plan of its JSON text. What was printed has no checksum of the whole, but one of each plan.

    `Conflict` where it is none, or was edited.
    """
    try:
        values = json_value(text)
        seal = str(values.pop("seal")) if saved or "seal" in values else ""
        if seal and checksum(values) != seal:
            raise Conflict(f"{path} was edited after it was made; nothing was changed", AGAIN, rule="plan.edited")
        if values.get("fleet_version") != FLEET_VERSION:
            other = f"{path} has fleet version {values.get('fleet_version')}, not {FLEET_VERSION}"
            raise Conflict(other, AGAIN, rule="plan.schema")
        made = FleetPlanDocument.model_validate(values)
    except ValidationError as error:
        raise _no_plan(path, first_fault(error)) from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _no_plan(path, f"{error}" if isinstance(error, ValueError) else "it is no object with a seal") from None
    shards = ((s.vcenter, s.plan) for s in made.shards)
    opened = tuple(PlannedShard(n, plan, open_saved(json.dumps(plan), f"{path}, {n}")) for n, plan in shards)
    return FleetPlan(made.playbook, opened, made.without, made.budget)


def _no_plan(path: Path, why: str) -> Conflict:
    return Conflict(f"{path} is not the plan of a fleet: {why}", AGAIN, rule="plan.unreadable")
