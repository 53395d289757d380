"""The PCI tree of a host: what is near what, and how that is drawn."""

from __future__ import annotations

import pytest
from support.estates import ESX1
from support.machines import GPU_0, GPU_1, NIC_0, NIC_1, machine

from vsphere_ai.fabric import pci
from vsphere_ai.model.facts import Facts

FOUND = pci.devices(machine(ESX1))


def test_ids_are_unsigned_and_kinds_are_told_apart():
    gpu, nic = FOUND[GPU_0], FOUND[NIC_0]
    assert (gpu.vendor, gpu.device, gpu.is_gpu, gpu.is_nic, gpu.numa) == (0x10DE, 0x20F1, True, False, 0)
    assert (nic.vendor, nic.is_gpu, nic.is_nic) == (0x15B3, False, True)
    intel = {
        "id": "0000:AF:00.1",
        "vendorId": -32634,
        "deviceId": 0x1521,
        "classId": 0x0200,
        "deviceName": "I350 Virtual Function",
    }
    (other,) = pci.devices(Facts("HostSystem:x", {pci.DEVICES: (intel,)})).values()
    assert (other.address, other.vendor, other.virtual, other.numa) == ("0000:af:00.1", 0x8086, True, None)
    assert pci.signed(0x8086) == -32634
    assert pci.signed(0x10DE) == 0x10DE


@pytest.mark.parametrize(
    ("one", "other", "near"),
    [(GPU_0, NIC_0, "switch"), (GPU_0, NIC_1, ""), (GPU_1, NIC_1, "node"), (GPU_1, NIC_0, "")],
)
def test_nearness(one, other, near):
    assert pci.nearness(one, other, FOUND) == pci.nearness(other, one, FOUND) == near


def test_two_ports_of_one_root_complex_without_a_common_bridge():
    rows = [(f"0000:3a:0{n}.0", None, 0x0604) for n in (0, 1)] + [
        ("0000:3b:00.0", "0000:3a:00.0", 0x0302),
        ("0000:3c:00.0", "0000:3a:01.0", 0x0200),
    ]
    devices = tuple(
        {"id": i, "vendorId": 1, "deviceId": 1, "classId": c, "deviceName": "x", **({"parentBridge": p} if p else {})}
        for i, p, c in rows
    )
    found = pci.devices(Facts("HostSystem:x", {pci.DEVICES: devices}))
    assert pci.nearness("0000:3b:00.0", "0000:3c:00.0", found) == "root"


def test_unknown_nodes_are_not_the_same_node():
    found = pci.devices(machine(ESX1, numa=None))
    assert pci.nearness(GPU_1, NIC_1, found) == ""


def test_a_circle_of_bridges_ends():
    devices = tuple({"id": a, "vendorId": 1, "deviceId": 1, "classId": 0x0604, "deviceName": "x", "parentBridge": b}
                    for a, b in (("0000:01:00.0", "0000:02:00.0"), ("0000:02:00.0", "0000:01:00.0")))  # fmt: skip
    found = pci.devices(Facts("HostSystem:x", {pci.DEVICES: devices}))
    assert len(pci.bridges_above("0000:01:00.0", found)) == 2


def test_the_tree_is_drawn():
    assert pci.tree("esx01", [GPU_0, NIC_0, GPU_1], FOUND) == (
        "esx01",
        "├─ PCI root 0000:3a (NUMA node 0)",
        "│  └─ 0000:3a:00.0 Root Port",
        "│     ├─ 0000:3b:00.0 A100",
        "│     └─ 0000:5e:00.0 ConnectX-6",
        "└─ PCI root 0000:85 (NUMA node 1)",
        "   └─ 0000:85:00.0 Root Port",
        "      └─ 0000:86:00.0 A100",
    )


def test_matching_by_model_and_label():
    facts = machine(ESX1, passed={GPU_0: "", GPU_1: "big"})
    assert pci.matching(facts, 0x10DE, 0x20F1) == (GPU_0,)
    assert pci.matching(facts, 0x10DE, 0x20F1, "big") == (GPU_1,)
    assert pci.matching(facts, 0x10DE, 0x2331) == ()
