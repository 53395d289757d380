"""Trace of RDMA as text and as plain JSON values, and its fixes as the text of a playbook."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import asdict
from textwrap import wrap

from vsphere_ai.fabric.fixes import Fixes, fixes_for, has_placeholder
from vsphere_ai.fabric.host import MTU_LINK
from vsphere_ai.fabric.links import Fix, Link
from vsphere_ai.fabric.pairs import BEST, Cause, Pair
from vsphere_ai.fabric.trace import Trace
from vsphere_ai.model.facts import Estate
from vsphere_ai.model.name_ranges import listed
from vsphere_ai.model.plain import PlainObject
from vsphere_ai.model.text import counted, safe
from vsphere_ai.report.layout import grouped
from vsphere_ai.report.playbook_text import play_heads
from vsphere_ai.report.yaml_text import flow

MOST_PAIRS = 10
"""More pairs than these are not shown one by one."""
SIGNS = {"ok": "ok", "note": "note", "broken": "BROKEN", "unknown": "?"}
INDENT = " " * 10
WIDTH = 100


def trace_text(estate: Estate, traces: Sequence[Trace], pairs: Sequence[Pair], *, full: bool = False) -> str:
    """Return every link of every adapter, what the traffic between the VMs uses, and the playbook of the fixes.

    Paths that are alike are shown once, and so are pairs where there are many; `full` shows each.
    """
    lines: list[str] = []
    fixes = fixes_for(estate, traces)
    for alike in grouped((_path_kind(t, i if full else 0), t) for i, t in enumerate(fixes.traces)).values():
        lines += [*_trace(alike), ""]
    if pairs:
        lines += ["BETWEEN THEM", *_pairs(pairs, full=full), ""]
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


def _path_kind(trace: Trace, number: int) -> Hashable:
    """Return what two paths have to share to be alike: all that is shown of them but their own names."""
    own = {trace.vm.name: "VM", trace.host.name if trace.host else "": "host"}
    links = tuple((h.name, h.verdict, h.rule, _without(own, h.seen), _without(own, h.help)) for h in trace.links)
    return number, trace.port_group, links, bool(trace.host)


def _without(names: Mapping[str, str], text: str) -> str:
    for name, role in names.items():
        text = text.replace(name, role) if name else text
    return text


def _trace(alike: Sequence[Trace]) -> Iterator[str]:
    """Yield the links of a path; of paths that are alike those of the first, below the names of all."""
    trace = alike[0]
    if len(alike) > 1:
        hosts = listed(t.host.name for t in alike if t.host)
        where = f" on {hosts}" if hosts else ""
        yield from _wrapped(f"{len(alike)} paths are alike: {listed(t.vm.name for t in alike)}{where}. The first:", "")
    where = f" on {trace.host.name}" if trace.host else ""
    group = f", {trace.port_group}" if trace.port_group else ""
    yield safe(f"{trace.vm.name}{where}{group}")
    for link in trace.links:
        rule = f"  [{link.rule}]" if link.rule and link.verdict != "ok" else ""
        yield f"  {SIGNS[link.verdict]:<8}{link.name:<38}{safe(link.seen)}{rule}"
        yield from _wrapped(link.help, INDENT)
        if link.fix:
            yield f"{INDENT}in a play for {safe(link.fix.target.name)}: {_line(link.fix)}"


def _wrapped(text: str, indent: str) -> list[str]:
    return wrap(safe(text), WIDTH, initial_indent=indent, subsequent_indent=indent)


def _line(fix: Fix) -> str:
    return f"{fix.kind}: {flow(fix.value)}"


def _pairs(pairs: Sequence[Pair], *, full: bool) -> Iterator[str]:
    """Yield a line per pair; where there are many, a line for those that are alike."""
    if full or len(pairs) <= MOST_PAIRS:
        lines = [(f"{p.one} - {p.other}", f"{p.why}{_causes(p)}") for p in pairs]
    else:
        alike = grouped((_pair_kind(p), p) for p in pairs)
        lines = [(counted(len(found), "pair"), _several(why, found)) for (_, why, _), found in sorted(alike.items())]
    for who, what in lines:
        yield from wrap(f"{safe(who):<30} {safe(what)}", WIDTH, initial_indent="  ", subsequent_indent=" " * 33)


def _pair_kind(pair: Pair) -> tuple[int, str, tuple[str, ...]]:
    """Return how good what carries the traffic of a pair is, why, and the names of the links that are to blame."""
    why = "memory copy on the host of both" if pair.use == "memory-copy" else pair.why
    return BEST.index(pair.use), why, tuple(dict.fromkeys(c.link.name for c in _blamed(pair)))


def _several(why: str, found: Sequence[Pair]) -> str:
    owners = grouped((c.link.name, c.owner.name) for pair in found for c in _blamed(pair))
    said = "; ".join(f"{link} of {listed(names)}" for link, names in owners.items())
    return f"{why}{_because(found[0])}{said}, such as {found[0].one} - {found[0].other}"


def _causes(pair: Pair) -> str:
    by_owner = grouped((c.owner.name, c.link.name) for c in _blamed(pair))
    return _because(pair) + "; ".join(f"{name} ({', '.join(links)})" for name, links in by_owner.items())


def _because(pair: Pair) -> str:
    if not _blamed(pair):
        return ""
    return " because of " if pair.use != "roce" else ", but not for long frames: "


def _blamed(pair: Pair) -> list[Cause]:
    return [c for c in pair.causes if pair.use != "tcp" or c.link.name != MTU_LINK]  # it is slow, but it is RoCE
