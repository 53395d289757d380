"""What mends all traces together: one playbook whose plays do not stand against each other, and what it leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from vsphere_ai import fabric
from vsphere_ai.fabric.fix_plan import Draft, Way
from vsphere_ai.fabric.host import ADDRESS, MTU_HOP
from vsphere_ai.fabric.links import Hop, Mend
from vsphere_ai.fabric.mtu_alignment import level
from vsphere_ai.fabric.trace import Trace
from vsphere_ai.fabric.uplink_assignment import seat
from vsphere_ai.model.facts import Estate
from vsphere_ai.model.state import Target

ORDER = {"datacenter": 0, "host": 1, "vm": 2}  # of plays: what is shared comes first
SHARED = ("uplinks", "port_groups", "switches")  # what one link wants of these decides for other hosts too
Plays = dict[Target, dict[str, Any]]


@dataclass(frozen=True)
class Mending:
    """The plays by target and kind, the traces with what is left of their own mends, and what stays as it is."""

    plays: Plays
    traces: tuple[Trace, ...]
    left: tuple[str, ...]


def mending(estate: Estate, traces: Sequence[Trace]) -> Mending:
    """Put together what mends every broken link, and every one that may be."""
    draft, ways = Draft(), _ways(estate, traces)
    seat(draft, estate, ways)
    goals = level(draft, estate, ways)
    for trace in traces:
        for hop in (*trace.having("broken"), *trace.having("unknown")):
            if hop.mend and hop.mend.kind not in SHARED and hop.name != MTU_HOP and not _is_in_vain(trace, hop, draft):
                draft.add(hop.mend.target, hop.mend.kind, hop.mend.value)
    for target, kinds in draft.plays.items():
        if "vmkernel" in kinds:
            kinds["vmkernel"] = _adapters(draft, estate, target, goals)
    plays = {t: {k: v for k, v in kinds.items() if v} for t, kinds in draft.plays.items()}
    plays = {t: plays[t] for t in sorted(plays, key=lambda t: (ORDER[t.kind], t)) if plays[t]}
    settled = tuple(replace(t, hops=tuple(_settled(h, t, draft, estate) for h in t.hops)) for t in traces)
    return Mending(plays, settled, tuple(draft.left))


def _ways(estate: Estate, traces: Sequence[Trace]) -> list[Way]:
    found = dict.fromkeys(way for trace in traces for way in trace.ways)
    return [(host, estate[ref]) for host, ref in found]


def _is_in_vain(trace: Trace, hop: Hop, draft: Draft) -> bool:
    """Tell whether a new adapter would be refused: a host the VM can run on stays without RDMA."""
    lost = [h for h, _ in trace.ways if h in draft.lost] if hop.mend and hop.mend.kind == "pvrdma" else []
    for host in lost[:1]:
        draft.leave(f"{trace.vm.name} gets no PVRDMA adapter: {host.name} stays without RDMA")
    return bool(lost)


def _adapters(draft: Draft, estate: Estate, host: Target, goals: dict[str, int]) -> dict[str, Any]:
    """Let PVRDMA use one adapter of the host, and give a new one the MTU its switch will have."""
    found = dict(draft.said(host, "vmkernel"))
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


def _settled(hop: Hop, trace: Trace, draft: Draft, estate: Estate) -> Hop:
    """Show beside a link what the playbook says of it, which may be more or less than it wants on its own."""
    mend = hop.mend
    if mend is None or hop.verdict not in ("broken", "unknown"):
        return hop
    if not isinstance(mend.value, dict) or mend.kind not in (*SHARED, "vmkernel"):
        kept = draft.said(mend.target, mend.kind) is not None
        return hop if kept else replace(hop, mend=None, help=hop.help or _why(trace, draft))
    (key,) = mend.value
    said = draft.said(mend.target, mend.kind, key)
    if said:
        return replace(hop, mend=Mend(mend.target, mend.kind, {key: said}))
    at = estate.datacenter_of(mend.target.ref)
    for other, kind, name in ((at, "port_groups", trace.port_group), (at, "switches", key)):
        said = draft.said(other, kind, name) if other else None
        if said and name:
            return replace(hop, mend=Mend(other, kind, {name: said})) if other else hop
    return replace(hop, mend=None, help=hop.help or _why(trace, draft, mend.target))


def _why(trace: Trace, draft: Draft, host: Target | None = None) -> str:
    places = [host] if host else [h for h, _ in trace.ways]
    reason = next((draft.lost[h] for h in places if h in draft.lost), "")
    return reason or "no playbook does it without breaking another link; see what is left at the end"


def has_placeholder(kinds: dict[str, Any]) -> bool:
    """Tell whether a play waits for an address that the operator has to choose."""
    return any(a.get("address") == ADDRESS for a in kinds.get("vmkernel", {}).values())
