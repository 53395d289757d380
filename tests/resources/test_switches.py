"""Distributed switches: made, adjusted, upgraded; what is in use or not named stays."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError
from support.estates import ESX1, ESX2, host, view
from support.fabrics import DC, LAN, RDMA, fabric, machine, member, order, port_group, proxy, switch, vmk
from support.judging import judge, plan_one, words

from vsphere_ai.model.facts import Facts
from vsphere_ai.resources.switches import Switches
from vsphere_ai.resources.vmkernel import VmkernelAdapters

ALONE = "- datacenters: DC0\n  switches: {dvs-new: {mtu: 9000, uplinks: [Uplink 1]}}\n"


def state(**switches):
    return Switches.model_validate({"switches": {k.replace("_", "-"): v for k, v in switches.items()}})


def judged(of, **switches):
    return judge(state(**switches), DC, of)


def test_a_new_switch_is_made_in_the_network_folder():
    found = judged(fabric(), new={"version": "7.0.2", "mtu": 9000, "uplinks": ("A",)})
    assert found.problems == {}
    (make,) = found.steps
    assert (make.path, make.method, make.on) == ("networkFolder", "CreateDVS_Task", "")
    spec = make.args["spec"]
    assert spec["productInfo"]["version"] == "7.0.2"
    assert spec["configSpec"] == {
        "_typeName": "VMwareDVSConfigSpec",
        "name": "new",
        "maxMtu": 9000,
        "uplinkPortPolicy": {"_typeName": "DVSNameArrayUplinkPortPolicy", "uplinkPortName": ("A",)},
    }


def test_a_new_switch_without_words_is_what_the_client_makes():
    found = judged(fabric(), new={})
    assert "productInfo" not in found.step.args["spec"]
    config = found.step.args["spec"]["configSpec"]
    assert (config["maxMtu"], len(config["uplinkPortPolicy"]["uplinkPortName"])) == (1500, 4)


def test_what_a_new_switch_gets_afterwards_is_looked_up():
    found = judged(fabric(), new={"nioc": True, "shares": {"vmotion": "low"}})
    assert words(found.steps) == ["CreateDVS_Task", "EnableNetworkResourceManagement", "ReconfigureDvs_Task"]
    assert [s.on.name for s in found.steps[1:]] == ["new", "new"]
    (given,) = found.steps[2].args["spec"]["infrastructureTrafficResourceConfig"]
    assert (given["key"], given["allocationInfo"]["shares"]["shares"]) == ("vmotion", 25)


def test_only_the_difference_is_sent():
    found = judged(fabric(), dvs_rdma={"mtu": 9000, "uplinks": ("Uplink 2", "Uplink 1"), "nioc": True})
    assert found.fields == {"dvs-rdma mtu": (1500, 9000)}
    assert (found.step.on, found.step.method) == (RDMA, "ReconfigureDvs_Task")
    assert found.step.args["spec"] == {"_typeName": "VMwareDVSConfigSpec", "configVersion": "3", "maxMtu": 9000}


@pytest.mark.parametrize(
    ("wanted", "methods"),
    [
        ({}, []),
        ({"mtu": 1500, "version": "7.0.0", "nioc": True}, []),
        ({"shares": {"virtual_machine": "high", "vmotion": 50, "vsan": 33}}, []),
        ({"shares": {"vmotion": 60}}, ["ReconfigureDvs_Task"]),
        ({"nioc": False}, ["EnableNetworkResourceManagement"]),
        ({"version": "7.0.2", "mtu": 9000}, ["PerformDvsProductSpecOperation_Task", "ReconfigureDvs_Task"]),
        ({"uplinks": ("Uplink 1", "Uplink 2", "Uplink 3")}, ["ReconfigureDvs_Task"]),
    ],
)
def test_steps(wanted, methods):
    found = judged(fabric(), dvs_rdma=wanted)
    assert found.problems == {}
    assert words(found.steps) == methods


def test_shares_keep_limit_and_reservation():
    found = judged(fabric(), dvs_rdma={"shares": {"vsan": "normal", "backup": 7}})
    backup, vsan = found.step.args["spec"]["infrastructureTrafficResourceConfig"]
    assert vsan["allocationInfo"]["limit"] == -1
    assert vsan["allocationInfo"]["shares"] == {"_typeName": "SharesInfo", "shares": 50, "level": "normal"}
    assert (backup["key"], backup["allocationInfo"]["shares"]["level"]) == ("vdp", "custom")


def test_no_restart_and_no_host_is_touched():
    plan = plan_one(fabric(host(ESX1)), DC, state(dvs_rdma={"mtu": 9000}))
    assert plan.problems == ()
    assert [p.step.target for p in plan.steps] == [DC, DC]
    assert plan.impact.reboots == plan.impact.maintenance == ()


# -- problems


@pytest.mark.parametrize(
    ("wanted", "rule", "said"),
    [
        ({"version": "6.6.0"}, "switches.version", "cannot go back"),
        ({"version": "7.0.3"}, "switches.version", "vCenter 7.0.2 does not make"),
    ],
)
def test_problems(wanted, rule, said):
    found = judged(fabric(), dvs_rdma=wanted)
    assert set(found.problems) == {rule}
    assert said in found.problems[rule].message


def test_a_version_that_members_are_too_old_for():
    old = {"version": "7.0.0", "_typeName": "AboutInfo"}
    on = switch(config__host=(member(ESX1), member(ESX2)))
    found = judged(fabric(on, host(ESX1, config__product=old), host(ESX2)), dvs_rdma={"version": "7.0.2"})
    assert set(found.problems) == {"switches.host-version"}
    assert "esx01 (7.0.0)" in found.problems["switches.host-version"].message
    assert "esx02" not in found.problems["switches.host-version"].message


@pytest.mark.parametrize("name", ["dvpg-lan", "VM Network"])
def test_a_name_that_another_network_has(name):
    plain = Facts("Network:network-1", {"name": "VM Network", "parent": "Folder:group-n1"})
    found = judge(Switches.model_validate({"switches": {name: {}}}), DC, fabric(plain))
    assert set(found.problems) == {"switches.name"}


def test_a_switch_that_is_not_vmwares_or_cannot_be_read():
    blank = switch(config__maxMtu=None, config__uplinkPortPolicy=None)
    assert set(judged(fabric(blank), dvs_rdma={"mtu": 9000}).problems) == {"switches.unreadable"}


def jumbo(target, device="vmk2", mtu=9000, on="dvs-rdma"):
    found = vmk(device, on, "dvportgroup-1" if on == "dvs-rdma" else "dvportgroup-2")
    return machine(target, proxy("dvs-rdma", {"Uplink 1": "vmnic4"}),
                   vmks=({**found, "spec": {**found["spec"], "mtu": mtu}},))  # fmt: skip


LARGE = switch(config__maxMtu=9000)


def test_an_mtu_below_that_of_adapters_on_the_switch_is_refused():
    of = fabric(LARGE, jumbo(ESX1), jumbo(ESX2, "vmk7", 1501))
    found = judged(of, dvs_rdma={"mtu": 1500})
    assert set(found.problems) == {"switches.mtu"}
    assert found.problems["switches.mtu"].message.endswith("on it: esx01 vmk2 (9000), esx02 vmk7 (1501)")
    assert "keep mtu: 9000" in found.problems["switches.mtu"].remedy


@pytest.mark.parametrize(
    ("host_on_it", "size"),
    [(jumbo(ESX1), 9000), (jumbo(ESX1, mtu=1500), 1500), (jumbo(ESX1, on="dvs-lan"), 1500), (host(ESX1), 1500)],
)
def test_an_mtu_that_adapters_fit_in(host_on_it, size):
    assert judged(fabric(LARGE, host_on_it), dvs_rdma={"mtu": size}).problems == {}


def test_a_switch_that_grows_or_stays_is_no_fault_of_its_adapters():
    assert judged(fabric(jumbo(ESX1)), dvs_rdma={"mtu": 1600}).problems == {}
    assert judged(fabric(jumbo(ESX1)), dvs_rdma={"nioc": False}).problems == {}


@pytest.mark.parametrize(("lowered", "refused"), [({"mtu": 1500}, set()), ({"pvrdma": True}, {"switches.mtu"})])
def test_adapters_that_are_lowered_along(lowered, refused):
    said = {(ESX1.ref, "vmkernel"): VmkernelAdapters.model_validate({"adapters": {"dvpg-rdma": lowered}})}
    found = judge(state(dvs_rdma={"mtu": 1500}), DC, fabric(LARGE, jumbo(ESX1)), stated=said)
    assert set(found.problems) == refused


USED = (member(ESX1, ("vmnic4", "dvs-rdma/0"), ("vmnic5", "dvs-rdma/1")),)


def gone(*facts, nics=USED):
    return judged(fabric(switch(config__host=nics), *facts), dvs_rdma={"uplinks": ("Uplink 1",)})


def test_an_uplink_that_nobody_uses_goes():
    found = gone(machine(ESX1, proxy("dvs-rdma", {"Uplink 1": "vmnic4"})))
    assert found.problems == {}
    assert found.step.args["spec"]["uplinkPortPolicy"]["uplinkPortName"] == ("Uplink 1",)
    assert gone(nics=(member(ESX1),)).problems == {}


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        (machine(ESX1, proxy("dvs-rdma", {"Uplink 1": "vmnic4", "Uplink 2": "vmnic5"})), "vmnic5 of esx01"),
        (host(ESX1, config__network__proxySwitch=None), "perhaps esx01"),
        (port_group("dvportgroup-1", "dvpg-rdma", uplinkTeamingPolicy={"uplinkPortOrder": order("Uplink 2")}),
         "port group dvpg-rdma"),
    ],
)  # fmt: skip
def test_an_uplink_in_use_stays(facts, said):
    found = gone(facts, nics=USED if facts.ref.startswith("Host") else ())
    assert set(found.problems) == {"switches.uplinks"}
    assert said in found.problems["switches.uplinks"].message


def test_renaming_an_uplink_in_use_is_refused_too():
    on = fabric(switch(config__host=USED), machine(ESX1, proxy("dvs-rdma", {"Uplink 1": "vmnic4"})))
    assert set(judged(on, dvs_rdma={"uplinks": ("RDMA", "Uplink 2")}).problems) == {"switches.uplinks"}


@pytest.mark.parametrize(
    "wanted",
    [
        {"version": "7"},
        {"mtu": 1279},
        {"mtu": 9001},
        {"uplinks": ()},
        {"uplinks": ("",)},
        {"uplinks": ("A", "B", "A")},
        {"shares": {"vmotion": 0}},
        {"shares": {"vmotion": 101}},
        {"shares": {"tea": 5}},
        {"speed": 1},
    ],
)
def test_nonsense_is_no_switch(wanted):
    with pytest.raises(ValidationError):
        state(new=wanted)


def test_shares_without_network_io_control_are_remarked():
    assert "nioc: true" in judged(fabric(), dvs_rdma={"nioc": False, "shares": {"vmotion": 60}}).notes[0]
    assert judged(fabric(), dvs_rdma={"shares": {"vmotion": 60}}).notes == ()


# -- what others see, and show


def test_what_is_planned_is_seen():
    of = fabric(machine(ESX1, proxy("dvs-rdma"), proxy("dvs-lan")))
    wanted = state(dvs_rdma={"mtu": 9000, "uplinks": ("Uplink 1", "Uplink 2", "C")}, new={"mtu": 4000})
    after = view(of).with_facts(wanted.settle(DC, view(of)).project(DC, view(of), "plan").facts).estate
    assert (after[RDMA].get("config.maxMtu"), after[LAN].get("config.maxMtu")) == (9000, 1500)
    assert after[RDMA].get("config.uplinkPortPolicy")["uplinkPortName"] == ("Uplink 1", "Uplink 2", "C")
    assert {p["dvsName"]: p["mtu"] for p in after[ESX1.ref].get("config.network.proxySwitch")} == {
        "dvs-rdma": 9000, "dvs-lan": 1500,
    }  # fmt: skip
    (made,) = [f for f in after.of_type("DistributedVirtualSwitch") if f.name == "new"]
    assert made.ref.path == ()
    assert made.get("uuid").path == ("uuid",)
    assert after.datacenter_of(made.ref) == DC


def test_show_gives_a_playbook_whose_plan_is_empty():
    seen = view(fabric())
    shown = seen.state(DC.ref, "switches").export(DC, seen, "playbook").state
    again = Switches.model_validate_json(json.dumps(shown.model_dump(mode="json", exclude_none=True)))
    assert set(again.switches) == {"dvs-rdma", "dvs-lan"}
    found = judge(again, DC, fabric())
    assert (found.fields, found.problems, found.steps) == ({}, {}, ())


def test_a_datacenter_without_a_switch_says_nothing():
    bare = fabric(without=(RDMA, LAN))
    assert view(bare).state(DC.ref, "switches").export(DC, view(bare), "playbook").state is None


def test_the_switches_of_another_datacenter_are_not_seen():
    other = (
        Facts("Datacenter:dc-2", {"name": "DC1", "parent": "Folder:group-d1"}),
        switch("VmwareDistributedVirtualSwitch:dvs-9", "dvs-far", parent="Datacenter:dc-2"),
    )
    assert "dvs-far" not in view(fabric(*other)).state(DC.ref, "switches").switches


def test_shares_that_no_playbook_names_are_not_its_business():
    assert judged(fabric(), dvs_rdma={"nioc": False}).notes == ()
