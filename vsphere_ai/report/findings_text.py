"""Findings as text: by subject, the worst first, with evidence, remedy and source; subjects that are alike together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from vsphere_ai.model.finding import VERDICTS, Finding, Subject, Verdict, seriousness
from vsphere_ai.model.names.name_ranges import quoted
from vsphere_ai.model.state import Target
from vsphere_ai.report.folding import FEW, Alike, Line, Named, alike, first, how_many, names, of_sample, shape, wrapped
from vsphere_ai.report.layout import grouped

TWO_SCREENS = 76
"""Lines of two terminals of 40 lines, less a prompt and a command on each: more is not looked at."""
OF_ALL = Subject("all", "")
"""What stands for the subject of a finding that has none."""


def findings_text(
    findings: Sequence[Finding], title: str, *, passes: bool = True, full: bool | None = None, width: int = 100
) -> str:
    """Return findings by subject, the worst first, each with its evidence and source; those that passed with `passes`.

    Findings without a subject stand first, below `title`. Subjects with equal findings are named together. Where many
    differ in values only, one of them is shown, unless `full`. Where all this is more than two screens, what is wrong
    is shown by finding instead, the worst first, unless `full`; None: the command has no such option. The last line
    counts all verdicts.
    """
    of_all = _block([f for f in findings if f.target is None], passes)
    lines: list[Line] = [(title, 0), *of_all] if of_all and title else [*of_all]
    own = grouped((_owner(f.target), f) for f in findings if f.target is not None)
    blocks = ((_block(own[t], passes), t) for t in sorted(own, key=lambda t: (-_worst(own[t]), _place(t))))
    for each in alike(((block, t) for block, t in blocks if block), _shape, full=bool(full)):
        lines += [(f"{_heading(each)}", 2), *each.value]
    counts = counts_text(findings), 0
    text = [*wrapped([*lines, counts], width)]
    if len(text) > TWO_SCREENS and not full:
        hint = "--full shows" if full is False else "-o json has"
        by_finding = _by_finding(findings, title, width)
        text = [*wrapped([*by_finding, (f"{hint} each object by itself, with its evidence", 2), counts], width)]
    return "\n".join(text)


def _by_finding(findings: Sequence[Finding], title: str, width: int) -> Iterator[Line]:
    """Yield what is wrong, the worst first, each with all subjects of which it is true: at most two screens."""
    if title:
        yield title, 0
    wrong = sorted((f for f in findings if f.verdict != "pass"), key=lambda f: (-seriousness(f), f.rule))
    values = (((f.verdict, f.rule, f"{_where(f)}{f.message}", f.remedy), f.target or OF_ALL) for f in wrong)
    rows = alike(values, lambda value, on: (value[:2], shape(value[2], on), shape(value[3], on)), full=False)
    left, hidden = TWO_SCREENS - 4, list[Finding]()
    for each in sorted(rows, key=lambda row: -VERDICTS.index(row.value[0])):
        lines = list(_row(each))
        left -= sum(1 for _ in wrapped(lines, width))
        if left >= 0 and not hidden:
            yield from lines
        else:
            hidden += [Finding(t, each.value[1], each.value[0], "") for t in each.targets]
    if hidden:
        yield f"not shown: {counts_text(hidden)}", 2


def _row(each: Alike[tuple[Verdict, str, str, str]]) -> Iterator[Line]:
    verdict, rule, message, remedy = each.value
    objects = [t for t in each.targets if t != OF_ALL]
    count = f" ({how_many(objects)}{of_sample(each)})" if len(objects) > FEW else ""
    named = f"{first(list(dict.fromkeys(map(_owner, objects))))}{count}: " if objects else ""
    yield f"  {verdict:<8}{rule}  {named}{message}", 10
    if remedy and verdict != "info":
        yield f"          {remedy}", 12


def _worst(findings: Iterable[Finding]) -> int:
    return max(map(seriousness, findings), default=0)


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
