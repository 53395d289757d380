"""Assessment of a farm as text and as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from textwrap import wrap
from typing import NamedTuple

from vsphere_ai.language.attestation import attestations_text
from vsphere_ai.model.finding import VERDICTS, Finding, Verdict, worst
from vsphere_ai.model.names.written_names import markdown_line, markdown_text
from vsphere_ai.model.records.assessment import PILLARS, Attestation, pillar_of
from vsphere_ai.model.text import safe
from vsphere_ai.report.findings_text import OF_ALL, TWO_SCREENS
from vsphere_ai.report.folding import Alike, alike, first, how_many, of_sample, shape
from vsphere_ai.report.layout import grouped

MOST_NAMES = 6
WORST = tuple(reversed(VERDICTS))
SHOWN: tuple[Verdict, ...] = ("fail", "unknown", "warn")
"""Verdicts that text shows in full."""
HEAD = ("| verdict | rule | finding | evidence | remedy |", "|---|---|---|---|---|")
TITLES = {
    "reliability": "Reliability",
    "security": "Security",
    "cost": "Cost optimization",
    "operations": "Operational excellence",
    "performance": "Performance efficiency",
}


class Line(NamedTuple):
    """What a rule finds alike on several objects: the finding of the first, and the names of all."""

    finding: Finding
    names: tuple[str, ...]

    @property
    def text(self) -> str:
        """The objects and the message."""
        more = f" and {len(self.names) - MOST_NAMES} more" if len(self.names) > MOST_NAMES else ""
        named = ", ".join(safe(n) for n in self.names[:MOST_NAMES]) + more
        message = safe(self.finding.message)
        return f"{named}: {message}" if named else message


def lines_of(found: Iterable[Finding]) -> Iterator[Line]:
    """Yield the verdicts with objects of the same verdict and message in one line, in the order of `found`."""
    grouped: dict[tuple[str, Verdict, str], list[Finding]] = {}
    for each in found:
        grouped.setdefault((each.rule, each.verdict, each.message), []).append(each)
    for own in grouped.values():
        yield Line(own[0], tuple(f.target.name for f in own if f.target))


def worst_of(found: Iterable[Finding]) -> dict[str, Verdict]:
    """Return rule -> its worst verdict."""
    by_rule: dict[str, list[Finding]] = {}
    for finding in found:
        by_rule.setdefault(finding.rule, []).append(finding)
    return {rule: worst(own) for rule, own in by_rule.items()}


def counts_text(found: Sequence[Finding], not_applicable: Sequence[str]) -> str:
    """Return how many rules have which worst verdict: ``1 fail, 2 unknown, 9 pass, 1 not applicable``."""
    verdicts = list(worst_of(found).values())
    counts = [f"{verdicts.count(v)} {v}" for v in WORST if v in verdicts]
    return ", ".join([*counts, *([f"{len(not_applicable)} not applicable"] if not_applicable else [])])


def assessment_text(
    found: Sequence[Finding], not_applicable: Sequence[str], what: str, width: int, *, full: bool = False
) -> str:
    """Return an assessment by pillar, the worst first in each, with remedies; what passed only by its rule.

    Lines are at most `width` columns wide. Questions that are not answered are listed by their rules. Objects of which
    the same is true but for names and numbers share a line, and all objects of a rule where that is more than two
    screens; with `full` each value has its own.
    """
    lines = _assessed(found, not_applicable, what, width, lambda own: _rows(own, full=full))
    if len(lines) > TWO_SCREENS and not full:
        lines = _assessed(found, not_applicable, what, width, _rows_by_rule)
        lines += _wrapped("--full shows each value by itself", width)
    return "\n".join(lines)


def _assessed(
    found: Sequence[Finding],
    not_applicable: Sequence[str],
    what: str,
    width: int,
    rows_of: Callable[[Sequence[Finding]], Iterable[Alike[Finding]]],
) -> list[str]:
    lines = _wrapped(safe(what), width)
    for pillar in PILLARS:
        own, without = _of(pillar, found, not_applicable)
        lines += ["", f"{TITLES[pillar].upper()}  {counts_text(own, without)}"]
        open_ = frozenset(unanswered(own))
        shown = [f for f in own if f.verdict in SHOWN and f.rule not in open_]
        for row in sorted(rows_of(shown), key=lambda row: WORST.index(row.value.verdict)):
            lines += _wrapped(f"  {row.value.verdict:<8}{row.value.rule}  {_row_text(row)}", width)
            lines += _wrapped(f"          remedy: {safe(row.value.remedy)}", width) if row.value.remedy else []
        listed = {v: [r for r, w in worst_of(own).items() if w == v] for v in WORST if v not in SHOWN}
        for heading, rules in ({"not answered": unanswered(own)} | listed | {"not applicable": without}).items():
            lines += _wrapped(f"  {heading}: {', '.join(rules)}", width) if rules else []
    lines += ["", f"{len(worst_of(found)) + len(not_applicable)} rules: {counts_text(found, not_applicable)}"]
    if open_questions := unanswered(found):
        text = f"{len(open_questions)} questions are not answered: vsphere-ai assess --questions writes them as a file"
        lines += _wrapped(text, width)
    return lines


def _rows(found: Sequence[Finding], *, full: bool) -> list[Alike[Finding]]:
    """Return findings of objects with equal messages together, and those whose messages differ in values."""
    samples = {(f.rule, f.verdict, f.message, f.remedy): f for f in reversed(found)}
    values = (((f.rule, f.verdict, f.message, f.remedy), f.target or OF_ALL) for f in found)
    rows = alike(values, lambda v, on: (*v[:2], shape(v[2], on), shape(v[3], on)), full=full)
    return [Alike(row.targets, samples[row.value], row.sample) for row in rows]


def _rows_by_rule(found: Sequence[Finding]) -> list[Alike[Finding]]:
    """Return all findings of a rule with the same verdict as one, with the first for a sample where they differ."""
    rows = []
    for own in grouped(((f.rule, f.verdict), f) for f in found).values():
        targets = [f.target or OF_ALL for f in own]
        rows.append(Alike(targets, own[0], targets[0] if len({f.message for f in own}) > 1 else None))
    return rows


def _row_text(row: Alike[Finding]) -> str:
    """Return the objects of a row, their number where they are many, and the message."""
    objects = [t for t in dict.fromkeys(row.targets) if t != OF_ALL]
    message = safe(row.value.message)
    if not objects:
        return message
    count = f" ({how_many(objects)}{of_sample(row)})" if len(objects) > MOST_NAMES or row.sample else ""
    return f"{first(objects)}{count}: {message}"


def _of(pillar: str, found: Sequence[Finding], not_applicable: Sequence[str]) -> tuple[list[Finding], list[str]]:
    """Return what belongs to a pillar: findings, and rules that do not apply."""
    return [f for f in found if pillar_of(f.rule) == pillar], [r for r in not_applicable if pillar_of(r) == pillar]


def unanswered(found: Iterable[Finding]) -> list[str]:
    """Return the rules whose question has no answer at all."""
    return [a.rule for a in found if a.verdict == "unknown" and a.remedy == f"answer {a.rule} in the attestations"]


def questions_text(questions: Mapping[str, str], today: date) -> str:
    """Return a file of attestations to fill in: each question as a comment, above an answer without owner."""
    until = today.replace(year=today.year + 1, day=min(today.day, 28))
    answers = (Attestation(rule, "no", "NAME OR ADDRESS", today, until) for rule in questions)
    return attestations_text(answers, questions).rstrip("\n")


def _wrapped(text: str, width: int) -> list[str]:
    indent = len(text) - len(text.lstrip())
    return wrap(
        text, width, initial_indent="", subsequent_indent=" " * max(indent + 2, 10), break_on_hyphens=False,
        break_long_words=False,
    )  # fmt: skip


def assessment_markdown(found: Sequence[Finding], not_applicable: Sequence[str], what: str) -> str:
    """Return an assessment as Markdown: a table of the pillars, and one of the rules for each pillar."""
    lines = ["# Assessment", "", markdown_line(what), "", "| pillar | rules |", "|---|---|"]
    by_pillar = {pillar: _of(pillar, found, not_applicable) for pillar in PILLARS}
    by_pillar = {pillar: own for pillar, own in by_pillar.items() if any(own)}
    lines += [f"| {TITLES[p]} | {counts_text(*own)} |" for p, own in by_pillar.items()]
    for pillar, (own, without) in by_pillar.items():
        lines += [
            "",
            f"## {TITLES[pillar]}",
            "",
            "| verdict | rule | finding | evidence | remedy |",
            "|---|---|---|---|---|",
        ]
        for line in sorted(lines_of(own), key=lambda e: WORST.index(e.finding.verdict)):
            first = line.finding
            seen = "; ".join(f"{path} = {value}" for path, value in first.evidence)
            texts = map(markdown_text, (line.text, seen, first.remedy))
            cells = (first.verdict, f"`{first.rule}`", *texts)
            lines.append(f"| {' | '.join(cells)} |")
        lines += [f"| not applicable | `{rule}` | | | |" for rule in without]
    return "\n".join(lines)
