"""Expected time of a plan: its steps laid out in time, each as long as such steps took before, else as a guess."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import Step, what
from vsphere_ai.planning.schedule import PlannedStep

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


def estimate(steps: Sequence[PlannedStep], known: Mapping[str, float], runs: int, parallel: int) -> Estimate:
    """Return the expected time of steps of which `parallel` go at once. `known`: seconds by `sort_of`, of so many runs.

    A step takes a place as soon as those that it waits for have ended, in the order of the plan.
    """
    took = {p.id: known.get(sort_of(what(p.step), p.step.summary)) for p in steps}
    begun = _laid_out(
        steps, {p.id: _guess(p.step) if took[p.id] is None else took[p.id] or 0.0 for p in steps}, parallel
    )
    out: dict[Target, list[float]] = defaultdict(list)
    for planned in steps:
        if what(planned.step) in (*DISRUPTS, *RESTORES):
            out[planned.step.target] += begun[planned.id]
    moments = [moment for each in out.values() for moment in each]
    return Estimate(
        seconds=max((end for _, end in begun.values()), default=0.0),
        window=max(moments, default=0.0) - min(moments, default=0.0),
        host=max((max(each) - min(each) for t, each in out.items() if t.kind == "host"), default=0.0),
        runs=runs,
        guessed=not runs or any(seconds is None for seconds in took.values()),
        steps={p.id: (round(begun[p.id][0], 1), round(begun[p.id][1], 1)) for p in steps},
    )


def _guess(step: Step) -> float:
    first = step.summary.partition(" ")[0].rstrip(":")
    return GUESSES.get(what(step), GUESSES.get(first, OTHERWISE))


def _laid_out(
    steps: Sequence[PlannedStep], seconds: Mapping[str, float], parallel: int
) -> Mapping[str, tuple[float, float]]:
    """Return when each step begins and ends, in seconds from the start."""
    order = {p.id: number for number, p in enumerate(steps)}
    waits = {p.id: len(p.after) for p in steps}
    then: dict[str, list[str]] = defaultdict(list)
    for planned in steps:
        for earlier in planned.after:
            then[earlier].append(planned.id)
    ready = [(order[p.id], p.id) for p in steps if not p.after]
    going: list[tuple[float, int, str]] = []
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
