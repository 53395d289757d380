"""Expected time of a plan: its steps laid out in time, each as long as such steps took before, else as a guess."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush

from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import (
    EnterMaintenance,
    ExitMaintenance,
    GpusAnswer,
    GuestReady,
    Healthy,
    HostBack,
    Migrate,
    Move,
    PowerOff,
    Step,
    what,
)
from vsphere_ai.planning.scheduling.step_order import PlannedStep

GUESSES: Mapping[str, float] = {
    "host-back": 600,
    "gpus-answer": 120,
    "enter-maintenance": 60,
    "exit-maintenance": 15,
    "power-off": 60,
    "power-on": 20,
    "migrate": 60,
    "guest-ready": 120,
    "healthy": 30,
    "clone": 120,
    "destroy": 15,
}
"""Seconds of a step by its type, or the first word of its summary, where no run has shown them. Guesses, no more."""
OTHERWISE = 5.0
"""Seconds of any other step."""
DISRUPTS = ("enter-maintenance", "reboot", "power-off")
"""Types of steps with which something goes out of service."""
RESTORES = ("exit-maintenance", "power-on", "healthy")
"""Types of steps after which it is in service again."""


@dataclass(frozen=True)
class Usual:
    """Seconds that such a step usually takes, and how often it was seen here; 0 times: a guess."""

    seconds: float
    times: int = 0


@dataclass(frozen=True)
class StepTimes:
    """Usual time of each step of a plan, by its id; `parallel` steps go at once, and `runs` have shown these times."""

    steps: Mapping[str, Usual] = field(default_factory=dict)
    parallel: int = 8
    runs: int = 0

    @property
    def guessed(self) -> bool:
        """Whether steps are among them that no run has shown."""
        return not self.runs or any(not each.times for each in self.steps.values())


@dataclass(frozen=True)
class Estimate:
    """Expected time of a plan in seconds.

    `window` is the time from the first step that takes a host or VM out of service to the last one that brings one
    back, and `host` the longest that one host is out. `runs` is how many earlier runs these numbers rest on; `guessed`
    says that steps are among them that no run has shown. `steps` has when each step begins and ends by its id.
    """

    seconds: float
    window: float
    host: float
    runs: int
    guessed: bool
    steps: Mapping[str, tuple[float, float]] = field(default_factory=dict)


def sort_of(type_: str, summary: str) -> str:
    """Return what steps are compared by: their type (see `steps.what`) and the first word of their summary."""
    return f"{type_} {summary.partition(' ')[0].rstrip(':')}".strip()


def step_times(
    steps: Sequence[PlannedStep], known: Mapping[str, tuple[float, int]], runs: int, parallel: int
) -> StepTimes:
    """Return how long each step usually takes. `known`: by `sort_of`, the seconds of so many steps, in so many runs."""
    return StepTimes({p.id: _usual(p.step, known) for p in steps}, parallel, runs)


def estimate(steps: Sequence[PlannedStep], times: StepTimes) -> Estimate:
    """Return the expected time of steps.

    A step takes a place as soon as those that it waits for have ended, in the order of the plan.
    """
    begun = _laid_out(steps, {name: each.seconds for name, each in times.steps.items()}, times.parallel)
    out: dict[Target, list[float]] = defaultdict(list)
    for planned in steps:
        if what(planned.step) in (*DISRUPTS, *RESTORES):
            out[planned.step.target] += begun[planned.id]
    moments = [moment for each in out.values() for moment in each]
    return Estimate(
        seconds=max((end for _, end in begun.values()), default=0.0),
        window=max(moments, default=0.0) - min(moments, default=0.0),
        host=max((max(each) - min(each) for t, each in out.items() if t.kind == "host"), default=0.0),
        runs=times.runs,
        guessed=times.guessed,
        steps=begun,
    )


def seconds_left(
    steps: Sequence[PlannedStep], times: StepTimes, running: Mapping[str, float], ended: Container[str]
) -> float:
    """Return how long a run still takes at least: `running` are the seconds since the start of steps under way.

    A step that takes longer than usual is taken to end now, so the result does not shrink while one does.
    """
    left = [p for p in steps if p.id not in ended]
    seconds = {p.id: max(0.0, times.steps[p.id].seconds - running.get(p.id, 0.0)) for p in left}
    begun = _laid_out(left, seconds, times.parallel, frozenset(running))
    return max((end for _, end in begun.values()), default=0.0)


@dataclass
class Pace:
    """Times of the steps of a run that goes on, by what its own steps have taken beside what earlier runs took.

    A step of which no other like it has ended keeps its usual time: that some are fast does not make a reboot faster.
    """

    steps: Sequence[PlannedStep]
    times: StepTimes
    _took: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    _ended: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._sorts = {p.id: sort_of(what(p.step), p.step.summary) for p in self.steps}

    def end(self, planned: PlannedStep, seconds: float) -> None:
        """Note that a step was carried out, which took so many seconds."""
        self._took[self._sorts[planned.id]].append(seconds)
        self._ended[planned.id] = seconds

    def now(self) -> StepTimes:
        """Return what each step takes: what it took where it has ended, else what such steps take in this run."""
        if not self._took:
            return self.times
        own = {sort: (sum(seconds), len(seconds)) for sort, seconds in self._took.items()}
        steps = {name: self._of(name, usual, own) for name, usual in self.times.steps.items()}
        return replace(self.times, steps=steps)

    def _of(self, name: str, usual: Usual, own: Mapping[str, tuple[float, int]]) -> Usual:
        if name in self._ended:
            return Usual(self._ended[name], usual.times + 1)
        seconds, count = own.get(self._sorts[name], (0.0, 0))
        if not count:
            return usual
        times = usual.times + count
        return Usual((usual.seconds * usual.times + seconds) / times, times)


def limit_of(step: Step) -> float | None:
    """Return the seconds after which a step is given up, where it has a limit of its own."""
    match step:
        case EnterMaintenance() | ExitMaintenance() | Migrate() | Move():
            return step.timeout or None
        case HostBack() | GpusAnswer() | GuestReady() | Healthy():
            return step.timeout or None
        case PowerOff():
            return step.shutdown_timeout
    return None


def _usual(step: Step, known: Mapping[str, tuple[float, int]]) -> Usual:
    found = known.get(sort_of(what(step), step.summary))
    if found is not None:
        return Usual(*found)
    first = step.summary.partition(" ")[0].rstrip(":")
    return Usual(GUESSES.get(what(step), GUESSES.get(first, OTHERWISE)))


def _laid_out(
    steps: Sequence[PlannedStep], seconds: Mapping[str, float], parallel: int, first: Container[str] = ()
) -> Mapping[str, tuple[float, float]]:
    """Return when each step begins and ends, in seconds from now. Those that come `first` are under way."""
    order = {p.id: (p.id not in first, number) for number, p in enumerate(steps)}
    waits = {p.id: sum(a in order for a in p.after) for p in steps}
    then: dict[str, list[str]] = defaultdict(list)
    for planned in steps:
        for earlier in planned.after:
            then[earlier].append(planned.id)
    ready = [(order[p.id], p.id) for p in steps if not waits[p.id]]
    heapify(ready)
    going: list[tuple[float, tuple[bool, int], str]] = []
    found: dict[str, tuple[float, float]] = {}
    now = 0.0
    while ready or going:
        while ready and len(going) < parallel:
            number, name = heappop(ready)
            found[name] = (now, now + seconds[name])
            heappush(going, (now + seconds[name], number, name))
        now, _, ended = heappop(going)
        for later in then[ended]:
            waits[later] -= 1
            if not waits[later]:
                heappush(ready, (order[later], later))
    return found
