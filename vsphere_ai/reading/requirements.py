"""Read requirements: properties and queries of all kinds and rules together, read from a vCenter at once."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import cache
from types import MappingProxyType

from vsphere_ai.admission import admit as admission
from vsphere_ai.compat import gate
from vsphere_ai.compat.vgpu_vmotion import PROFILES_API, SWITCH, profile_query
from vsphere_ai.gpu.devices import has_vgpus
from vsphere_ai.language.playbooks.play import Playbook, TargetPlan
from vsphere_ai.model.estate.maintenance import VSAN_MEMBER
from vsphere_ai.model.facts import Estate
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import Probe, Query
from vsphere_ai.resources import kinds
from vsphere_ai.resources.makes_vms import DETAILS, OUTLINES
from vsphere_ai.resources.mixins import AsksMore, ReadsStated, probes_of

# what arranging windows needs to know of hosts and VMs, whatever the kinds ask for
WINDOW_PATHS: Mapping[str, tuple[str, ...]] = {
    "ClusterComputeResource": ("name", "parent", "configurationEx"),
    "HostSystem": (
        "config.graphicsInfo",
        "config.sharedGpuCapabilities",
        VSAN_MEMBER,
        "network",
        "summary.rebootRequired",
        "triggeredAlarmState",
    ),
    "VirtualMachine": (
        "config.changeVersion",
        "config.hardware.device",
        "guest.toolsRunningStatus",
        "network",
        "runtime.question",
    ),
}


def wanted_paths(
    more: Mapping[str, tuple[str, ...]] = MappingProxyType({}), *, makes_vms: bool = False
) -> dict[str, tuple[str, ...]]:
    """Return every property path that is needed, by managed type, and those of `more`: the union is read at once.

    `makes_vms`: the playbook makes VMs, so that resource pools, datastores and identities matter.
    """
    return _union(_always(makes_vms), more) if more else dict(_always(makes_vms))


def with_stated(playbook: Playbook | None, more: Mapping[str, tuple[str, ...]]) -> Mapping[str, tuple[str, ...]]:
    """Return these paths, by managed type, and those of hosts that the states of a playbook name."""
    stated = tuple(dict.fromkeys(p for s in _reading(playbook) for p in s.stated_paths()))
    return _union(more, {"HostSystem": stated}) if stated else more


def stated_queries(playbook: Playbook | None) -> tuple[Query, ...]:
    """Return the questions to hosts that the states of a playbook are about."""
    return tuple({q.name: q for s in _reading(playbook) for q in s.stated_queries()}.values())


def _reading(playbook: Playbook | None) -> Iterator[ReadsStated]:
    states = (s.state for play in (playbook.plays if playbook else ()) for s in play.states)
    return (state for state in states if isinstance(state, ReadsStated))


@cache
def _always(makes_vms: bool) -> Mapping[str, tuple[str, ...]]:
    """Return what is always read: a run asks for it with each target that it reads back."""
    making = (OUTLINES, DETAILS) if makes_vms else ()
    return _union(
        WINDOW_PATHS,
        admission.properties(),
        gate.properties(),
        *(k.traits.properties for k in kinds().values()),
        *making,
    )


def _union(*asked: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    managed = sorted({name for each in asked for name in each})
    return {name: tuple(sorted({path for each in asked for path in each.get(name, ())})) for name in managed}


@cache
def replaced_paths() -> Mapping[str, str]:
    """Return the methods that replace all there is, with the property path of it."""
    return {method: path for k in kinds().values() for method, path in k.traits.replaces.items()}


def _asking() -> list[type[AsksMore]]:
    return [k for k in kinds().values() if issubclass(k, AsksMore)]


def probes() -> tuple[Probe, ...]:
    """Return the commands whose answers some kind wants."""
    return tuple(dict.fromkeys(p for k in kinds().values() for p in probes_of(k)))


def queries() -> tuple[Query, ...]:
    """Return the questions that every host is asked which is read deeply."""
    return tuple({q.name: q for k in _asking() for q in k.queries}.values())


def questions(wanted: Mapping[Target, TargetPlan], estate: Estate) -> tuple[Query, ...]:
    """Return the questions that depend on what is wanted of whom; `estate` is what was read before."""
    states = {t: p.states for t, p in wanted.items()}
    asked = [q for k in _asking() for q in k.questions(states, estate)]
    found = {(q.on, q.name): q for q in (*asked, *_about_moves(wanted, estate))}
    return tuple(found[key] for key in sorted(found))


def _about_moves(wanted: Mapping[Target, TargetPlan], estate: Estate) -> Iterator[Query]:
    """Ask for what moving VMs with vGPUs takes, where they may have to move: the switch for it, and stun times."""
    moving = {estate[t.ref].get("parent") for t, p in wanted.items() if p.rolling.evacuate == "vmotion"}
    hosts = [h for h in estate.hosts if estate[h.ref].get("parent") in moving]
    sources = [h for h in hosts if any(has_vgpus(estate[v.ref]) for v in estate.vms_on(h.ref))]
    if sources:
        yield SWITCH
        if estate.about.api_numbers >= PROFILES_API:
            yield from (profile_query(h.ref) for h in sources)


def related(targets: Collection[Target], estate: Estate) -> frozenset[str]:
    """Return the VMs that are read beside those of the playbook, because what they have decides for the targets."""
    return frozenset(ref for k in _asking() for ref in k.related_vms(targets, estate))
