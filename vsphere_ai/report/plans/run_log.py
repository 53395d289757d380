"""Log of a run: a line for what ends together on a target, or on many alike; what fails or waits is said at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from vsphere_ai.model.names.name_ranges import fold
from vsphere_ai.model.state import Target
from vsphere_ai.model.text import counted, duration, safe
from vsphere_ai.planning.outcome import RunEvent
from vsphere_ai.planning.scheduling.expected_time import StepTimes, seconds_left
from vsphere_ai.planning.scheduling.step_order import PlannedStep
from vsphere_ai.report.folding import FEW, how_many, nameless, names, shape
from vsphere_ai.report.layout import grouped
from vsphere_ai.report.plans.plan_order import Unit, number_of, number_ranges, signature, units
from vsphere_ai.report.plans.run_text import WORDS, event_text

SILENCE = 7.0
"""Seconds without a line after which one says what is under way."""
LONG = 30.0
"""Usual seconds of a step from which what ended before it is said when only it is under way."""
OVER = 1.0
"""Seconds over the usual time from which a step is late."""
SHORTEST, LONGEST = 2.0, 30.0
"""Seconds for which a line waits for others that are alike."""
NAMED = 3
"""Terms of names that a line has; of more, their number."""
RAGGED = 8
"""Terms of names at the beginning of a line; of more, the first ones: plan, end and `run show RUN` have all."""
LINES = 200
"""Lines that a run of many targets should take, about."""
_BAD = ("failed", "unknown")


class LogSteps(Protocol):
    """A plan, or as much of it as a log needs."""

    @property
    def steps(self) -> Sequence[PlannedStep]:
        """Its steps."""


@dataclass
class _Ended:
    """Steps of a unit that ended well and were not said yet."""

    since: float
    began: float
    last: float
    steps: list[tuple[PlannedStep, str]] = field(default_factory=list)


@dataclass
class _HeldLine:
    """A line that waits for others alike."""

    since: float
    began: float
    last: float
    text: str
    state: str
    named: str = ""
    """The text of the first target, with names in it."""
    others: int = 0
    """How many further texts are alike but for names."""
    steps: list[PlannedStep] = field(default_factory=list)
    who: list[Target] = field(default_factory=list)


class RunLog:
    """Folds the events of one run; `now` are seconds of any clock that does not go back."""

    def __init__(self, plan: LogSteps, times: StepTimes, *, heartbeat: bool = True) -> None:
        self._total, self._times, self._heartbeat = len(plan.steps), times, heartbeat
        self._known = frozenset(p.step.target.name for p in plan.steps)
        found = list(units(plan.steps))
        self._unit = {p.id: unit for unit in found for row in unit.rows for p in row.steps}
        self._open = {id(u): sum(len(r.steps) for r in u.rows) for u in found}
        alike = grouped((signature(unit, self._known), unit) for unit in found)
        self._alike = {id(unit): same for same in alike.values() for unit in same}
        left = seconds_left(plan.steps, times, {}, ())
        self._hold = min(LONGEST, max(SHORTEST, left / LINES))
        self._ended: dict[int, _Ended] = {}
        self._held: dict[tuple[str, ...], _HeldLine] = {}
        self._seen: set[tuple[str, ...]] = set()
        self._running: dict[str, tuple[PlannedStep, float]] = {}
        self._done = 0
        self._last: float | None = None

    def lines(self, event: RunEvent, now: float) -> Iterator[str]:
        """Take an event; yield the lines that are to be written now, without the time of day."""
        for line in self._lines(event, now):
            self._last = now
            yield line
        if self._last is None:
            self._last = now
        if self._heartbeat and now - self._last >= SILENCE and self._running:
            self._last = now
            yield self._at_work(now)

    def close(self, now: float) -> Iterator[str]:
        """Yield what was not said yet."""
        yield from self._flush(now, everything=True)

    def _lines(self, event: RunEvent, now: float) -> Iterator[str]:
        planned = event.planned
        if planned is None:
            if event.what == "reverted":
                self._revert(event, now)
            elif event.what != "waiting" or event.rule:
                yield from self._flush(now, everything=True)
                yield event_text(event, self._total)
        elif event.what == "start":
            unit = self._unit[planned.id]
            long = self._times.steps[planned.id].seconds >= LONG
            others = long and any(self._unit[name] is unit for name in self._running)
            self._running[planned.id] = planned, now
            if long and not others:
                yield from self._say_ended(unit, now)
        elif event.what in ("done", "skipped", *_BAD):
            yield from self._end(planned, event, now)
        yield from self._flush(now)

    def _end(self, planned: PlannedStep, event: RunEvent, now: float) -> Iterator[str]:
        unit = self._unit[planned.id]
        self._running.pop(planned.id, None)
        self._open[id(unit)] -= 1
        self._done += event.what == "done"
        if event.what == "done":
            began = now - event.seconds
            ended = self._ended.setdefault(id(unit), _Ended(now, began, now))
            ended.began, ended.last = min(ended.began, began), now
            ended.steps.append((planned, event.text))
        elif event.what == "skipped":
            own = f"{planned.step.target.name}: "
            why = f", as this was not done: {event.text.removeprefix(own)}" if event.text.startswith(own) else ""
            text = f"skipped{why or f': {event.text}'}"
            self._hold_line(("skipped", nameless(text, self._known)), planned, text, now)
        else:
            yield from self._say_ended(unit, now)
            key = self._cause(event, planned)
            if key in self._seen:
                self._hold_line(key, planned, f"{planned.step.summary} — {WORDS[event.what]}: {event.text}", now)
            else:
                self._seen.add(key)
                yield event_text(event, self._total)
        if not self._open[id(unit)]:
            yield from self._say_ended(unit, now)

    def _cause(self, event: RunEvent, planned: PlannedStep) -> tuple[str, ...]:
        said = (nameless(shape(text, planned.step.target), self._known) for text in (planned.step.summary, event.text))
        return event.what, *said

    def _hold_line(self, key: tuple[str, ...], planned: PlannedStep, text: str, now: float) -> None:
        held = self._held.setdefault(key, _HeldLine(now, now, now, text, key[0]))
        held.others += text != held.text
        held.steps.append(planned)
        held.who.append(planned.step.target)
        held.last = now

    def _revert(self, event: RunEvent, now: float) -> None:
        """Hold what was put back: at the end of a run it is often the same on many targets."""
        key = "reverted", nameless(event.text, self._known)
        held = self._held.get(key)
        if held is None:
            self._held[key] = _HeldLine(now, now, now, event_text(event, self._total), "reverted")
        else:
            held.others += 1

    def _say_ended(self, unit: Unit, now: float, *, hold: bool = False) -> Iterator[str]:
        """Yield what has ended on a unit; hold it where others are worked on alike."""
        ended = self._ended.pop(id(unit), None)
        if ended is None:
            return
        alone = not hold and not self._others(unit)
        text, named = ("; ".join(self._said(unit, ended.steps, counts=counts)) for counts in (True, False))
        key = ("done", nameless(text, self._known))
        alone = alone and key not in self._held
        held = self._held.get(key)
        if held is None:
            held = self._held[key] = _HeldLine(now, ended.began, ended.last, text, "done", named)
        held.steps += [planned for planned, _ in ended.steps]
        held.who.append(unit.head)
        held.began, held.last = min(held.began, ended.began), ended.last
        if alone:
            yield self._line(self._held.pop(key))

    def _others(self, unit: Unit) -> bool:
        """Return whether another unit that is worked on alike is under way now."""
        busy = {id(self._unit[name]) for name in self._running}
        busy |= {id(self._unit[ended.steps[0][0].id]) for ended in self._ended.values()}
        return any(other is not unit and id(other) in busy for other in self._alike[id(unit)])

    def _said(self, unit: Unit, steps: Sequence[tuple[PlannedStep, str]], *, counts: bool) -> list[str]:
        """Return what was done, once for equal steps of several targets."""
        found = grouped(
            ((f"{p.step.summary}{f' ({remark})' if remark else ''}", p.step.target.kind), p.step.target)
            for p, remark in steps
        )
        texts = []
        for (text, _), targets in found.items():
            own = targets == [unit.head]
            who = how_many(targets) if counts or len(fold(t.name for t in targets)) > NAMED else names(targets)
            texts.append(text if own else f"{who}: {text}")
        more = len(texts) - FEW + 1
        return texts if more < 2 else [*texts[: FEW - 1], f"and {more} more"]

    def _flush(self, now: float, *, everything: bool = False) -> Iterator[str]:
        for ended in [*self._ended.values()]:
            if everything or now - ended.since >= self._hold:
                yield from self._say_ended(self._unit[ended.steps[0][0].id], now, hold=everything)
        for name, held in sorted(self._held.items(), key=lambda each: each[1].began):
            if everything or now - held.since >= self._hold:
                yield self._line(self._held.pop(name))

    def _line(self, held: _HeldLine) -> str:
        if held.state == "reverted":
            return f"{held.text}{f', and {held.others} more like that' if held.others else ''}"
        targets = list(dict.fromkeys(held.who))
        who = f"{_first(targets):<18} [{number_ranges(map(number_of, held.steps))}/{self._total}]"
        many = f"{how_many(targets)}: " if len(targets) > 1 else ""
        if held.state == "skipped":
            like = " and the like" if held.others else ""
            return safe(f"{who} {many}{counted(len(held.steps), 'step')} {held.text}{like}")
        if held.state in _BAD:
            like = f"; {how_many(targets)} more like that, the first:" if len(targets) > 1 else ""
            return safe(f"{who}{like} {held.text}")
        took = held.last - held.began
        text = held.text if many else held.named
        return safe(f"{who} {many}{text} — done{f' ({duration(took)})' if took >= 1 else ''}")

    def _at_work(self, now: float) -> str:
        """Return a sign of life: the steps that have been under way for longest."""
        oldest = sorted(self._running.values(), key=lambda each: each[1])
        texts = []
        for planned, since in oldest[:2]:
            of = usual_text(self._times, planned.id, now - since)
            texts.append(f"{planned.step.target.name} [{number_of(planned)}] {planned.step.summary} {of}")
        more = f"; and {len(oldest) - 2} more" if len(oldest) > 2 else ""
        return safe(f"still working: {'; '.join(texts)}{more} · {self._done} of {self._total} steps done")


def _first(targets: Sequence[Target]) -> str:
    """Return names as ranges; of many that are no ranges, the first ones."""
    terms = fold(t.name for t in targets)
    return names(targets) if len(terms) <= RAGGED else f"{', '.join(terms[:NAMED])}, …"


def usual_text(times: StepTimes, id: str, elapsed: float) -> str:
    """Return how long a step has taken, and of what: ``4m10s of 11m40s``; a guess has a ``~``."""
    usual = times.steps[id]
    if usual.seconds < 1:
        return duration(elapsed)
    if elapsed >= usual.seconds + OVER and usual.times:
        return f"{duration(elapsed)}, +{duration(elapsed - usual.seconds)} over usual"
    return f"{duration(elapsed)} of {'' if usual.times else '~'}{duration(usual.seconds)}"
