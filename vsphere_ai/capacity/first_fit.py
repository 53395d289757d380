"""Placement one VM after another on the first host with room: quick, and a proof where all VMs find a place. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import Protocol

from vsphere_ai.capacity.host import Host, Places
from vsphere_ai.capacity.verdict import VmDemand
from vsphere_ai.gpu.slot import State
from vsphere_ai.gpu.vgpu import VgpuNameError, parse

Wanted = tuple[tuple[str, ...], frozenset[str]]


class Names(Protocol):
    """Names of hosts, in order."""

    def __len__(self) -> int: ...

    def __getitem__(self, at: int, /) -> str: ...


class FirstFit:
    """Hosts as they are now, and those of them on which VMs of each class could power on now."""

    def __init__(self, hosts: Mapping[str, Host]) -> None:
        self.hosts = hosts
        self._open: dict[Wanted, Names] = {}

    def place(self, vms: Iterable[VmDemand], lost: Collection[str] = ()) -> dict[str, tuple[str, Places]] | None:
        """Return where VMs power on, in that order, on any of their hosts but `lost` ones; None proves nothing.

        A host that refuses a VM refuses its class for good. So the VMs with most vGPUs and fewest hosts come first,
        larger profiles before smaller ones, each VM on the first host that is left for its class.
        """
        states: dict[str, tuple[State, ...]] = {}
        next_host: dict[Wanted, int] = defaultdict(int)
        placed: dict[str, tuple[str, Places]] = {}
        for vm in sorted(vms, key=self._rank):
            wanted = tuple(sorted(vm.profiles)), vm.hosts
            reach = self._reach(wanted)
            at = next_host[wanted]
            while at < len(reach):
                host = self.hosts[reach[at]]
                got = None if reach[at] in lost else host.power_on(wanted[0], states.get(reach[at], host.states))
                if got is not None:
                    states[reach[at]], placed[vm.name] = got[0], (reach[at], got[1])
                    break
                at += 1
            else:
                if wanted[0]:
                    return None
                placed[vm.name] = "", ()
            next_host[wanted] = at
        return placed

    def _rank(self, vm: VmDemand) -> tuple[object, ...]:
        wanted = tuple(sorted(vm.profiles)), vm.hosts
        return -len(vm.profiles), len(self._reach(wanted)), *size(wanted[0]), vm.name

    def _reach(self, wanted: Wanted) -> Names:
        """Return the hosts on which such a VM could power on now."""
        if wanted not in self._open:
            self._open[wanted] = self._with_room(wanted)
        return self._open[wanted]

    def _with_room(self, wanted: Wanted) -> Names:
        hosts = ((n, self.hosts[n]) for n in sorted(wanted[1] & self.hosts.keys()) if wanted[0])
        return [n for n, host in hosts if host.power_on(wanted[0], host.states) is not None]


@lru_cache(maxsize=4096)
def size(profiles: tuple[str, ...]) -> tuple[int, int]:
    """Return what sorts profiles by framebuffer and GPU slices, the largest first."""
    try:
        known = [parse(p) for p in profiles]
    except VgpuNameError:
        return 0, 0
    return -sum(p.fb_gb for p in known), -sum(p.slices or 0 for p in known)
