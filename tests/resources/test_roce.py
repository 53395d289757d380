"""RoCE: only our options of a module's string, one restart, and nothing that could not work."""

from __future__ import annotations

import pytest
from pydantic import ValidationError
from support.estates import ESX1, estate, host, state_of, view
from support.judging import judge, plan_one, rules, steps_of, words
from support.plays import ONE

from vsphere_ai.fabric.nic_settings import Pause
from vsphere_ai.model.facts import Facts
from vsphere_ai.resources.nics import HostNics, NicSettings
from vsphere_ai.resources.roce import Roce

ALONE = f"{ONE}  roce: {{pfc_priority: 3, trust: dscp, dscp: 26}}\n"

CORE, RDMA = "query:nmlx5_core", "query:nmlx5_rdma"
DEVICE = {
    "_typeName": "HostRdmaDevice", "key": "key-vmrdma0", "device": "vmrdma0", "driver": "nmlx5_rdma",
    "backing": {"pairedUplink": "key-vmnic4"},
    "connectionInfo": {"state": "active", "mtu": 4096, "speedInMbps": 100000},
    "capability": {"roceV1Capable": True, "roceV2Capable": True, "iWarpCapable": False},
}  # fmt: skip
V2_ONLY = {**DEVICE, "device": "vmrdma1", "capability": {"roceV1Capable": False, "roceV2Capable": True}}
NICS = ({"key": "key-vmnic4", "device": "vmnic4", "driver": "nmlx5_core"},
        {"key": "key-vmnic5", "device": "vmnic5", "driver": "i40en"})  # fmt: skip


def esx(core="", rdma="", devices=(DEVICE,), **more):
    found = {"config__network__rdmaDevice": devices, "config__network__pnic": NICS}
    return host(ESX1, **found, **{CORE: core, RDMA: rdma}, **more)


def sent(judged):
    return {s.args["name"]: s.args["options"] for s in judged.steps}


@pytest.mark.parametrize(
    ("core", "rdma", "fields", "options"),
    [
        ("", "", {"pfc_priority": 3}, {"nmlx5_core": "pfctx=0x08 pfcrx=0x08"}),
        ("max_vfs=8,8 drss=4", "", {"pfc_priority": 0},
         {"nmlx5_core": "max_vfs=8,8 drss=4 pfctx=0x01 pfcrx=0x01"}),
        ("pfctx=0x08 max_vfs=8 pfcrx=0x08", "", {"pfc_priority": "off"}, {"nmlx5_core": "max_vfs=8"}),
        ("pfctx=8 pfcrx=0x8", "", {"pfc_priority": 3}, {}),
        ("pfctx=0x08", "", {"pfc_priority": 3}, {"nmlx5_core": "pfctx=0x08 pfcrx=0x08"}),
        ("pfctx=0x18 pfcrx=0x18", "", {"pfc_priority": 4}, {"nmlx5_core": "pfctx=0x10 pfcrx=0x10"}),
        ("", "", {"trust": "dscp", "dscp": 26}, {"nmlx5_core": "trust_state=2", "nmlx5_rdma": "dscp_force=26"}),
        ("", "", {"trust": "pcp"}, {}),
        ("trust_state=2", "", {"trust": "pcp"}, {"nmlx5_core": "trust_state=1"}),
        ("", "dscp_force=26 x=1", {"dscp": "off", "pcp": 3}, {"nmlx5_rdma": "x=1 pcp_force=3"}),
        ("", "dscp_force=-1", {"dscp": "off"}, {}),
        ("ecn=1", "", {"ecn": True}, {}),
        ("", "", {"ecn": True}, {"nmlx5_core": "ecn=1"}),
        ("ecn=1", "", {"ecn": False}, {"nmlx5_core": "ecn=0"}),
        ("", "", {"version": "rocev2"}, {}),
    ],
)  # fmt: skip
def test_only_what_differs_and_all_the_rest_as_it_was(core, rdma, fields, options):
    judged = judge(Roce(**fields), ESX1, estate(esx(core, rdma)))
    assert not judged.problems
    assert sent(judged) == options


def test_one_restart_in_one_window():
    plan = plan_one(estate(esx()), ESX1, Roce(pfc_priority=3, trust="dscp", dscp=26))
    assert not plan.problems
    assert words(steps_of(plan, ESX1))[:5] == ["enter-maintenance", "UpdateModuleOptionString",
                                              "UpdateModuleOptionString", "reboot", "host-back"]  # fmt: skip
    assert plan.impact.reboots == (ESX1,)
    assert all(s.needs_reboot for s in steps_of(plan, ESX1) if getattr(s, "method", "") == "UpdateModuleOptionString")


def test_what_is_observed():
    state = state_of(Roce, esx("pfctx=0x08 pfcrx=0x08 trust_state=2", "dscp_force=26"))
    assert (state.version, state.pfc_priority, state.trust, state.dscp, state.pcp, state.ecn) == (
        "both", 3, "dscp", 26, "off", False,
    )  # fmt: skip
    assert state.devices == {"vmrdma0": "vmnic4, nmlx5_rdma, active, 100 Gbit/s, MTU 4096, RoCE v1 v2"}
    assert state_of(Roce, Facts("HostSystem:host-9")) is None


def test_the_driver_and_firmware_of_a_nic_are_shown():
    nic = {**NICS[0], "driverVersion": "4.19.16.10", "firmwareVersion": "20.32.1010"}
    facts = host(ESX1, config__network__rdmaDevice=(DEVICE,), config__network__pnic=(nic,))
    assert "firmware 20.32.1010, active" in state_of(Roce, facts).devices["vmrdma0"]


