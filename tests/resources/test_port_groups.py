"""Distributed port groups: made on their switch, adjusted setting by setting, proved for PVRDMA before they exist."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from pydantic import ValidationError
from support.estates import ESX1, made, view, vm, wants
from support.estates import guest as virtual_machine
from support.fabrics import (
    DC,
    LAN,
    PG,
    RDMA,
    fabric,
    machine,
    nic,
    order,
    port_group,
    proxy,
    switch,
    tagged,
    vmk,
)
from support.judging import judge, plan_one, words

from vsphere_ai.fabric.dvs import switch_of
from vsphere_ai.model.deferred import Deferred
from vsphere_ai.model.facts import Facts
from vsphere_ai.resources.port_groups import PortGroups
from vsphere_ai.resources.pvrdma import Pvrdma, PvrdmaAdapter
from vsphere_ai.resources.pvrdma_host import PvrdmaHost
from vsphere_ai.resources.switches import Switches

ALONE = "- datacenters: DC0\n  port_groups: {dvpg-new: {switch: dvs-rdma, vlan: 7}}\n"


def state(**groups):
    return PortGroups.model_validate({"port_groups": {k.replace("_", "-"): v for k, v in groups.items()}})


def judged(of, **groups):
    return judge(state(**groups), DC, of)


def sent(found):
    return found.step.args["spec"]["defaultPortConfig"]


def test_a_new_port_group_is_added_to_its_switch():
    found = judged(fabric(), new={"switch": "dvs-lan", "vlan": 30, "active_uplinks": ("Uplink 2",)})
    assert found.problems == {}
    assert (found.step.on, found.step.method) == (LAN, "AddDVPortgroup_Task")
    (spec,) = found.step.args["spec"]
    assert (spec["name"], spec["type"], spec["autoExpand"]) == ("new", "earlyBinding", True)
    config = spec["defaultPortConfig"]
    assert config["vlan"]["vlanId"] == 30
    assert config["uplinkTeamingPolicy"]["uplinkPortOrder"] == {
        "_typeName": "VMwareUplinkPortOrderPolicy", "inherited": False, "activeUplinkPort": ("Uplink 2",),
    }  # fmt: skip
    assert set(config) == {"_typeName", "vlan", "uplinkTeamingPolicy"}


def test_a_new_port_group_without_words_is_untagged_and_takes_over_the_rest():
    (spec,) = judged(fabric(), new={"switch": "dvs-lan"}).step.args["spec"]
    assert spec["defaultPortConfig"]["vlan"]["vlanId"] == 0
    assert set(spec["defaultPortConfig"]) == {"_typeName", "vlan"}


def test_only_the_difference_is_sent_for_the_version_it_was_planned_with():
    found = judged(fabric(), dvpg_rdma={"vlan": 200, "teaming": "loadbalance_srcid", "mac_learning": False})
    assert found.fields == {"dvpg-rdma vlan": (100, 200)}
    assert (found.step.on, found.step.method) == (f"{PG}:dvportgroup-1", "ReconfigureDVPortgroup_Task")
    assert found.step.args["spec"]["configVersion"] == "7"
    assert set(sent(found)) == {"_typeName", "vlan"}


@pytest.mark.parametrize(
    ("written", "read_as", "spans"),
    [
        (("0-4094",), ("0-4094",), [(0, 4094)]),
        (("300", "100-199", "200"), ("100-200", "300"), [(100, 200), (300, 300)]),
        (("5", "7", "6"), ("5-7",), [(5, 7)]),
        ((100,), ("100",), [(100, 100)]),
    ],
)
def test_a_trunk(written, read_as, spans):
    found = judged(fabric(), dvpg_rdma={"trunk": written})
    assert found.settled.port_groups["dvpg-rdma"].trunk == read_as
    assert [(r["start"], r["end"]) for r in sent(found)["vlan"]["vlanId"]] == spans


def test_a_trunk_that_is_there_and_back_to_a_vlan():
    spans = ({"start": 100, "end": 199}, {"start": 200, "end": 200})
    tag = {"_typeName": "VmwareDistributedVirtualSwitchTrunkVlanSpec", "vlanId": spans}
    of = fabric(port_group("dvportgroup-1", "dvpg-rdma", vlan=tag))
    assert judged(of, dvpg_rdma={"trunk": ("100-200",)}).fields == {}
    assert sent(judged(of, dvpg_rdma={"vlan": 0}))["vlan"]["vlanId"] == 0


def teaming(found):
    return sent(found)["uplinkTeamingPolicy"]


def test_one_active_uplink_and_the_others_unused():
    found = judged(fabric(), dvpg_rdma={"active_uplinks": ("Uplink 1",)})
    assert found.fields == {"dvpg-rdma active_uplinks": (("Uplink 1", "Uplink 2"), ("Uplink 1",))}
    policy = teaming(found)
    assert policy["uplinkPortOrder"]["activeUplinkPort"] == ("Uplink 1",)
    assert "standbyUplinkPort" not in policy["uplinkPortOrder"]
    assert (policy["inherited"], policy["notifySwitches"]["inherited"]) == (False, True)


def test_an_uplink_moves_from_standby_to_active():
    there = {"uplinkPortOrder": order("Uplink 1", standby=("Uplink 2",))}
    of = fabric(port_group("dvportgroup-1", "dvpg-rdma", uplinkTeamingPolicy=there))
    found = judged(of, dvpg_rdma={"active_uplinks": ("Uplink 2",)})
    assert found.settled.port_groups["dvpg-rdma"].standby_uplinks == ()
    assert "standbyUplinkPort" not in teaming(found)["uplinkPortOrder"]
    swapped = judged(of, dvpg_rdma={"active_uplinks": ("Uplink 2",), "standby_uplinks": ("Uplink 1",)})
    assert teaming(swapped)["uplinkPortOrder"]["standbyUplinkPort"] == ("Uplink 1",)
    down = judged(of, dvpg_rdma={"standby_uplinks": ("Uplink 1",)})
    assert down.settled.port_groups["dvpg-rdma"].active_uplinks == ()


def test_the_spread_alone():
    found = judged(fabric(), dvpg_rdma={"teaming": "loadbalance_loadbased"})
    assert teaming(found)["policy"]["value"] == "loadbalance_loadbased"
    assert teaming(found)["uplinkPortOrder"]["inherited"]


def test_security_and_mac_learning_are_one_policy_on_a_new_switch():
    found = judged(fabric(), dvpg_rdma={"security": {"forged_transmits": True}, "mac_learning": True})
    policy = sent(found)["macManagementPolicy"]
    assert (policy["forgedTransmits"], policy["macChanges"], policy["inherited"]) == (True, False, False)
    learning = policy["macLearningPolicy"]
    assert (learning["enabled"], learning["limit"], learning["inherited"]) == (True, 99, False)


def test_an_old_switch_has_the_security_policy_only():
    old = switch(config__productInfo={"version": "6.5.0"})
    there = {"allowPromiscuous": {"value": False}, "macChanges": {"value": True}}
    of = fabric(old, port_group("dvportgroup-1", "dvpg-rdma", macManagementPolicy=None, securityPolicy=there))
    assert judged(of, dvpg_rdma={"security": {"mac_changes": True}, "mac_learning": False}).fields == {}
    found = judged(of, dvpg_rdma={"security": {"promiscuous": True}})
    assert sent(found)["securityPolicy"]["allowPromiscuous"]["value"] is True
    assert set(judged(of, dvpg_rdma={"mac_learning": True}).problems) == {"port_groups.mac-learning"}


def test_nothing_restarts():
    plan = plan_one(fabric(), DC, state(dvpg_rdma={"vlan": 5}))
    assert words([p.step for p in plan.steps]) == ["ReconfigureDVPortgroup_Task", "as-planned"]
    assert plan.problems == ()


# -- problems

ONE_TWICE = {"active_uplinks": ("Uplink 1",), "standby_uplinks": ("Uplink 1",)}


@pytest.mark.parametrize(
    ("name", "wanted", "rule", "said"),
    [
        ("new", {}, "port_groups.switch", "no distributed switch is named"),
        ("new", {"switch": "dvs-x"}, "port_groups.switch", "there is no distributed switch dvs-x"),
        ("dvs-lan", {"switch": "dvs-lan"}, "port_groups.name", "another network"),
        ("dvpg-rdma", {"switch": "dvs-lan"}, "port_groups.other-switch", "is on dvs-rdma"),
        ("dvpg-rdma", {"active_uplinks": ("Uplink 9",)}, "port_groups.uplinks", "no uplink Uplink 9"),
        ("new", {**ONE_TWICE, "switch": "dvs-lan"}, "port_groups.uplinks", "twice"),
        ("new", {"switch": "dvs-lan", "standby_uplinks": ("Uplink 1",)}, "port_groups.uplinks", "alone"),
        ("dvs-rdma-DVUplinks", {"vlan": 3}, "port_groups.foreign", "carries the uplinks"),
    ],
)  # fmt: skip
def test_problems(name, wanted, rule, said):
    found = judge(PortGroups.model_validate({"port_groups": {name: wanted}}), DC, fabric())
    assert set(found.problems) == {rule}
    assert said in found.problems[rule].message


def test_port_groups_of_nsx_and_unreadable_ones_are_left_alone():
    nsx = port_group("dvportgroup-1", "dvpg-rdma", config__backingType="nsx")
    assert set(judged(fabric(nsx), dvpg_rdma={"switch": "dvs-rdma", "vlan": 3}).problems) == {"port_groups.foreign"}
    blank = Facts(f"{PG}:dvportgroup-1", {"name": "dvpg-rdma", "parent": "Folder:group-n1", "key": "dvportgroup-1"})
    found = judged(fabric(blank), dvpg_rdma={"switch": "dvs-rdma", "vlan": 3})
    assert set(found.problems) == {"port_groups.unreadable"}


def managed(nics, *, up=True):
    cards = ("vmnic0", "vmnic1") if up else (nic("vmnic0", link=False), "vmnic1")
    return machine(ESX1, proxy("dvs-lan", nics), nics=cards, vmks=(vmk("vmk0", "dvs-lan", "dvportgroup-2"),),
                   config__virtualNicManagerInfo__netConfig=tagged("vmk0"))  # fmt: skip


@pytest.mark.parametrize(
    ("nics", "active", "refused"),
    [
        ({"Uplink 1": "vmnic0"}, ("Uplink 2",), True),
        ({"Uplink 1": "vmnic0"}, ("Uplink 1",), False),
        ({"Uplink 1": "vmnic0", "Uplink 2": "vmnic1"}, ("Uplink 2",), False),
        ({}, ("Uplink 2",), False),  # it is cut off already
    ],
)
def test_the_management_network_of_a_host_keeps_a_nic(nics, active, refused):
    found = judged(fabric(managed(nics)), dvpg_lan={"active_uplinks": active})
    assert set(found.problems) == ({"port_groups.management"} if refused else set())


def test_a_nic_without_link_does_not_carry_it():
    of = fabric(managed({"Uplink 1": "vmnic0", "Uplink 2": "vmnic1"}, up=False))
    assert set(judged(of, dvpg_lan={"active_uplinks": ("Uplink 1",)}).problems) == {"port_groups.management"}


def test_a_vlan_under_the_management_network_is_remarked():
    of = fabric(managed({"Uplink 1": "vmnic0"}))
    assert "esx01" in judged(of, dvpg_lan={"vlan": 7}).notes[0]
    assert judged(of, dvpg_lan={"vlan": 100}).notes == ()


def test_mac_learning_without_forged_transmits_is_remarked():
    assert "no effect" in judged(fabric(), dvpg_rdma={"mac_learning": True}).notes[0]


@pytest.mark.parametrize(
    "wanted",
    [
        {"vlan": 4095},
        {"vlan": -1},
        {"trunk": ()},
        {"trunk": ("5-4",)},
        {"trunk": ("1-4095",)},
        {"trunk": ("x",)},
        {"trunk": ("1-²",)},
        {"vlan": 1, "trunk": ("1",)},
        {"active_uplinks": ()},
        {"teaming": "lacp"},
        {"security": {"trust": True}},
    ],
)
def test_nonsense_is_no_port_group(wanted):
    with pytest.raises(ValidationError):
        state(new=wanted)


# -- what others see, and show


def test_show_gives_a_playbook_whose_plan_is_empty():
    of = fabric(port_group("dvportgroup-3", "dvpg-trunk", LAN, vlan={"vlanId": ({"start": 0, "end": 4094},)}))
    seen = view(of)
    shown = seen.state(DC.ref, "port_groups").export(DC, seen, "playbook").state
    again = PortGroups.model_validate_json(json.dumps(shown.model_dump(mode="json", exclude_none=True)))
    assert set(again.port_groups) == {"dvpg-rdma", "dvpg-lan", "dvpg-trunk"}
    found = judge(again, DC, of)
    assert (found.fields, found.problems) == ({}, {})


def test_a_private_vlan_is_left_out_and_left_alone():
    private = {"_typeName": "VmwareDistributedVirtualSwitchPvlanSpec", "pvlanId": 5}
    of = fabric(port_group("dvportgroup-1", "dvpg-rdma", vlan=private))
    now = view(of).state(DC.ref, "port_groups")
    assert now.export(DC, view(of), "playbook").left_out == "the private VLANs of dvpg-rdma are left out"
    assert "vlan" not in sent(judged(of, dvpg_rdma={"active_uplinks": ("Uplink 1",)}))


def rdma_machine():
    return machine(ESX1, proxy("dvs-rdma", {"Uplink 1": "vmnic4"}), vmks=({"device": "vmk2"},))


def test_an_adapter_is_proved_along_a_port_group_of_the_same_plan():
    of = fabric(rdma_machine(), replace(virtual_machine(vm(1), ESX1)))
    desired = {
        DC: wants(state(new={"switch": "dvs-rdma", "vlan": 3, "active_uplinks": ("Uplink 1",)})),
        ESX1: wants(PvrdmaHost(vmknic="vmk2", firewall=True)),
        vm(1): wants(Pvrdma(adapters=(PvrdmaAdapter(port_group="new"),))),
    }
    plan = made(of, desired)
    assert plan.problems == ()
    (reconfigure,) = [p.step for p in plan.steps if getattr(p.step, "device_changes", ())]
    port = reconfigure.device_changes[0]["device"]["backing"]["port"]
    assert port["portgroupKey"] == Deferred(DC.ref, PG, "new", "key")
    assert port["switchUuid"] == "uuid of dvs-rdma"


def test_a_port_group_with_two_uplinks_is_not_proved_and_one_this_plan_mends_is():
    adapter = Pvrdma(adapters=(PvrdmaAdapter(port_group="dvpg-rdma"),))
    of = fabric(rdma_machine(), virtual_machine(vm(1), ESX1))
    host = wants(PvrdmaHost(vmknic="vmk2", firewall=True))
    broken = made(of, {ESX1: host, vm(1): wants(adapter)})
    assert {p.rule for p in broken.problems} == {"pvrdma.not-rdma"}
    mended = made(
        of, {DC: wants(state(dvpg_rdma={"active_uplinks": ("Uplink 1",)})), ESX1: host, vm(1): wants(adapter)}
    )
    assert mended.problems == ()


def test_a_port_group_on_a_switch_of_the_same_plan():
    new = Switches.model_validate({"switches": {"new": {"uplinks": ("A",)}}})
    plan = plan_one(fabric(), DC, new, state(pg={"switch": "new", "vlan": 3}))
    assert plan.problems == ()
    make, add, _ = (p.step for p in plan.steps)
    assert (make.method, add.method) == ("CreateDVS_Task", "AddDVPortgroup_Task")
    assert add.on.name == "new"
    seen = view(fabric())
    after = seen.with_facts(new.settle(DC, seen).project(DC, seen, "plan").facts)
    wanted = state(pg={"switch": "new", "vlan": 3}).settle(DC, after)
    (group,) = wanted.project(DC, after, "plan").facts
    assert switch_of(after.estate, group).name == "new"
    assert group.get("config.defaultPortConfig")["uplinkTeamingPolicy"]["uplinkPortOrder"]["activeUplinkPort"] == ("A",)
    assert RDMA in after.estate.objects
