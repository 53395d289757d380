"""What `show` writes is a playbook: read again, it plans nothing."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.estates import ESX1, ESX2, LAN, OFF, ON, PCI, estate, guest, host, made, pvrdma_device, smi, view, vm
from support.missions import finished_farm, plain_farm

from vsphere_ai.errors import Mark
from vsphere_ai.language.inventories.inventory import Inventory, InventoryGroup, VCenterSettings, VmSelector
from vsphere_ai.language.inventories.patterns import MAX_LENGTH
from vsphere_ai.language.inventories.selection import select
from vsphere_ai.language.playbooks.desired import desired
from vsphere_ai.language.playbooks.playbook import load_playbook
from vsphere_ai.language.yaml_files.document import parse
from vsphere_ai.model.state import Target
from vsphere_ai.planning.play_groups import grouped_plays
from vsphere_ai.report.playbooks.playbook_text import playbook_text
from vsphere_ai.resources import kinds
from vsphere_ai.resources.vgpu import Vgpu

VCENTER = VCenterSettings(name="prod", address="vc.example.com", username="u", password="env:P")
INVENTORY = Inventory(Path("inventory.yml"), {"prod": VCENTER})
RDMA = {
    "option:Net.PVRDMAVmknic": "vmk2",
    "config__firewall__ruleset": ({"_typeName": "HostFirewallRuleset", "key": "pvrdma", "enabled": True},),
}


def exported(of):
    """The states of every target, as a playbook may state them."""
    seen = view(of)
    found = {}
    for target in (*of.hosts, *of.vms):
        own = [seen.state(target.ref, k) for k, c in kinds().items() if c.target == target.kind]
        stated = [s.export(target, seen, "playbook").state for s in own if s is not None]
        found[target] = [s for s in stated if s is not None]
    return found


def shown(of, remarks=None):
    """Write every target's states, as `show` does."""
    return playbook_text(of, grouped_plays(exported(of)), remarks or {})


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


def of_vms(names):
    """VMs of these names on a host."""
    return estate(host(ESX1), *(guest(Target("vm", n, f"VirtualMachine:vm-{i}"), ESX1) for i, n in enumerate(names)))


def addressed(count, name="esx{:02}"):
    """Hosts with a VMkernel adapter of the same port group, each with an address of its own."""
    hosts = [Target("host", name.format(n), f"HostSystem:host-{n}") for n in range(1, count + 1)]
    return estate(*(host(h, config__network__vnic=(kernel_adapter(n),)) for n, h in enumerate(hosts, 1)))


def kernel_adapter(number):
    ip = {"_typeName": "HostIpConfig", "dhcp": False, "ipAddress": f"10.20.0.{number}", "subnetMask": "255.255.0.0"}
    port = {"_typeName": "DistributedVirtualSwitchPortConnection", "portgroupKey": LAN.partition(":")[2]}
    spec = {"_typeName": "HostVirtualNicSpec", "ip": ip, "mtu": 1500, "distributedVirtualPort": port}
    return {"_typeName": "HostVirtualNic", "device": "vmk0", "portgroup": "", "spec": spec}


def drawn_farm(number):
    """Hosts and VMs that have some settings alike, by chance."""
    dice = Random(number)
    hosts = [Target("host", f"esx{n:02}", f"HostSystem:host-{n}") for n in range(1, dice.randint(2, 9))]
    vms = [Target("vm", dice.choice(["vm-", "v m ", "v,"]) + str(n), f"VirtualMachine:vm-{n}") for n in range(9)]
    return estate(
        *(host(h, active=dice.choice(["shared", "sharedDirect"]), config__network__vnic=(kernel_adapter(n),),
               probes=dice.choice([{}, smi({PCI[0]: ON, PCI[1]: dice.choice([ON, OFF])})]))
          for n, h in enumerate(hosts, 1)),
        *(guest(v, dice.choice(hosts), config__version=dice.choice(["vmx-17", "vmx-19"])) for v in vms),
    )  # fmt: skip


FARMS = {"finished": finished_farm, "plain": plain_farm, "instances": instances, "odd": odd_names}


@pytest.mark.parametrize("farm", FARMS.values(), ids=FARMS)
def test_shown_and_planned_again_nothing_changes(farm, tmp_path):
    of = farm()
    _, plan = planned_again(shown(of), of, tmp_path)
    assert not plan.steps, [i for i in plan.items if i.changes]
    assert not plan.problems
    assert {i.target for i in plan.items} == {*of.hosts, *of.vms}


