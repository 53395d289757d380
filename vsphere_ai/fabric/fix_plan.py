"""What a playbook is to say, put together from many mends that may want the same thing, and what it leaves undone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vsphere_ai import fabric
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.state import Target

RdmaPath = tuple[Target, Facts]
"""A host, and the port group that RDMA goes over there."""
CARDS = ("pvrdma", "adapters")  # lists of a VM's adapters; every other list is one choice as a whole


@dataclass
class FixPlan:
    """Plays by target and kind; `left` says what stays as it is and why, `lost` the hosts whose way stays broken."""

    plays: dict[Target, dict[str, Any]] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)
    lost: dict[Target, str] = field(default_factory=dict)

    def add(self, target: Target, kind: str, value: Any) -> None:
        """Lay a value over what is already said of that kind."""
        kinds = self.plays.setdefault(target, {})
        have = kinds.get(kind)
        kinds[kind] = _cards(have or (), value) if kind in CARDS else _laid(have, value)

    def said(self, target: Target, kind: str, key: str = "") -> Any:
        """Return what is said of a kind, or of one key of it; None when nothing is."""
        value = self.plays.get(target, {}).get(kind)
        return (value or {}).get(key) if key else value

    def leave(self, why: str) -> None:
        """Say once what stays as it is."""
        if why not in self.left:
            self.left.append(why)


def by_switch(estate: Estate, paths: Iterable[RdmaPath]) -> dict[str, list[RdmaPath]]:
    """Return the ways by the reference of their distributed switch; ways that cannot be looked at are left out."""
    found: dict[str, list[RdmaPath]] = {}
    for host, group in paths:
        switch = fabric.switch_of(estate, group)
        if switch is not None:
            found.setdefault(switch.ref, []).append((host, group))
    return found


def _laid(one: Any, two: Any) -> Any:
    if isinstance(one, Mapping) and isinstance(two, Mapping):
        return {**one, **{k: _laid(one.get(k), v) for k, v in two.items()}}
    if isinstance(one, int) and isinstance(two, int) and not isinstance(one, bool):
        return max(one, two)  # a version that serves both
    return two


def _cards(have: Sequence[Mapping[str, Any]], more: Sequence[Mapping[str, Any]]) -> tuple[Mapping[str, Any], ...]:
    """Lay what two links want of one adapter into one entry: two entries would be two adapters."""
    found = {(c.get("type"), c["port_group"]): dict(c) for c in have}
    for card in more:
        found.setdefault((card.get("type"), card["port_group"]), {}).update(card)
    return tuple(found.values())
