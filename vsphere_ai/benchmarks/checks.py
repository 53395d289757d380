"""Check of a result: a rule, how serious it is, and a sentence. What could not be measured is worse than a warning."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Level = Literal["fail", "unknown", "warn", "note"]
LEVELS: tuple[Level, ...] = ("fail", "unknown", "warn", "note")
"""From the worst to the least. `fail` and `unknown` mean: not passed."""


@dataclass(frozen=True)
class Check:
    """What was noticed about a result; `rule` is its id, `remedy` what to do, empty where nothing."""

    rule: str
    level: Level
    message: str
    remedy: str = ""


def is_passed(checks: Iterable[Check]) -> bool:
    """Return whether nothing failed and nothing that had to be measured is missing."""
    return not any(c.level in ("fail", "unknown") for c in checks)


def worst(checks: Iterable[Check]) -> Level | None:
    """Return the worst level; None without checks."""
    return min((c.level for c in checks), key=LEVELS.index, default=None)
