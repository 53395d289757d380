"""Trace of RDMA as text and as plain JSON values, and its fixes as the text of a playbook."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from textwrap import wrap

from vsphere_ai.fabric.fixes import Fixes, fixes_for, has_placeholder
from vsphere_ai.fabric.links import Fix, Link
from vsphere_ai.fabric.pairs import Pair
from vsphere_ai.fabric.trace import Trace
from vsphere_ai.model.facts import Estate
from vsphere_ai.model.plain import PlainObject
from vsphere_ai.model.text import counted, safe
from vsphere_ai.report.layout import grouped
from vsphere_ai.report.playbook_text import flow, play_heads

MOST_PAIRS = 100
SIGNS = {"ok": "ok", "note": "note", "broken": "BROKEN", "unknown": "?"}
INDENT = " " * 10
WIDTH = 100


def trace_text(estate: Estate, traces: Sequence[Trace], pairs: Sequence[Pair]) -> str:
    """Return every link of every adapter, what the traffic between the VMs uses, and the playbook of the fixes."""
    lines: list[str] = []
    fixes = fixes_for(estate, traces)
    for trace in fixes.traces:
        lines += [*_trace(trace), ""]
    if pairs:
        lines += ["BETWEEN THEM", *_pairs(pairs), ""]
    text = _playbook(estate, fixes)
    if text:
        lines += ["FIXES  (--format playbook prints only these)", "", text.rstrip(), ""]
    elif fixes.unchanged:
        lines += ["NOT CHANGED", *(f"  {safe(why)}" for why in fixes.unchanged), ""]
    broken = sum(bool(t.having("broken")) for t in traces)
    unknown = sum(bool(t.having("unknown")) and not t.having("broken") for t in traces)
    count = {"whole": len(traces) - broken - unknown, "broken": broken, "not known": unknown}
    lines.append(f"{counted(len(traces), 'path')}: " + ", ".join(f"{n} {what}" for what, n in count.items() if n))
    return "\n".join(lines)


def fixes_text(estate: Estate, traces: Sequence[Trace]) -> str:
    """Return the playbook of all fixes, a play per target; empty when there is none."""
    return _playbook(estate, fixes_for(estate, traces))


def _playbook(estate: Estate, fixes: Fixes) -> str:
    """Return the plays, below comments on what they do not change."""
    heads = play_heads(estate, fixes.plays)
    lines = [f"# not changed: {safe(why)}" for why in fixes.unchanged]
    for target, kinds in fixes.plays.items():
        if has_placeholder(kinds):
            lines.append(f"# {safe(target.name)}: write an address such as 10.20.0.1/24, or dhcp, before this is used")
        lines.append(heads[target])
        lines += [f"  {kind}: {flow(value)}" for kind, value in sorted(kinds.items())]
    return "\n".join(lines) + "\n" if fixes.plays else ""


def trace_document(estate: Estate, traces: Sequence[Trace], pairs: Sequence[Pair]) -> PlainObject:
    """Return all of it as plain values."""
    fixes = fixes_for(estate, traces)
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
                "links": [_link(h) for h in t.links],
            }
            for t in fixes.traces
        ],
        "pairs": [
            {
                "vms": [p.one.name, p.other.name],
                "use": p.use,
                "why": p.why,
                "causes": [{"target": c.owner.name, "link": c.link.name, "seen": c.link.seen} for c in p.causes],
            }
            for p in pairs
        ],
        "playbook": _playbook(estate, fixes),
        "unchanged": list(fixes.unchanged),
    }


def _link(link: Link) -> PlainObject:
    fix = {"target": link.fix.target.name, "line": _line(link.fix)} if link.fix else None
    return {**asdict(link), "fix": fix}


def _trace(trace: Trace) -> Iterator[str]:
    where = f" on {trace.host.name}" if trace.host else ""
    group = f", {trace.port_group}" if trace.port_group else ""
    yield safe(f"{trace.vm.name}{where}{group}")
    for link in trace.links:
        rule = f"  [{link.rule}]" if link.rule and link.verdict != "ok" else ""
        yield f"  {SIGNS[link.verdict]:<8}{link.name:<38}{safe(link.seen)}{rule}"
        yield from wrap(safe(link.help), WIDTH, initial_indent=INDENT, subsequent_indent=INDENT)
        if link.fix:
            yield f"{INDENT}in a play for {safe(link.fix.target.name)}: {_line(link.fix)}"


def _line(fix: Fix) -> str:
    return f"{fix.kind}: {flow(fix.value)}"


def _pairs(pairs: Sequence[Pair]) -> Iterator[str]:
    good = [p for p in pairs if p.use in ("roce", "memory-copy") and not p.causes]
    if len(good) > MOST_PAIRS:
        yield f"  {len(good)} pairs use RoCE or memory copy; the others:"
    shown = [p for p in pairs if len(good) <= MOST_PAIRS or p not in good]
    for pair in shown[:MOST_PAIRS]:
        line = f"{safe(f'{pair.one} - {pair.other}'):<30} {safe(f'{pair.why}{_causes(pair)}')}"
        yield from wrap(line, WIDTH, initial_indent="  ", subsequent_indent=" " * 33)
    if len(shown) > MOST_PAIRS:
        yield f"  and {len(shown) - MOST_PAIRS} more pairs (--format json has all)"


def _causes(pair: Pair) -> str:
    causes = [c for c in pair.causes if pair.use != "tcp" or c.link.name != "MTU"]  # it is slow, but it is RoCE
    by_owner = grouped((c.owner.name, c.link.name) for c in causes)
    said = "; ".join(f"{name} ({', '.join(links)})" for name, links in by_owner.items())
    return (" because of " if pair.use != "roce" else ", but not for long frames: ") + said if said else ""
