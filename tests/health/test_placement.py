"""Witnesses of a VM's place: nothing on a thousand VMs in order, and one finding for each thing that is wrong."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from vsphere_ai.health.placement import P2P, RELAX_ACS, VmPlace, place_findings
from vsphere_ai.model.nodes import Node, NodeGpu, Rail
from vsphere_ai.model.topology import HostNuma, PciSite, VmCpus

UVM = "pciPassthru{}.cfg.enable_uvm"
ON = {P2P: "TRUE", RELAX_ACS: "TRUE"}
NCCL = "nvidia-nccl-cu12"
OLD, NEW = {NCCL: "2.21.5"}, {NCCL: "2.27.5"}


def site(bus, numa, switches=()):
    return PciSite(f"0000:{bus:02x}:00.0", 0x0302, numa, switches)


def in_order(*, gpus=1, numa=0, profile="grid_a100-40c", rails=1):
    """A VM in order on NUMA node `numa` of a host with two."""
    return Node(
        "train-01",
        "10.0.0.1",
        host="esx01",
        gpus=tuple(
            NodeGpu(n, host_pci=f"0000:3{n}:00.0", profile=profile, site=site(48 + n, numa)) for n in range(gpus)
        ),
        rails=tuple(
            Rail(f"rdma{n}", number=n, vmnic=f"vmnic{n}", mac=f"00:50:56:00:00:0{n}", site=site(96 + n, numa))
            for n in range(1, rails + 1)
        ),
        cpus=VmCpus(16, 1, 64 << 10),
        numa=HostNuma(2, 32, 512 << 10),
    )


def found(node, *, packages=OLD, settings=None, place=None):
    return [(f.rule, f.verdict) for f in place_findings(node, packages, settings or {}, place or VmPlace())]


def test_a_thousand_vms_in_order_have_no_finding():
    chance = random.Random(7)
    for _ in range(1000):
        gpus, numa, rails = chance.randint(1, 4), chance.randint(0, 1), chance.randint(0, 4)
        virtual = chance.random() < 0.5
        node = in_order(gpus=gpus, numa=numa, profile="grid_a100-40c" if virtual else "", rails=rails)
        node = replace(node, cpus=VmCpus(chance.choice((4, 16, 32)), chance.choice((1, 4)), 64 << 10,
                                         chance.choice(((), (numa,), (0, 1)))))  # fmt: skip
        near = {numa: tuple(r.vmnic for r in node.rails), 1 - numa: ("vmnic9",)}
        direct = not virtual and rails > 0
        place = VmPlace({r.mac: (r.vmnic, "vmnic8") for r in node.rails} if direct else {}, near, direct, ats=True)
        assert found(node, settings=ON if direct and chance.random() < 0.5 else {}, place=place) == [], node


FAR = replace(in_order(rails=0), rails=(Rail("rdma1", number=1, vmnic="vmnic5", mac="m", site=site(0xAF, 1)),))
PLANTED = {
    "tied to the other node": (replace(in_order(numa=1), cpus=VmCpus(16, 1, 64 << 10, (0,))), {}, [("numa", "fail")]),
    "more vCPUs than a node": (replace(in_order(), cpus=VmCpus(48, 1, 64 << 10)), {}, [("numa", "warn")]),
    "more memory than a node": (replace(in_order(), cpus=VmCpus(16, 1, 800 << 10)), {}, [("numa", "warn")]),
    "the guest sees one node": (
        replace(in_order(), cpus=VmCpus(48, 1, 64 << 10, hot_add=True)), {}, [("numa", "fail")],
    ),
    "an uplink on the other node": (FAR, {"place": VmPlace(near={0: ("vmnic4",)})}, [("rail-numa", "warn")]),
    "no NIC is nearer": (FAR, {"place": VmPlace(near={1: ("vmnic5",)})}, []),
    "a function of another NIC": (
        in_order(), {"place": VmPlace({"00:50:56:00:00:01": ("vmnic7",)}, direct=True)}, [("wrong-function", "fail")],
    ),
    "ACS is not relaxed": (
        in_order(), {"settings": {P2P: "TRUE"}, "place": VmPlace(direct=True, ats=True)}, [("acs", "fail")],
    ),
    "ATS is off": (in_order(), {"settings": ON, "place": VmPlace(direct=True, ats=False)}, [("ats", "fail")]),
    "ATS is not known": (in_order(), {"settings": ON, "place": VmPlace(direct=True)}, [("ats", "unknown")]),
    "no NIC of its own": (in_order(), {"settings": ON, "place": VmPlace(ats=False)}, []),
    "NCCL needs unified memory": (in_order(), {"packages": NEW}, [("nccl-uvm", "fail")]),
    "unified memory is on": (in_order(), {"packages": NEW, "settings": {UVM.format(0): "1"}}, []),
    "NVLink needs it off": (in_order(gpus=2), {"settings": {UVM.format(1): "1"}}, [("nccl-uvm", "warn")]),
    "both at once": (in_order(gpus=2), {"packages": NEW, "settings": {UVM.format(0): "1"}}, [("nccl-uvm", "warn")]),
    "another family": (in_order(gpus=2, profile="nvidia_h100xm-80c"), {"settings": {UVM.format(0): "1"}}, []),
    "a GPU of its own": (in_order(profile=""), {"packages": NEW}, []),
    "a host with one node": (replace(in_order(), cpus=VmCpus(48), numa=HostNuma(1, 32, 512 << 10)), {}, []),
    "a host that shows no nodes": (replace(in_order(), numa=HostNuma()), {}, []),
}  # fmt: skip


@pytest.mark.parametrize("fault", PLANTED)
def test_each_thing_that_is_wrong(fault):
    node, more, wanted = PLANTED[fault]
    assert found(node, **more) == wanted


def test_remedies_name_what_conflicts():
    """Unified memory, vMotion, NVLink and the version of NCCL exclude each other: the remedy says which does what."""
    node = in_order(gpus=2)
    (off,) = place_findings(node, NEW, {}, VmPlace())
    assert "2.21.5" in off.remedy
    assert "vMotion, and NVLink" in off.remedy
    (both,) = place_findings(node, NEW, {UVM.format(0): "1"}, VmPlace())
    assert "uvm: false}, and NCCL 2.21.5" in both.remedy
