"""Plan of the fixes: one playbook merged from the fixes of many links, and what it does not change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from vsphere_ai.fabric import dvs
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.plain import Plain, PlainObject, inside, objects
from vsphere_ai.model.state import Target

RdmaPath = tuple[Target, Facts]
"""A host, and the port group that RDMA goes over there."""
CARDS = ("pvrdma", "adapters")  # lists of a VM's adapters; every other list is one choice as a whole


@dataclass
class FixPlan:
    """Plays by target and kind; `unchanged`: what is not changed and why; `unfixed`: hosts whose path stays broken."""

    plays: dict[Target, dict[str, Plain]] = field(default_factory=dict)
    unchanged: list[str] = field(default_factory=list)
    unfixed: dict[Target, str] = field(default_factory=dict)

    def add(self, target: Target, kind: str, value: Plain) -> None:
        """Merge a value into the play of a target for one kind."""
        kinds = self.plays.setdefault(target, {})
        have = kinds.get(kind)
        kinds[kind] = _cards(objects(have), objects(value)) if kind in CARDS else _merged(have, value)

    def value(self, target: Target, kind: str, key: str = "") -> Plain:
        """Return the value of a kind in the play of a target, or one key of it; None when there is none."""
        value = self.plays.get(target, {}).get(kind)
        return inside(value, key) if key else value

    def keep(self, why: str) -> None:
        """Note once what is not changed, and why."""
        if why not in self.unchanged:
            self.unchanged.append(why)


def by_switch(estate: Estate, paths: Iterable[RdmaPath]) -> dict[str, list[RdmaPath]]:
    """Return the paths by the reference of their distributed switch, without those whose switch cannot be read."""
    found: dict[str, list[RdmaPath]] = {}
    for host, group in paths:
        switch = dvs.switch_of(estate, group)
        if switch is not None:
            found.setdefault(switch.ref, []).append((host, group))
    return found


def _merged(one: Plain, two: Plain) -> Plain:
    if isinstance(one, Mapping) and isinstance(two, Mapping):
        return {**one, **{k: _merged(one.get(k), v) for k, v in two.items()}}
    if isinstance(one, int) and isinstance(two, int) and not isinstance(one, bool):
        return max(one, two)  # a version that serves both
    return two


def _cards(have: Sequence[PlainObject], more: Sequence[PlainObject]) -> tuple[PlainObject, ...]:
    """Merge the entries of one adapter: two entries would be two adapters."""
    found = {(c.get("type"), c["port_group"]): dict(c) for c in have}
    for card in more:
        found.setdefault((card.get("type"), card["port_group"]), {}).update(card)
    return tuple(found.values())
