"""Keeps the rules of a running lab, counts what they are met by, and says which one fires."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from vsphere_ai.lab.faults.rules import LATE, FaultEvent, FaultRule

KEPT = 10_000
"""How many fired faults are remembered."""


@dataclass(frozen=True)
class Fired:
    """A fault that happens now; `ledger` is how many changes the farm had seen before."""

    number: int
    rule: FaultRule
    rule_number: int
    event: FaultEvent
    time: str
    ledger: int
    released: threading.Event
    """Set when the rule is released, or the rules are cleared or replaced: whatever this fault holds up is to end."""

    def wait(self) -> None:
        """Hold the reply up: as long as a `delay` says, with `hold` until the rule is released."""
        action = self.rule.do
        if action.word in LATE:
            self.released.wait(None if action.word == "hold" else action.seconds)

    def as_json(self) -> dict[str, Any]:
        """Return the fault as plain JSON types."""
        return {
            "number": self.number,
            "time": self.time,
            "rule": self.rule_number,
            "event": str(self.event),
            "object": ", ".join(self.event.objects),
            "do": self.rule.do.word,
            "when": self.rule.when,
            "ledger": self.ledger,
        }


class _Counted:
    """A rule with its counters, its own stream of random numbers, and what lets go of the calls it holds up."""

    def __init__(self, number: int, rule: FaultRule, seed: int) -> None:
        self.number, self.rule = number, rule
        self.met = self.fired = 0
        self.released = threading.Event()
        own = seed if rule.seed is None else rule.seed
        # of its own, so that a rule decides the same whatever the other rules do
        self.random = random.Random(f"{own}/{number}")  # noqa: S311 - a replayable choice, no secret

    def due(self) -> bool:
        """Count one more event that matches, and return whether the rule fires at it."""
        self.met += 1
        rule = self.rule
        chosen = self.random.random() < rule.probability
        if self.met < rule.nth or (rule.every and self.met % rule.every):
            return False
        return chosen and not self.released.is_set() and not (rule.times and self.fired >= rule.times)


class FaultEngine:
    """The faults of one lab. Without rules nothing is asked of it: look at `rules` before calling `meet`."""

    def __init__(self) -> None:
        self.rules: tuple[FaultRule, ...] = ()
        self.seed = 0
        self.changes: Callable[[], int] = lambda: 0
        self.strike: Callable[[Fired], None] = lambda _fired: None
        """Carries out what happens to machines and servers; set by the lab."""
        self._lock = threading.Lock()
        self._counted: list[_Counted] = []
        self._fired: list[Fired] = []
        self._number = 0

    def set(self, rules: Iterable[FaultRule], seed: int) -> None:
        """Replace all rules and counters; what hangs is let go."""
        with self._lock:
            self._let_go()
            self.seed, self._number = seed, 0
            self._fired.clear()
            self._counted = [_Counted(number, rule, seed) for number, rule in enumerate(rules, 1)]
            self.rules = tuple(c.rule for c in self._counted)

    def add(self, rules: Iterable[FaultRule]) -> None:
        """Add rules behind those there are; counters and what hangs stay."""
        with self._lock:
            for rule in rules:
                self._counted.append(_Counted(len(self._counted) + 1, rule, self.seed))
            self.rules = tuple(c.rule for c in self._counted)

    def clear(self) -> None:
        """Remove every rule; what hangs is let go. The list of fired faults stays until rules are set."""
        with self._lock:
            self._let_go()
            self._counted, self.rules = [], ()

    def release(self, number: int) -> bool:
        """Let go of what one rule holds up; it does not strike again. False when there is no such rule."""
        with self._lock:
            found = [c for c in self._counted if c.number == number]
            for each in found:
                each.released.set()
            return bool(found)

    def _let_go(self) -> None:
        for each in self._counted:
            each.released.set()

    def meet(self, event: FaultEvent) -> Fired | None:
        """Count an event at every rule it matches; return the first rule that fires, if any."""
        with self._lock:
            due = [c for c in self._counted if c.rule.matches(event) and c.due()]
            if not due:
                return None
            first = due[0]
            first.fired += 1
            self._number += 1
            now = datetime.now(UTC).isoformat(timespec="milliseconds")
            fired = Fired(self._number, first.rule, first.number, event, now, self.changes(), first.released)
            self._fired.append(fired)
            del self._fired[:-KEPT]
            return fired

    def as_json(self) -> dict[str, Any]:
        """Return seed, rules with their counters, and the faults that fired, oldest first."""
        with self._lock:
            rules = [{"number": c.number, "rule": str(c.rule), "met": c.met, "fired": c.fired} for c in self._counted]
            return {"seed": self.seed, "rules": rules, "fired": [f.as_json() for f in self._fired]}
