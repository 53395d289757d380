"""Simulation of a fleet in virtual time, by the rules of the product, and the formulas that it checks.

Run it with ``python bench/fleet_simulation.py``: it simulates campaigns of 50 vCenters with 50,000 hosts and 500,000
VMs in seconds of CPU, prints the table of the guide (docs/how-to/many-vcenters.md), and fails where a formula is not
within its bounds. Nothing in it is random but what a seed decides, so it prints the same each time.

The rules: a run works on each cluster with at most `max_unavailable` hosts out of service; each host takes a window, a
chain of steps; a step needs one of the `parallel` threads of its run from its beginning to its end; a host needs a
place in the budget of the fleet for its whole window, and hosts that wait for one go in the order in which they asked.
Where the worker of a vCenter is lost, what is under way there ends by itself, but is noticed, and gone on with, only
when another worker has taken over.
"""

from __future__ import annotations

import heapq
import random
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import ceil

WINDOW = (300.0, 10.0, 5.0, 600.0, 5.0, 15.0, 30.0)
"""Seconds of the steps of a host: enter maintenance mode, change, order to reboot, wait until it is back, read back,
leave maintenance mode, health gate. The window is their sum."""
NOTES = 2.5
"""Notes in the journal per step: its beginning, its task where it has one, its end."""


@dataclass(frozen=True)
class Fleet:
    """A fleet and a campaign. `spread`: steps take from 1 - spread to 1 + spread of their usual time.

    `losses` workers are lost at moments of the campaign; each is replaced after `takeover` seconds.
    """

    name: str
    sites: int = 50
    clusters: int = 63
    hosts: int = 16
    max_unavailable: int = 1
    parallel: int = 64
    budget: int = 0
    steps: tuple[float, ...] = WINDOW
    spread: float = 0.0
    losses: int = 0
    takeover: float = 65.0
    seed: int = 1

    @property
    def windows(self) -> int:
        """Number of hosts, each with one window."""
        return self.sites * self.clusters * self.hosts


@dataclass(frozen=True)
class Formula:
    """What limits a campaign, in seconds: the longest of these is how long it takes at least."""

    cluster: float
    threads: float
    budget: float
    losses: float

    @property
    def seconds(self) -> float:
        """Expected time without lost workers."""
        return max(self.cluster, self.threads, self.budget)

    @property
    def limit(self) -> str:
        """What limits it."""
        return max((self.cluster, "clusters"), (self.threads, "parallel"), (self.budget, "budget"))[1]


def formula(fleet: Fleet) -> Formula:
    """Return the formulas of the guide."""
    window = sum(fleet.steps)
    return Formula(
        cluster=ceil(fleet.hosts / fleet.max_unavailable) * window,
        threads=fleet.clusters * fleet.hosts * window / fleet.parallel,
        budget=fleet.windows * window / fleet.budget if fleet.budget else 0.0,
        losses=ceil(fleet.losses / fleet.sites) * fleet.takeover,
    )


@dataclass
class Result:
    """What a simulation has seen. `per_second`: steps that ended, on average and in the busiest minute."""

    seconds: float = 0.0
    done: int = 0
    steps: int = 0
    most_out: int = 0
    most_out_in_a_cluster: int = 0
    takeovers: int = 0
    most_takeovers_of_a_site: int = 0
    minutes: dict[int, int] = field(default_factory=dict)

    @property
    def per_second(self) -> tuple[float, float]:
        """Steps that ended per second: on average, and in the busiest minute."""
        return self.steps / self.seconds, max(self.minutes.values()) / 60


class _Site:
    """A vCenter with the run that works on it."""

    def __init__(self, fleet: Fleet) -> None:
        self.free, self.ready = fleet.parallel, deque[_Window]()
        self.left, self.out = [fleet.hosts] * fleet.clusters, [0] * fleet.clusters
        self.down_until, self.takeovers = 0.0, 0


class _Window:
    """A host out of service, and which of its steps comes next."""

    __slots__ = ("at", "cluster", "site")

    def __init__(self, site: _Site, cluster: int) -> None:
        self.site, self.cluster, self.at = site, cluster, 0


@dataclass(frozen=True)
class _TakenOver:
    """Another worker has taken the run of a site over, unless that was lost as well."""

    site: _Site


