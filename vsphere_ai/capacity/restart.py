"""VMs of lost hosts restarted one after another wherever there is room: quick, and a proof where it succeeds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property

from vsphere_ai.capacity.gpu import State
from vsphere_ai.capacity.host import Host
from vsphere_ai.capacity.place import Fit, GpuHosts, VmDemand

Loss = frozenset[str]
_Profiles = tuple[str, ...]


class Restarts:
    """The VMs of an estate by the host they are on, and the hosts on which they could power on as things stand.

    Each loss looks at the VMs of the lost hosts and at the hosts these reach, never at the whole estate.
    """

    def __init__(self, farm: GpuHosts, demands: Iterable[VmDemand], fit: Fit) -> None:
        self.farm = farm
        self.at_home: dict[str, list[VmDemand]] = defaultdict(list)
        for each in demands:
            at = each.running_on or fit.assignment.get(each.name, ("", ()))[0]
            self.at_home[at].append(each)
        self._open: dict[tuple[_Profiles, frozenset[str]], tuple[str, ...]] = {}

    @cached_property
    def hosts(self) -> dict[str, Host]:
        """The hosts with GPUs, as they are with every VM on."""
        return {n: Host(slots, self.farm.policies.get(n, "performance")) for n, slots in self.farm.hosts.items()}

    def homeless(self, lost: Loss) -> list[VmDemand]:
        """Return the VMs of the lost hosts, with the hosts that are left for them."""
        left: dict[frozenset[str], frozenset[str]] = {}  # sets of hosts are large and shared by many VMs
        found = []
        for each in (d for host in sorted(lost) for d in self.at_home.get(host, ())):
            if each.hosts not in left:
                left[each.hosts] = each.hosts - lost
            found.append(replace(each, hosts=left[each.hosts], running_on=None))
        return found

    def survives(self, lost: Loss) -> bool:
        """Tell whether the VMs of lost hosts power on elsewhere one after another; False proves nothing.

        What a host refuses once it refuses later, too: the VMs with the fewest hosts come first, each going to the
        first host that is left for its profiles.
        """
        gone = [d for host in sorted(lost) for d in self.at_home.get(host, ())]
        waiting = sorted((d for d in gone if d.profiles), key=lambda d: (-len(d.profiles), len(self._reach(d)), d.name))
        states: dict[str, tuple[State, ...]] = {}
        turn: dict[tuple[_Profiles, frozenset[str]], int] = defaultdict(int)
        for vm in waiting:
            profiles, reach = tuple(sorted(vm.profiles)), self._reach(vm)
            at = turn[profiles, vm.hosts]
            while at < len(reach):
                name = reach[at]
                host = self.hosts[name]
                got = None if name in lost else host.power_on(profiles, states.get(name, host.states))
                if got is not None:
                    states[name] = got[0]
                    break
                at += 1
            else:
                return False
            turn[profiles, vm.hosts] = at
        return True

    def _reach(self, vm: VmDemand) -> tuple[str, ...]:
        """Return the hosts on which a VM could power on now."""
        key = tuple(sorted(vm.profiles)), vm.hosts
        if key not in self._open:
            names = sorted(vm.hosts & self.hosts.keys())
            hosts = ((n, self.hosts[n]) for n in names)
            self._open[key] = tuple(n for n, host in hosts if host.power_on(key[0], host.states) is not None)
        return self._open[key]
