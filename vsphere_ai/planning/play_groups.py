"""Groups of plays: what several targets have alike is one play for all of them, so that each setting is stated once."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from vsphere_ai.model.state import Target
from vsphere_ai.planning.export import written
from vsphere_ai.resources.base import Resource
from vsphere_ai.resources.mixins import HasOwnValues

ORDER = {"datacenter": 0, "host": 1, "vm": 2}


class PlayGroup(NamedTuple):
    """A play: targets of one kind, and the states that it gives all of them, in the order of the names of kinds."""

    targets: tuple[Target, ...]
    states: tuple[Resource, ...]


def grouped_plays(states: Mapping[Target, Sequence[Resource]]) -> tuple[PlayGroup, ...]:
    """Return plays that state together exactly what was given of each target.

    A state is in one play for all targets that have it, and states of the same targets are in the same play. Values of
    one target, such as addresses, are stated by the names of their targets where the kind can do so. Plays of
    datacenters come first, then those of hosts and of VMs, those of many targets before those of few. The time grows
    with the number of states.
    """
    alike: dict[tuple[str, str], dict[Target, Resource]] = defaultdict(dict)
    twins = _twins(states)
    for target, own in states.items():
        for state in own:
            alone = target in twins and isinstance(state, HasOwnValues)
            shared = state.shared() if isinstance(state, HasOwnValues) and not alone else state
            text = json.dumps(written(shared), sort_keys=True)
            alike[state.kind, f"{text} {target.ref}" if alone else f"{target.kind} {text}"][target] = state
    plays: dict[tuple[Target, ...], list[Resource]] = defaultdict(list)
    for each in alike.values():
        plays[tuple(sorted(each))].append(_stated_once(each))
    made = (PlayGroup(targets, tuple(sorted(own, key=lambda s: s.kind))) for targets, own in plays.items())
    return tuple(sorted(made, key=lambda p: (ORDER[p.targets[0].kind], -len(p.targets), p.targets[0])))


def _twins(targets: Mapping[Target, object]) -> set[Target]:
    """Return targets that share their name with another one: a value cannot be stated by that name."""
    count = Counter((t.kind, t.name) for t in targets)
    return {t for t in targets if count[t.kind, t.name] > 1}


def _stated_once(states: Mapping[Target, Resource]) -> Resource:
    first = next(iter(states.values()))
    if len(states) == 1 or not isinstance(first, HasOwnValues):
        return first
    return first.together({t.name: s for t, s in sorted(states.items()) if isinstance(s, HasOwnValues)})
