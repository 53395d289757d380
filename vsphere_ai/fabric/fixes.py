"""Fixes of all traces together: corrections without contradictions, and what they do not change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from vsphere_ai.fabric import networks
from vsphere_ai.fabric.corrections import KernelAdapter, NewRdmaAdapter, PortGroupUplinks, SwitchMtu
from vsphere_ai.fabric.fix_plan import FixPlan
from vsphere_ai.fabric.host import MTU_LINK
from vsphere_ai.fabric.links import Link
from vsphere_ai.fabric.mtu_alignment import align
from vsphere_ai.fabric.trace import Trace
from vsphere_ai.fabric.uplink_assignment import assign
from vsphere_ai.model.estate.correction import Correction
from vsphere_ai.model.facts import Estate
from vsphere_ai.model.state import Target


@dataclass(frozen=True)
class Fixes:
    """The corrections of all links, the traces with those that are among them, and what is not changed."""

    corrections: tuple[Correction, ...]
    traces: tuple[Trace, ...]
    unchanged: tuple[str, ...]


def fixes_for(estate: Estate, traces: Sequence[Trace]) -> Fixes:
    """Return corrections that go together, for every link that is broken or unknown."""
    fix_plan = FixPlan()
    paths = [(host, estate[ref]) for host, ref in dict.fromkeys(path for trace in traces for path in trace.paths)]
    assign(fix_plan, estate, paths)
    goals = align(fix_plan, estate, paths)
    for trace in traces:
        for link in (*trace.having("fail"), *trace.having("unknown")):
            fix = link.fix if link.name != MTU_LINK else None
            if fix and not fix.is_shared and not _is_in_vain(trace, fix, fix_plan):
                fix_plan.add(fix)
    _choose_adapters(fix_plan, estate, goals)
    merged = tuple(replace(t, links=tuple(_merged_fix(h, t, fix_plan, estate) for h in t.links)) for t in traces)
    return Fixes(tuple(fix_plan.corrections.values()), merged, tuple(fix_plan.unchanged))


def _is_in_vain(trace: Trace, fix: Correction, fix_plan: FixPlan) -> bool:
    """Return whether a new adapter would be refused, because a host the VM can run on stays without RDMA."""
    unfixed = [h for h, _ in trace.paths if h in fix_plan.unfixed] if isinstance(fix, NewRdmaAdapter) else []
    for host in unfixed[:1]:
        fix_plan.keep(f"{trace.vm.name} gets no PVRDMA adapter: {host.name} stays without RDMA")
    return bool(unfixed)


def _choose_adapters(fix_plan: FixPlan, estate: Estate, goals: Mapping[str, int]) -> None:
    """Leave one VMkernel adapter of each host to PVRDMA; a new one gets the MTU of its switch (`goals`: bytes)."""
    own: dict[Target, list[KernelAdapter]] = {}
    for correction in fix_plan.corrections.values():
        if isinstance(correction, KernelAdapter):
            own.setdefault(correction.target, []).append(correction)
    for host, adapters in own.items():
        # the host has one such option: the last adapter would win
        for extra in sorted((a for a in adapters if a.for_pvrdma), key=lambda a: a.is_new)[1:]:
            del fix_plan.corrections[extra.place]
            if extra.mtu is not None and not extra.is_new:
                fix_plan.add(replace(extra, for_pvrdma=False))
        for adapter in (a for a in adapters if a.is_new and a.place in fix_plan.corrections):
            groups = networks.for_host(estate, host.ref, adapter.name).networks
            on = (group.get("config.distributedVirtualSwitch") for group in groups)
            switch = next((ref for ref in on if ref in goals), None)
            if switch is not None:
                fix_plan.corrections[adapter.place] = replace(adapter, mtu=goals[switch])


def _merged_fix(link: Link, trace: Trace, fix_plan: FixPlan, estate: Estate) -> Link:
    """Return a link with the fix that all corrections have for it, which may be more or less than its own."""
    fix = link.fix
    if fix is None or not link.is_faulty:
        return link
    if not fix.is_shared and not isinstance(fix, KernelAdapter):
        return link if fix.place in fix_plan.corrections else _unfixed(link, trace, fix_plan)
    places = [fix.place]
    if at := estate.datacenter_of(fix.target.ref):
        places += [PortGroupUplinks(at, trace.port_group).place, SwitchMtu(at, fix.name).place]
    planned = next((fix_plan.corrections[place] for place in places if place in fix_plan.corrections), None)
    return replace(link, fix=planned) if planned else _unfixed(link, trace, fix_plan, fix.target)


def _unfixed(link: Link, trace: Trace, fix_plan: FixPlan, host: Target | None = None) -> Link:
    """Return a link without a fix, with its own remedy or the reason why there is none."""
    reasons = (fix_plan.unfixed.get(h) for h in ([host] if host else [h for h, _ in trace.paths]))
    unknown = "no playbook fixes it without breaking another link; see what is not changed, at the end"
    return link.with_fix(None, link.finding.remedy or next(filter(None, reasons), unknown))
