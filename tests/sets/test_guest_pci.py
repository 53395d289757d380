"""PCI addresses of virtual devices in a guest: as Linux guests on ESXi were seen to have them."""

from __future__ import annotations

import pytest

from vsphere_ai.sets.guest_pci import guest_address, rdma_device, slot_of


@pytest.mark.parametrize(
    ("slot", "address", "device"),
    [
        (160, "0000:03:00.0", "roces160f1"),
        (1184, "0000:04:00.0", "roces161f1"),
        (192, "0000:0b:00.0", "roces192f1"),
        (224, "0000:13:00.0", "roces224f1"),
        (256, "0000:1b:00.0", "roces256f1"),
        (33, "0000:02:01.0", "roces33f1"),
        (16, "0000:00:10.0", "roces16f1"),
    ],
)
def test_slots_of_guests(slot, address, device):
    assert slot_of({"slotInfo": {"pciSlotNumber": slot}}) == slot
    assert (guest_address(slot), rdma_device(slot)) == (address, device)


@pytest.mark.parametrize("info", [None, {}, {"pciSlotNumber": -1}, {"pciSlotNumber": 1 << 13}, "text"])
def test_what_is_no_slot(info):
    assert slot_of({"slotInfo": info}) is None
