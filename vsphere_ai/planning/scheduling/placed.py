"""Places of a plan: where the playbook asks for each kind, and which VMs are on the hosts that it changes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from vsphere_ai.language.playbooks.play import TargetPlans
from vsphere_ai.model.facts import grouped
from vsphere_ai.model.state import Target
from vsphere_ai.model.view import View
from vsphere_ai.planning.scheduling.schedule import Impact
from vsphere_ai.resources.mixins import vgpus_of


@dataclass(frozen=True)
class RequestedAt:
    """Where a playbook asks for a kind: file, line and column, counted from 1, and the references of its targets."""

    kind: str
    file: str
    line: int
    column: int
    targets: tuple[str, ...]


@dataclass(frozen=True)
class PlacedVm:
    """A VM with the profiles of its vGPUs, as they are and as the plan leaves them."""

    vm: Target
    vgpus: tuple[str, ...]
    planned: tuple[str, ...]


@dataclass(frozen=True)
class PlacedHost:
    """A host, and the VMs that are on it; those that the plan makes or moves are on the host that they come from."""

    host: Target
    vms: tuple[PlacedVm, ...]


def asked_of(desired: TargetPlans) -> tuple[RequestedAt, ...]:
    """Return where a playbook asks for what it wants, in the order of its lines."""
    places = ((t.ref, kind, m) for t, plan in desired.items() for kind, m in plan.marks.items() if m.line)
    found = grouped(places, lambda each: (each[2], each[1]))
    return tuple(
        RequestedAt(kind, mark.file, mark.line, mark.column, tuple(sorted(ref for ref, _, _ in own)))
        for (mark, kind), own in sorted(found.items(), key=lambda each: each[0])
    )


def placed_on(before: View, after: View, changing: Collection[Target], impact: Impact) -> tuple[PlacedHost, ...]:
    """Return the hosts that a plan changes, or whose VMs it changes, with all VMs that are on them."""
    estate, now = before.estate, View(before.estate, before.states)
    vms = {*(t for t in changing if t.kind == "vm"), *impact.power_cycles, *impact.moves}
    hosts = {*(t for t in changing if t.kind == "host"), *impact.maintenance}
    hosts |= {h for vm in vms if estate.get(vm.ref) and (h := estate.host_of(vm.ref))}
    return tuple(
        PlacedHost(host, tuple(PlacedVm(v, vgpus_of(v, now), vgpus_of(v, after)) for v in own))
        for host in sorted(hosts)
        if (own := estate.vms_on(host.ref))
    )
