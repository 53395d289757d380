"""Fixes of all traces together: one playbook without contradictions, and what it does not change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from vsphere_ai.fabric import networks
from vsphere_ai.fabric.fix_plan import FixPlan
from vsphere_ai.fabric.host import ADDRESS, MTU_LINK
from vsphere_ai.fabric.links import Fix, Link
from vsphere_ai.fabric.mtu_alignment import align
from vsphere_ai.fabric.trace import Trace
from vsphere_ai.fabric.uplink_assignment import assign
from vsphere_ai.model.facts import Estate
from vsphere_ai.model.plain import Plain, PlainObject, named
from vsphere_ai.model.state import Target

SHARED = ("uplinks", "port_groups", "switches")  # a change of one of these affects other hosts too


@dataclass(frozen=True)
class Fixes:
    """The plays by target and kind, the traces with the fixes that the plays contain, and what is not changed."""

    plays: Mapping[Target, Mapping[str, Plain]]
    traces: tuple[Trace, ...]
    unchanged: tuple[str, ...]


def fixes_for(estate: Estate, traces: Sequence[Trace]) -> Fixes:
    """Return one playbook for every link that is broken or unknown."""
    fix_plan = FixPlan()
    paths = [(host, estate[ref]) for host, ref in dict.fromkeys(path for trace in traces for path in trace.paths)]
    assign(fix_plan, estate, paths)
    goals = align(fix_plan, estate, paths)
    for trace in traces:
        for link in (*trace.having("fail"), *trace.having("unknown")):
            fix = link.fix if link.name != MTU_LINK else None
            if fix and fix.kind not in SHARED and not _is_in_vain(trace, fix, fix_plan):
                fix_plan.add(fix.target, fix.kind, fix.value)
    for target, kinds in fix_plan.plays.items():
        if "vmkernel" in kinds:
            kinds["vmkernel"] = _adapters(fix_plan, estate, target, goals)
    plays = {t: {k: v for k, v in kinds.items() if v} for t, kinds in fix_plan.plays.items()}
    plays = {t: plays[t] for t in sorted(plays) if plays[t]}  # datacenters first: what is shared
    merged = tuple(replace(t, links=tuple(_merged_fix(h, t, fix_plan, estate) for h in t.links)) for t in traces)
    return Fixes(plays, merged, tuple(fix_plan.unchanged))


def _is_in_vain(trace: Trace, fix: Fix, fix_plan: FixPlan) -> bool:
    """Return whether a new adapter would be refused, because a host the VM can run on stays without RDMA."""
    unfixed = [h for h, _ in trace.paths if h in fix_plan.unfixed] if fix.kind == "pvrdma" else []
    for host in unfixed[:1]:
        fix_plan.keep(f"{trace.vm.name} gets no PVRDMA adapter: {host.name} stays without RDMA")
    return bool(unfixed)


def _adapters(fix_plan: FixPlan, estate: Estate, host: Target, goals: dict[str, int]) -> dict[str, PlainObject]:
    """Return the VMkernel adapters of a host: PVRDMA uses one of them; a new one gets the MTU of its switch."""
    found = named(fix_plan.value(host, "vmkernel"))
    wanted = sorted((n for n, a in found.items() if a.get("pvrdma")), key=lambda n: "address" in found[n])
    for name in wanted[1:]:  # the host has one such option: the last adapter would win
        found[name] = {k: v for k, v in found[name].items() if k == "mtu" and "address" not in found[name]}
    for name, adapter in found.items():
        groups = networks.for_host(estate, host.ref, name).networks
        on = (group.get("config.distributedVirtualSwitch") for group in groups)
        switch = next((ref for ref in on if ref in goals), None)
        if "address" in adapter and switch is not None:
            found[name] = {**adapter, "mtu": goals[switch]}
    return {n: a for n, a in found.items() if a}


def _merged_fix(link: Link, trace: Trace, fix_plan: FixPlan, estate: Estate) -> Link:
    """Return a link with the fix that the whole playbook has for it, which may be more or less than its own."""
    fix = link.fix
    if fix is None or not link.is_faulty:
        return link
    if not isinstance(fix.value, dict) or fix.kind not in (*SHARED, "vmkernel"):
        kept = fix_plan.value(fix.target, fix.kind) is not None
        return link if kept else link.with_fix(None, link.finding.remedy or _why(trace, fix_plan))
    (key,) = fix.value
    if value := fix_plan.value(fix.target, fix.kind, key):
        return replace(link, fix=Fix(fix.target, fix.kind, {key: value}))
    at = estate.datacenter_of(fix.target.ref)
    for other, kind, name in ((at, "port_groups", trace.port_group), (at, "switches", key)):
        value = fix_plan.value(other, kind, name) if other else None
        if value and name:
            return replace(link, fix=Fix(other, kind, {name: value})) if other else link
    return link.with_fix(None, link.finding.remedy or _why(trace, fix_plan, fix.target))


def _why(trace: Trace, fix_plan: FixPlan, host: Target | None = None) -> str:
    reasons = (fix_plan.unfixed.get(h) for h in ([host] if host else [h for h, _ in trace.paths]))
    unknown = "no playbook fixes it without breaking another link; see what is not changed, at the end"
    return next(filter(None, reasons), unknown)


def has_placeholder(kinds: Mapping[str, Plain]) -> bool:
    """Return whether a play has a placeholder for an address that the operator has to choose."""
    return any(a.get("address") == ADDRESS for a in named(kinds.get("vmkernel")).values())
