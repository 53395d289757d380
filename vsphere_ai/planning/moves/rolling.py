"""Rollout over the hosts of each cluster: batches, hosts at a time, and how many of them may fail."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import floor

from vsphere_ai.language.playbooks.play import Rolling, TargetPlans
from vsphere_ai.model.estate.maintenance import enters_maintenance
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.finding import Finding, Problem
from vsphere_ai.model.names.name_ranges import listed
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import Step

STATE_PATHS = ("runtime.connectionState", "runtime.inMaintenanceMode")
MAINTENANCE = "in maintenance mode"


@dataclass(frozen=True)
class Roll:
    """The rollout over one cluster's hosts; at most `at_a_time` of them are out of service at once.

    A batch begins when the one before has ended. With more than `max_fail` failed hosts no further one begins.
    """

    cluster: str
    batches: tuple[tuple[Target, ...], ...]
    at_a_time: int
    max_fail: int = 0
    max_unavailable: int = 1
    """How many hosts of the cluster may be out of service at once, for whatever reason."""
    members: tuple[Target, ...] = ()
    """Every host of the cluster."""
    why: str = ""
    """Why it is not the roll-out that was asked for, with fewer hosts at a time or in another order; "" where it is."""
    changed_first: tuple[Target, ...] = ()
    """VMs on hosts without a window that are changed before the first window begins: VMs have no places else."""
    starts: tuple[Target, ...] = ()
    """New VMs on hosts of the cluster, where DRS moves VMs off the hosts of the rollout."""
    starts_at: int | None = None
    """After how many windows these power on, before the next one begins; None: at any time."""

    @property
    def hosts(self) -> tuple[Target, ...]:
        """All hosts of the rollout, in order."""
        return tuple(h for batch in self.batches for h in batch)

    @cached_property
    def _places(self) -> Mapping[Target, tuple[int, int]]:
        return {h: (number, at) for number, batch in enumerate(self.batches) for at, h in enumerate(batch)}

    def beside(self, host: Target) -> Iterator[tuple[Target, ...]]:
        """Yield hosts of which one may be out of service at the same time, for each other host that may be.

        A batch goes in as many lanes as hosts may be out at once; one lane does not wait for the others.
        """
        number, at = self._places[host]
        for lane in range(self.at_a_time):
            others = self.batches[number][lane :: self.at_a_time]
            if others and lane != at % self.at_a_time:
                yield others

    def before(self, host: Target) -> tuple[Target, ...]:
        """Return the hosts that have to be done: the batch before, or the one before it in its batch."""
        number, at = self._places[host]
        batch = self.batches[number]
        earlier = (batch[at - self.at_a_time],) if at >= self.at_a_time else ()
        # the first ones of a batch wait for all of the batch before; the others wait for them
        return earlier or (self.batches[number - 1] if number else ())


def rolling_of(desired: TargetPlans, host: Target) -> Rolling:
    """Return how a host is taken out of service; the defaults for one that no play means."""
    return desired[host].rolling if host in desired else Rolling()


def make_rolls(
    estate: Estate, desired: TargetPlans, hosts: Sequence[Target], *, begun: frozenset[Target]
) -> tuple[tuple[Roll, ...], tuple[Problem, ...]]:
    """Return the rollouts over `hosts`, and what forbids them. Those `begun` in an earlier attempt come first."""
    clusters: dict[str, list[Target]] = defaultdict(list)
    for host in hosts:
        clusters[str(estate[host.ref].get("parent"))].append(host)
    rolls: list[Roll] = []
    problems: list[Problem] = []
    for ref, members in sorted(clusters.items()):
        order = sorted(members, key=lambda h: (h not in begun, h))
        cluster = estate.hosts_in(ref)
        wanted = min(_share(rolling_of(desired, h).max_unavailable, len(cluster)) for h in order)
        slots, found = _slots(estate, order, cluster, wanted)
        problems += found
        rollings = [rolling_of(desired, h) for h in order]
        batches = tuple(_batches(order, tuple({r.serial for r in rollings})))
        facts = estate.get(ref)
        allowed = min(_share(r.max_fail, len(order), least=0) for r in rollings)
        rolls.append(Roll(facts.name if facts else ref, batches, slots, allowed, wanted, cluster))
    return tuple(rolls), tuple(problems)


def is_down(estate: Estate, host: Target) -> bool:
    """Return whether a host is out of service already, or about to be."""
    return why_down(estate[host.ref]) != "" or enters_maintenance(estate[host.ref], estate)


def why_down(facts: Facts) -> str:
    """Return why a host is out of service, as read: in maintenance mode or not connected; "" when it is in service."""
    state = facts.get("runtime.connectionState")
    if state != "connected":
        return str(state or "unknown")
    return MAINTENANCE if facts.get("runtime.inMaintenanceMode") else ""


def _batches(order: Sequence[Target], serials: Sequence[tuple[int | str, ...]]) -> Iterator[tuple[Target, ...]]:
    """Cut the order into batches; where plays want different sizes the smallest counts."""
    start = number = 0
    while start < len(order):
        size = min(_share(s[min(number, len(s) - 1)], len(order)) if s else len(order) for s in serials)
        yield tuple(order[start : start + size])
        start, number = start + size, number + 1


def _slots(
    estate: Estate, order: Sequence[Target], cluster: Sequence[Target], wanted: int
) -> tuple[int, tuple[Problem, ...]]:
    rolled = frozenset(order)
    down = [h for h in cluster if h not in rolled and is_down(estate, h)]
    slots = max(1, min(wanted - len(down), len(order)))
    if wanted > len(down):
        return slots, ()
    names = listed(h.name for h in down)
    message = f"{len(down)} host(s) of the cluster are down already ({names}), max_unavailable is {wanted}"
    help_ = "bring them back (with resume, where a run of ours left them so), or raise rolling: {max_unavailable: N}"
    return slots, (Finding.problem(order[0], "rolling.budget", message, help_),)


def _share(value: int | str, hosts: int, *, least: int = 1) -> int:
    return value if isinstance(value, int) else max(least, floor(hosts * int(value.rstrip("%")) / 100))


def changed_first(
    rolls: Iterable[Roll], chains: Mapping[Target, Sequence[Step]], firsts: Mapping[Target, Sequence[Step]]
) -> Iterator[tuple[Step, Step]]:
    """Yield the last step of each VM that is changed first with each step that a window of its cluster begins with."""
    for roll in rolls:
        ends = [chains[vm][-1] for vm in roll.changed_first if chains.get(vm)]
        yield from ((end, first) for end in ends for host in roll.hosts for first in firsts.get(host, ()))


def powered_on_between(
    rolls: Iterable[Roll],
    on: Mapping[Target, Step],
    chains: Mapping[Target, Sequence[Step]],
    firsts: Mapping[Target, Sequence[Step]],
) -> Iterator[tuple[Step, Step]]:
    """Yield the last step of a window with power-ons (`on`) of new VMs, and these with what begins the next."""
    for roll in rolls:
        at = roll.starts_at
        for step in (on[vm] for vm in roll.starts if vm in on and at is not None):
            yield from ((chains[host][-1], step) for host in roll.hosts[:at])
            yield from ((step, first) for host in roll.hosts[at:] for first in firsts.get(host, ()))
