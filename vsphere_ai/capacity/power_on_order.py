"""Order in which all VMs of a host power on: promising orders first, then all of them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, permutations
from typing import NamedTuple

from vsphere_ai.capacity.host import HostGpus, Places, Spread, Vms, likeness
from vsphere_ai.capacity.items import VmClass
from vsphere_ai.capacity.milp import FreshGpu, Programme
from vsphere_ai.gpu.vgpus.slot import GpuKind, State, TimeSlicedState, Vector

ORDER_STEPS = 2_000
"""Steps per host in search of a power-on order when the promising ones fail; one takes about a millisecond."""
ALL_STEPS = 6_000
"""Steps that all hosts of one question take together: when they are spent, what is left is not found out."""

Division = Mapping[str, Sequence[str]]
"""GPU -> the VMs a packing gave it, one entry per vGPU."""
Load = Collection[tuple[str, ...]]
"""The vGPU profiles of each of some VMs."""
_Order = Sequence[tuple[tuple[str, ...], tuple[str, ...]]]
"""VMs in the order in which they power on: their vGPUs by name, and in the order in which they get them."""


@dataclass
class Budget:
    """How many steps a search may still take; shared by the searches of one question."""

    steps: int

    def spend(self, steps: int = 1) -> bool:
        """Take steps; return whether there were any left."""
        self.steps -= steps
        return self.steps >= 0


def find_order(host: HostGpus, vms: Vms, division: Division, budget: Budget) -> Spread | None:
    """Return how all VMs power on in some order; None when none was found.

    Promising orders come first, then all of them while the budget lasts: `budget.steps` below zero afterwards means
    that orders are left. A VM's vGPUs come in the order given unless only another order works.
    """
    spread: dict[str, Places] = {}
    for part, own in host.parts(vms):
        found = _find_part(part, own, division, budget)
        if found is None:
            return None
        spread.update(found)
    return spread


def _find_part(host: HostGpus, vms: Vms, division: Division, budget: Budget) -> Spread | None:
    own = [[vm for vm in division.get(s.pci, ()) if vm in vms] for s in host.slots]
    for order in _promising(host, vms, own):
        spread = host.run(order, vms)
        if spread is not None:
            return spread
    ends = every_end(host, vms, budget, prune=True)
    if any(len(set(p)) > 1 for p in vms.values()):
        ends = chain(every_end(host, vms, Budget(budget.steps // 2), reorder=False, prune=True), ends)
    return next(ends, None)


def _promising(host: HostGpus, vms: Vms, division: Sequence[Sequence[str]]) -> Iterator[list[str]]:
    several = [v for v in vms if len(vms[v]) > 1]
    # an empty time-sliced GPU belongs to the size that comes first: one VM for each of them, then all others
    empty = [gpu[0] for gpu, s in zip(division, host.states, strict=True) if gpu and s == TimeSlicedState()]
    yield list(dict.fromkeys([*empty, *several, *(v for gpu in division for v in gpu), *vms]))
    yield list(dict.fromkeys([*several, *(v for gpu in division for v in gpu), *vms]))
    longest = max(map(len, division), default=0)
    in_turn = [gpu[n] for n in range(longest) for gpu in division if n < len(gpu)]
    yield list(dict.fromkeys([*several, *in_turn, *vms]))
    yield sorted(vms, key=lambda v: (-len(vms[v]), vms[v]))
    yield sorted(vms, key=lambda v: (len(vms[v]), vms[v]))


@lru_cache(maxsize=1024)
def _every_way(profiles: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """Return the different orders of a VM's vGPUs, the given one first."""
    return tuple(dict.fromkeys(permutations(profiles)))


class GpuSituation(NamedTuple):
    """What the GPUs of a host have come to, how many VMs of each kind are left, and those that are on."""

    states: tuple[State, ...]
    left: Vector
    done: tuple[tuple[tuple[str, ...], Places], ...] = ()


def situations(
    host: HostGpus, vms: Vms, budget: Budget, *, reorder: bool = True, prune: bool = False
) -> Iterator[GpuSituation]:
    """Yield what a host comes to as VMs power on, each situation once; incomplete once the budget is spent.

    VMs with the same profiles are interchangeable. With `reorder` the vGPUs of a VM come in any order. With `prune`
    nothing follows a situation in which the VMs that are left certainly lack room, order aside.
    """
    every = Counter(vms.values())
    kinds = sorted(every, key=lambda k: -len(k))  # those that are hardest to place come first
    todo: list[Iterator[GpuSituation]] = [iter([GpuSituation(host.states, tuple(every[k] for k in kinds))])]
    seen: set[tuple[object, ...]] = set()

    def after(now: GpuSituation) -> Iterator[GpuSituation]:
        for at, profiles in enumerate(kinds):
            for way in (_every_way(profiles) if reorder else (profiles,)) if now.left[at] else ():
                got = host.power_on(way, now.states)
                if got is not None:
                    left = (*now.left[:at], now.left[at] - 1, *now.left[at + 1 :])
                    yield GpuSituation(got[0], left, (*now.done, (profiles, got[1])))

    while todo:
        now = next(todo[-1], None)
        if now is None:
            todo.pop()
        elif now[:2] not in seen:
            if not budget.spend():
                return
            seen.add(now[:2])
            yield now
            if any(now.left) and (not prune or _has_room(host, now.states, zip(kinds, now.left, strict=True))):
                todo.append(after(now))


