"""The gpudirect kind: four keys, ATS, and a GPU and a NIC that are near each other, with the tree where not."""

from __future__ import annotations

import pytest
from support.estates import ESX1, GROUP, estate, pvrdma_device, vgpu_device, view, vm
from support.judging import judge
from support.machines import GPU_0, GPU_1, NIC_0, NIC_1, dynamic, fixed, kernel_listing, keys, machine, tuned
from support.plays import THROUGH

from vsphere_ai.model.facts import ProbeFailure
from vsphere_ai.resources.gpudirect import GpuDirect

ALONE = (
    f"{THROUGH}  kernel: {{ats_support: true}}\n"
    '- vms: train-04\n  hardware: {version: 19}\n  pci_devices: [{host_device: "0000:86:00.0"}]\n'
    "  adapters: [{type: sriov, port_group: dvpg-rdma}]\n  gpudirect: true\n"
)

VM = vm(1)
ON = kernel_listing("TRUE", "TRUE")
ALL = {GPU_0: "", GPU_1: "", NIC_0: "", NIC_1: ""}
MMIO = {"pciPassthru__use64bitMMIO": "TRUE", "pciPassthru__64bitMMIOSizeGB": "128"}
P2P = {"pciPassthru__allowP2P": "TRUE", "pciPassthru__RelaxACSforP2P": "true"}


def around(*devices, ats=ON, passed=ALL, host=None, **of_vm):
    return estate(machine(ESX1, passed=passed, ats=ats, **(host or {})), tuned(VM, ESX1, *devices, **of_vm))


def asked(*devices, enabled=True, **more):
    return judge(GpuDirect(enabled=enabled), VM, around(*devices, **more))


NEAR = (fixed(13000, GPU_0), fixed(13001, NIC_0))


# -- what changes


def test_as_wanted():
    judged = asked(*NEAR, config__extraConfig=keys(**MMIO, **P2P))
    assert (judged.fields, judged.steps, judged.problems) == ({}, (), {})


def test_the_four_keys():
    judged = asked(*NEAR, config__extraConfig=keys(pciPassthru__64bitMMIOSizeGB="256"))
    assert judged.step.needs_power_off
    assert dict(judged.step.extra_config) == {
        "pciPassthru.allowP2P": "TRUE",
        "pciPassthru.RelaxACSforP2P": "TRUE",
        "pciPassthru.use64bitMMIO": "TRUE",
    }
    assert judged.settled.mmio_size_gb == 256


def test_it_is_taken_back_with_its_own_two_keys_only():
    judged = asked(*NEAR, enabled=False, config__extraConfig=keys(**MMIO, pciPassthru__allowP2P="TRUE"))
    assert judged.fields == {"enabled": (None, False)}
    assert judged.step.extra_config == (("pciPassthru.allowP2P", ""),)
    assert asked(enabled=False).fields == {}


# -- what it needs


def test_a_gpu_and_a_nic():
    assert list(asked(fixed(13000, NIC_0)).problems) == ["gpudirect.no-gpu"]
    assert list(asked(fixed(13000, GPU_0)).problems) == ["gpudirect.no-nic"]
    assert list(judge(GpuDirect(enabled=True), VM, estate(tuned(VM, ESX1))).problems) == ["gpudirect.host-unknown"]


def test_pvrdma_is_no_nic_for_it_and_that_is_explained():
    found = asked(fixed(13000, GPU_0), pvrdma_device(4000)).problems
    assert list(found) == ["gpudirect.pvrdma"]
    assert "the guest has no PCI function the GPU could reach" in found["gpudirect.pvrdma"].message
    beside = asked(*NEAR, pvrdma_device(4000))
    assert not beside.problems
    assert any("take no part" in note for note in beside.notes)


