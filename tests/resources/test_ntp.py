"""The kind `ntp`: servers, service and ruleset, each only when it differs, and what would leave a host without time."""

from __future__ import annotations

import pytest
from pydantic import ValidationError
from support.estates import ESX1, estate, host, view
from support.judging import judge, plan_one, steps_of, words

from vsphere_ai.model.facts import Facts
from vsphere_ai.resources.kernel import Kernel
from vsphere_ai.resources.ntp import CONFIG, PROTOCOL, RULESETS, SERVICES, Ntp

A, B = "10.0.0.1", "ntp.example.com"
FULL = "ntp: {servers: [10.0.0.1, 10.0.0.2], running: true, policy: on, firewall: true}\n"
ALONE = f"- hosts: esx01.lab.local\n  {FULL}"
BESIDE = f"\n- hosts: esx03.lab.local\n  {FULL}"


def esx(*servers, running=False, policy="off", firewall=False, **more):
    service = {"_typeName": "HostService", "key": "ntpd", "running": running, "policy": policy, "required": False}
    shown = {
        CONFIG: {"_typeName": "HostNtpConfig", "server": servers} if servers else {"_typeName": "HostNtpConfig"},
        PROTOCOL: "ntp",
        SERVICES: ({"_typeName": "HostService", "key": "TSM-SSH", "running": False, "policy": "off"}, service),
        RULESETS: ({"_typeName": "HostFirewallRuleset", "key": "ntpClient", "enabled": firewall},),
        **more,
    }
    return estate(host(ESX1, **shown))


def asked(farm, **wanted):
    return judge(Ntp(**wanted), ESX1, farm)


def calls(judged):
    return [s.method for s in judged.steps]


def test_everything_of_a_host_as_installed():
    judged = asked(esx(), servers=(A, B), running=True, policy="on", firewall=True)
    assert not judged.problems
    assert calls(judged) == ["UpdateDateTimeConfig", "EnableRuleset", "UpdateServicePolicy", "StartService"]
    config = judged.steps[0].args["config"]
    assert config == {"_typeName": "HostDateTimeConfig", "ntpConfig": {"_typeName": "HostNtpConfig", "server": (A, B)}}
    assert judged.steps[2].args == {"id": "ntpd", "policy": "on"}
    assert not any(s.needs_maintenance or s.needs_reboot for s in judged.steps)


@pytest.mark.parametrize(
    ("there", "wanted", "methods"),
    [
        (esx(A), {"servers": (A,)}, []),
        (esx(A, B), {"servers": (B.upper(), A)}, []),
        (esx(A), {"servers": (B,)}, ["UpdateDateTimeConfig"]),
        (esx(A), {"servers": ()}, ["UpdateDateTimeConfig"]),
        (esx(A, running=True), {"servers": (A, B)}, ["StopService", "UpdateDateTimeConfig", "StartService"]),
        (esx(A, running=True), {"servers": (B,), "running": False}, ["StopService", "UpdateDateTimeConfig"]),
        (esx(A, running=True), {"running": False}, ["StopService"]),
        (esx(A), {"running": True}, ["StartService"]),
        (esx(A, running=True), {"policy": "automatic"}, ["UpdateServicePolicy"]),
        (esx(A, running=True, firewall=True), {"firewall": False}, ["DisableRuleset"]),
        (esx(A, running=True, policy="on"), {"running": True, "policy": "on"}, []),
    ],
)
def test_only_the_difference(there, wanted, methods):
    judged = asked(there, **wanted)
    assert not judged.problems
    assert calls(judged) == methods


@pytest.mark.parametrize(
    ("there", "wanted", "rule"),
    [
        (esx(), {"running": True}, "no-servers"),
        (esx(), {"policy": "on"}, "no-servers"),
        (esx(A, running=True), {"servers": ()}, "no-servers"),
        (esx(A, policy="on"), {"servers": ()}, "no-servers"),
        (esx(**{PROTOCOL: "ptp"}), {"servers": (A,)}, "ptp"),
        (esx(A, **{SERVICES: ({"key": "TSM-SSH", "running": False, "policy": "off"},)}), {"running": True},
         "service-missing"),
        (esx(A, **{SERVICES: ({"key": "ntpd", "running": True, "policy": "on", "required": True},)}),
         {"running": False}, "service-required"),
        (esx(A, **{RULESETS: ()}), {"firewall": True}, "ruleset-missing"),
        (esx(A, **{SERVICES: None}), {"servers": (A,)}, "unreadable"),
    ],
)  # fmt: skip
def test_problems(there, wanted, rule):
    assert set(asked(there, **wanted).problems) == {f"ntp.{rule}"}


