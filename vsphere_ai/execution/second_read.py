"""Second read of the estate: users of GPUs around hosts with too few; queries that a plan of the states would make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from vsphere_ai.language.playbooks.play import TargetPlan
from vsphere_ai.model.facts import Estate
from vsphere_ai.model.state import Target
from vsphere_ai.model.vm_sets import with_members_on_gpus
from vsphere_ai.planning.capacity import NO_ROOM
from vsphere_ai.planning.planner import Plan
from vsphere_ai.reading import requirements
from vsphere_ai.reading.collector import Depth, ask_also, ask_hosts, collect_one
from vsphere_ai.reading.scope import probed_by

if TYPE_CHECKING:
    from vsphere_ai.connect.probing import Shells
    from vsphere_ai.connect.vcenter import VCenter
    from vsphere_ai.reading.collector import CollectorRequest


def around(plan: Plan, estate: Estate) -> tuple[str, ...]:
    """Return the connected hosts (references) of the clusters in which a host has too few GPUs, that host left out."""
    full = {p.target.ref for p in plan.problems if p.rule == NO_ROOM}
    clusters = {estate[ref].get("parent") for ref in full}
    return tuple(
        h.ref for h in estate.hosts
        if h.ref not in full and estate[h.ref].get("parent") in clusters
        and estate[h.ref].get("runtime.connectionState") == "connected"
    )  # fmt: skip


def read_around(
    vcenter: VCenter, shells: Shells | None, request: CollectorRequest, plan: Plan, estate: Estate
) -> Estate:
    """Read hosts around full ones, and the VMs that run there, as far as they were not: a move may help.

    `request` has the commands that list what stands on their GPUs.
    """
    hosts = around(plan, estate)
    unread = _unread(estate, hosts, "config.graphicsInfo")
    running = [v.ref for h in hosts for v in estate.vms_on(h) if estate.is_on(v.ref)]
    vms = _unread(estate, running, "config.hardware.device")
    if unread or vms:
        found = collect_one(vcenter, None, request, Depth(frozenset(unread), frozenset(vms)), shared=False)
        estate = with_members_on_gpus(estate.with_objects(found.objects.values()))
    silent = [h for h in hosts if not estate[h].probes]
    if shells is None or not silent:
        return estate
    return ask_hosts(vcenter, shells, request, estate, silent)


def ask_as_plan(
    vcenter: VCenter,
    shells: Shells | None,
    request: CollectorRequest,
    wanted: Mapping[Target, TargetPlan],
    estate: Estate,
) -> Estate:
    """Ask what planning these states would, beyond what was read, so that a plan of them comes to the same."""
    silent = [ref for ref in sorted(probed_by(wanted, estate)) if not estate[ref].probes]
    queries = requirements.questions(wanted, estate)
    if not queries and not silent:
        return estate
    return ask_also(vcenter, shells, replace(request, ask=lambda _: queries), estate, silent)


def _unread(estate: Estate, refs: Sequence[str], path: str) -> list[str]:
    return [ref for ref in refs if path not in estate[ref].properties and path not in estate[ref].unreadable]
