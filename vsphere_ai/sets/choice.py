"""Choice of hosts for new VMs: an even spread, else the capacity planner, else a search through placements. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations, islice

from vsphere_ai.admission.gpus import Question
from vsphere_ai.admission.machine import Machine
from vsphere_ai.capacity.host import likeness
from vsphere_ai.capacity.solve import solve
from vsphere_ai.capacity.spare_hosts import every_outcome
from vsphere_ai.capacity.verdict import Answer, Fit, GpuHosts, NoFit, VmDemand, occupied, room
from vsphere_ai.fabric import pci
from vsphere_ai.model.facts import Facts, grouped
from vsphere_ai.planning.moves.elsewhere import Elsewhere

STEPS = 20_000
"""Placements of one VM that are tried in a search, before it is given up."""
LOSSES = 300
"""Placements of all VMs of which the loss of hosts is tried, before the first one is taken as it is."""
Hosts = Mapping[str, str]
"""VM -> its host, by name."""


@dataclass(frozen=True)
class MemberNeed:
    """What a new VM needs of its host.

    `profiles` are its vGPUs, `memory_mb` is what it reserves, `claims` are its whole devices, and `hosts` the names of
    those that it may be on. `apart`: no other VM of its set may be there. `machine` has all that a host has to carry.
    """

    name: str
    set: str
    hosts: frozenset[str]
    profiles: tuple[str, ...] = ()
    memory_mb: int = 0
    claims: tuple[pci.Claim, ...] = ()
    apart: bool = False
    machine: Machine | None = None

    @property
    def alike(self) -> MemberNeed:
        """The same need without the name of its VM."""
        return replace(self, name="")


@dataclass(frozen=True)
class HostRoom:
    """What decides beside GPUs which VMs a host takes: why it is `against` some together, and devices but for `taken`.

    `alike` is equal for hosts that are against the same; `free_mb` is the memory that is left to reserve. `sets` counts
    the VMs that it has of each set, `rank` sorts hosts that have as many.
    """

    facts: Facts
    against: Callable[[Sequence[MemberNeed]], str] = lambda _needs: ""
    alike: Hashable = None
    free_mb: float | None = None
    taken: tuple[pci.Claim, ...] = ()
    sets: Mapping[str, int] = field(default_factory=dict)
    rank: tuple[object, ...] = ()


@dataclass(frozen=True)
class HostChoice:
    """Hosts of VMs; VMs without one are in `refused`. `spread` is false where an even spread has no room for all."""

    hosts: Hosts
    refused: tuple[str, ...] = ()
    spread: bool = True


@dataclass(frozen=True)
class Chooser:
    """Hosts with what they have left. `farm` has their GPUs, `demands` are the VMs there, `homes` says where.

    `exact` has the GPUs as layouts of the playbook leave them, where it states some. `spare` hosts may fail: VMs then
    restart where GPUs have room, and where `restarts` has no reason against it, with new VMs on the hosts given.
    """

    farm: GpuHosts
    exact: GpuHosts
    demands: tuple[VmDemand, ...]
    homes: Hosts
    rooms: Mapping[str, HostRoom]
    spare: int = 0
    restarts: Callable[[Hosts, Sequence[MemberNeed]], Elsewhere] | None = None

    def choose(self, needs: Sequence[MemberNeed]) -> HostChoice:
        """Return a host for each VM; an even spread where that has room, else any placement that is found."""
        best: HostChoice | None = None
        for hosts, even in islice(self._placements(needs), LOSSES if self.spare else None):
            found = HostChoice(hosts, spread=even)
            if not self.spare or self.survives(hosts, needs):
                return found
            best = best or found
        return best or self._partial(needs)

    def _placements(self, needs: Sequence[MemberNeed]) -> Iterator[tuple[Hosts, bool]]:
        even = self._spread(needs, {})
        if len(even) == len(needs):
            yield even, True
        elif len({n.alike for n in needs}) == 1:
            return  # of equal VMs, each host was given as many as it takes
        answer = self._solved(needs)
        if isinstance(answer, Fit):
            with_gpus = {n.name: answer.assignment[n.name][0] for n in needs if n.profiles}
            chosen = self._spread(needs, with_gpus)
            if len(chosen) == len(needs) and self._holds(chosen, needs):
                yield chosen, False
        elif isinstance(answer, NoFit) and not self.spare and not answer.no_order and any(n.profiles for n in needs):
            return
        yield from ((hosts, False) for hosts in self._searched(needs))

    def _partial(self, needs: Sequence[MemberNeed]) -> HostChoice:
        hosts = self._spread(needs, {})
        return HostChoice(hosts, tuple(n.name for n in needs if n.name not in hosts), spread=False)

    # -- one after another

    def _spread(self, needs: Sequence[MemberNeed], fixed: Hosts) -> dict[str, str]:
        """Give each VM the host with the fewest VMs of its set that takes it; the largest VMs first."""
        there: dict[str, list[MemberNeed]] = defaultdict(list)
        chosen = dict(fixed)
        for need in needs:
            if need.name in fixed:
                there[fixed[need.name]].append(need)
        for need in sorted((n for n in needs if n.name not in fixed), key=_largest_first):
            counted = {h: self._count(h, need.set, there[h]) for h in need.hosts}
            order = sorted(need.hosts, key=lambda h: (counted[h], self.rooms[h].rank, h))
            host = next((h for h in order if self.takes(h, (*there[h], need))), None)
            if host is not None:
                there[host].append(need)
                chosen[need.name] = host
        return chosen

    def _count(self, host: str, name: str, there: Sequence[MemberNeed]) -> int:
        return self.rooms[host].sets.get(name, 0) + sum(n.set == name for n in there)

    # -- all at once

    def _solved(self, needs: Sequence[MemberNeed]) -> Answer:
        new = (VmDemand(n.name, n.profiles, n.hosts) for n in needs)
        if self.spare:
            answer = solve(self.exact, (*self.demands, *new), spare_hosts=self.spare)
            if isinstance(answer, Fit) and all(answer.assignment[n][0] == h for n, h in self._at_rest().items()):
                return answer
        bound = (replace(d, hosts=frozenset({self.homes[d.name]})) for d in self.demands)
        return solve(self.exact, (*bound, *(VmDemand(n.name, n.profiles, n.hosts) for n in needs)))

    def _at_rest(self) -> Hosts:
        """Return the hosts of existing VMs that power on: they are not placed."""
        return {d.name: self.homes[d.name] for d in self.demands if d.running_on is None}

    def _holds(self, hosts: Hosts, needs: Sequence[MemberNeed]) -> bool:
        there = grouped(needs, lambda n: hosts[n.name])
        return all(self.takes(host, own) for host, own in there.items())

    # -- a search

    def _searched(self, needs: Sequence[MemberNeed]) -> Iterator[Hosts]:
        """Yield placements: VMs that are alike keep to the order of hosts, and of hosts that are alike one is tried."""
        order = sorted(needs, key=lambda n: (*_largest_first(n), sorted(n.hosts), repr(n.alike)))
        names = sorted(self.rooms)
        may_be_on = {host: tuple(host in n.hosts for n in order) for host in names}
        left = [STEPS]
        there: dict[str, tuple[MemberNeed, ...]] = dict.fromkeys(names, ())

        def place(at: int, first: int) -> Iterator[Hosts]:
            if at == len(order):
                yield {n.name: host for host, own in there.items() for n in own}
                return
            need = order[at]
            tried: set[Hashable] = set()
            start = first if at and order[at - 1].alike == need.alike else 0
            for number in range(start, len(names)):
                host = names[number]
                same = host if there[host] else (self._likeness[host], may_be_on[host])
                if host not in need.hosts or same in tried or left[0] <= 0:
                    continue
                tried.add(same)
                left[0] -= 1
                if self.takes(host, (*there[host], need)):
                    there[host] = (*there[host], need)
                    yield from place(at + 1, number)
                    there[host] = there[host][:-1]

        yield from place(0, 0)

    # -- one host

    def takes(self, host: str, needs: Sequence[MemberNeed]) -> bool:
        """Return whether VMs can all be on a host, beside those that are there."""
        have = self.rooms[host]
        if not self._remembered(("admits", host, tuple(n.alike for n in needs)), lambda: not have.against(needs)):
            return False
        if any(have.sets.get(n.set, 0) + sum(o.set == n.set for o in needs) > 1 for n in needs if n.apart):
            return False
        claims = tuple(claim for need in needs for claim in need.claims)
        if claims and not self._remembered(
            ("claims", host, claims), lambda: pci.has_room(have.facts, claims, have.taken)
        ):
            return False
        profiles = tuple(sorted(n.profiles for n in needs if n.profiles))
        key = ("vgpus", self._gpus[host], profiles)
        return not profiles or self._remembered(key, lambda: self._power_on(host, profiles))

    def _power_on(self, host: str, profiles: Iterable[tuple[str, ...]]) -> bool:
        farms = (self.farm,) if self.exact is self.farm else (self.farm, self.exact)
        answers = (self._answer(farm, host, profiles) for farm in farms)
        return all(isinstance(answer, Fit) and not answer.reordered for answer in answers)

    def _answer(self, farm: GpuHosts, host: str, profiles: Iterable[tuple[str, ...]]) -> Answer:
        own = replace(farm, slots=tuple(replace(s, unsure=False) for s in farm.hosts.get(host, ())))
        here = (replace(d, hosts=frozenset({host})) for d in self._there.get(host, ()))
        new = (VmDemand(f"new {number}", each, frozenset({host})) for number, each in enumerate(profiles))
        return solve(own, (*here, *new))

    def _remembered(self, key: Hashable, find: Callable[[], bool]) -> bool:
        known = self._known
        if key not in known:
            known[key] = find()
        return known[key]

    @cached_property
    def _known(self) -> dict[Hashable, bool]:
        return {}

    @cached_property
    def _there(self) -> Mapping[str, tuple[VmDemand, ...]]:
        return grouped(self.demands, lambda d: self.homes[d.name])

    @cached_property
    def _gpus(self) -> Mapping[str, Hashable]:
        """What decides which vGPUs a host still takes; hosts with the same are alike."""
        return {
            host: (
                tuple(likeness(farm.hosts.get(host, ())) for farm in (self.farm, self.exact)),
                self.farm.policies.get(host),
                tuple(sorted((d.profiles, d.running_on is None) for d in self._there.get(host, ()))),
            )
            for host in self.rooms
        }

    @cached_property
    def _likeness(self) -> Mapping[str, Hashable]:
        """What decides which VMs a host takes; one that passes devices through is like no other."""
        return {
            host: (
                self._gpus[host],
                have.alike,
                tuple(sorted(have.sets.items())),
                host if pci.passthroughs(have.facts) else "",
            )
            for host, have in self.rooms.items()
        }

    # -- all hosts

    def survives(self, hosts: Hosts, needs: Sequence[MemberNeed]) -> bool:
        """Return whether VMs with vGPUs of any `spare` hosts find GPUs and hosts elsewhere, as the plan checks it."""
        new = tuple(VmDemand(n.name, n.profiles, n.hosts) for n in needs if n.profiles)
        wanted = (*self.demands, *new)
        homes = {**self.homes, **hosts}
        fit = solve(self.farm, [replace(d, hosts=frozenset({homes[d.name]})) for d in wanted])
        names = sorted({homes[d.name] for d in wanted})
        losses = map(frozenset, combinations(names, min(self.spare, len(names))))
        if not isinstance(fit, Fit):
            return False
        elsewhere = self.restarts(hosts, needs) if self.restarts is not None else None
        question = Question(self.farm, wanted)
        narrowed = elsewhere.narrowed(question) if elsewhere is not None else question
        return not any(
            not isinstance(outcome, Mapping)
            or (elsewhere is not None and elsewhere.why_not_together(lost, outcome, narrowed))
            for lost, outcome in every_outcome(self.farm, narrowed.demands, fit, losses)
        )

    def left(self, host: str, needs: Sequence[MemberNeed], profiles: Sequence[str]) -> Mapping[str, int]:
        """Return how many more vGPUs of each profile alone a host has room for once these VMs run there."""
        own = tuple(sorted(n.profiles for n in needs if n.profiles))
        answer = self._answer(self.farm, host, own)
        slots = replace(self.farm, slots=tuple(self.farm.hosts.get(host, ())))
        return room(occupied(slots, answer).slots if isinstance(answer, Fit) else slots.slots, profiles)


def _largest_first(need: MemberNeed) -> tuple[int, int, int]:
    return -len(need.profiles), -len(need.claims), -need.memory_mb
