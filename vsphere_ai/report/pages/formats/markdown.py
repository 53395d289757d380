"""Markdown of a report: it fits into a comment of a merge request, and says what it leaves out."""

from __future__ import annotations

import re

from vsphere_ai.model.names.written_names import markdown_line, markdown_text
from vsphere_ai.model.text import safe
from vsphere_ai.report.pages.values import Report, ReportSection

MOST = 65_535
"""Characters that GitHub takes in a comment or a step summary."""
MARKS = {"pass": "✅", "warn": "⚠️", "unknown": "❔", "fail": "❌"}


def markdown(report: Report) -> str:
    """Return a report as Markdown of at most `MOST` characters; a longer one says how many rows it leaves out."""
    lines = [f"# {markdown_text(report.title)}", "", f"{MARKS[report.status]} **{markdown_text(report.verdict)}**", ""]
    lines += [f"- {markdown_line(name)}: {markdown_text(value)}" for name, value in report.facts]
    whole = "\n".join([*lines, *(line for s in report.sections for line in _section(s, len(s.rows)))])
    if len(whole) <= MOST:
        return whole
    lines += [
        "",
        f"**This is a summary: the whole report has {len(whole)} characters.** `-o html` has all of it.",
    ]
    room = MOST - len("\n".join(lines)) - 1
    for number, section in enumerate(report.sections):
        lines_of = _fitting(section, room // (len(report.sections) - number))
        room -= len("\n".join(lines_of)) + 1
        lines += lines_of
    return "\n".join(lines)


def _section(section: ReportSection, most: int) -> list[str]:
    lines = ["", f"## {markdown_text(section.title)}", ""]
    lines += [markdown_line(section.note), ""] if section.note else []
    if section.code:
        fence = "`" * max(3, 1 + max(map(len, re.findall("`+", section.code)), default=0))
        lines += [fence, *map(safe, section.code.splitlines()), fence]
    if most:
        lines += [f"| {' | '.join(map(markdown_text, section.heads))} |", f"|{'---|' * len(section.heads)}"]
    lines += [f"| {' | '.join(map(markdown_text, row))} |" for row in section.rows[:most]]
    left = len(section.rows) - most
    return [*lines, "", f"{left} more of {len(section.rows)} rows are left out."] if left else lines


def _fitting(section: ReportSection, room: int) -> list[str]:
    """Return a section with as many of its first rows as that many characters take, by bisection."""
    low, high = 0, len(section.rows)
    while low < high:
        middle = (low + high + 1) // 2
        if len("\n".join(_section(section, middle))) <= room:
            low = middle
        else:
            high = middle - 1
    return _section(section, low)
