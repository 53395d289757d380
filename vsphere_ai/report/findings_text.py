"""Compatibility findings as a table in text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pydantic import JsonValue

from vsphere_ai.model.finding import Finding
from vsphere_ai.model.state import Target
from vsphere_ai.planning.document import FindingDocument
from vsphere_ai.report.folding import Line, alike, how_many, names, of_sample, shape, wrapped
from vsphere_ai.report.layout import grouped

VERDICTS = ("fail", "unknown", "warn", "pass")


def findings_document(findings: Sequence[Finding], *, passes: bool = True) -> list[dict[str, JsonValue]]:
    """Return findings as plain values, without those that passed where `passes` is false."""
    return [FindingDocument.of(f).as_json() for f in findings if passes or f.verdict != "pass"]


def findings_text(
    findings: Sequence[Finding], vcenter: str, *, passes: bool = True, full: bool = False, width: int = 100
) -> str:
    """Return findings by target, the worst first, each with its evidence and source; those that passed with `passes`.

    Targets with equal findings are named together. Where many differ in values only, one of them is shown, unless
    `full`. The last line counts all verdicts.
    """
    of_all = _block([f for f in findings if f.target is None], passes)
    lines: list[Line] = [(vcenter, 0), *of_all] if of_all else []
    own = grouped((f.target, f) for f in findings if f.target is not None)
    blocks = ((_block(own[t], passes), t) for t in sorted(own, key=lambda t: (t.kind, t.name, t.ref)))
    for each in alike(((block, t) for block, t in blocks if block), _shape, full=full):
        more = f": {how_many(each.targets)} alike{of_sample(each)}" if each.sample else ""
        lines += [(f"{names(each.targets)}{more}", 2), *each.value]
    lines.append((counts_text(findings), 0))
    return "\n".join(wrapped(lines, width))


def counts_text(findings: Sequence[Finding]) -> str:
    """Return how many findings there are of each verdict."""
    count = {v: sum(f.verdict == v for f in findings) for v in VERDICTS}
    return ", ".join(f"{n} {v}" for v, n in count.items() if n) or "nothing to check"


def _block(findings: Sequence[Finding], passes: bool) -> tuple[Line, ...]:
    shown = [f for f in findings if passes or f.verdict != "pass"]
    return tuple(line for f in sorted(shown, key=lambda f: (VERDICTS.index(f.verdict), f.rule)) for line in _finding(f))


def _finding(finding: Finding) -> Iterator[Line]:
    yield f"  {finding.verdict:<8}{finding.rule:<22} {finding.message}", 10
    if finding.verdict != "pass":
        evidence = "; ".join(f"{path} = {value}" for path, value in finding.evidence)
        yield from ((text, 12) for text in (f"          evidence: {evidence}",) if evidence)
        yield from ((text, 12) for text in (f"          {finding.help}",) if finding.help)
        yield f"          source: {finding.source}", 12


def _shape(block: tuple[Line, ...], target: Target) -> object:
    """Return what findings have in common that differ in values: evidence may be longer for one than for another."""
    return tuple("evidence" if " evidence: " in text else shape(text, target) for text, _ in block)
