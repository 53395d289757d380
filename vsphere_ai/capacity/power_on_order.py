"""Order in which all VMs of a host power on: promising orders first, then all of them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations

from vsphere_ai.capacity.gpu import GpuKind, State, TimeSlicedState, Vector
from vsphere_ai.capacity.host import Host, Places, Spread, Vms, likeness
from vsphere_ai.capacity.items import VmClass
from vsphere_ai.capacity.milp import Gpu, Programme

ORDER_STEPS = 2_000
"""Steps per host in search of a power-on order when the promising ones fail; one takes about a millisecond."""
ALL_STEPS = 6_000
"""Steps that all hosts of one question take together: when they are spent, what is left is not found out."""

Division = Mapping[str, Sequence[str]]
"""GPU -> the VMs a packing gave it, one entry per vGPU."""
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


def find_order(host: Host, vms: Vms, division: Division, budget: Budget) -> Spread | None:
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


def _find_part(host: Host, vms: Vms, division: Division, budget: Budget) -> Spread | None:
    own = [[vm for vm in division.get(s.pci, ()) if vm in vms] for s in host.slots]
    for order in _promising(host, vms, own):
        spread = host.run(order, vms)
        if spread is not None:
            return spread
    several = any(len(set(p)) > 1 for p in vms.values())
    if several:
        found = _EveryOrder(host, vms, Budget(budget.steps // 2), reorder=False).search()
        if found is not None:
            return found
    return _EveryOrder(host, vms, budget, reorder=True).search()


def _promising(host: Host, vms: Vms, division: Sequence[Sequence[str]]) -> Iterator[list[str]]:
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


def every_end(host: Host, vms: Vms, budget: Budget) -> Iterator[Spread]:
    """Yield how all VMs power on, once for each way the GPUs can end up; incomplete once the budget is spent."""
    seen: set[tuple[tuple[State, ...], frozenset[str]]] = set()
    todo: list[tuple[tuple[State, ...], dict[str, Places]]] = [(host.states, {})]
    while todo and budget.spend():
        states, done = todo.pop()
        left = [vm for vm in vms if vm not in done]
        if not left:
            yield done
            continue
        for vm in {vms[v]: v for v in left}.values():
            for way in _every_way(vms[vm]):
                got = host.power_on(way, states)
                if got is not None:
                    key = (got[0], frozenset((*done, vm)))
                    if key not in seen:
                        seen.add(key)
                        todo.append((got[0], {**done, vm: got[1]}))


def some_order_fails(host: Host, vms: Vms, budget: Budget) -> bool:
    """Return whether there is an order in which not all VMs power on; only what the budget finds is known."""
    counts = Counter(vms.values())
    kinds = sorted(counts)
    first = (host.states, tuple(counts[k] for k in kinds))
    seen, todo = {first}, [first]
    while todo and budget.spend():
        states, left = todo.pop()
        for at, profiles in enumerate(kinds):
            if left[at]:
                got = host.power_on(profiles, states)
                if got is None:
                    return True
                more = (got[0], (*left[:at], left[at] - 1, *left[at + 1 :]))
                if more not in seen:
                    seen.add(more)
                    todo.append(more)
    return False


class Orders:
    """Answers to the question whether VMs power on on a host in some order; asked once for hosts that are alike."""

    def __init__(self, hosts: Mapping[str, Host]) -> None:
        self.hosts, self.left = hosts, ALL_STEPS
        self.like = {name: (likeness(host.slots), host.policy) for name, host in hosts.items()}
        self.known: dict[Hashable, _Order | None] = {}

    def alike(self, host: str) -> list[str]:
        """Return the hosts on which the same VMs power on, itself included."""
        return [name for name, like in self.like.items() if like == self.like[host]]

    def __call__(self, host: str, vms: Sequence[tuple[str, ...]]) -> bool | None:
        """Return the answer for VMs with these vGPUs; None when it was not found out."""
        found = self._found(host, vms)
        return found if found is None else bool(found)

    def spread(self, host: str, vms: Vms) -> Spread | None:
        """Return how VMs power on on a host of which that is known; None where they do not."""
        found = self._found(host, list(vms.values()))
        waiting = {profiles: iter([vm for vm in vms if vms[vm] == profiles]) for profiles in vms.values()}
        order = {next(waiting[profiles]): way for profiles, way in found or ()}
        return self.hosts[host].run(order, order) if order else None

    def _found(self, host: str, vms: Sequence[tuple[str, ...]]) -> _Order | None:
        """Return an order; an empty one when there is none."""
        ordered = tuple(sorted(vms))
        key = (self.like[host], ordered)
        if key not in self.known:
            budget = Budget(min(ORDER_STEPS, self.left))
            named = {str(number): profiles for number, profiles in enumerate(ordered)}
            spread = find_order(self.hosts[host], named, {}, budget)
            self.left -= min(ORDER_STEPS, self.left) - max(budget.steps, 0)
            order = [(named[vm], tuple(g.profile for g in places)) for vm, places in (spread or {}).items()]
            self.known[key] = None if spread is None and budget.steps < 0 else order
        return self.known[key]


class _EveryOrder:
    """Tries every order in which VMs can power on; those with the same profiles are interchangeable.

    A situation met before is not tried again, nor one in which the vGPUs that are left have no room, order aside.
    """

    def __init__(self, host: Host, vms: Vms, budget: Budget, *, reorder: bool) -> None:
        self.host, self.budget, self.reorder = host, budget, reorder
        self.queue: dict[tuple[str, ...], list[str]] = {}
        for vm, profiles in vms.items():
            self.queue.setdefault(profiles, []).append(vm)
        self.kinds = sorted(self.queue, key=lambda k: -len(k))  # those that are hardest to place come first
        self.names = tuple(sorted({name for kind in self.kinds for name in kind}))
        self.dead: set[tuple[tuple[State, ...], Vector]] = set()

    def search(self) -> Spread | None:
        """Return where each VM gets its vGPUs, in the order found."""
        found = self._from(self.host.states, tuple(len(self.queue[k]) for k in self.kinds))
        if found is None:
            return None
        waiting = {kind: iter(vms) for kind, vms in self.queue.items()}
        return {next(waiting[kind]): places for kind, places in found}

    def _from(self, states: tuple[State, ...], left: Vector) -> list[tuple[tuple[str, ...], Places]] | None:
        if not any(left):
            return []
        seen = states, left
        if seen in self.dead or not self.budget.spend():
            return None
        if self._has_room(states, left):
            for at, profiles in enumerate(self.kinds):
                for way in self._ways(profiles) if left[at] else ():
                    got = self.host.power_on(way, states)
                    rest = self._from(got[0], (*left[:at], left[at] - 1, *left[at + 1 :])) if got else None
                    if got is not None and rest is not None:
                        return [(profiles, got[1]), *rest]
        self.dead.add(seen)
        return None

    def _ways(self, profiles: tuple[str, ...]) -> Iterable[tuple[str, ...]]:
        return _every_way(profiles) if self.reorder else (profiles,)

    def _has_room(self, states: Sequence[State], left: Vector) -> bool:
        """Return False where the GPUs, order aside, certainly lack room for the vGPUs of the VMs that are left."""
        wanted = Counter[str]()
        for kind, count in zip(self.kinds, left, strict=True):
            for name in kind:
                wanted[name] += count
        gpus = Counter((s.kind, state) for s, state in zip(self.host.slots, states, strict=True))
        return _room(tuple(gpus.items()), self.names, tuple(wanted[n] for n in self.names))


@lru_cache(maxsize=1 << 14)
def _room(gpus: tuple[tuple[tuple[GpuKind, State], int], ...], names: tuple[str, ...], wanted: Vector) -> bool:
    """Return False where it is proved that the GPUs lack room for so many vGPUs of each profile."""
    slots = [Gpu("", "", kind, state) for (kind, state), count in gpus for _ in range(count)]
    here = frozenset({""})
    classes = [VmClass((n,), here, ("",) * count) for n, count in zip(names, wanted, strict=True) if count]
    programme = Programme(classes, slots)
    return programme.solve() is not None or not programme.certain
