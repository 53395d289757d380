"""Finding: what is reported about a line of an exported file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

Verdict = Literal["fail", "warn", "info"]
"""`fail`: the program that reads the file refuses it, or silently does something else; `warn`: it is read, but surely
not meant; `info`: nothing here judges it."""


@dataclass(frozen=True, order=True)
class Finding:
    """A line, counted from 1 (0: the whole text), a sentence, and how serious it is."""

    line: int
    message: str
    verdict: Verdict = "fail"

    @property
    def text(self) -> str:
        """The sentence, below its verdict where that is not `fail`."""
        words = {"fail": "", "warn": "warning: ", "info": "note: "}
        return f"{words[self.verdict]}{self.message}"


def faults(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings for which the program that reads the file refuses or misreads it."""
    return [finding for finding in findings if finding.verdict == "fail"]


def not_looked_at(what: str, names: Mapping[str, int]) -> list[Finding]:
    """Return one note about names that no rule is about, by the line on which each is first; none without a name."""
    if not names:
        return []
    shown = ", ".join(list(names)[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
    return [Finding(min(names.values()), f"not looked at: {len(names)} {what}: {shown}", "info")]


def lines_of(text: str) -> list[tuple[int, str]]:
    """Return the lines of a text that say something, with their numbers: comments behind ``#`` are taken off."""
    stripped = ((n, line.partition("#")[0].strip()) for n, line in enumerate(text.splitlines(), 1))
    return [(n, line) for n, line in stripped if line]
