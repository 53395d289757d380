"""The PVRDMA settings of a host: one option and one ruleset, each only when it differs."""

from __future__ import annotations

import pytest
from pydantic import ValidationError
from support.estates import ESX1, estate, host, state_of, view
from support.judging import judge, plan_one, steps_of, words
from support.plays import READY

from vsphere_ai.model.facts import Facts
from vsphere_ai.resources.pvrdma_host import PvrdmaHost

ALONE = READY

OPEN = ({"_typeName": "HostFirewallRuleset", "key": "pvrdma", "enabled": True},)
OPTION = "option:Net.PVRDMAVmknic"


def test_both_are_set_when_both_differ():
    judged = judge(PvrdmaHost(vmknic="vmk2", firewall=True), ESX1, estate(host(ESX1)))
    assert judged.fields == {"vmknic": ("", "vmk2"), "firewall": (False, True)}
    option, ruleset = judged.steps
    assert (option.path, option.method) == ("configManager.advancedOption", "UpdateOptions")
    assert option.args == {"changedValue": ({"_typeName": "OptionValue", "key": "Net.PVRDMAVmknic", "value": "vmk2"},)}
    assert (ruleset.path, ruleset.method) == ("configManager.firewallSystem", "EnableRuleset")
    assert ruleset.args == {"id": "pvrdma"}


@pytest.mark.parametrize(
    ("more", "wanted", "methods"),
    [
        ({}, {"vmknic": "vmk2"}, ["UpdateOptions"]),
        ({}, {"firewall": True}, ["EnableRuleset"]),
        ({"config__firewall__ruleset": OPEN}, {"firewall": False}, ["DisableRuleset"]),
        ({"config__firewall__ruleset": OPEN}, {"vmknic": "vmk2", "firewall": True}, ["UpdateOptions"]),
        ({OPTION: "vmk0"}, {"vmknic": "vmk2"}, ["UpdateOptions"]),
        ({OPTION: "vmk2", "config__firewall__ruleset": OPEN}, {"vmknic": "vmk2", "firewall": True}, []),
        ({}, {"firewall": False}, []),
    ],
)
def test_only_the_difference(more, wanted, methods):
    judged = judge(PvrdmaHost(**wanted), ESX1, estate(host(ESX1, **more)))
    assert not judged.problems
    assert [s.method for s in judged.steps] == methods


def test_neither_maintenance_nor_reboot_nor_ssh():
    plan = plan_one(estate(host(ESX1)), ESX1, PvrdmaHost(vmknic="vmk2", firewall=True))
    assert not plan.problems
    assert words(steps_of(plan, ESX1)) == ["UpdateOptions", "EnableRuleset", "as-planned"]
    assert plan.impact.maintenance == ()


@pytest.mark.parametrize(
    ("more", "wanted", "rule"),
    [
        ({}, {"vmknic": "vmk7"}, "pvrdma.vmknic-missing"),
        ({OPTION: None}, {"vmknic": "vmk2"}, "pvrdma.option-unknown"),
        ({"config__firewall__ruleset": ()}, {"firewall": True}, "pvrdma.ruleset-missing"),
    ],
)
def test_problems(more, wanted, rule):
    assert set(judge(PvrdmaHost(**wanted), ESX1, estate(host(ESX1, **more))).problems) == {rule}


def test_the_reason_why_the_option_is_not_readable_is_told():
    facts = host(ESX1, **{OPTION: None})
    facts = Facts(facts.ref, facts.properties, {OPTION: "no permission Host.Config.AdvancedConfig"}, facts.probes)
    (problem,) = judge(PvrdmaHost(vmknic="vmk2"), ESX1, estate(facts)).problems.values()
    assert "no permission" in problem.message


def test_all_problems_at_once():
    bare = host(ESX1, **{OPTION: None, "config__firewall__ruleset": (), "config__network__vnic": None})
    judged = judge(PvrdmaHost(vmknic="vmk2", firewall=True), ESX1, estate(bare))
    assert set(judged.problems) == {"pvrdma.vmknic-missing", "pvrdma.option-unknown", "pvrdma.ruleset-missing"}
    assert "it has none" in judged.problems["pvrdma.vmknic-missing"].remedy


@pytest.mark.parametrize("name", ["vmk", "vmnic2", "vmk2; reboot", "VMK2", ""])
def test_a_vmkernel_adapter_is_spelled_vmk_and_a_number(name):
    with pytest.raises(ValidationError):
        PvrdmaHost(vmknic=name)


def test_show_leaves_out_an_option_that_is_not_set():
    seen = view(estate(host(ESX1)))
    assert seen.state(ESX1.ref, "pvrdma_host").export(ESX1, seen, "playbook").state.vmknic is None
    assert state_of(PvrdmaHost, Facts("HostSystem:host-9")) is None


def test_none_clears_the_option():
    assert judge(PvrdmaHost(vmknic="none"), ESX1, estate(host(ESX1))).steps == ()
    judged = judge(PvrdmaHost(vmknic="none"), ESX1, estate(host(ESX1, **{OPTION: "vmk2"})))
    assert judged.fields == {"vmknic": ("vmk2", "")}
    assert judged.step.args["changedValue"][0]["value"] == ""
