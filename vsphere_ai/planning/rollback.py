"""Rollback state: written down before a run changes anything, and what a rollback does not revert."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

from vsphere_ai.errors import Mark
from vsphere_ai.language.playbooks.play import Kinds, Stated
from vsphere_ai.model.facts import Estate
from vsphere_ai.model.state import KindName, Target, differences, is_observed
from vsphere_ai.model.text import shown
from vsphere_ai.model.view import View
from vsphere_ai.planning.document import ChangeDocument, ItemDocument, plain_said
from vsphere_ai.planning.observing import observe
from vsphere_ai.planning.planner import Plan, PlanItem
from vsphere_ai.resources.base import Resource
from vsphere_ai.resources.mixins import VmDevices

NOT_SET: tuple[Any, ...] = (None, "", [], {})
"""How an unset value is read: the API leaves some out and gives others empty."""
OF_THE_SERVER = ("device", "address_type")
"""The key of a device and who chose its address: not what a run sets."""


def stated_before(target: Target, changing: Sequence[KindName], view: View, kinds: Kinds) -> tuple[Stated, ...]:
    """Return the observed states of the kinds a run changes on a target, as a playbook states them."""
    found = (_before(target, kinds[kind], view) for kind in changing)
    return tuple(Stated(state, Mark("the journal")) for state in found if state is not None)


def _before(target: Target, kind: type[Resource], view: View) -> Resource | None:
    now = view.state(target.ref, kind.kind)
    state = now.export(target, view, "rollback").state if now is not None else None
    if state is None and now is not None and kind.shorthand:
        state = kind.model_validate({kind.shorthand: _nothing(kind)})
    if state is None:
        return None
    settable = {n: getattr(state, n) for n in kind.model_fields if not is_observed(kind, n)}
    given = {n: v for n, v in settable.items() if v is not None}
    if kind.keyed and kind.shorthand in given:
        # what the run does not name is not reverted: by the time of a rollback it may belong to another user
        named = getattr(view.stated.get((target.ref, kind.kind)), kind.shorthand, None) or {}
        given[kind.shorthand] = {k: v for k, v in given[kind.shorthand].items() if k in named}
    return kind.model_construct(**given) if given else None


def _nothing(kind: type[Resource]) -> object:
    """Return what the shorthand of a kind says where a target has nothing of the kind."""
    if kind.keyed:
        return {}
    return False if bool in get_args(kind.model_fields[kind.shorthand].annotation) else ()


def with_not_reverted(plan: Plan, approved: Sequence[ItemDocument], estate: Estate, kinds: Kinds) -> Plan:
    """Return a rollback's plan in which every item names what it leaves as the run made it.

    `approved` are the items of the run's plan as its journal has them; `estate` is what the rollback was planned on.
    """
    view = View(estate, observe(estate, kinds))
    items = {(i.target.ref, i.kind): i for i in plan.items}
    elsewhere = _implied(plan, view)
    own = {(each.target.ref, each.kind) for each in approved}
    for each in approved:
        ref, kind = each.target.ref, each.kind
        now = view.state(ref, kind)
        if now is None or not each.changes:
            continue
        present = {f.name: f.after for f in differences(None, now.export(each.target, view, "shown").state)}
        item = items.get((ref, kind)) or PlanItem(each.target, kind, ())
        back = {**elsewhere.get(ref, {}), **{f.name: f.after for f in item.fields}}
        others = frozenset(k for r, k in own if r == ref and k != kind)
        said = tuple(_staying(each.changes, present, back, others))
        if said:
            items[ref, kind] = replace(item, stays=said)
    return replace(plan, items=tuple(items.values()))


def _implied(plan: Plan, view: View) -> dict[str, dict[str, object]]:
    """Return, per target, what the changed items of a plan make of fields that other kinds have too."""
    found: dict[str, dict[str, object]] = {}
    for item in plan.changed():
        now = view.state(item.target.ref, item.kind)
        if isinstance(now, VmDevices) and isinstance(now, Resource):
            after = now.model_copy(update={f.name: f.after for f in item.fields if f.name in type(now).model_fields})
            found.setdefault(item.target.ref, {}).update(after.implied_fields())
    return found


def _staying(
    changes: Sequence[ChangeDocument], now: Mapping[str, object], back: Mapping[str, object], others: frozenset[str]
) -> Iterator[str]:
    for change in changes:
        name, before = change.field, change.before
        there = now.get(name)
        if _same(_without(back.get(name, there), others), _without(before, others)):
            continue
        was = "it was not set" if before in NOT_SET else f"it was {_words(before)}"
        yield f"{name.replace('_', ' ')} {shown(back.get(name, there))}, {was}"


def _without(value: object, others: frozenset[str]) -> object:
    """Return a list without the devices that another kind of the same run lists: PVRDMA adapters of `pvrdma`."""
    plain = plain_said(value, OF_THE_SERVER)
    if not isinstance(plain, list):
        return plain
    return [v for v in plain if not (isinstance(v, dict) and v.get("type") in others)]


def _same(one: object, two: object) -> bool:
    """Return whether two plain values are the same; an order of items does not matter."""
    if isinstance(one, list) and isinstance(two, list):
        return sorted(map(repr, one)) == sorted(map(repr, two))
    return bool(one == two) or (one in NOT_SET and two in NOT_SET)


def _words(value: object) -> str:
    if isinstance(value, Mapping):
        return " ".join(str(v) for k, v in value.items() if v is not None and k not in OF_THE_SERVER)
    return ", ".join(map(_words, value)) if isinstance(value, list) else shown(value)