def every_end(
    host: HostGpus, vms: Vms, budget: Budget, *, reorder: bool = True, prune: bool = False
) -> Iterator[Spread]:
    """Yield how all VMs power on, once for each way the GPUs can end up; see `situations`."""
    for now in situations(host, vms, budget, reorder=reorder, prune=prune):
        if not any(now.left):
            waiting = _by_profiles(vms)
            yield {next(waiting[profiles]): places for profiles, places in now.done}


def some_order_fails(host: HostGpus, vms: Vms, budget: Budget) -> bool:
    """Return whether there is an order in which not all VMs power on; only what the budget finds is known."""
    every = Counter(vms.values())
    return any(
        host.power_on(profiles, now.states) is None
        for now in situations(host, vms, budget, reorder=False)
        for profiles in every - Counter(profiles for profiles, _ in now.done)
    )


class Orders:
    """Answers to the question whether VMs power on on a host in some order; asked once for hosts that are alike."""

    def __init__(self, hosts: Mapping[str, HostGpus]) -> None:
        self.hosts, self.left = hosts, ALL_STEPS
        self.like = {name: (likeness(host.slots), host.policy) for name, host in hosts.items()}
        self.known: dict[Hashable, tuple[_Order | None, bool]] = {}

    def alike(self, host: str) -> list[str]:
        """Return the hosts on which the same VMs power on, itself included."""
        return [name for name, like in self.like.items() if like == self.like[host]]

    def __call__(self, host: str, vms: Load, restarts: Sequence[Load] = ()) -> bool | None:
        """Return whether VMs power on so that each of `restarts` could follow them; None when it was not found out."""
        order, certain = self._found(host, vms, restarts)
        return order is not None if certain else None

    def spread(self, host: str, vms: Vms, restarts: Sequence[Load] = ()) -> Spread | None:
        """Return how VMs power on on a host of which that is known; None where they do not."""
        order, _ = self._found(host, vms.values(), restarts)
        waiting = _by_profiles(vms)
        ways = {next(waiting[profiles]): way for profiles, way in order or ()}
        return None if order is None else self.hosts[host].run(ways, ways)

    def _found(self, host: str, vms: Load, restarts: Sequence[Load]) -> tuple[_Order | None, bool]:
        """Return an order, None without one, and whether that is certain."""
        key = (self.like[host], tuple(sorted(vms)), tuple(tuple(sorted(each)) for each in restarts))
        if key not in self.known:
            budget = Budget(min(ORDER_STEPS, self.left))
            self.left -= budget.steps
            spread = _lasting(self.hosts[host], key[1], key[2], budget)
            self.left += max(budget.steps, 0)
            order = [(key[1][int(vm)], tuple(g.profile for g in places)) for vm, places in (spread or {}).items()]
            self.known[key] = None if spread is None else order, spread is not None or budget.steps >= 0
        return self.known[key]


def _lasting(host: HostGpus, vms: Load, restarts: Sequence[Load], budget: Budget) -> Spread | None:
    """Return how VMs, by number, power on so that each of `restarts` could follow them."""
    if not restarts:
        return find_order(host, _numbered(vms), {}, budget)
    for now in situations(host, _numbered(vms), budget):
        later = host.at(now.states)
        if not any(now.left) and all(find_order(later, _numbered(r), {}, budget) is not None for r in restarts):
            waiting = _by_profiles(_numbered(vms))
            return {next(waiting[profiles]): places for profiles, places in now.done}
    return None


def _numbered(load: Load) -> Vms:
    return {str(number): profiles for number, profiles in enumerate(load)}


def _by_profiles(vms: Vms) -> dict[tuple[str, ...], Iterator[str]]:
    return {profiles: iter([vm for vm in vms if vms[vm] == profiles]) for profiles in vms.values()}


def _has_room(host: HostGpus, states: Sequence[State], left: Iterable[tuple[tuple[str, ...], int]]) -> bool:
    """Return False where the GPUs, order aside, certainly lack room for so many VMs of each kind."""
    wanted = Counter[str]()
    for kind, count in left:
        for name in kind:
            wanted[name] += count
    gpus = Counter((s.kind, state) for s, state in zip(host.slots, states, strict=True))
    names = tuple(sorted(wanted))
    return _room(tuple(gpus.items()), names, tuple(wanted[n] for n in names))


@lru_cache(maxsize=1 << 14)
def _room(gpus: tuple[tuple[tuple[GpuKind, State], int], ...], names: tuple[str, ...], wanted: Vector) -> bool:
    """Return False where it is proved that the GPUs lack room for so many vGPUs of each profile."""
    slots = [FreshGpu("", "", kind, state) for (kind, state), count in gpus for _ in range(count)]
    here = frozenset({""})
    classes = [VmClass((n,), here, ("",) * count) for n, count in zip(names, wanted, strict=True) if count]
    programme = Programme(classes, slots)
    return programme.solve() is not None or not programme.certain
