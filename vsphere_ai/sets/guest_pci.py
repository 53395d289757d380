"""PCI addresses of virtual devices in their guest, from the slot numbers that vCenter shows; unverified.

The slot number of a virtual device (``pciSlotNumber``) has three parts: bits 0 to 4 the device on its bus, bits 5 to 9
the bridge (0: none), bits 10 to 12 the function of that bridge. Linux names a NIC after it: ``ens192`` has the slot
number 192, ``ens161`` 1184. A bridge with all of its eight functions takes eight buses, the first one from bus 3 on.
These are observations of Linux guests with virtual hardware as ESXi makes it, and of no document of VMware's.
Source of the names of RDMA devices: rdma-core, kernel-boot/rdma_rename.c, which prefers the slot to the bus.
"""

from __future__ import annotations

from collections.abc import Mapping

from vsphere_ai.fabric.api_types import VirtualDevice

FIRST_BRIDGE, FIRST_BUS, FUNCTIONS = 5, 3, 8


def slot_of(device: VirtualDevice) -> int | None:
    """Return the slot number of a virtual device; None where vCenter shows none, or none that can be one."""
    info = device.get("slotInfo")
    number = info.get("pciSlotNumber") if isinstance(info, Mapping) else None
    return number if isinstance(number, int) and 0 < number < 1 << 13 else None


def guest_address(slot: int) -> str:
    """Return the PCI address of a device in its guest."""
    device, bridge, function = slot & 0x1F, slot >> 5 & 0x1F, slot >> 10
    if not bridge:
        return f"0000:00:{device:02x}.0"
    bus = 2 if bridge < FIRST_BRIDGE else FIRST_BUS + FUNCTIONS * (bridge - FIRST_BRIDGE) + function
    return f"0000:{bus:02x}:{device:02x}.0"


def rdma_device(slot: int) -> str:
    """Return the name of the RDMA device of a PVRDMA adapter: its second function, named after the slot."""
    return f"roces{(slot & 0x3FF) + (slot >> 10)}f1"
