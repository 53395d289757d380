"""Paths of RDMA as text: those that are alike once, below the names of all; a broken link once for all its hosts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from vsphere_ai.fabric.links import VM_PART, Link
from vsphere_ai.fabric.trace import Trace
from vsphere_ai.model.estate.correction import Correction
from vsphere_ai.model.names.name_ranges import listed
from vsphere_ai.model.state import Target
from vsphere_ai.model.text import counted
from vsphere_ai.report.folding import Line, how_many, nameless, names
from vsphere_ai.report.layout import grouped
from vsphere_ai.resources.corrections import text_of

INDENT = " " * 10
ALL = 3
"""Kinds of paths up to which links that are in order are listed one by one."""
_Key = tuple[str, ...]


@dataclass(frozen=True)
class _Same:
    """A link as it is on one path or on several: the first such link, whose it is, and the targets of its fixes."""

    link: Link
    owners: tuple[str, ...]
    fixed: tuple[Target, ...]


def path_lines(traces: Sequence[Trace], *, full: bool = False) -> Iterator[Line]:
    """Yield the links of paths, those of paths that are alike once; with `full` every link of each path."""
    known = frozenset(n for t in traces for n in (t.vm.name, *(h.name for h, _ in t.paths), *_host(t)))
    kinds = grouped(((i, *_kind(t, known)) if full else _kind(t, known), t) for i, t in enumerate(traces))
    short = len(kinds) > ALL and not full
    for found in kinds.values():
        yield from _alike(found, known, short=short, full=full)
        yield "", 0


def _host(trace: Trace) -> tuple[str, ...]:
    return (trace.host.name,) if trace.host else ()


def _kind(trace: Trace, known: frozenset[str]) -> tuple[object, ...]:
    """Return what two paths have to share to be alike: all that is shown of them but names of VMs and hosts."""
    links = dict.fromkeys(_key(trace, link, known) for link in trace.links)
    return trace.port_group, tuple(links), bool(trace.host)


def _key(trace: Trace, link: Link, known: frozenset[str]) -> _Key:
    """Return what is shown of a link but for names of VMs and hosts; on which host it is, is no part of it."""
    fix = f"{link.fix.target.kind} {line_of(link.fix)}" if link.fix else ""
    own = {trace.vm.name: "VM", **dict.fromkeys(_host(trace), "HOST")}
    said = (
        nameless(_without(own, text), known) for text in (link.seen.removeprefix(f"{link.at}: "), link.finding.remedy)
    )
    return link.name, link.verdict, link.finding.rule, *(text.replace("HOST", "NAME") for text in said), fix


def _without(own: Mapping[str, str], text: str) -> str:
    for name, role in own.items():
        text = text.replace(name, role) if name else text
    return text


def _alike(found: Sequence[Trace], known: frozenset[str], *, short: bool, full: bool) -> Iterator[Line]:
    """Yield the links of paths that are alike: as they are on the first path, with the hosts of all."""
    trace = found[0]
    if len(found) > 1:
        hosts = listed(dict.fromkeys(name for t in found for name in _host(t)))
        where = f" on {hosts}" if hosts else ""
        yield f"{len(found)} paths are alike: {listed(t.vm.name for t in found)}{where}. The first:", 2
    group = f", {trace.port_group}" if trace.port_group else ""
    yield f"{trace.vm.name}{''.join(f' on {name}' for name in _host(trace))}{group}", 2
    in_order: list[str] = []
    for same in _links(found, known, full=full):
        if same.link.verdict == "pass" and short:
            in_order.append(same.link.name)
            continue
        yield from _in_order(in_order)
        in_order = []
        yield from _link(same, trace)
    yield from _in_order(in_order)


def _in_order(links: Sequence[str]) -> Iterator[Line]:
    if links:
        yield f"  {'pass':<8}{counted(len(links), 'link')}: {', '.join(links)}", len(INDENT)


def _links(found: Sequence[Trace], known: frozenset[str], *, full: bool) -> Iterator[_Same]:
    """Yield the links of the first path, those that are the same on several hosts once; with `full` each."""
    if full:
        for each in found[0].links:
            yield _Same(each, (), (each.fix.target,) if each.fix else ())
        return
    own = grouped((_key(t, link, known), (_owner(t, link), link)) for t in found for link in t.links)
    for same in own.values():
        fixed = dict.fromkeys(link.fix.target for _, link in same if link.fix)
        yield _Same(same[0][1], tuple(dict.fromkeys(name for name, _ in same)), tuple(fixed))


def _owner(trace: Trace, link: Link) -> str:
    """Return the name of the host, or of the VM, that a link is on."""
    on_host = next(iter(_host(trace)), "") if link.part != VM_PART else ""
    return link.at or on_host or trace.vm.name


def _link(same: _Same, trace: Trace) -> Iterator[Line]:
    link, indent = same.link, len(INDENT)
    wrong = link.verdict != "pass"
    rule = f"  [{link.finding.rule}]" if wrong else ""
    several = len(same.owners) > 1
    seen = link.seen.removeprefix(f"{link.at}: ") if several else link.seen
    yield f"  {link.verdict:<8}{link.name:<38}{seen}{rule}", indent
    if wrong and several and link.part != VM_PART and len(same.fixed) != len(same.owners):
        yield f"{INDENT}on {counted(len(same.owners), 'host')}: {listed(same.owners)}", indent
    if link.finding.remedy:
        yield f"{INDENT}{link.finding.remedy}", indent
    if link.fix:
        many = f"{how_many(same.fixed)}, " if len(same.fixed) > 1 else ""
        yield f"{INDENT}in a play for {many}{names(same.fixed)}: {line_of(link.fix)}", indent


def line_of(fix: Correction) -> str:
    """Return a fix as a line of a play."""
    return text_of(fix)
