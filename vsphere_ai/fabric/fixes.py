"""What mends all traces together: one playbook whose plays do not stand against each other, and what it leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from vsphere_ai import fabric
from vsphere_ai.fabric.fix_plan import FixPlan, RdmaPath
from vsphere_ai.fabric.host import ADDRESS, MTU_LINK
from vsphere_ai.fabric.links import Fix, Link
from vsphere_ai.fabric.mtu_alignment import align
from vsphere_ai.fabric.trace import Trace
from vsphere_ai.fabric.uplink_assignment import assign
from vsphere_ai.model.facts import Estate
from vsphere_ai.model.state import Target

ORDER = {"datacenter": 0, "host": 1, "vm": 2}  # of plays: what is shared comes first
SHARED = ("uplinks", "port_groups", "switches")  # what one link wants of these decides for other hosts too
Plays = dict[Target, dict[str, Any]]


@dataclass(frozen=True)
class Fixes:
    """The plays by target and kind, the traces with what is left of their own mends, and what stays as it is."""

    plays: Plays
    traces: tuple[Trace, ...]
    left: tuple[str, ...]


def fixes_for(estate: Estate, traces: Sequence[Trace]) -> Fixes:
    """Put together what mends every broken link, and every one that may be."""
    fix_plan, paths = FixPlan(), _ways(estate, traces)
    assign(fix_plan, estate, paths)
    goals = align(fix_plan, estate, paths)
    for trace in traces:
        for link in (*trace.having("broken"), *trace.having("unknown")):
            if (
                link.fix
                and link.fix.kind not in SHARED
                and link.name != MTU_LINK
                and not _is_in_vain(trace, link, fix_plan)
            ):
                fix_plan.add(link.fix.target, link.fix.kind, link.fix.value)
    for target, kinds in fix_plan.plays.items():
        if "vmkernel" in kinds:
            kinds["vmkernel"] = _adapters(fix_plan, estate, target, goals)
    plays = {t: {k: v for k, v in kinds.items() if v} for t, kinds in fix_plan.plays.items()}
    plays = {t: plays[t] for t in sorted(plays, key=lambda t: (ORDER[t.kind], t)) if plays[t]}
    settled = tuple(replace(t, links=tuple(_settled(h, t, fix_plan, estate) for h in t.links)) for t in traces)
    return Fixes(plays, settled, tuple(fix_plan.left))


def _ways(estate: Estate, traces: Sequence[Trace]) -> list[RdmaPath]:
    found = dict.fromkeys(way for trace in traces for way in trace.paths)
    return [(host, estate[ref]) for host, ref in found]


def _is_in_vain(trace: Trace, link: Link, fix_plan: FixPlan) -> bool:
    """Tell whether a new adapter would be refused: a host the VM can run on stays without RDMA."""
    lost = [h for h, _ in trace.paths if h in fix_plan.lost] if link.fix and link.fix.kind == "pvrdma" else []
    for host in lost[:1]:
        fix_plan.leave(f"{trace.vm.name} gets no PVRDMA adapter: {host.name} stays without RDMA")
    return bool(lost)


def _adapters(fix_plan: FixPlan, estate: Estate, host: Target, goals: dict[str, int]) -> dict[str, Any]:
    """Let PVRDMA use one adapter of the host, and give a new one the MTU its switch will have."""
    found = dict(fix_plan.said(host, "vmkernel"))
    wanted = sorted((n for n, a in found.items() if a.get("pvrdma")), key=lambda n: "address" in found[n])
    for name in wanted[1:]:  # it is one option of the host: a second one would take it off the first
        kept = {k: v for k, v in found[name].items() if k == "mtu" and "address" not in found[name]}
        found[name] = kept
    for name, adapter in found.items():
        group = next((g for g in fabric.port_groups(estate, name) if g.get("config.distributedVirtualSwitch") in goals),
                     None)  # fmt: skip
        if "address" in adapter and group is not None:
            found[name] = {**adapter, "mtu": goals[group.get("config.distributedVirtualSwitch")]}
    return {n: a for n, a in found.items() if a}


def _settled(link: Link, trace: Trace, fix_plan: FixPlan, estate: Estate) -> Link:
    """Show beside a link what the playbook says of it, which may be more or less than it wants on its own."""
    fix = link.fix
    if fix is None or link.verdict not in ("broken", "unknown"):
        return link
    if not isinstance(fix.value, dict) or fix.kind not in (*SHARED, "vmkernel"):
        kept = fix_plan.said(fix.target, fix.kind) is not None
        return link if kept else replace(link, fix=None, help=link.help or _why(trace, fix_plan))
    (key,) = fix.value
    said = fix_plan.said(fix.target, fix.kind, key)
    if said:
        return replace(link, fix=Fix(fix.target, fix.kind, {key: said}))
    at = estate.datacenter_of(fix.target.ref)
    for other, kind, name in ((at, "port_groups", trace.port_group), (at, "switches", key)):
        said = fix_plan.said(other, kind, name) if other else None
        if said and name:
            return replace(link, fix=Fix(other, kind, {name: said})) if other else link
    return replace(link, fix=None, help=link.help or _why(trace, fix_plan, fix.target))


def _why(trace: Trace, fix_plan: FixPlan, host: Target | None = None) -> str:
    places = [host] if host else [h for h, _ in trace.paths]
    reason = next((fix_plan.lost[h] for h in places if h in fix_plan.lost), "")
    return reason or "no playbook does it without breaking another link; see what is left at the end"


def has_placeholder(kinds: dict[str, Any]) -> bool:
    """Tell whether a play waits for an address that the operator has to choose."""
    return any(a.get("address") == ADDRESS for a in kinds.get("vmkernel", {}).values())
