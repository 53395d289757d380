"""The state of an estate as a playbook that planning accepts; what it would refuse or change is left out, and named."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from vsphere_ai.language.playbooks.play import TargetPlan
from vsphere_ai.model.estate.malformed import PROBE, marks_of
from vsphere_ai.model.facts import Estate, ProbeFailure
from vsphere_ai.model.finding import Problem
from vsphere_ai.model.state import KindName, Target, is_observed
from vsphere_ai.model.view import View
from vsphere_ai.planning.document import plain_said
from vsphere_ai.planning.needed_facts import RULE
from vsphere_ai.planning.observing import observe
from vsphere_ai.planning.planner import Plan, make_plan
from vsphere_ai.resources import kinds
from vsphere_ai.resources.base import Resource
from vsphere_ai.resources.mixins import AsksMore, kinds_with, probes_of

States = Mapping[Target, Sequence[Resource]]
MOST = 100
"""Values of one state that are left out one by one, before all of it is."""


def observed(
    estate: Estate, targets: Sequence[Target], chosen: Mapping[KindName, type[Resource]]
) -> tuple[dict[Target, list[Resource]], dict[Target, list[str]]]:
    """Return the present states of targets of the chosen kinds as a playbook may state them, and what no playbook can.

    The second has the remarks of each target.
    """
    probed = any(probes_of(kind) for kind in chosen.values())
    view = View(estate, observe(estate, kinds()))
    found: dict[Target, list[Resource]] = {}
    remarks: dict[Target, list[str]] = {}
    for target in targets:
        own = [view.state(target.ref, k) for k, c in chosen.items() if c.target == target.kind]
        stated = [s.export(target, view, "playbook") for s in own if s is not None]
        found[target] = [e.state for e in stated if isinstance(e.state, Resource)]
        failure = next((o for o in estate[target.ref].probes.values() if isinstance(o, ProbeFailure)), None)
        remarks[target] = [f"MIG left out: {failure.reason}"] if failure is not None and probed else []
        remarks[target] += [e.left_out for e in stated if e.left_out]
        lost = marks_of(estate[target.ref])
        remarks[target] += [f"{m.path.removeprefix(PROBE)} left out: {m.reason}" for m in lost]
    return found, remarks


def acceptable(found: States, estate: Estate) -> tuple[dict[Target, list[Resource]], dict[Target, list[str]]]:
    """Return the states for which planning finds nothing to do, and per target what was left out for that, and why.

    `estate` was read as planning these states reads it.
    """
    kept: dict[Target, list[Resource]] = {}
    said: dict[Target, list[str]] = defaultdict(list)
    for target, states in found.items():
        loadable = [_loadable(state, said[target]) for state in states]
        kept[target] = [state for state in loadable if state is not None]
    # leaving one kind out may bring up what it hid; each pass leaves out at least one
    while faults := _faults(_planned(kept, estate), kept, estate):
        for (target, kind), why in faults.items():
            kept[target] = [s for s in kept[target] if s.kind != kind]
            said[target].append(f"{kind} left out: {why}")
    return kept, {target: words for target, words in said.items() if words}


def _planned(states: States, estate: Estate) -> Plan:
    """Plan states as a playbook would state them: fields that are only shown are no part of it."""
    wanted = {t: TargetPlan(tuple(_loaded(s) for s in each)) for t, each in states.items() if each}
    return make_plan(wanted, estate, kinds())


def _faults(plan: Plan, kept: States, estate: Estate) -> dict[tuple[Target, KindName], str]:
    """Return which stated kinds a plan would change or refuse, and why; empty when it does nothing and refuses none."""
    found: dict[tuple[Target, KindName], str] = {}
    for problem in plan.problems:
        area = problem.rule.partition(".")[0]
        stated = list(kept.get(problem.target, ()))
        own = [s for s in stated if s.kind == area] or [s for s in stated if s.kind.startswith(f"{area}_")]
        own = own or [s for s in stated if probes_of(type(s)) and (area == "ssh" or area in kinds_with(AsksMore))]
        if problem.rule == RULE:  # other states of the target do not need that value
            own = [s for s in stated if problem in _planned({problem.target: [s]}, estate).problems]
        blamed = [(problem.target, s.kind) for s in own or stated] or _cause(problem, kept, estate)
        for key in blamed:
            found.setdefault(key, problem.message)
    for item in plan.changed():
        fields = ", ".join(dict.fromkeys(f.name for f in item.fields)) or item.kind
        found.setdefault((item.target, item.kind), f"planning it would change {fields}")
    return found


def _cause(problem: Problem, kept: States, estate: Estate) -> list[tuple[Target, KindName]]:
    """Return the states that bring up a problem of a target without any: those that do so alone, else all."""
    every = [(t, s) for t, states in kept.items() for s in states]
    alone = [(t, s.kind) for t, s in every if problem in _planned({t: [s]}, estate).problems]
    return alone or [(t, s.kind) for t, s in every]


def _loadable(state: Resource, said: list[str]) -> Resource | None:
    """Return a state as a playbook can say it; values that its own rules do not take are left out and named."""
    values = written(state)
    for _ in range(MOST):
        try:
            made = type(state).model_validate_json(json.dumps(values))
        except ValidationError as error:
            fault = error.errors(include_url=False)[0]
            spot = _spot(values, fault["loc"])
            if not spot or (fault["type"] == "missing" and not (spot := spot[:-1])):
                break
            value = _take(values, spot)
            shown = json.dumps(value, ensure_ascii=False)
            shown = shown if len(shown) <= 40 else f"{shown[:37]}..."
            said.append(f"{state.kind} {' '.join(map(str, spot[1 if state.keyed else 0 :]))} left out: {shown}")
            continue
        return state if values == written(state) else made
    said.append(f"{state.kind} left out: a playbook cannot say it")
    return None


def _loaded(state: Resource) -> Resource:
    return type(state).model_validate_json(json.dumps(written(state)))


def written(state: Resource) -> dict[str, Any]:
    """Return the keys of a state that a playbook may say, with their values as JSON has them."""
    said = {n: getattr(state, n) for n in type(state).model_fields if not is_observed(type(state), n)}
    return {name: plain_said(value) for name, value in said.items() if value is not None}


def _spot(values: Any, loc: Sequence[str | int]) -> tuple[str | int, ...]:
    """Return the part of an error's place that exists in the values: the names of a union's branches go."""
    spot: list[str | int] = []
    for step in loc:
        try:
            values = values[step]
        except (KeyError, IndexError, TypeError):
            continue
        spot.append(step)
    return tuple(spot)


def _take(values: Any, spot: Sequence[str | int]) -> object:
    """Take out what is at a place, and what is empty without it; return it."""
    at = values
    for step in spot[:-1]:
        at = at[step]
    taken = at.pop(spot[-1])
    if not at and len(spot) > 1:
        _take(values, spot[:-1])
    return taken