def test_a_host_in_lockdown_mode_and_one_where_only_the_ruleset_is_asked_for():
    assert not asked(esx(config__lockdownMode="lockdownStrict"), servers=(A,), running=True).problems
    assert not asked(esx(running=True), firewall=True).problems


@pytest.mark.parametrize(
    ("servers", "words"),
    [
        ((A, A), "given twice"),
        ((B, B.upper()), "given twice"),
        (("fe80::1", "FE80:0::1"), "given twice"),
        (("10.0.0.256",), "no time server"),
        (("ntp one",), "no time server"),
        (("-ntp.example.com",), "no time server"),
        (("",), "no time server"),
        (("a." * 130,), "no time server"),
        (("10.0.0.1 iburst",), "no time server"),
    ],
)
def test_what_is_no_list_of_servers(servers, words):
    with pytest.raises(ValidationError, match=words):
        Ntp(servers=servers)


def test_remarks():
    def notes(there, **wanted):
        return " ".join(asked(there, **wanted).notes)

    assert "is stopped" in notes(esx(), servers=(A,))
    assert "until the next restart" in notes(esx(A), running=True, firewall=True)
    assert "ntpClient is closed" in notes(esx(A, policy="on"), running=True)
    assert "which one is wrong" in notes(esx(), servers=(A, B))
    assert notes(esx(firewall=True), servers=(A,), running=True, policy="on") == ""


@pytest.mark.parametrize(("policy", "runs"), [("on", True), ("off", False), ("automatic", True)])
def test_after_a_restart(policy, runs):
    there = esx(A, running=True, policy=policy, firewall=True)
    seen = view(there)
    assert bool(seen.get(Ntp, ESX1.ref).project(ESX1, seen, "reboot").state.running) is runs


@pytest.mark.parametrize(
    ("running", "policy", "wanted", "calls"),
    [
        (True, "off", {"running": True}, ["reboot", "StartService"]),
        (True, "off", {"policy": "on"}, ["UpdateServicePolicy", "reboot"]),
        (True, "on", {"policy": "off"}, ["UpdateServicePolicy", "reboot"]),
        (True, "on", {"policy": "off", "running": True}, ["UpdateServicePolicy", "reboot", "StartService"]),
        (False, "off", {"policy": "on", "running": False}, ["UpdateServicePolicy", "reboot", "StopService"]),
        (False, "on", {"running": False}, ["reboot", "StopService"]),
        (False, "on", {"running": True}, ["reboot"]),
        (True, "on", {"servers": (B,)}, ["UpdateDateTimeConfig", "reboot"]),
        (False, "off", {"policy": "automatic", "firewall": True},
         ["EnableRuleset", "UpdateServicePolicy", "reboot"]),
        (True, "automatic", {"firewall": False, "running": True}, ["DisableRuleset", "reboot", "StartService"]),
    ],
)  # fmt: skip
def test_a_restart_of_the_plan_starts_what_the_policy_says_then(running, policy, wanted, calls):
    from support.machines import kernel_listing, machine

    ats = machine(ESX1, ats=kernel_listing("FALSE", "FALSE"))
    is_open = policy == "automatic"
    shown = esx(A, running=running, policy=policy, firewall=is_open)[ESX1.ref].properties
    there = estate(Facts(ats.ref, {**ats.properties, **shown}, probes=ats.probes))
    plan = plan_one(there, ESX1, Kernel(ats_support=True), Ntp(**wanted))
    assert not plan.problems
    of_time = {"EnableRuleset", "DisableRuleset", "UpdateServicePolicy", "UpdateDateTimeConfig", "reboot",
               "StartService", "StopService"}  # fmt: skip
    sent = [word for word in words(steps_of(plan, ESX1)) if word in of_time]
    assert sent == calls


def test_how_it_is_exported():
    def exported(there, form):
        seen = view(there)
        return seen.get(Ntp, ESX1.ref).export(ESX1, seen, form)

    assert exported(esx(), "playbook").state is None
    back = exported(esx(), "rollback").state
    assert (back.servers, back.running, back.policy, back.firewall) == ((), False, "off", False)
    full = exported(esx(A, running=True, policy="on", firewall=True), "playbook").state
    assert (full.servers, full.running, full.policy, full.firewall) == ((A,), True, "on", True)
    odd = exported(esx(running=True, firewall=True), "rollback")
    assert (odd.state.servers, odd.state.running, odd.state.firewall) == (None, None, True)
    assert "without a time server" in odd.left_out
    assert exported(esx(running=True), "playbook").state is None
    assert exported(esx(running=True), "shown").state.running is True
    assert Ntp.observe(Facts("HostSystem:host-9"), estate()) is None