def test_the_text_is_what_a_person_would_write():
    text = shown(finished_farm())
    assert "\n\n- name: All hosts\n  hosts: [esx01, esx02]\n" in text
    assert "  graphics: {default_type: shared_direct, assignment_policy: performance}\n" in text
    assert "  mig: {mode: enabled, layout: []}\n" in text
    assert "\n\n- name: All VMs\n  vms: train-[01:04]\n" in text
    assert "  pvrdma: [{port_group: dvpg-rdma, protocol: rocev2}]\n" in text
    assert "  vgpu: {profiles: [grid_a100-3-20c], uvm: false}\n" in text
    assert text.startswith("# vCenter 7.0.2, as it was read\n")


def yaml_data(text):
    return parse(text, "shown.yml").data


def stated(playbook, of):
    """What a playbook wants of each target, spelled out for that target."""
    seen = view(of)
    wanted = desired(playbook, INVENTORY, of)
    return {t: {s.kind: s.settle(t, seen) for s in plan.states} for t, plan in wanted.items()}


def written_alone(of):
    """The same of a playbook with a play for each target and each of its states."""
    seen = view(of)
    return {t: {s.kind: s.settle(t, seen) for s in own} for t, own in exported(of).items() if own}


@pytest.mark.parametrize("farm", [*FARMS.values(), *(partial(drawn_farm, n) for n in range(30))])
def test_grouped_plays_want_the_same_of_each_target(farm, tmp_path):
    of = farm()
    path = tmp_path / "shown.yml"
    path.write_text(shown(of), encoding="utf-8")
    assert stated(load_playbook(path, kinds()), of) == written_alone(of)


def test_addresses_are_stated_in_one_play(tmp_path):
    text = shown(addressed(64))
    assert text.count("vmkernel:") == 1
    assert 'esx64: "10.20.0.64/16"' in text
    assert text.count("mtu: 1500") == 1


def test_twins_keep_their_addresses_apart(tmp_path):
    """The mapping of addresses goes by name, which two hosts may share."""
    of = addressed(2, name="esx")
    path = tmp_path / "shown.yml"
    path.write_text(shown(of), encoding="utf-8")
    states = stated(load_playbook(path, kinds()), of)
    assert {s["vmkernel"].adapters["dvpg-lan"].address for s in states.values()} == {"10.20.0.1/16", "10.20.0.2/16"}


def test_each_setting_is_written_once_however_many_have_it():
    few, many = (shown(of_vms([f"train-{n:05}" for n in range(count)])) for count in (300, 10_000))
    assert many.count("\n") == few.count("\n") < 20


HOSTILE = ["a", "b", "a,b", "a:b", "all", "/a", "a/b", "[a]", "a*", "!a", "&a", "@a", "-", "GPU VM 1", "GPU VM 2",
           "GPU VM 3", " a", "a ", "t-[1:3]", "t-1", "t-2", "t-3", "t-4", "gpu_hosts", "t-08", "t-09", "t-10", "#",
           "yes", "null", "~", "1.5", "0x1",
           "t~1", "a b~c", "t-1\u202e", "", "'", '"', "{a}", "a: b", "a #b"]  # fmt: skip


@given(st.lists(st.sampled_from(HOSTILE) | st.text("ab[]:,!&* /-01#\"'", max_size=6), max_size=12), st.randoms())
def test_a_pattern_means_its_targets_and_no_others(names, dice):
    of = of_vms(names)
    chosen = [t for t in of.vms if dice.random() < 0.7]
    inventory = replace(
        INVENTORY, vms={"gpu_hosts": InventoryGroup("gpu_hosts", VmSelector(datacenter="DC0"), Mark(""))}
    )
    text = playbook_text(of, [(chosen, (Vgpu(profiles=()),))] if chosen else [], {}, {"gpu_hosts": frozenset()})
    plays = yaml_data(text) or ()
    assert len(plays) == bool(chosen)
    for play in plays:
        given = play["vms"] if isinstance(play["vms"], tuple) else (play["vms"],)
        assert set(select(",".join(given), "vm", inventory, of, mark=Mark(""))) == set(chosen)


def test_more_names_than_a_pattern_takes_are_several_plays():
    dice = Random(1)
    names = [f"vm-{dice.randbytes(12).hex()}" for _ in range(600)]
    plays = [play for play in yaml_data(shown(of_vms(names))) if "vms" in play]
    assert len(plays) > 3
    assert sorted(name for play in plays for name in play["vms"]) == sorted(names)
    assert all(len(",".join(play["vms"])) <= MAX_LENGTH for play in plays)


def test_the_same_remark_of_many_is_one():
    of = of_vms([f"train-{n:03}" for n in range(1, 257)])
    text = shown(of, dict.fromkeys(of.vms, "vgpu left out: " + "a reason of many words " * 8))
    remarks = [line for line in text.splitlines() if line.startswith("# train")]
    assert [line[:19] for line in remarks] == ["# train-[001:256]: "]
    assert all(len(line) <= 100 for line in text.splitlines())


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
