"""The kind `power_policy`: one policy, chosen by the key that the host has for it."""

from __future__ import annotations

import pytest
from support.estates import ESX1, ESX2, estate, host, view
from support.judging import judge, plan_one, steps_of, words

from vsphere_ai.model.estate.host_corrections import HighPerformance
from vsphere_ai.resources.corrections import plays_of, text_of
from vsphere_ai.resources.power_policy import CAPABILITY, INFO, PowerPolicy

ALONE = "- hosts: esx01.lab.local\n  power_policy: high_performance\n"
BESIDE = "\n- hosts: esx03.lab.local\n  power_policy: low_power\n"
KEYS = {"static": 11, "dynamic": 12, "low": 13, "custom": 14}


def policy(short):
    return {"_typeName": "HostPowerPolicy", "key": KEYS[short], "shortName": short, "name": f"PowerPolicy.{short}"}


def esx(current="dynamic", available=tuple(KEYS), **more):
    shown = {
        INFO: {"_typeName": "PowerSystemInfo", "currentPolicy": policy(current)},
        CAPABILITY: {"_typeName": "PowerSystemCapability", "availablePolicy": tuple(map(policy, available))},
    }
    return estate(host(ESX1, **{**shown, **more}))


@pytest.mark.parametrize(
    ("wanted", "short"),
    [("high_performance", "static"), ("balanced", "dynamic"), ("low_power", "low"), ("custom", "custom")],
)
def test_as_wanted(wanted, short):
    judged = judge(PowerPolicy(policy=wanted), ESX1, esx(short))
    assert (judged.fields, judged.steps, judged.problems) == ({}, (), {})


def test_a_difference_is_set_by_the_key_of_this_host():
    judged = judge(PowerPolicy(policy="high_performance"), ESX1, esx())
    assert judged.fields == {"policy": ("balanced", "high_performance")}
    step = judged.step
    assert (step.path, step.method, step.args) == ("configManager.powerSystem", "ConfigurePowerPolicy", {"key": 11})


def test_neither_maintenance_nor_reboot():
    plan = plan_one(esx(), ESX1, PowerPolicy(policy="high_performance"))
    assert words(steps_of(plan, ESX1)) == ["ConfigurePowerPolicy", "as-planned"]
    assert plan.impact.maintenance == ()


@pytest.mark.parametrize(
    ("there", "rule"),
    [
        (esx(**{INFO: None}), "unreadable"),
        (esx(**{CAPABILITY: None}), "unreadable"),
        (esx(available=("dynamic", "low")), "unavailable"),
    ],
)
def test_problems(there, rule):
    problems = judge(PowerPolicy(policy="high_performance"), ESX1, there).problems
    assert set(problems) == {f"power_policy.{rule}"}
    if rule == "unavailable":
        assert "it has balanced, low_power" in problems["power_policy.unavailable"].remedy


def test_a_policy_of_another_name_is_not_known():
    other = {"currentPolicy": {**policy("custom"), "shortName": "vendor"}}
    assert view(esx(**{INFO: other})).get(PowerPolicy, ESX1.ref).policy is None


@pytest.mark.parametrize(
    ("short", "form", "stated"),
    [("dynamic", "playbook", False), ("dynamic", "rollback", True), ("dynamic", "shown", True),
     ("static", "playbook", True)],
)  # fmt: skip
def test_how_it_is_exported(short, form, stated):
    seen = view(esx(short))
    assert (seen.get(PowerPolicy, ESX1.ref).export(ESX1, seen, form).state is not None) is stated


def test_it_is_the_play_of_a_correction():
    assert text_of(HighPerformance(ESX1)) == "power_policy: high_performance"
    assert plays_of([HighPerformance(ESX2), HighPerformance(ESX1)]) == {
        host: {"power_policy": "high_performance"} for host in (ESX1, ESX2)
    }
