"""What `show` writes is a playbook: read again, it plans nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.estates import ESX1, ESX2, OFF, ON, PCI, estate, guest, host, made, pvrdma_device, smi, view, vm
from support.missions import finished_farm, plain_farm

from vsphere_ai.language.desired import desired
from vsphere_ai.language.inventory import Inventory, VCenterSettings
from vsphere_ai.language.playbook import load_playbook
from vsphere_ai.model.state import Target
from vsphere_ai.report.playbook_text import playbook_text
from vsphere_ai.resources import kinds

VCENTER = VCenterSettings(name="prod", address="vc.example.com", username="u", password="env:P")
INVENTORY = Inventory(Path("inventory.yml"), {"prod": VCENTER})
RDMA = {
    "option:Net.PVRDMAVmknic": "vmk2",
    "config__firewall__ruleset": ({"_typeName": "HostFirewallRuleset", "key": "pvrdma", "enabled": True},),
}


def shown(of, remarks=None):
    """Write every target's states, as `show` does."""
    seen = view(of)
    found = {}
    for target in (*of.hosts, *of.vms):
        own = [seen.state(target.ref, k) for k, c in kinds().items() if c.target == target.kind]
        stated = [s.export(target, seen, "playbook").state for s in own if s is not None]
        found[target] = [s for s in stated if s is not None]
    return playbook_text(of, found, remarks or {})


def planned_again(text, of, folder):
    path = folder / "shown.yml"
    path.write_text(text, encoding="utf-8")
    playbook = load_playbook(path, kinds())
    return playbook, made(of, desired(playbook, INVENTORY, of))


def instances():
    return estate(
        host(ESX1, active="sharedDirect", probes=smi({PCI[0]: ON, PCI[1]: OFF}, [(0, "3g.20gb", 9, 2, "4:4")])),
        host(ESX2, probes={}),
        guest(vm(1), ESX1),
    )


def odd_names():
    """VMs whose names are patterns, YAML, not unique, or invisible."""
    names = ["a:b", "[01:02]", "train-*", "true", "- x", "#1", "twin", "twin", "ü", "0x10", "a\u202eb", "!not", "1e3"]
    return estate(host(ESX1), *(guest(Target("vm", n, f"VirtualMachine:vm-{i}"), ESX1) for i, n in enumerate(names)))


FARMS = {"finished": finished_farm, "plain": plain_farm, "instances": instances, "odd": odd_names}


@pytest.mark.parametrize("farm", FARMS.values(), ids=FARMS)
def test_shown_and_planned_again_nothing_changes(farm, tmp_path):
    of = farm()
    playbook, plan = planned_again(shown(of), of, tmp_path)
    assert len(playbook.plays) == len(of.hosts) + len(of.vms)
    assert plan.is_empty, plan.problems or [i for i in plan.items if i.changes]
    assert {i.target for i in plan.items} == {*of.hosts, *of.vms}


def test_the_text_is_what_a_person_would_write():
    text = shown(finished_farm())
    assert "- hosts: esx01\n" in text
    assert "  graphics: {default_type: shared_direct, assignment_policy: performance}\n" in text
    assert "  pvrdma: {adapters: [{port_group: dvpg-rdma, protocol: rocev2}]}\n" in text
    assert "  vgpu: {profiles: [grid_a100-3-20c], uvm: false}\n" in text


def test_what_is_only_observed_is_not_stated():
    text = shown(finished_farm())
    assert "mmio" not in text
    assert "memory_locked" not in text


def test_a_remark_says_why_something_is_missing():
    text = shown(plain_farm(), {ESX1: "MIG left out: SSH is\x1b stopped"})
    assert "# esx01: MIG left out: SSH is\N{REPLACEMENT CHARACTER} stopped" in text


def test_invisible_characters_are_written_as_escapes(tmp_path):
    of = odd_names()
    assert "\u202e" not in shown(of)
    group = pvrdma_device(4000, "dvportgroup-\u202e\U000e0041")
    of = estate(host(ESX1, **RDMA), guest(vm(1), ESX1, config__hardware__device=(group,)))
    text = shown(of)
    assert "\u202e" not in text
    playbook, _ = planned_again(text, of, tmp_path)
    (play,) = (p for p in playbook.plays if p.target == "vm")
    adapters = next(s.state.adapters for s in play.states if s.state.kind == "pvrdma")
    assert adapters[0].port_group == "dvportgroup-\u202e\U000e0041"
