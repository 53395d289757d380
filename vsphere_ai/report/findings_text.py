"""Findings as text: by subject, the worst first, with evidence, remedy and source; subjects that are alike together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from vsphere_ai.model.finding import VERDICTS, Finding, Subject, seriousness
from vsphere_ai.model.names.name_ranges import quoted
from vsphere_ai.model.state import Target
from vsphere_ai.report.folding import Alike, Line, Named, alike, how_many, names, of_sample, shape, wrapped
from vsphere_ai.report.layout import grouped


def findings_text(
    findings: Sequence[Finding], title: str, *, passes: bool = True, full: bool = False, width: int = 100
) -> str:
    """Return findings by subject, the worst first, each with its evidence and source; those that passed with `passes`.

    Findings without a subject stand first, below `title`. Subjects with equal findings are named together. Where many
    differ in values only, one of them is shown, unless `full`. The last line counts all verdicts.
    """
    of_all = _block([f for f in findings if f.target is None], passes)
    lines: list[Line] = [(title, 0), *of_all] if of_all and title else [*of_all]
    own = grouped((_owner(f.target), f) for f in findings if f.target is not None)
    blocks = ((_block(own[t], passes), t) for t in sorted(own, key=_place))
    for each in alike(((block, t) for block, t in blocks if block), _shape, full=full):
        lines += [(f"{_heading(each)}", 2), *each.value]
    lines.append((counts_text(findings), 0))
    return "\n".join(wrapped(lines, width))


def problem_lines(problems: Iterable[Finding], *, full: bool) -> Iterator[Line]:
    """Yield why a plan is refused; targets with equal problems are named together."""
    found = alike(
        (((p.rule, p.message, p.remedy), p.target) for p in problems if p.target is not None),
        lambda value, target: (value[0], shape(value[1], target), shape(value[2], target)),
        full=full,
    )
    for each in found:
        rule, message, remedy = each.value
        yield f"  ! {names(each.targets)}{of_sample(each)}: {message}  [{rule}]", 6
        if remedy:
            yield f"      {remedy}", 6


def counts_text(findings: Iterable[Finding]) -> str:
    """Return how many findings there are of each verdict."""
    verdicts = [f.verdict for f in findings]
    return ", ".join(f"{verdicts.count(v)} {v}" for v in reversed(VERDICTS) if v in verdicts) or "nothing to check"


def _owner(subject: Named) -> Named:
    """Return the object that a finding about a part of it, or about a place in it, is shown under."""
    return replace(subject, part="", mark=None) if isinstance(subject, Subject) else subject


def _place(subject: Named) -> tuple[bool, str, str, str]:
    """Return what subjects are sorted by: others as they come, then targets by kind and name."""
    if isinstance(subject, Target):
        return True, subject.kind, subject.name, subject.ref
    return False, "", "", ""


def _heading(each: Alike[tuple[Line, ...]]) -> str:
    if each.sample:
        return f"{names(each.targets)}: {how_many(each.targets)} alike{of_sample(each)}"
    host = getattr(each.targets[0], "host", "") if len(each.targets) == 1 else ""
    return f"{names(each.targets)} on {quoted(host)}" if host else names(each.targets)


def _block(findings: Sequence[Finding], passes: bool) -> tuple[Line, ...]:
    shown = [f for f in findings if passes or f.verdict != "pass"]
    return tuple(line for f in sorted(shown, key=lambda f: (-seriousness(f), f.rule)) for line in _finding(f))


def _finding(finding: Finding) -> Iterator[Line]:
    yield f"  {finding.verdict:<8}{finding.rule:<22} {_where(finding)}{finding.message}", 10
    if finding.verdict != "pass":
        evidence = "; ".join(f"{path} = {value}" for path, value in finding.evidence if "\n" not in value)
        excerpts = "\n".join(value for _, value in finding.evidence if "\n" in value)
        source = f"source: {finding.source}" if finding.source else ""
        more = (excerpts, f"evidence: {evidence}" if evidence else "", finding.remedy, source)
        yield from ((f"          {line}", 12) for text in more for line in text.splitlines())


def _where(finding: Finding) -> str:
    """Return the part or the place of a subject that a finding is about, before its message."""
    subject = finding.target
    if not isinstance(subject, Subject):
        return ""
    place = f"{subject.mark}: " if subject.mark is not None else ""
    return f"{place}{subject.part}: " if subject.part else place


def _shape(block: tuple[Line, ...], subject: Named) -> object:
    """Return what findings have in common that differ in values: evidence may be longer for one than for another."""
    return tuple("evidence" if " evidence: " in text else shape(text, subject) for text, _ in block)
