"""The kind `syslog`: log hosts and the firewall ruleset, each only when it differs."""

from __future__ import annotations

import pytest
from pydantic import ValidationError
from support.estates import ESX1, estate, host, view
from support.judging import judge, plan_one, steps_of, words

from vsphere_ai.model.estate.host_corrections import LogHosts
from vsphere_ai.model.facts import Facts
from vsphere_ai.resources.corrections import line_for
from vsphere_ai.resources.syslog import OPTION_FACT, RULESETS, Syslog

TCP, TLS = "tcp://logs.example.com:514", "ssl://10.0.0.5:1514"
FULL = "syslog: {hosts: ['tcp://10.0.0.5:514'], firewall: true}\n"
ALONE = f"- hosts: esx01.lab.local\n  {FULL}"
BESIDE = f"\n- hosts: esx03.lab.local\n  {FULL}"
RULES = tuple(
    {"_typeName": "HostFirewallRule", "direction": "outbound", "protocol": wire, "port": port}
    for port, wire in ((514, "udp"), (514, "tcp"), (1514, "tcp"))
)


def esx(option="", firewall=False, **more):
    ruleset = {"_typeName": "HostFirewallRuleset", "key": "syslog", "enabled": firewall, "rule": RULES}
    return estate(host(ESX1, **{OPTION_FACT: option, RULESETS: (ruleset,), **more}))


def asked(there, **wanted):
    return judge(Syslog(**wanted), ESX1, there)


def calls(judged):
    return [step.method for step in judged.steps]


def test_a_host_as_installed():
    judged = asked(esx(), hosts=(TCP, TLS), firewall=True)
    assert not judged.problems
    assert not judged.notes
    ruleset, option = judged.steps
    assert (ruleset.path, ruleset.method, ruleset.args) == (
        "configManager.firewallSystem", "EnableRuleset", {"id": "syslog"},
    )  # fmt: skip
    value = {"_typeName": "OptionValue", "key": "Syslog.global.logHost", "value": f"{TCP},{TLS}"}
    assert (option.path, option.method, option.args) == (
        "configManager.advancedOption", "UpdateOptions", {"changedValue": (value,)},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("there", "wanted", "methods"),
    [
        (esx(TCP), {"hosts": (TCP,)}, []),
        (esx(f"{TLS}, {TCP}"), {"hosts": (TCP, TLS)}, []),
        (esx("logs.example.com"), {"hosts": ("udp://logs.example.com",)}, []),
        (esx("udp://logs.example.com"), {"hosts": ("udp://LOGS.example.com:514",)}, []),
        (esx("ssl://10.0.0.5"), {"hosts": (TLS,)}, []),
        (esx("tcp://[fd00::5]:514"), {"hosts": ("tcp://[FD00::5]",)}, []),
        (esx("udp://logs.example.com"), {"hosts": (TCP,)}, ["UpdateOptions"]),
        (esx(TCP), {"hosts": ()}, ["UpdateOptions"]),
        (esx(TCP), {"firewall": True}, ["EnableRuleset"]),
        (esx(TCP, firewall=True), {"firewall": False}, ["DisableRuleset"]),
        (esx("anything at all"), {"firewall": False}, []),
    ],
)
def test_only_the_difference(there, wanted, methods):
    judged = asked(there, **wanted)
    assert not judged.problems
    assert calls(judged) == methods


def test_neither_maintenance_nor_reboot():
    plan = plan_one(esx(), ESX1, Syslog(hosts=(TCP,)))
    assert words(steps_of(plan, ESX1)) == ["UpdateOptions", "as-planned"]
    assert plan.impact.maintenance == ()


@pytest.mark.parametrize(
    ("there", "wanted", "rule"),
    [
        (esx(None), {"hosts": (TCP,)}, "unreadable"),
        (esx(**{RULESETS: ()}), {"firewall": True}, "ruleset-missing"),
        (esx(None, **{RULESETS: ()}), {"hosts": (TCP,), "firewall": True}, "unreadable"),
    ],
)
def test_problems(there, wanted, rule):
    assert f"syslog.{rule}" in asked(there, **wanted).problems


def test_what_is_not_asked_for_is_no_problem():
    assert not asked(esx(None), firewall=True).problems
    assert not asked(esx(**{RULESETS: ()}), hosts=(TCP,)).problems


@pytest.mark.parametrize(
    ("hosts", "words"),
    [
        ((TCP, TCP), "given twice"),
        ((TLS, "ssl://10.0.0.5"), "given twice"),
        (("logs.example.com",), "no log host"),
        (("http://logs.example.com",), "no log host"),
        (("tcp://",), "no log host"),
        (("tcp://logs.example.com:99999",), "no log host"),
        (("tcp://fd00::5",), "no log host"),
        (("tcp://[10.0.0.5]:514",), "no log host"),
        (("tcp://a.example.com,tcp://b.example.com",), "no log host"),
        (("CHOOSE A LOG HOST",), "no log host"),
    ],
)
def test_what_is_no_list_of_log_hosts(hosts, words):
    with pytest.raises(ValidationError, match=words):
        Syslog(hosts=hosts)


def test_a_format_goes_to_the_host_as_it_is_written():
    assert Syslog(hosts=("tcp://10.0.0.5?formatter=RFC_5424",)).hosts == ("tcp://10.0.0.5:514?formatter=RFC_5424",)


def test_remarks():
    def notes(there, **wanted):
        return " ".join(asked(there, **wanted).notes)

    assert "is closed" in notes(esx(), hosts=(TCP,))
    assert "does not open the port of tcp://10.0.0.5:5514" in notes(esx(firewall=True), hosts=("tcp://10.0.0.5:5514",))
    assert "does not open the port of udp://10.0.0.5:1514" in notes(esx(firewall=True), hosts=("udp://10.0.0.5:1514",))
    assert notes(esx(firewall=True), hosts=(TCP, TLS, "udp://10.0.0.5")) == ""
    ruleset = {"_typeName": "HostFirewallRuleset", "key": "syslog", "enabled": True}
    assert notes(esx(**{RULESETS: (ruleset,)}), hosts=("tcp://10.0.0.5:5514",)) == ""


def test_how_it_is_exported():
    def exported(there, form):
        seen = view(there)
        return seen.get(Syslog, ESX1.ref).export(ESX1, seen, form)

    assert exported(esx(), "playbook").state is None
    assert exported(esx(), "rollback").state == Syslog.model_construct(hosts=(), firewall=False)
    assert exported(esx("logs.example.com"), "playbook").state.hosts == ("udp://logs.example.com:514",)
    assert exported(esx("logs.example.com"), "shown").state.hosts == ("logs.example.com",)
    odd = exported(esx("no host at all,tcp://10.0.0.5", firewall=True), "playbook")
    assert (odd.state.hosts, odd.state.firewall) == (None, True)
    assert "no host at all is no log host" in odd.left_out
    assert Syslog.observe(Facts("HostSystem:host-9"), estate()) is None


def test_the_play_of_a_correction_is_refused_until_a_log_host_is_named():
    line = line_for(LogHosts(ESX1))
    assert line == ("syslog", {"hosts": ("CHOOSE A LOG HOST",), "firewall": True})
    with pytest.raises(ValidationError):
        Syslog(**line.value)