class Simulation:
    """One campaign, from its first step to its last one."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet, self.chance, self.seen = fleet, random.Random(fleet.seed), Result()
        self.now, self.out, self.count = 0.0, 0, 0
        self.budget = fleet.budget or fleet.windows
        self.waiting = deque[_Window]()
        self.events: list[tuple[float, int, _Window | _Site | _TakenOver]] = []
        self.sites = [_Site(fleet) for _ in range(fleet.sites)]

    def run(self) -> Result:
        """Carry the campaign out; return what was seen."""
        for cluster in range(self.fleet.clusters):
            for site in self.sites:
                self._ask(site, cluster)
        length = formula(self.fleet).seconds
        for _ in range(self.fleet.losses):
            self._at(self.chance.uniform(0.0, length), self.chance.choice(self.sites))
        while self.events:
            self.now, _, what = heapq.heappop(self.events)
            if isinstance(what, _Site):
                self._lose(what)
            elif isinstance(what, _TakenOver):
                self._start(what.site)
            elif self.now < what.site.down_until:  # it has ended, and no one notices yet
                self._at(what.site.down_until, what)
            else:
                self._ended(what)
        return self.seen

    def _at(self, when: float, what: _Window | _Site | _TakenOver) -> None:
        self.count += 1
        heapq.heappush(self.events, (when, self.count, what))

    def _lose(self, site: _Site) -> None:
        """Lose the worker of a site; one that is lost while it is being replaced is replaced once more."""
        if self.seen.done == self.fleet.windows:
            return
        site.down_until = self.now + self.fleet.takeover
        site.takeovers += 1
        self.seen.takeovers += 1
        self.seen.most_takeovers_of_a_site = max(self.seen.most_takeovers_of_a_site, site.takeovers)
        self._at(site.down_until, _TakenOver(site))

    def _ask(self, site: _Site, cluster: int) -> None:
        """Let as many hosts of a cluster ask for a place in the budget as may be out of service in it."""
        while site.left[cluster] and site.out[cluster] < self.fleet.max_unavailable:
            site.left[cluster] -= 1
            site.out[cluster] += 1
            self.seen.most_out_in_a_cluster = max(self.seen.most_out_in_a_cluster, site.out[cluster])
            self.waiting.append(_Window(site, cluster))
        self._admit()

    def _admit(self) -> None:
        while self.waiting and self.out < self.budget:
            window = self.waiting.popleft()
            self.out += 1
            self.seen.most_out = max(self.seen.most_out, self.out)
            window.site.ready.append(window)
            self._start(window.site)

    def _start(self, site: _Site) -> None:
        """Start steps that are ready, as far as threads are free; a run that is being taken over starts none."""
        spread = self.fleet.spread
        while site.free and site.ready and self.now >= site.down_until:
            window = site.ready.popleft()
            site.free -= 1
            seconds = self.fleet.steps[window.at]
            self._at(self.now + seconds * (self.chance.uniform(1 - spread, 1 + spread) if spread else 1.0), window)

    def _ended(self, window: _Window) -> None:
        site, seen = window.site, self.seen
        site.free += 1
        window.at += 1
        seen.steps += 1
        minute = int(self.now // 60)
        seen.minutes[minute] = seen.minutes.get(minute, 0) + 1
        seen.seconds = self.now
        if window.at < len(self.fleet.steps):
            site.ready.append(window)
            self._start(site)
            return
        seen.done += 1
        self.out -= 1
        site.out[window.cluster] -= 1
        self._start(site)
        self._ask(site, window.cluster)


FULL = Fleet("one host of a cluster at a time")
CASES = (
    FULL,
    replace(FULL, name="two hosts of a cluster at a time", max_unavailable=2, parallel=128),
    replace(FULL, name="the same with --parallel 8", max_unavailable=2, parallel=8),
    replace(FULL, name="a budget of 500 hosts", budget=500),
    replace(FULL, name="a budget of 500, steps that take 50 % to 150 %", budget=500, spread=0.5),
    replace(FULL, name="100 workers lost", losses=100),
    replace(FULL, name="500,000 VMs, a reconfigure of 3 s each", clusters=10_000, hosts=1, steps=(3.0,)),
)
"""The campaigns of the guide."""
ABOVE = 1.05
"""How much longer than the longest of its limits a campaign may take, beside one more window and its takeovers."""
UNEVEN = 1.2
"""The same where steps take unlike times."""


def faults(fleet: Fleet, seen: Result) -> Iterator[str]:
    """Yield what is not as the rules and the formulas of the guide say."""
    said = formula(fleet)
    if seen.done != fleet.windows or seen.steps != fleet.windows * len(fleet.steps):
        yield f"{seen.done} of {fleet.windows} hosts, {seen.steps} steps"
    if fleet.budget and seen.most_out > fleet.budget:
        yield f"{seen.most_out} hosts out of service, and the budget is {fleet.budget}"
    if seen.most_out_in_a_cluster > fleet.max_unavailable:
        yield f"{seen.most_out_in_a_cluster} hosts of a cluster out of service"
    least = said.seconds * (1 - (0.05 if fleet.spread else 1e-9))
    lost = seen.most_takeovers_of_a_site * fleet.takeover
    most = said.seconds * (UNEVEN if fleet.spread else ABOVE) + sum(fleet.steps) + lost
    if not least <= seen.seconds <= most:
        yield f"{seen.seconds:.0f} s, not from {least:.0f} to {most:.0f} s"


def table(cases: Sequence[tuple[Fleet, Result]]) -> str:
    """Return the table of the guide."""
    lines = [
        "| campaign | limited by | formula | simulated | hosts out at most | notes per second: average, most |",
        "|---|---|---|---|---|---|",
    ]
    for fleet, seen in cases:
        said, (average, most) = formula(fleet), seen.per_second
        out = f"{seen.most_out:,}" if len(fleet.steps) > 1 else "–"
        lost = f", {seen.takeovers} takeovers" if fleet.losses else ""
        lines.append(
            f"| {fleet.name} | {said.limit} | {_hours(said.seconds)} | {_hours(seen.seconds)}{lost} | {out} | "
            f"{average * NOTES:,.0f}, {most * NOTES:,.0f} |"
        )
    return "\n".join(lines)


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h" if seconds >= 3600 else f"{seconds / 60:.1f} min"


def main() -> int:
    """Simulate the campaigns of the guide; return 1 where a formula is not within its bounds."""
    began = time.process_time()
    found = [(fleet, Simulation(fleet).run()) for fleet in CASES]
    print(table(found))
    wrong = [f"{fleet.name}: {each}" for fleet, seen in found for each in faults(fleet, seen)]
    print(f"\n{time.process_time() - began:.0f} s of CPU", *wrong, sep="\n", file=sys.stderr)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
