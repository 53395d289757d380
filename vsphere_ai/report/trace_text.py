"""A trace of RDMA as text, as plain JSON values, and what mends it as the text of a playbook."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from textwrap import wrap
from typing import Any

from vsphere_ai.fabric.fixes import Mending, has_placeholder, mending
from vsphere_ai.fabric.links import Hop, Mend
from vsphere_ai.fabric.pairs import Pair
from vsphere_ai.fabric.trace import Trace
from vsphere_ai.model.facts import Estate
from vsphere_ai.model.text import safe
from vsphere_ai.report.playbook_text import flow, play_heads

MOST_PAIRS = 100
SIGNS = {"ok": "ok", "note": "note", "broken": "BROKEN", "unknown": "?"}
INDENT = " " * 10
WIDTH = 100


def trace_text(estate: Estate, traces: Sequence[Trace], pairs: Sequence[Pair]) -> str:
    """Return every link of every adapter, what the traffic between the VMs uses, and what mends it."""
    lines: list[str] = []
    mends = mending(estate, traces)
    for trace in mends.traces:
        lines += [*_trace(trace), ""]
    if pairs:
        lines += ["BETWEEN THEM", *_pairs(pairs), ""]
    text = _playbook(estate, mends)
    if text:
        lines += ["WHAT MENDS IT  (--format playbook writes only this)", "", text.rstrip(), ""]
    elif mends.left:
        lines += ["WHAT STAYS AS IT IS", *(f"  {safe(why)}" for why in mends.left), ""]
    broken = sum(bool(t.having("broken")) for t in traces)
    unknown = sum(bool(t.having("unknown")) and not t.having("broken") for t in traces)
    count = {"whole": len(traces) - broken - unknown, "broken": broken, "not known": unknown}
    word = "path" if len(traces) == 1 else "paths"
    lines.append(f"{len(traces)} {word}: " + ", ".join(f"{n} {what}" for what, n in count.items() if n))
    return "\n".join(lines)


def mending_text(estate: Estate, traces: Sequence[Trace]) -> str:
    """Return a playbook of everything a playbook can mend, a play per target; empty when there is nothing."""
    return _playbook(estate, mending(estate, traces))


def _playbook(estate: Estate, mends: Mending) -> str:
    """Return the plays; what no play does is said above them."""
    heads = play_heads(estate, mends.plays)
    lines = [f"# stays as it is: {safe(why)}" for why in mends.left]
    for target, kinds in mends.plays.items():
        if has_placeholder(kinds):
            lines.append(f"# {safe(target.name)}: write an address such as 10.20.0.1/24, or dhcp, before this is used")
        lines.append(heads[target])
        lines += [f"  {kind}: {flow(value)}" for kind, value in sorted(kinds.items())]
    return "\n".join(lines) + "\n" if mends.plays else ""


def trace_document(estate: Estate, traces: Sequence[Trace], pairs: Sequence[Pair]) -> dict[str, Any]:
    """Return all of it as plain values."""
    mends = mending(estate, traces)
    return {
        "traces": [
            {
                "vm": t.vm.name,
                "host": t.host.name if t.host else None,
                "adapter": t.adapter,
                "port_group": t.port_group,
                "protocol": t.protocol or None,
                "rdma_mtu": t.rdma_mtu,
                "whole": not t.having("broken") and not t.having("unknown"),
                "links": [_hop(h) for h in t.hops],
            }
            for t in mends.traces
        ],
        "pairs": [
            {
                "vms": [p.one.name, p.other.name],
                "use": p.use,
                "why": p.why,
                "guilty": [{"target": g.owner.name, "link": g.hop.name, "seen": g.hop.seen} for g in p.guilty],
            }
            for p in pairs
        ],
        "playbook": _playbook(estate, mends),
        "left": list(mends.left),
    }


def _hop(hop: Hop) -> dict[str, Any]:
    told = {k: v for k, v in asdict(hop).items() if k != "mend"}
    mend = hop.mend and {"target": hop.mend.target.name, "line": _line(hop.mend)}
    return {**told, "mend": mend or None}


def _trace(trace: Trace) -> Iterator[str]:
    where = f" on {trace.host.name}" if trace.host else ""
    group = f", {trace.port_group}" if trace.port_group else ""
    yield safe(f"{trace.vm.name}{where}{group}")
    for hop in trace.hops:
        rule = f"  [{hop.rule}]" if hop.rule and hop.verdict != "ok" else ""
        yield f"  {SIGNS[hop.verdict]:<8}{hop.name:<38}{safe(hop.seen)}{rule}"
        yield from wrap(safe(hop.help), WIDTH, initial_indent=INDENT, subsequent_indent=INDENT)
        if hop.mend:
            yield f"{INDENT}in a play for {safe(hop.mend.target.name)}: {_line(hop.mend)}"


def _line(mend: Mend) -> str:
    return f"{mend.kind}: {flow(mend.value)}"


def _pairs(pairs: Sequence[Pair]) -> Iterator[str]:
    good = [p for p in pairs if p.use in ("roce", "memory-copy") and not p.guilty]
    if len(good) > MOST_PAIRS:
        yield f"  {len(good)} pairs use RoCE or memory copy; the others:"
    shown = [p for p in pairs if len(good) <= MOST_PAIRS or p not in good]
    for pair in shown[:MOST_PAIRS]:
        said = safe(f"{pair.why}{_guilty(pair)}")
        yield from wrap(f"{safe(f'{pair.one} - {pair.other}'):<30} {said}", WIDTH, initial_indent="  ",
                        subsequent_indent=" " * 33)  # fmt: skip
    if len(shown) > MOST_PAIRS:
        yield f"  and {len(shown) - MOST_PAIRS} more pairs (--format json has all)"


def _guilty(pair: Pair) -> str:
    told = [g for g in pair.guilty if pair.use != "tcp" or g.hop.name != "MTU"]  # it is slow, but it is RoCE
    by_owner: dict[str, list[str]] = {}
    for guilt in told:
        by_owner.setdefault(guilt.owner.name, []).append(guilt.hop.name)
    said = "; ".join(f"{name} ({', '.join(hops)})" for name, hops in by_owner.items())
    return (" because of " if pair.use != "roce" else ", but not for long frames: ") + said if said else ""
