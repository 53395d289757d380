"""Trace of RDMA as text and as plain JSON values, and its fixes as the text of a playbook."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vsphere_ai.documents.trace import (
    FixDocument,
    LinkDocument,
    PairCauseDocument,
    PairDocument,
    PathDocument,
    TraceDocument,
)
from vsphere_ai.fabric.corrections import KernelAdapter
from vsphere_ai.fabric.fixes import Fixes, fixes_for
from vsphere_ai.fabric.host import MTU_LINK
from vsphere_ai.fabric.links import Link
from vsphere_ai.fabric.pairs import BEST, Pair, PairCause
from vsphere_ai.fabric.trace import Trace
from vsphere_ai.model.facts import Estate
from vsphere_ai.model.finding import worst
from vsphere_ai.model.names.name_ranges import listed
from vsphere_ai.model.text import counted, safe
from vsphere_ai.report.folding import Line, wrapped
from vsphere_ai.report.layout import grouped
from vsphere_ai.report.network.trace_paths import line_of, path_lines
from vsphere_ai.report.playbooks.correction_plays import play_lines

MOST_PAIRS = 10
"""More pairs than these are not shown one by one."""
OF_PAIRS = 33
"""Column of what is said of a pair."""


def trace_text(
    estate: Estate, traces: Sequence[Trace], pairs: Sequence[Pair], width: int = 100, *, full: bool = False
) -> str:
    """Return every link of every adapter, what the traffic between the VMs uses, and the playbook of the fixes.

    Paths that are alike are shown once, a link that is broken on several hosts once for all of them, and pairs by what
    is to blame where there are many; `full` shows each.
    """
    fixes = fixes_for(estate, traces)
    lines = [*wrapped(path_lines(fixes.traces, full=full), width)]
    if pairs:
        lines += ["BETWEEN THEM", *wrapped(_pairs(pairs, full=full), width), ""]
    text = _playbook(estate, fixes)
    if text:
        lines += ["FIXES  (-o playbook prints only these)", "", text.rstrip(), ""]
    elif fixes.unchanged:
        lines += ["NOT CHANGED", *wrapped(((f"  {why}", 4) for why in fixes.unchanged), width), ""]
    broken, unknown = (sum(t.verdict == verdict for t in traces) for verdict in ("fail", "unknown"))
    count = {"healthy": len(traces) - broken - unknown, "broken": broken, "not known": unknown}
    lines.append(f"{counted(len(traces), 'path')}: " + ", ".join(f"{n} {what}" for what, n in count.items() if n))
    return "\n".join(lines)


def fixes_text(estate: Estate, traces: Sequence[Trace]) -> str:
    """Return the playbook of all fixes, a play per target; empty when there is none."""
    return _playbook(estate, fixes_for(estate, traces))


def _playbook(estate: Estate, fixes: Fixes) -> str:
    """Return the plays, below comments on what they do not change; each with an address to be written is alone."""
    lines = [f"# not changed: {safe(why)}" for why in fixes.unchanged]
    new = {c.target for c in fixes.corrections if isinstance(c, KernelAdapter) and c.is_new}
    to_write = "write an address such as 10.20.0.1/24, or dhcp, before this is used"
    lines += play_lines(estate, fixes.corrections, {t: f"{t.name}: {to_write}" for t in new})
    return "\n".join(lines) + "\n" if fixes.corrections else ""


def trace_document(estate: Estate, traces: Sequence[Trace], pairs: Sequence[Pair]) -> TraceDocument:
    """Return all of it as the document that `rdma trace` prints."""
    fixes = fixes_for(estate, traces)
    return TraceDocument(
        vcenter=estate.about,
        verdict=worst(link.finding for t in fixes.traces for link in t.links),
        traces=tuple(map(path_document, fixes.traces)),
        pairs=tuple(map(_pair_document, pairs)),
        playbook=_playbook(estate, fixes),
        unchanged=fixes.unchanged,
    )


def path_document(path: Trace) -> PathDocument:
    """Return a path as a part of a document."""
    return PathDocument(
        vm=path.vm.name,
        host=path.host.name if path.host else None,
        adapter=path.adapter,
        port_group=path.port_group,
        protocol=path.protocol or None,
        rdma_mtu=path.rdma_mtu,
        verdict=path.verdict,
        healthy=path.verdict not in ("fail", "unknown"),
        links=tuple(map(_link_document, path.links)),
    )


def _link_document(link: Link) -> LinkDocument:
    fix = FixDocument(target=link.fix.target.name, line=line_of(link.fix)) if link.fix else None
    return LinkDocument.with_fix(link.finding, link.part, fix)


def _pair_document(pair: Pair) -> PairDocument:
    causes = tuple(PairCauseDocument(target=c.owner.name, link=c.link.name, message=c.link.seen) for c in pair.causes)
    return PairDocument(vms=(pair.one.name, pair.other.name), use=pair.use, why=pair.why, causes=causes)


def _pairs(pairs: Sequence[Pair], *, full: bool) -> Iterator[Line]:
    """Yield a line per pair; where there are many, a line for those that are alike."""
    if full or len(pairs) <= MOST_PAIRS:
        lines = [(f"{p.one} - {p.other}", f"{p.why}{_causes(p)}") for p in pairs]
    else:
        alike = grouped((_pair_kind(p), p) for p in pairs)
        lines = [(counted(len(found), "pair"), _several(why, found)) for (_, why, _), found in sorted(alike.items())]
    for who, what in lines:
        yield f"  {who:<30} {what}", OF_PAIRS


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


def _blamed(pair: Pair) -> list[PairCause]:
    return [c for c in pair.causes if pair.use != "tcp" or c.link.name != MTU_LINK]  # it is slow, but it is RoCE
