"""Hosts for the choice of hosts of new VMs, with an amount of memory to reserve."""

from __future__ import annotations

from vsphere_ai.model.facts import Facts
from vsphere_ai.sets.choice import HostRoom


def room(host, memory=None, sets=None):
    """A host that takes VMs as long as they reserve at most so much memory; None: any."""

    def against(needs):
        return "too much memory" if memory is not None and sum(n.memory_mb for n in needs) > memory else ""

    return HostRoom(Facts(f"HostSystem:{host}", {}), against, memory, sets=sets or {})
