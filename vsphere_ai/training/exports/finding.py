"""Finding: what stands against a line of an exported file."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Finding:
    """A line, counted from 1 (0: the whole text), and a sentence."""

    line: int
    message: str


def lines_of(text: str) -> list[tuple[int, str]]:
    """Return the lines of a text that say something, with their numbers: comments behind ``#`` are taken off."""
    stripped = ((n, line.partition("#")[0].strip()) for n, line in enumerate(text.splitlines(), 1))
    return [(n, line) for n, line in stripped if line]
