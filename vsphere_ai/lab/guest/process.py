"""Process of a detached run: how long it runs, what it ends with, and what it has written after some seconds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from vsphere_ai.lab.guest.machine import GuestMachine

Peers = list[tuple[GuestMachine, int]]
"""The nodes of a run with their numbers of processes."""


@dataclass(frozen=True)
class GuestProcess:
    """A process that ends after `seconds` with `code`; `log` returns its output after some seconds."""

    seconds: float
    code: int
    log: Callable[[float], str]


def options(argv: list[str]) -> dict[str, str]:
    """Return the options of a program by their names; one without a value is empty."""
    found: dict[str, str] = {}
    for at, word in enumerate(argv):
        if word.startswith("--"):
            name, _, joined = word[2:].partition("=")
            after = argv[at + 1] if at + 1 < len(argv) and not argv[at + 1].startswith("--") else ""
            found[name] = joined or after
    return found
