"""Targets of a playbook that cannot be planned, because a value that is needed for them cannot be read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from vsphere_ai.language.playbooks.play import Kinds, TargetPlans
from vsphere_ai.model.estate.malformed import ERRORS, PROBE, OmittedValue, ValueRead, logged, marks
from vsphere_ai.model.facts import Estate, grouped
from vsphere_ai.model.finding import Finding, Problem, by_target
from vsphere_ai.model.state import KindName, Target
from vsphere_ai.model.view import View
from vsphere_ai.planning.observing import observe
from vsphere_ai.resources.base import Resource

RULE = "vcenter.malformed"
HELP = (
    "look at this object in the vSphere Client and correct it, or leave the target out; "
    "--debug shows where reading it failed"
)
PlanOnce = Callable[[TargetPlans, Kinds, View, View], object]


@dataclass(frozen=True)
class MissingFacts:
    """The problems of a plan whose facts lack something, and of which targets the present state of a kind does."""

    problems: tuple[Problem, ...] = ()
    unknown: frozenset[tuple[Target, str]] = frozenset()


@dataclass(frozen=True)
class _View(View):
    """A view that notes whose states are looked at."""

    asked: set[tuple[str, KindName]] = field(default_factory=set)

    def state(self, ref: str, kind: KindName) -> Any:
        self.asked.add((ref, kind))
        return super().state(ref, kind)

    def wanted(self, ref: str, kinds: Iterable[KindName] | None = None) -> Iterator[Any]:
        asked = tuple(self.kinds if kinds is None else kinds)
        self.asked.update((ref, kind) for kind in asked)
        return super().wanted(ref, asked)


def missing_facts(
    desired: TargetPlans, estate: Estate, kinds: Kinds, acted_on: Collection[Target], once: PlanOnce
) -> MissingFacts:
    """Return what cannot be planned for values that were left out of the facts.

    `acted_on` are the targets of the plan's steps, `once` plans states on a view.
    """
    lost = {m.read: m for m in marks(estate)}
    if not lost:
        return MissingFacts()
    traced, log = logged(estate)
    states = observe(estate, kinds)
    hidden = _hidden(traced, log, kinds, lost)
    of = grouped(lost.values(), lambda mark: mark.facts.ref)
    problems = {_problem(t, m) for t in acted_on for m in of.get(t.ref, ())}
    for target, plan in desired.items():
        for state in plan.states:
            view = _View(traced, states)
            log.clear()
            with suppress(*ERRORS):  # by itself it may lack what others of the plan prepare; what it read counts
                once({target: replace(plan, states=(state,))}, kinds, View(traced, states), view)
            read = {*log, *hidden.get((target.ref, state.kind), ())}
            read.update(r for key in view.asked for r in hidden.get(key, ()))
            needed = (lost[r] for r in read if r in lost and _counts(target, r.ref, estate))
            problems.update(_problem(target, mark) for mark in needed)
    unknown = frozenset((t, s.kind) for t, p in desired.items() for s in p.states if (t.ref, s.kind) in hidden)
    return MissingFacts(tuple(sorted(problems, key=by_target)), unknown)


def _hidden(
    traced: Estate, log: list[ValueRead], kinds: Kinds, lost: Collection[ValueRead]
) -> dict[tuple[str, str], frozenset[ValueRead]]:
    """Return which observed states lack which values."""
    found: dict[tuple[str, str], frozenset[ValueRead]] = {}
    for kind, cls in kinds.items():
        for target in traced.targets(cls.target):
            read = _reads(traced, log, cls, target).intersection(lost)
            if read:
                found[target.ref, kind] = frozenset(read)
    return found


def _reads(traced: Estate, log: list[ValueRead], cls: type[Resource], target: Target) -> set[ValueRead]:
    log.clear()
    cls.observe(traced[target.ref], traced)
    return set(log)


def _counts(target: Target, ref: str, estate: Estate) -> bool:
    """Return whether what is read of an object decides about a target, and is not only compared with it.

    Of other hosts and VMs a state is planned without what cannot be read of them, and the plan says so.
    """
    on = estate.host_of(target.ref) if target.kind == "vm" else None
    shared = not ref.startswith(("HostSystem:", "VirtualMachine:"))
    return shared or target.kind == "datacenter" or ref in (target.ref, on.ref if on else None)


def _problem(target: Target, mark: OmittedValue) -> Problem:
    what = mark.path.removeprefix(PROBE)
    of = f"this {target.kind}" if mark.facts.ref == target.ref else f"{mark.facts.name} ({mark.facts.ref})"
    return Finding.problem(target, RULE, f"{what} of {of} cannot be read: {mark.reason}", HELP)


def left_out(estate: Estate) -> Iterable[str]:
    """Return in a line each which values were left out."""
    return (f"{m.facts.name} ({m.facts.ref}): {m.path.removeprefix(PROBE)}: {m.reason}" for m in marks(estate))
