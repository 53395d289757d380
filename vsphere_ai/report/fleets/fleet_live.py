"""Live view of a fleet: a row per vCenter that is worked on, and a bar for all of them; as lines of a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from vsphere_ai.model.names.name_ranges import quoted
from vsphere_ai.model.text import columns, counted, cut, filled, safe
from vsphere_ai.planning.outcome import RunEvent
from vsphere_ai.planning.scheduling.expected_time import Pace, StepTimes, seconds_left
from vsphere_ai.planning.scheduling.step_order import PlannedStep
from vsphere_ai.report.folding import how_many
from vsphere_ai.report.plans.plan_impact import rounded

BAR = 24
RUNNING, ENDED = ("working", "stopping"), ("done", "nothing to do", "failed", "stopped", "unfinished", "refused")
_ORDER = {"failed": 0, "refused": 1, "working": 2, "stopping": 2, "planning": 3, "waiting": 4}
"""Which rows come first where not all fit; what ended well comes last."""
_ENDS = ("done", "skipped", "failed", "unknown")


@dataclass
class _Shard:
    """A vCenter, by its events; `seconds` are left as of `at`."""

    state: str = "waiting"
    steps: Sequence[PlannedStep] = ()
    pace: Pace = field(default_factory=lambda: Pace((), StepTimes()))
    running: dict[str, tuple[PlannedStep, float]] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)
    failed: int = 0
    text: str = ""
    seconds: float = 0.0
    at: float = float("-inf")

    def left(self, now: float) -> float:
        """Return the seconds that it takes at least; asked anew only now and then, as its plan may be large."""
        if self.state in RUNNING and now - self.at >= max(1.0, len(self.steps) / 1000):
            since = {name: now - began for name, (_, began) in self.running.items()}
            self.seconds, self.at = seconds_left(self.steps, self.pace.now(), since, self.ended), now
        return self.seconds if self.state in RUNNING else 0.0

    def now(self) -> str:
        """Return what is under way for longest, or why nothing is."""
        if not self.running:
            waits = self.state == "working" and len(self.ended) < len(self.steps)
            return self.text or ("waits: nothing of it is in flight" if waits else "")
        first = min(self.running.values(), key=lambda each: each[1])[0].step
        same = [p.step.target for p, _ in self.running.values() if p.step.summary == first.summary]
        who = quoted(first.target.name) if len(same) == 1 else how_many(same)
        return f"{who}: {first.summary}"


@dataclass(frozen=True)
class StartedRun:
    """Steps of a run that has started, and how long each usually takes."""

    steps: Sequence[PlannedStep]
    times: StepTimes


class FleetLive:
    """State of a fleet for its live view; `now` are seconds of any clock that does not go back."""

    def __init__(self, fleet: str, sizes: Mapping[str, int]) -> None:
        self._fleet, self._sizes = fleet, dict(sizes)
        self._shards = {name: _Shard() for name in sizes}

    def plan(self, vcenter: str, text: str) -> None:
        """Note what is read or planned in a vCenter before its run begins."""
        shard = self._shards[vcenter]
        if shard.state in ("waiting", "planning"):
            shard.state, shard.text = "planning", text or shard.text

    def begin(self, vcenter: str, run: StartedRun) -> None:
        """Note that the run of a vCenter carries its steps out."""
        self._shards[vcenter] = _Shard("working", run.steps, Pace(run.steps, run.times))

    def see(self, vcenter: str, event: RunEvent, now: float) -> None:
        """Take an event of the run of a vCenter."""
        shard, planned = self._shards[vcenter], event.planned
        if event.what == "stopping":
            shard.state = "stopping"
        elif planned is None:
            shard.text = event.text if event.rule else shard.text
        elif event.what == "start":
            shard.running[planned.id] = planned, now
            shard.text = ""
        elif event.what in _ENDS:
            begun = shard.running.pop(planned.id, None)
            if begun is not None and event.what == "done":
                shard.pace.end(planned, now - begun[1])
            shard.ended.add(planned.id)
            shard.failed += event.what in ("failed", "unknown")

    def end(self, vcenter: str, state: str, text: str) -> None:
        """Note how a vCenter ended."""
        shard = self._shards[vcenter]
        shard.state, shard.text = state, text
        shard.running.clear()
        if not shard.steps:  # nothing of it is carried out now
            self._sizes[vcenter] = 0

    def lines(self, width: int, height: int, now: float) -> list[str]:
        """Return at most `height` - 1 lines, each of less than `width` columns."""
        width = max(20, width - 1)  # a terminal may wrap a line that fills it
        end = [*self._bar(width, now), *self._footer(width)]
        known = [*self._shards.items()]
        order = sorted(known, key=lambda each: _ORDER.get(each[1].state, 5))
        most = max(1, height - len(end) - 3)
        kept = {name for name, _ in order[:most]} if len(order) > most else set(self._shards)
        rows = [(name, shard) for name, shard in known if name in kept]
        more = [shard.state for name, shard in known if name not in kept]
        return [*self._rows(rows, width, now), *_more(more, width), *end]

    def _rows(self, rows: Sequence[tuple[str, _Shard]], width: int, now: float) -> list[str]:
        cells = [("VCENTER", "STATE", "STEPS", "FAILED", "LEFT", "NOW")]
        for name, shard in rows:
            left = shard.left(now)
            cells.append(
                (
                    safe(quoted(name)),
                    shard.state,
                    _of(len(shard.ended), len(shard.steps) or self._sizes[name]),
                    str(shard.failed) if shard.failed else "",
                    f"{'~' if shard.pace.times.guessed else ''}{rounded(left)}" if left else "",
                    safe(shard.now()),
                )
            )
        sizes = [max(columns(row[at]) for row in cells) for at in range(5)]
        sizes[0] = min(sizes[0], max(12, width // 4))
        if not any(row[3] for row in cells[1:]):
            sizes[3] = 0
        return [
            cut(
                " " + " ".join([*(filled(c, s) for c, s in zip(row, sizes, strict=False) if s), row[5]]).rstrip(), width
            )
            for row in cells
        ]

    def _bar(self, width: int, now: float) -> list[str]:
        shards = self._shards.values()
        total = sum(len(s.steps) or self._sizes[name] for name, s in self._shards.items())
        ended, failed = sum(len(s.ended) for s in shards), sum(s.failed for s in shards)
        over, left = sum(s.state in ENDED for s in shards), max((s.left(now) for s in shards), default=0.0)
        size = min(BAR, width // 4)
        full = int(size * ended / total) if total else size
        guessed = any(s.pace.times.guessed for s in shards if s.state in RUNNING)
        line = f" [{'#' * full}{'.' * (size - full)}] {ended} of {counted(total, 'step')}"
        parts = [
            f"{over} of {counted(len(shards), 'vCenter')} ended",
            *([f"{failed} failed"] if failed else []),
            *([f"{'perhaps' if guessed else 'about'} {rounded(left)} left"] if left and not self._stopping else []),
        ]
        for each in parts:
            if columns(line) + 3 + columns(each) <= width:
                line += f" · {each}"
        return [cut(line, width)]

    @property
    def _stopping(self) -> bool:
        return any(s.state == "stopping" for s in self._shards.values())

    def _footer(self, width: int) -> list[str]:
        if not self._stopping:
            return [cut(" Ctrl-C finishes what is in flight in all vCenters and stops", width)]
        flight = sum(len(s.running) for s in self._shards.values())
        parts = (
            f"stopping: {counted(flight, 'step')} in flight, and what brings hosts back into service",
            "nothing else starts; Ctrl-C again leaves at once",
            f"go on later with: vsphere-ai fleet resume {self._fleet}",
        )
        return [cut(f" {part}", width) for part in parts]


def _of(ended: int, total: int) -> str:
    return f"{ended} of {total}" if total else ""


def _more(states: Sequence[str], width: int) -> list[str]:
    if not states:
        return []
    by_state = ", ".join(f"{states.count(each)} {each}" for each in dict.fromkeys(states))
    return [cut(f" + {counted(len(states), 'vCenter')} more: {by_state}", width)]
