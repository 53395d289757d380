"""Host: the places its GPUs give to the vGPUs of VMs that power on one after another. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from vsphere_ai.capacity.connected import connected
from vsphere_ai.gpu.catalog import Profile
from vsphere_ai.gpu.vgpus.slot import GpuSlot, State, TimeSlicedState, step
from vsphere_ai.gpu.vgpus.vgpu import InstanceShare

Policy = Literal["performance", "consolidation"]


@dataclass(frozen=True)
class GivenVgpu:
    """A vGPU of a VM and where it gets it: the GPU and, under MIG, the memory slice its instance begins at."""

    gpu: str
    profile: str
    start: int | None = None


Spread = Mapping[str, tuple[GivenVgpu, ...]]
"""VM -> its vGPUs, in the order in which the VMs power on."""


Places = tuple[GivenVgpu, ...]
Vms = Mapping[str, tuple[str, ...]]
"""VM -> its vGPU profiles."""


class HostGpus:
    """The GPUs of one host while VMs power on; `policy` is its assignment policy.

    vSphere honours the policy for time-sliced vGPUs of equal size only. Which GPU it takes otherwise is not
    documented; the first with room, by PCI address, is assumed. So is that the vGPUs of a VM come one after another,
    in the order of its devices.
    """

    def __init__(self, slots: Iterable[GpuSlot], policy: Policy) -> None:
        self.slots = tuple(sorted(slots, key=lambda s: s.pci))
        self.policy = policy
        self.mixed = any(s.kind.mixed for s in self.slots)
        self.states: tuple[State, ...] = tuple(s.state for s in self.slots)
        self._able: dict[str, tuple[list[int], bool]] = {}

    def at(self, states: tuple[State, ...], chosen: Iterable[int] | None = None) -> HostGpus:
        """Return the host with its GPUs in other states; with `chosen`, only these GPUs of it."""
        gpus = range(len(states)) if chosen is None else sorted(chosen)
        other = HostGpus((self.slots[at] for at in gpus), self.policy)
        other.mixed, other.states = self.mixed, tuple(states[at] for at in gpus)
        return other

    def power_on(self, profiles: Sequence[str], states: tuple[State, ...]) -> tuple[tuple[State, ...], Places] | None:
        """Return the states after a VM with these vGPUs has powered on, and its places; None when it is refused."""
        if not profiles:
            return states, ()
        refused: set[Hashable] = set()
        for at in self._in_order(profiles[0], states):
            alike = self.slots[at].kind, states[at]
            got = None if refused and alike in refused else step(*alike, profiles[0])
            if got is not None:
                rest = self.power_on(profiles[1:], (*states[:at], got[0], *states[at + 1 :]))
                if rest is not None:
                    return rest[0], (GivenVgpu(self.slots[at].pci, profiles[0], got[1]), *rest[1])
                refused.add(alike)  # GPUs that are alike would have to refuse as well
        return None

    def _in_order(self, profile: str, states: tuple[State, ...]) -> Sequence[int]:
        """Return the GPUs that ever take a profile, in the order in which vSphere tries them."""
        if profile not in self._able:
            takes = [s.kind.takes(profile) for s in self.slots]
            in_place = self.mixed or any(isinstance(t, Profile | InstanceShare) for t in takes)
            self._able[profile] = [at for at, t in enumerate(takes) if t is not None], in_place
        able, in_place = self._able[profile]
        sign = 1 if self.policy == "performance" else -1
        return able if in_place else sorted(able, key=lambda at: (sign * _vgpus(states[at]), at))

    def run(self, order: Iterable[str], vms: Vms) -> Spread | None:
        """Power VMs on in an order; None when one of them is refused."""
        states, spread = self.states, {}
        for vm in order:
            got = self.power_on(vms[vm], states)
            if got is None:
                return None
            states, spread[vm] = got
        return spread

    def parts(self, vms: Vms) -> Iterator[tuple[HostGpus, Vms]]:
        """Yield GPUs and VMs that have to do with each other: boards and modes that share no VM go their own ways."""
        able = [
            [at for at, s in enumerate(self.slots) if any(map(s.kind.takes, profiles))] for profiles in vms.values()
        ]
        names = tuple(vms)
        for numbers in connected(able):
            host = self.at(self.states, {at for n in numbers for at in able[n]})
            yield host, {names[n]: vms[names[n]] for n in numbers}


def _vgpus(state: State) -> int:
    """Return how many vGPUs share a time-sliced GPU; one in MIG mode takes no time-sliced vGPU anyway."""
    return state.total if isinstance(state, TimeSlicedState) else 0


def likeness(slots: Iterable[GpuSlot]) -> Hashable:
    """Return what decides which VMs power on on a host: its GPUs as they are, in their order."""
    return tuple((s.kind, s.state) for s in sorted(slots, key=lambda s: s.pci))
