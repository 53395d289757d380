"""Assessment of a farm as text, as Markdown and as a document of plain values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from itertools import groupby
from textwrap import wrap
from typing import NamedTuple

from vsphere_ai.model.names.written_names import markdown_line, markdown_text
from vsphere_ai.model.records.assessment import PILLARS, WORST, Assessed, PillarVerdict
from vsphere_ai.model.text import safe

MOST_NAMES = 6
SHOWN: tuple[PillarVerdict, ...] = ("fail", "unknown", "warn")
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
    """What a rule finds alike on several objects."""

    verdict: PillarVerdict
    rule: str
    message: str
    names: tuple[str, ...]
    first: Assessed

    @property
    def text(self) -> str:
        """The objects and the message."""
        more = f" and {len(self.names) - MOST_NAMES} more" if len(self.names) > MOST_NAMES else ""
        named = ", ".join(safe(n) for n in self.names[:MOST_NAMES]) + more
        return f"{named}: {safe(self.message)}" if named else safe(self.message)


def lines_of(found: Iterable[Assessed]) -> Iterator[Line]:
    """Yield the verdicts with objects of the same verdict and message in one line, in the order of `found`."""
    grouped: dict[tuple[str, PillarVerdict, str], list[Assessed]] = {}
    for each in found:
        grouped.setdefault((each.rule, each.verdict, each.message), []).append(each)
    for (rule, verdict, message), own in grouped.items():
        yield Line(verdict, rule, message, tuple(a.subject for a in own if a.subject), own[0])


def worst_of(found: Iterable[Assessed]) -> dict[str, PillarVerdict]:
    """Return rule -> its worst verdict."""
    worst: dict[str, PillarVerdict] = {}
    for each in found:
        worst[each.rule] = min(worst.get(each.rule, each.verdict), each.verdict, key=WORST.index)
    return worst


def counts_text(found: Sequence[Assessed]) -> str:
    """Return how many rules have which worst verdict: ``1 fail, 2 unknown, 9 pass``."""
    verdicts = list(worst_of(found).values())
    return ", ".join(f"{verdicts.count(v)} {v}" for v in WORST if v in verdicts)


def assessment_text(found: Sequence[Assessed], what: str, width: int) -> str:
    """Return an assessment by pillar, the worst first in each, with remedies; what passed only by its rule.

    Lines are at most `width` columns wide. Questions that are not answered are listed by their rules.
    """
    lines = _wrapped(safe(what), width)
    for pillar in PILLARS:
        own = [a for a in found if a.pillar == pillar]
        lines += ["", f"{TITLES[pillar].upper()}  {counts_text(own)}"]
        for line in sorted(lines_of(own), key=lambda e: WORST.index(e.verdict)):
            if line.verdict in SHOWN and line.rule not in unanswered(own):
                lines += _wrapped(f"  {line.verdict:<8}{line.rule}  {line.text}", width)
                lines += _wrapped(f"          remedy: {safe(line.first.remedy)}", width) if line.first.remedy else []
        listed = {v: [r for r, w in worst_of(own).items() if w == v] for v in WORST if v not in SHOWN}
        for heading, rules in ({"not answered": unanswered(own)} | listed).items():
            lines += _wrapped(f"  {heading}: {', '.join(rules)}", width) if rules else []
    lines += ["", f"{len(worst_of(found))} rules: {counts_text(found)}"]
    if open_ := unanswered(found):
        text = f"{len(open_)} questions are not answered: vsphere-ai assess --questions writes them as a file"
        lines += _wrapped(text, width)
    return "\n".join(lines)


def unanswered(found: Iterable[Assessed]) -> list[str]:
    """Return the rules whose question has no answer at all."""
    return [a.rule for a in found if a.verdict == "unknown" and a.remedy == f"answer {a.rule} in the attestations"]


def questions_text(questions: Mapping[str, str], today: date) -> str:
    """Return a file of attestations to fill in: each question as a comment, above an answer without owner."""
    lines = ["# Attestations (manual checks): yes, no, or not applicable; by whom, when, and until when."]
    for rule, question in questions.items():
        until = today.replace(year=today.year + 1, day=min(today.day, 28))
        lines += ["", f"# {question}", f"- rule: {rule}", '  answer: "no"', "  owner: NAME OR ADDRESS"]
        lines += [f"  date: {today.isoformat()}", f"  expires: {until.isoformat()}"]
    return "\n".join(lines)


def _wrapped(text: str, width: int) -> list[str]:
    indent = len(text) - len(text.lstrip())
    return wrap(
        text, width, initial_indent="", subsequent_indent=" " * max(indent + 2, 10), break_on_hyphens=False,
        break_long_words=False,
    )  # fmt: skip


def assessment_markdown(found: Sequence[Assessed], what: str) -> str:
    """Return an assessment as Markdown: a table of the pillars, and one of the rules for each pillar."""
    lines = ["# Assessment", "", markdown_line(what), "", "| pillar | rules |", "|---|---|"]
    by_pillar = {p: list(own) for p, own in groupby(found, key=lambda a: a.pillar)}
    lines += [f"| {TITLES[p]} | {counts_text(own)} |" for p, own in by_pillar.items()]
    for pillar, own in by_pillar.items():
        lines += [
            "",
            f"## {TITLES[pillar]}",
            "",
            "| verdict | rule | finding | evidence | remedy |",
            "|---|---|---|---|---|",
        ]
        for line in sorted(lines_of(own), key=lambda e: WORST.index(e.verdict)):
            seen = "; ".join(f"{path} = {value}" for path, value in line.first.evidence)
            said = map(markdown_text, (line.text, seen, line.first.remedy))
            cells = (line.verdict, f"`{line.rule}`", *said)
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def assessment_document(found: Sequence[Assessed]) -> list[dict[str, object]]:
    """Return the verdicts as plain values."""
    return [
        {
            "rule": a.rule,
            "pillar": a.pillar,
            "subject": a.subject,
            "verdict": a.verdict,
            "message": a.message,
            "evidence": [{"path": path, "value": value} for path, value in a.evidence],
            "source": a.source,
            "remedy": a.remedy,
        }
        for a in found
    ]
