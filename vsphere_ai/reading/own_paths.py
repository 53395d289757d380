"""Own paths of a VM: what its kinds are about, which is all that is read again of it once they have changed it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

from vsphere_ai.language.playbooks.play import TargetPlan
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.state import KindName, Target
from vsphere_ai.model.vm_sets import is_new
from vsphere_ai.reading.collector import CollectorRequest, paths_read
from vsphere_ai.reading.host_calls import QUERY
from vsphere_ai.resources import kinds
from vsphere_ai.resources.makes_vms import MakesVms


@cache
def paths_of(names: frozenset[KindName]) -> Mapping[str, tuple[str, ...]]:
    """Return the property paths, by managed type, that these kinds need, and those that they are planned after."""
    found, union = set[KindName](), dict[str, dict[str, None]]()
    left = set(names)
    while left:
        found |= left
        left = {a for n in left for a in kinds()[n].traits.after} - found
    for name in found:
        for managed, paths in kinds()[name].traits.properties.items():
            union.setdefault(managed, {}).update(dict.fromkeys(paths))
    return {managed: tuple(sorted(paths)) for managed, paths in sorted(union.items())}


def narrowed(request: CollectorRequest, target: Target, plan: TargetPlan, estate: Estate) -> CollectorRequest:
    """Return a request for the own paths of a target of an estate; for any but a VM, the request as it is.

    Also for a VM that is of a set: what the run makes was never read.
    """
    states = [kinds()[s.kind] for s in plan.states]
    if target.kind != "vm" or is_new(estate, target.ref) or any(issubclass(k, MakesVms) for k in states):
        return request
    return replace(request, paths=paths_of(frozenset(s.kind for s in plan.states)))


def renewed(before: Facts | None, now: Facts, request: CollectorRequest) -> Facts:
    """Return facts with what was requested as it was read now: also paths that have no value any more."""
    if before is None:
        return now
    asked = frozenset(paths_read(request)[now.ref.partition(":")[0]])
    kept = {p: v for p, v in before.properties.items() if not (p in asked or p.startswith(QUERY))}
    silent = {p: why for p, why in before.unreadable.items() if not (p in asked or p.startswith(QUERY))}
    return replace(now, properties={**kept, **now.properties}, unreadable={**silent, **now.unreadable})
