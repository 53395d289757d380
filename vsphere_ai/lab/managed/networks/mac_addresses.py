"""MAC addresses of running VMs: the second VM that comes up with one of them is in conflict with the first.

vCenter compares the addresses of VMs that run only; the second VM has no network on that adapter.
"""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.managed import events
from vsphere_ai.lab.store import ManagedObject

HELD, CLASHES = "macs", "mac clashes"
"""Among what the lab keeps of a VM: its addresses, and those that another VM had first, with the conflict's name."""


def claim(farm: Farm, vm: ManagedObject) -> None:
    """Note the addresses of a VM that runs; post an event for each that another one has."""
    release(farm, vm)
    cards = (d for d in vm["config"].hardware.device if isinstance(d, vim.vm.device.VirtualEthernetCard))
    held = vm.extra[HELD] = sorted({card.macAddress.lower() for card in cards})
    clashes = vm.extra[CLASHES] = {}
    for mac in held:
        users = farm.macs.setdefault(mac, [])
        if users:
            clashes[mac] = _conflict(farm, vm, farm.store.objects[users[0]], mac)
        users.append(vm.moid)


def release(farm: Farm, vm: ManagedObject) -> None:
    """Note that a VM uses its addresses no more."""
    for name in vm.extra.pop(CLASHES, {}).values():
        farm.history.note("mac", name, False)
    for mac in vm.extra.pop(HELD, ()):
        farm.macs[mac].remove(vm.moid)
        if not farm.macs[mac]:
            del farm.macs[mac]


def _conflict(farm: Farm, vm: ManagedObject, other: ManagedObject, mac: str) -> str:
    words = f"{mac} of {vm['name']} ({vm.moid}) was that of {other['name']} ({other.moid})"
    farm.history.note("mac", words, True)
    message = f"The MAC address ({mac}) of {vm['name']} conflicts with that of {other['name']}"
    kind: Any = vim.event.VmMacConflictEvent
    events.post(farm, vm, kind, message, conflictedVm=events.about(other), mac=mac)
    return words
