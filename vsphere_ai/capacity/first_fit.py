"""Placement one VM after another on the first host with room: quick, and a proof where all VMs find a place. Pure."""

from __future__ import annotations

from bisect import insort
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache

from vsphere_ai.capacity.host import HostGpus, Places
from vsphere_ai.capacity.verdict import VmDemand
from vsphere_ai.gpu.vgpus.slot import State
from vsphere_ai.gpu.vgpus.vgpu import VgpuNameError, parse

Wanted = tuple[tuple[str, ...], frozenset[str]]


class FirstFit:
    """Hosts as they are now, and those of them on which VMs of each class could power on now."""

    def __init__(self, hosts: Mapping[str, HostGpus]) -> None:
        self.hosts = hosts
        self._open: dict[Wanted, list[str]] = {}

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

    def _reach(self, wanted: Wanted) -> list[str]:
        """Return the hosts on which such a VM could power on now."""
        if wanted not in self._open:
            self._open[wanted] = self._with_room(wanted)
        return self._open[wanted]

    def _with_room(self, wanted: Wanted) -> list[str]:
        hosts = ((n, self.hosts[n]) for n in sorted(wanted[1] & self.hosts.keys()) if wanted[0])
        return [n for n, host in hosts if host.power_on(wanted[0], host.states) is not None]


class AlikeHosts(FirstFit):
    """Hosts in groups, to each of which the same VMs may go: the `hosts` of a `VmDemand` are groups here."""

    def __init__(self) -> None:
        self._machines: dict[str, HostGpus] = {}
        super().__init__(self._machines)
        self._group_of: dict[str, str] = {}
        # by group and by the vGPUs of a VM (none: any VM) the hosts on which it could power on now, by name
        self._able: dict[str, dict[tuple[str, ...], list[str]]] = defaultdict(lambda: {(): []})

    def put(self, name: str, group: str = "", host: HostGpus | None = None) -> None:
        """Put a host into a group, as it is now; without one, no VM goes there."""
        self._open.clear()
        for names in self._able[self._group_of.pop(name, "")].values():
            if name in names:
                names.remove(name)
        if host is not None:
            self._machines[name], self._group_of[name] = host, group
            for profiles, names in self._able[group].items():
                if host.power_on(profiles, host.states) is not None:
                    insort(names, name)

    def groups(self) -> Iterator[tuple[str, str]]:
        """Yield the groups, each with one of its hosts."""
        yield from ((group, able[()][0]) for group, able in self._able.items() if able[()])

    def _with_room(self, wanted: Wanted) -> list[str]:
        for known in (self._able[group] for group in wanted[1] if wanted[0]):
            if wanted[0] not in known:
                hosts = ((n, self._machines[n]) for n in known[()])
                known[wanted[0]] = [n for n, host in hosts if host.power_on(wanted[0], host.states) is not None]
        found = [self._able[group][wanted[0]] for group in wanted[1] if wanted[0]]
        return found[0] if len(found) == 1 else sorted([name for names in found for name in names])


@lru_cache(maxsize=4096)
def size(profiles: tuple[str, ...]) -> tuple[int, int]:
    """Return what sorts profiles by framebuffer and GPU slices, the largest first."""
    try:
        known = [parse(p) for p in profiles]
    except VgpuNameError:
        return 0, 0
    return -sum(p.fb_gb for p in known), -sum(p.slices or 0 for p in known)
