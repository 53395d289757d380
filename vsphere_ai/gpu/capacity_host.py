"""How a host places the vGPUs of VMs that power on one after another, and an order in which all of them do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from vsphere_ai.gpu.capacity_gpu import GpuSlot, State, TimeSlicedState, step
from vsphere_ai.gpu.capacity_pack import Budget
from vsphere_ai.gpu.catalog import Profile

Policy = Literal["performance", "consolidation"]


@dataclass(frozen=True)
class Given:
    """A vGPU of a VM and where it gets it: the GPU and, under MIG, the memory slice its instance begins at."""

    gpu: str
    profile: str
    start: int | None = None


Spread = Mapping[str, tuple[Given, ...]]
"""VM -> its vGPUs, in the order in which the VMs power on."""


class Host:
    """The GPUs of one host while VMs power on; `policy` is its assignment policy.

    vSphere honours the policy for time-sliced vGPUs of equal size only. Which GPU it takes otherwise is not
    documented; the first with room, by PCI address, is assumed.
    """

    def __init__(self, slots: Iterable[GpuSlot], policy: Policy) -> None:
        self.slots = tuple(sorted(slots, key=lambda s: s.pci))
        self.policy = policy
        self.states: tuple[State, ...] = tuple(s.state for s in self.slots)

    def power_on(self, profiles: Sequence[str], states: tuple[State, ...]) -> tuple[tuple[State, ...], Places] | None:
        """Return the states after a VM with these vGPUs has powered on, and its places; None when it is refused."""
        if not profiles:
            return states, ()
        for at in self._in_order(profiles[0], states):
            got = step(self.slots[at].kind, states[at], profiles[0])
            if got is not None:
                rest = self.power_on(profiles[1:], (*states[:at], got[0], *states[at + 1 :]))
                if rest is not None:
                    return rest[0], (Given(self.slots[at].pci, profiles[0], got[1]), *rest[1])
        return None

    def _in_order(self, profile: str, states: tuple[State, ...]) -> Sequence[int]:
        every = range(len(self.slots))
        if any(isinstance(s.kind.takes(profile), Profile) or s.kind.mixed for s in self.slots):
            return every
        sign = 1 if self.policy == "performance" else -1
        return sorted(every, key=lambda at: (sign * _vgpus(states[at]), at))

    def run(self, order: Iterable[str], vms: Mapping[str, tuple[str, ...]]) -> Spread | None:
        """Power VMs on in an order; None when one of them is refused."""
        states, spread = self.states, {}
        for vm in order:
            got = self.power_on(vms[vm], states)
            if got is None:
                return None
            states, spread[vm] = got
        return spread


Places = tuple[Given, ...]


def find_order(
    host: Host, vms: Mapping[str, tuple[str, ...]], division: Sequence[Sequence[str]], budget: Budget
) -> Spread | None:
    """Return how all VMs (name -> profiles) power on in some order; None when none was found.

    `division` names, GPU by GPU, the VMs a packing gave it. Promising orders come first, then all of them while the
    budget lasts: `budget.steps` below zero afterwards means that orders are left.
    """
    for order in _promising(vms, division):
        spread = host.run(order, vms)
        if spread is not None:
            return spread
    return _any_order(host, vms, budget)


def _promising(vms: Mapping[str, tuple[str, ...]], division: Sequence[Sequence[str]]) -> Iterator[list[str]]:
    several = [v for v in vms if len(vms[v]) > 1]
    # GPU after GPU as divided; then in turns, which claims an empty GPU for every size before any gets a second VM
    yield list(dict.fromkeys([*several, *(v for gpu in division for v in gpu), *vms]))
    longest = max(map(len, division), default=0)
    turns = [gpu[n] for n in range(longest) for gpu in division if n < len(gpu)]
    yield list(dict.fromkeys([*several, *turns, *vms]))
    yield sorted(vms, key=lambda v: (-len(vms[v]), vms[v]))
    yield sorted(vms, key=lambda v: (len(vms[v]), vms[v]))


def _any_order(host: Host, vms: Mapping[str, tuple[str, ...]], budget: Budget) -> Spread | None:
    """Try every order; VMs with the same profiles are interchangeable, a situation met before is not tried again."""
    queue: dict[tuple[str, ...], list[str]] = {}
    for vm, profiles in vms.items():
        queue.setdefault(profiles, []).append(vm)
    kinds = list(queue)
    dead: set[tuple[tuple[State, ...], tuple[int, ...]]] = set()

    def search(states: tuple[State, ...], left: tuple[int, ...]) -> list[tuple[int, Places]] | None:
        if not any(left):
            return []
        if (states, left) in dead or not budget.spend():
            return None
        for at, profiles in enumerate(kinds):
            got = host.power_on(profiles, states) if left[at] else None
            if got is not None:
                rest = search(got[0], (*left[:at], left[at] - 1, *left[at + 1 :]))
                if rest is not None:
                    return [(at, got[1]), *rest]
        dead.add((states, left))
        return None

    counts = Counter(vms.values())
    found = search(host.states, tuple(counts[k] for k in kinds))
    return None if found is None else {queue[kinds[at]].pop(0): places for at, places in found}


def _vgpus(state: State) -> int:
    """Return how many vGPUs share a time-sliced GPU; one in MIG mode takes no time-sliced vGPU anyway."""
    return state.total if isinstance(state, TimeSlicedState) else 0
