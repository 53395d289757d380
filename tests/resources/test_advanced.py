"""The kind `advanced`: options by name, only where they differ, and none that another kind sets."""

from __future__ import annotations

import pytest
from support.estates import ESX1, estate, host, view
from support.judging import judge

from vsphere_ai.model.facts import Facts
from vsphere_ai.resources.advanced import AdvancedOptions, owners

ALONE = "- hosts: esx01.lab.local\n  advanced: {UserVars.SuppressShellWarning: 1, Misc.LogToFile: 0}\n"
BESIDE = "\n- hosts: esx03.lab.local\n  advanced: {UserVars.SuppressShellWarning: 1}\n"
WARNING, LOG, TEXT = "UserVars.SuppressShellWarning", "Misc.LogToFile", "Config.Etc.issue"


def asked(there, **more):
    facts = {f"option:{name}": value for name, value in {WARNING: 0, LOG: 1, TEXT: "x", **there}.items()}
    return lambda wanted: judge(AdvancedOptions(options=wanted), ESX1, estate(host(ESX1, **facts), **more))


def test_only_what_differs_is_set_one_call_each():
    judged = asked({})({WARNING: 1, LOG: 1, TEXT: "y"})
    assert not judged.problems
    sent = [step.args["changedValue"][0] for step in judged.steps]
    assert {o["key"]: o["value"] for o in sent} == {WARNING: {"_typeName": "xsd:long", "value": 1}, TEXT: "y"}
    assert {step.method for step in judged.steps} == {"UpdateOptions"}
    assert not any(s.needs_maintenance or s.needs_reboot for s in judged.steps)
    assert asked({})({WARNING: 0, TEXT: "x"}).steps == ()


@pytest.mark.parametrize(
    ("wanted", "rule", "words"),
    [
        ({"Syslog.global.logHost": "tcp://a:514"}, "owned", "syslog"),
        ({"net.pvrdmavmknic": "vmk2"}, "owned", "pvrdma_host"),
        ({"Nothing.AtAll": 1}, "unknown", "no advanced option"),
        ({WARNING: "1"}, "type", "a number"),
        ({WARNING: True}, "type", "a number"),
        ({TEXT: 1}, "type", "a text"),
    ],
)
def test_problems(wanted, rule, words):
    problems = asked({})(wanted).problems
    assert set(problems) == {f"advanced.{rule}"}
    assert words in str(problems)


def test_an_option_that_cannot_be_read_is_unknown():
    unread = host(ESX1)
    unread = Facts(unread.ref, unread.properties, unreadable={f"option:{WARNING}": "no permission"})
    assert set(judge(AdvancedOptions(options={WARNING: 1}), ESX1, estate(unread)).problems) == {"advanced.unreadable"}


@pytest.mark.parametrize("options", [{"": 1}, {".x": 1}, {"x.": "a"}, {" x": 1}, {"x.y": 2**63}])
def test_what_is_no_option_is_refused_while_reading(options):
    with pytest.raises(ValueError, match="option"):
        AdvancedOptions(options=options)


def test_options_of_other_kinds_are_theirs_in_what_is_shown():
    facts = host(ESX1, **{"option:Syslog.global.logHost": "", f"option:{WARNING}": 0})
    seen = view(estate(facts)).get(AdvancedOptions, ESX1.ref)
    assert seen.options == {WARNING: 0}
    assert AdvancedOptions.observe(host(ESX1), estate()) is None
    known = {"syslog.global.loghost": "syslog", "net.pvrdmavmknic": "pvrdma_host"}
    assert known.items() <= owners().items()


def test_it_reads_what_it_names_and_nothing_else():
    assert AdvancedOptions(options={WARNING: 1, LOG: 0}).stated_paths() == (f"option:{WARNING}", f"option:{LOG}")
