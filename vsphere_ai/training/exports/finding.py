"""Findings about lines of an exported file, as the program that reads it takes them.

`fail`: that program refuses the file, or silently does something else. `warn`: it is read, but surely not meant.
`info`: no rule here is about it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from vsphere_ai.errors import Mark
from vsphere_ai.model.finding import Finding, Subject, Verdict

LineFinding = Finding[Subject]
"""A finding about a text that has no name yet; `in_file` gives it one."""
RULE = "export"


def at_line(line: int, message: str, verdict: Verdict = "fail") -> LineFinding:
    """Return a finding about a line, counted from 1 on; 0: about the whole text."""
    return Finding(Subject("file", "", mark=Mark("", line, 1) if line else None), RULE, verdict, message)


def line_of(finding: LineFinding) -> int:
    """Return the line that a finding is about; 0: the whole text."""
    return finding.target.mark.line if finding.target.mark is not None else 0


def by_line(findings: Iterable[LineFinding]) -> list[LineFinding]:
    """Return findings in the order of their lines."""
    return sorted(findings, key=lambda finding: (line_of(finding), finding.message, finding.verdict))


def in_file(findings: Iterable[LineFinding], file: str, format: str) -> tuple[LineFinding, ...]:
    """Return findings about a file of a format: the file is named, and the rule is that of the format."""
    return tuple(
        replace(
            each,
            target=Subject("file", file, mark=Mark(file, line_of(each), 1) if line_of(each) else None),
            rule=f"{RULE}.{format}",
        )
        for each in findings
    )


def faults(findings: Iterable[LineFinding]) -> list[LineFinding]:
    """Return the findings for which the program that reads the file refuses or misreads it."""
    return [finding for finding in findings if finding.verdict == "fail"]


def not_looked_at(what: str, names: Mapping[str, int]) -> list[LineFinding]:
    """Return one note about names that no rule is about, by the line on which each is first; none without a name."""
    if not names:
        return []
    shown = ", ".join(list(names)[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
    return [at_line(min(names.values()), f"not looked at: {len(names)} {what}: {shown}", "info")]


def lines_of(text: str) -> list[tuple[int, str]]:
    """Return the lines of a text that say something, with their numbers: comments behind ``#`` are taken off."""
    stripped = ((n, line.partition("#")[0].strip()) for n, line in enumerate(text.splitlines(), 1))
    return [(n, line) for n, line in stripped if line]
