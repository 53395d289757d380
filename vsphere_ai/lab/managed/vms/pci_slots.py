"""PCI slots of network adapters: the monitor gives one to each adapter that has none when a VM is powered on.

That the numbers begin at 192 and lie 32 apart is an observation of Linux guests (``ens192``, ``ens224``), unverified.
"""

from __future__ import annotations

from itertools import count
from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.store import ManagedObject

FIRST_SLOT, SLOTS_APART = 192, 32
CARD = vim.vm.device.VirtualEthernetCard
_PLACE = vim.vm.device.VirtualDevice.PciBusSlotInfo


def slot_of(device: Any) -> int | None:
    """Return the slot number of a device; None for one that has none yet."""
    number = getattr(device.slotInfo, "pciSlotNumber", None)
    return int(number) if number is not None else None


def slots(vm: ManagedObject) -> dict[int, int]:
    """Return the slots that the network adapters of a VM have, or will have when it is on, by their keys."""
    devices = vm["config"].hardware.device
    taken = {slot for device in devices if (slot := slot_of(device)) is not None}
    found: dict[int, int] = {}
    for card in (device for device in devices if isinstance(device, CARD)):
        own = slot_of(card)
        if own is None:
            own = next(slot for slot in count(FIRST_SLOT, SLOTS_APART) if slot not in taken)
            taken.add(own)
        found[card.key] = own
    return found


def give(vm: ManagedObject) -> None:
    """Give every network adapter of a VM its slot, as a power-on does; the caller holds the store's lock."""
    own = slots(vm)
    for card in (device for device in vm["config"].hardware.device if isinstance(device, CARD)):
        if slot_of(card) is None:
            card.slotInfo = _PLACE(pciSlotNumber=own[card.key])
