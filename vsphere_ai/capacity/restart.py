"""Restart of the VMs of lost hosts on the hosts that are left. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property

from vsphere_ai.capacity.first_fit import FirstFit
from vsphere_ai.capacity.verdict import Answer, GpuHosts, VmDemand

Loss = frozenset[str]
"""Hosts that fail together."""


class Restarts:
    """The VMs of an estate by the host they are on, and the hosts as they are with every VM on.

    Each loss looks at the VMs of the lost hosts and at the hosts these reach, never at the whole estate.
    """

    def __init__(self, farm: GpuHosts, demands: Iterable[VmDemand], fit: Answer) -> None:
        self.farm = farm
        self.at_home: dict[str, list[VmDemand]] = defaultdict(list)
        for each in demands:
            self.at_home[each.running_on or fit.assignment.get(each.name, ("", ()))[0]].append(each)

    @cached_property
    def _hosts(self) -> FirstFit:
        return FirstFit(self.farm.machines)

    def homeless(self, lost: Loss) -> list[VmDemand]:
        """Return the VMs of the lost hosts, with the hosts that are left for them."""
        return moved_off((d for host in sorted(lost) for d in self.at_home.get(host, ())), lost)

    def survives(self, lost: Loss) -> bool:
        """Return whether VMs of lost hosts power on elsewhere one after another; False proves nothing."""
        return self.hosts_after(lost) is not None

    def hosts_after(self, lost: Loss) -> dict[str, str] | None:
        """Return where VMs of lost hosts power on one after another; None proves nothing."""
        placed = self._hosts.place((d for host in sorted(lost) for d in self.at_home.get(host, ())), lost)
        return None if placed is None else {vm: host for vm, (host, _) in placed.items()}


def moved_off(demands: Iterable[VmDemand], lost: Loss) -> list[VmDemand]:
    """Return VMs that need a host after a loss, wherever they ran, with the hosts that are left for them."""
    left: dict[frozenset[str], frozenset[str]] = {}  # sets of hosts are large and shared by many VMs
    found = []
    for each in demands:
        if each.hosts not in left:
            left[each.hosts] = each.hosts - lost
        found.append(replace(each, hosts=left[each.hosts], running_on=None))
    return found