@pytest.mark.parametrize(
    ("facts", "fields", "rule"),
    [
        (esx(devices=()), {"pfc_priority": 3}, "roce.no-device"),
        (esx(devices=None), {"pfc_priority": 3}, "roce.no-device"),  # vCenter leaves out what is empty
        (Facts(ESX1.ref, {"name": "esx01"}), {"pfc_priority": 3}, "roce.unreadable"),
        (esx(devices=({**DEVICE, "driver": "irdman"},)), {"pfc_priority": 3}, "roce.driver"),
        (esx(devices=(DEVICE, V2_ONLY)), {"version": "both"}, "roce.version"),
        (esx(devices=(V2_ONLY,)), {"version": "rocev1"}, "roce.version"),
        (esx(), {"trust": "pcp", "dscp": 26}, "roce.trust"),
        (esx(), {"dscp": 26}, "roce.trust"),  # the driver trusts the VLAN tag unless options say otherwise
    ],
)
def test_problems(facts, fields, rule):
    assert set(judge(Roce(**fields), ESX1, estate(facts)).problems) == {rule}


def test_another_driver_may_have_its_version_proved():
    seen = estate(esx(devices=({**V2_ONLY, "driver": "irdman"},)))
    assert not judge(Roce(version="rocev2"), ESX1, seen).problems


def test_why_options_cannot_be_read_is_told():
    facts = esx()
    properties = {k: v for k, v in facts.properties.items() if k != CORE}
    facts = Facts(facts.ref, properties, {CORE: "no permission Host.Config.Settings"}, facts.probes)
    (problem,) = judge(Roce(pfc_priority=3), ESX1, estate(facts)).problems.values()
    assert (problem.rule, "Host.Config.Settings" in problem.message) == ("roce.options-unreadable", True)
    assert not judge(Roce(dscp="off"), ESX1, estate(facts)).problems


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"pfc_priority": 3, "trust": "dscp", "dscp": 26}, ["switch need PFC on priority 3"]),
        ({"pfc_priority": 3, "trust": "dscp", "dscp": 34}, ["switch need PFC", "DSCP 34 is priority 4"]),
        ({"pfc_priority": 3, "trust": "pcp", "pcp": 4}, ["switch need PFC", "marked with priority 4"]),
        ({"pfc_priority": "off"}, []),
    ],
)
def test_notes(fields, said):
    notes = judge(Roce(**fields), ESX1, estate(esx())).notes
    assert len(notes) == len(said)
    assert all(words in note for words, note in zip(said, notes, strict=True))


def test_pfc_and_global_pause_exclude_each_other():
    on = HostNics(nics={"vmnic4": NicSettings(pause=Pause(rx=True, tx=True))})
    listing = "NIC  Pause Params Supported  Pause RX  Pause TX\n---  ---  ---  ---\nvmnic4  true  false  false\n"
    from vsphere_ai.model.facts import CommandOutput

    facts = esx()
    facts = Facts(facts.ref, facts.properties, {}, {**facts.probes, "pause-params": CommandOutput(0, listing)})
    assert rules(plan_one(estate(facts), ESX1, Roce(pfc_priority=3), on)) == {("esx01", "roce.pause")}
    assert rules(plan_one(estate(facts), ESX1, Roce(pfc_priority="off"), on)) == set()


@pytest.mark.parametrize(
    ("core", "rdma", "shown"),
    [
        ("pfctx=0x08 pfcrx=0x08 trust_state=2", "dscp_force=26", (3, "dscp", 26, "off", False)),
        ("", "", ("off", "pcp", "off", "off", False)),
    ],
)
def test_show_states_every_option(core, rdma, shown):
    seen = view(estate(esx(core, rdma)))
    stated = seen.state(ESX1.ref, "roce").export(ESX1, seen, "playbook").state
    assert (stated.pfc_priority, stated.trust, stated.dscp, stated.pcp, stated.ecn) == shown
    assert (stated.version, stated.devices) == (None, None)
    again = judge(Roce.model_validate(stated.model_dump(exclude_none=True)), ESX1, seen.estate)
    assert (again.fields, again.problems) == ({}, {})


def test_a_host_without_such_nics_states_nothing():
    facts = host(ESX1, config__network__rdmaDevice=(), config__network__pnic=NICS)
    seen = view(estate(facts))
    assert seen.state(ESX1.ref, "roce").export(ESX1, seen, "playbook").state is None


def test_what_cannot_be_stated_is_said():
    seen = view(estate(esx("pfctx=0x18 pfcrx=0x08")))
    state = seen.state(ESX1.ref, "roce")
    assert state.export(ESX1, seen, "playbook").left_out == "roce left out: PFC is set to pfctx=0x18 pfcrx=0x08"
    assert state.export(ESX1, seen, "playbook").state.pfc_priority is None
    judged = judge(Roce(ecn=True), ESX1, seen.estate)  # and is left as it is
    assert sent(judged) == {"nmlx5_core": "pfctx=0x18 pfcrx=0x08 ecn=1"}


@pytest.mark.parametrize(
    "fields",
    [{"pfc_priority": 8}, {"pfc_priority": -1}, {"pfc_priority": True}, {"dscp": 64}, {"pcp": 8}, {"version": "v2"}],
)
def test_values_that_do_not_exist(fields):
    with pytest.raises(ValidationError):
        Roce(**fields)