def test_far_apart_is_refused_with_the_tree():
    found = asked(fixed(13000, GPU_0), fixed(13001, NIC_1)).problems["gpudirect.topology"]
    assert f"GPU {GPU_0} and NIC {NIC_1}" in found.message
    tree = found.remedy.splitlines()
    assert tree[1:] == [
        "esx01",
        "├─ PCI root 0000:3a (NUMA node 0)",
        "│  └─ 0000:3a:00.0 Root Port",
        "│     └─ 0000:3b:00.0 A100",
        "└─ PCI root 0000:ae (NUMA node 1)",
        "   └─ 0000:ae:00.0 Root Port",
        "      └─ 0000:af:00.0 ConnectX-6",
    ]


def test_one_numa_node_is_good_enough_and_said():
    judged = asked(fixed(13000, GPU_1), fixed(13001, NIC_1))
    assert not judged.problems
    assert any("share a NUMA node" in note for note in judged.notes)
    assert not any("share a NUMA node" in note for note in asked(*NEAR).notes)


def test_each_of_several_gpus_needs_a_near_nic():
    assert list(asked(*NEAR, fixed(13002, GPU_1)).problems) == ["gpudirect.topology"]
    assert not asked(*NEAR, fixed(13002, GPU_1), fixed(13003, NIC_1)).problems


@pytest.mark.parametrize("gpu", [dynamic(13000), vgpu_device(13000, "grid_a100-40c")])
def test_where_the_host_picks_the_gpu_one_that_fits_is_enough(gpu):
    passed = ALL if gpu["backing"].get("allowedDevice") else {NIC_0: ""}
    judged = asked(gpu, fixed(13001, NIC_0), passed=passed)
    assert not judged.problems
    assert any(f"from {GPU_1} it would not work" in note for note in judged.notes)


def test_a_virtual_function_counts_as_the_nic_it_is_of():
    backing = {"_typeName": "VirtualEthernetCardDistributedVirtualPortBackingInfo",
               "port": {"portgroupKey": GROUP.partition(":")[2], "switchUuid": "50 2b"}}  # fmt: skip
    physical = {"_typeName": "VirtualPCIPassthroughDeviceBackingInfo", "id": "Automatic-0000:00:00.0"}
    card = {"_typeName": "VirtualSriovEthernetCard", "key": 4000, "unitNumber": 7, "backing": backing,
            "sriovBacking": {"physicalFunctionBacking": physical}, "connectable": {"startConnected": True}}  # fmt: skip
    uplinks = ({"_typeName": "PhysicalNic", "key": "key-vmnic4", "device": "vmnic4", "pci": NIC_0},)
    near = asked(fixed(13000, GPU_0), card, host={"config__network__pnic": uplinks})
    assert not near.problems
    far = asked(fixed(13000, GPU_1), card, host={"config__network__pnic": uplinks})
    assert list(far.problems) == ["gpudirect.topology"]


@pytest.mark.parametrize(
    ("ats", "rule"),
    [
        (kernel_listing("FALSE", "FALSE"), "gpudirect.ats"),
        (kernel_listing("TRUE", "FALSE"), "gpudirect.ats"),
        (None, "gpudirect.ats-unknown"),
        (ProbeFailure("ssh.stopped", "SSH is stopped", "start it"), "gpudirect.ats-unknown"),
    ],
)
def test_ats_has_to_be_on(ats, rule):
    found = asked(*NEAR, ats=ats).problems
    assert list(found) == [rule]
    assert found[rule].remedy


# -- back into a playbook


def test_back_into_a_playbook():
    for extra, enabled in ((P2P, True), ({}, False), ({"pciPassthru__allowP2P": "TRUE"}, None)):
        of = around(*NEAR, config__extraConfig=keys(**extra))
        state = view(of).state(VM.ref, "gpudirect")
        assert state.enabled is enabled
        told = state.export(VM, view(of), "playbook").state
        assert (told is not None) == (enabled is True)
        assert bool(state.export(VM, view(of), "playbook").left_out) == (enabled is None)
