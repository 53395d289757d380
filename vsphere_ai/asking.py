"""What is read and asked of a vCenter: everything that any kind or any rule wants, at once."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from vsphere_ai.compat import gate
from vsphere_ai.facts import Estate
from vsphere_ai.resources import kinds
from vsphere_ai.state import State, Target
from vsphere_ai.steps import Probe, Query

# what arranging windows needs to know of hosts and VMs, whatever the kinds ask for
WINDOW_PATHS: Mapping[str, tuple[str, ...]] = {
    "ClusterComputeResource": ("name", "parent", "configurationEx"),
    "HostSystem": ("config.graphicsInfo", "network", "summary.rebootRequired", "triggeredAlarmState"),
    "VirtualMachine": (
        "config.changeVersion",
        "config.hardware.device",
        "guest.toolsRunningStatus",
        "network",
        "runtime.question",
    ),
}


def wanted_paths() -> dict[str, tuple[str, ...]]:
    """Return every property path anybody needs, by managed type: the union is read at once."""
    union: dict[str, dict[str, None]] = {}
    everybody: Iterable[Mapping[str, tuple[str, ...]]] = (
        WINDOW_PATHS,
        gate.properties(),
        *(k.properties for k in kinds().values()),
    )
    for asked in everybody:
        for managed, paths in asked.items():
            union.setdefault(managed, {}).update(dict.fromkeys(paths))
    return {managed: tuple(sorted(paths)) for managed, paths in sorted(union.items())}


def probes() -> tuple[Probe, ...]:
    """Return the commands whose answers some kind wants."""
    return tuple(dict.fromkeys(p for k in kinds().values() for p in k.probes))


def queries() -> tuple[Query, ...]:
    """Return the questions that every host is asked which is read deeply."""
    return tuple({q.name: q for k in kinds().values() for q in k.queries}.values())


def questions(wanted: Mapping[Target, Sequence[State]], estate: Estate) -> tuple[Query, ...]:
    """Return the questions that depend on what is wanted of whom; `estate` is what was read before."""
    found = {(q.on, q.name): q for k in kinds().values() for q in k.questions(wanted, estate)}
    return tuple(found[key] for key in sorted(found))


def looked_at(targets: Collection[Target], estate: Estate) -> frozenset[str]:
    """Return the VMs that are read although nobody names them, because what they have decides for the targets."""
    return frozenset(ref for k in kinds().values() for ref in k.looks_at(targets, estate))
