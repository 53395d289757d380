"""Live view of a run: a row per host or VM that is worked on, and a bar for the whole; as lines of a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vsphere_ai.model.names.name_ranges import fold, shell_word
from vsphere_ai.model.state import Target
from vsphere_ai.model.text import columns, counted, cut, filled, safe
from vsphere_ai.planning.outcome import RunEvent
from vsphere_ai.planning.planner import Plan
from vsphere_ai.planning.scheduling.expected_time import Pace, StepTimes, limit_of, seconds_left
from vsphere_ai.planning.scheduling.step_order import PlannedStep
from vsphere_ai.report.folding import how_many, names
from vsphere_ai.report.layout import grouped
from vsphere_ai.report.plans.plan_impact import rounded
from vsphere_ai.report.plans.plan_order import Unit, number_of, units
from vsphere_ai.report.plans.run_log import OVER, usual_text
from vsphere_ai.report.plans.run_text import WORDS

WIDE, WIDER = 96, 124
"""Columns from which a row has the limit of its step, and from which it has what is next."""
LIMIT = 8
BAR = 24
FAILURES = 5
"""Rows for what failed last."""
_BAD = ("failed", "unknown")


@dataclass
class _Running:
    planned: PlannedStep
    since: float
    text: str = ""


class LiveText:
    """State of a run for its live view; `now` are seconds of any clock that does not go back."""

    def __init__(self, plan: Plan, run: str, times: StepTimes) -> None:
        self._plan, self._run, self._times = plan, run, times
        self._units = list(units(plan.steps))
        self._unit = {p.id: n for n, unit in enumerate(self._units) for row in unit.rows for p in row.steps}
        self._left = [sum(len(row.steps) for row in unit.rows) for unit in self._units]
        self._running: dict[str, _Running] = {}
        self._begun: set[str] = set()
        self._ended: set[str] = set()
        self._failed: list[tuple[PlannedStep, str]] = []
        self._done = 0
        self._pace = Pace(plan.steps, times)
        self._waits = ""
        self._stopping = False
        self._seconds, self._at = 0.0, float("-inf")

    def see(self, event: RunEvent, now: float) -> None:
        """Take an event."""
        planned = event.planned
        if event.what == "stopping":
            self._stopping = True
        elif planned is None:
            self._waits = event.text if event.rule else self._waits
        elif event.what == "start":
            self._running[planned.id] = _Running(planned, now)
            self._begun.add(planned.id)
            self._waits = ""
        elif event.what == "progress" and planned.id in self._running:
            self._running[planned.id].text = event.text.rpartition(", ")[0] if event.text.endswith(" s") else event.text
        elif event.what in ("done", "skipped", *_BAD):
            self._end(event, planned, now)

    def _end(self, event: RunEvent, planned: PlannedStep, now: float) -> None:
        running = self._running.pop(planned.id, None)
        if running is not None and event.what == "done":
            self._pace.end(planned, now - running.since)
        self._ended.add(planned.id)
        self._left[self._unit[planned.id]] -= 1
        self._done += event.what == "done"
        if event.what in _BAD:
            self._failed.append((planned, f"{WORDS[event.what]}: {event.text}"))

    def lines(self, width: int, height: int, now: float) -> list[str]:
        """Return at most `height` - 1 lines, each of less than `width` columns."""
        width = max(20, width - 1)  # a terminal may wrap a line that fills it
        end = [*self._bar(width, now), *self._footer(width)]
        room = max(1, height - 3 - len(end))
        busy = grouped((self._unit[r.planned.id], r) for r in self._running.values())
        found = sorted(busy.items(), key=lambda each: (-self._late(each[1], now), min(r.since for r in each[1])))
        bad = [f" {cut(f'{safe(p.step.target.name)} [{number_of(p)}] {safe(text)}', width - 1)}"
               for p, text in self._failed[-min(FAILURES, room // 2) :]] if room > 1 else []  # fmt: skip
        most = max(1, room - len(bad) - 1)
        rows = self._rows(found[:most], width, now)
        more = [f"{len(found) - most} more at work"] if len(found) > most else []
        waiting = [unit.head for n, unit in enumerate(self._units) if self._left[n] and n not in busy]
        if waiting:
            lead = f"{len(waiting)} waiting: "
            room = width - sum(columns(each) + 2 for each in more) - columns(lead) - len(" + ")
            more.append(f"{lead}{safe(self._waits) if self._waits else _some(waiting, room)}")
        return [*bad, *rows, *([cut(f" + {', '.join(more)}", width)] if more else []), *end]

    def _late(self, running: Sequence[_Running], now: float) -> bool:
        times = self._times.steps
        return any(now - r.since >= times[r.planned.id].seconds + OVER for r in running)

    def _rows(self, found: Sequence[tuple[int, list[_Running]]], width: int, now: float) -> list[str]:
        heads = [safe(self._units[n].head.name) for n, _ in found]
        name = min(max((columns(each) for each in heads), default=0), max(12, width * 3 // 10))
        leads = [min(running, key=lambda r: r.since) for _, running in found]
        times = [usual_text(self._times, r.planned.id, now - r.since) for r in leads]
        time = max(map(len, times), default=0)
        rest = width - name - time - 3 - (LIMIT if width >= WIDE else 0)
        after = rest * 2 // 5 if width >= WIDER else 0
        rows = []
        for (n, running), head, first, took in zip(found, heads, leads, times, strict=True):
            step = self._step(self._units[n], running)
            cells = [filled(head, name), filled(step, rest - after), filled(took, time)]
            if width >= WIDE:
                limit = limit_of(first.planned.step)
                cells.append(filled(f"max {rounded(limit)}" if limit else "", LIMIT - 1))
            if after:
                cells.append(cut(self._next(self._units[n]), after - 1))
            rows.append(cut(f" {' '.join(cells)}".rstrip(), width))
        guess = " (~ GUESS)" if any("~" in each for each in times) else ""
        over = max(0, len(f"TIME{guess}") - time - (after or width >= WIDE) * LIMIT)
        head = f" {filled('HOST OR VM', name)} {filled('STEP', max(4, rest - after - over))} TIME{guess}"
        return [cut(head, width), *rows] if rows else []

    def _step(self, unit: Unit, running: Sequence[_Running]) -> str:
        """Return the step that has been under way for longest, with all targets of the unit that are at the same."""
        first = min(running, key=lambda r: r.since)
        step = first.planned.step
        same = [r.planned.step.target for r in running if r.planned.step.summary == step.summary]
        who = "" if same == [unit.head] else f"{names(same) if len(same) == 1 else how_many(same)}: "
        text = f" — {first.text}" if first.text else ""
        return safe(f"[{number_of(first.planned)}] {who}{step.summary}{text}")

    def _next(self, unit: Unit) -> str:
        rest = (p for row in unit.rows for p in row.steps if p.id not in self._begun and p.id not in self._ended)
        planned = min(rest, key=number_of, default=None)
        if planned is None:
            return ""
        who = "" if planned.step.target == unit.head else f"{planned.step.target.name}: "
        return safe(f"next: {who}{planned.step.summary}")

    def _bar(self, width: int, now: float) -> list[str]:
        if now - self._at >= max(1.0, len(self._plan.steps) / 1000):
            running = {name: now - r.since for name, r in self._running.items()}
            self._times, self._at = self._pace.now(), now
            self._seconds = seconds_left(self._plan.steps, self._times, running, self._ended)
        times = self._times.steps
        part = sum(min(times[n].seconds, now - r.since) for n, r in self._running.items())
        worth = sum(times[n].seconds for n in self._ended)
        share = min(1.0, (worth + part) / (sum(each.seconds for each in times.values()) or 1.0))
        size = min(BAR, width // 4)
        full = int(share * size)
        total = len(self._plan.steps)
        units_done = sum(not left for left in self._left)
        late = self._late(list(self._running.values()), now)
        about = "at least" if late else "perhaps" if self._times.guessed else "about"
        by = "estimate" if not self._times.runs else f"by {counted(self._times.runs, 'run')} here"
        parts = [
            f"{len(self._ended)} of {total} steps",
            *([] if self._stopping else [f"{about} {rounded(self._seconds)} left"]),
            *([f"{len(self._failed)} failed"] if self._failed else []),
            f"{units_done} of {how_many([u.head for u in self._units])} ended",
            *([] if self._stopping else [by]),
        ]
        line = f" [{'#' * full}{'.' * (size - full)}] {parts[0]}"
        for each in parts[1:]:
            if columns(line) + 3 + columns(each) <= width:
                line += f" · {each}"
        return [cut(line, width)]

    def _footer(self, width: int) -> list[str]:
        if not self._stopping:
            return [cut(" Ctrl-C finishes what is in flight and stops", width)]
        at_work = counted(len(self._running), "step")
        parts = [
            f"stopping: {at_work} in flight, and what brings hosts back into service",
            "nothing else starts; Ctrl-C again leaves at once",
            f"go on later with: vsphere-ai resume {shell_word(self._run)}",
        ]
        return [cut(f" {part}", width) for part in parts]


def _some(targets: Sequence[Target], room: int) -> str:
    """Return as many whole names as fit, as ranges."""
    found = ""
    for term in fold(t.name for t in targets):
        longer = f"{found}, {safe(term)}" if found else safe(term)
        if columns(longer) > room - len(", …"):
            return f"{found}, …" if found else safe(term)
        found = longer
    return found
