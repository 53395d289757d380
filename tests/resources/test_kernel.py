"""The kernel kind: ATS is read and set over SSH, and counts after a restart."""

from __future__ import annotations

import pytest
from support.estates import ESX1, estate, state_of
from support.judging import judge, plan_one, words
from support.machines import kernel_listing, machine
from support.plays import ONE

from vsphere_ai.model.facts import CommandOutput, ProbeFailure
from vsphere_ai.model.steps import Shell
from vsphere_ai.resources.kernel import Kernel

ALONE = f"{ONE}  kernel: {{ats_support: true}}\n"

SET = "esxcli system settings kernel set -s atsSupport -v"


def asked(wanted, ats):
    return judge(Kernel(ats_support=wanted), ESX1, estate(machine(ESX1, ats=ats)))


@pytest.mark.parametrize(("word", "wanted"), [("TRUE", True), ("FALSE", False)])
def test_as_wanted(word, wanted):
    judged = asked(wanted, kernel_listing(word, word))
    assert (judged.fields, judged.steps, judged.problems) == ({}, (), {})


@pytest.mark.parametrize(("wanted", "word", "now"), [(True, "TRUE", "FALSE"), (False, "FALSE", "TRUE")])
def test_it_is_set_and_the_host_restarts(wanted, word, now):
    judged = asked(wanted, kernel_listing(now, now))
    assert judged.fields == {"ats_support": (not wanted, wanted)}
    assert isinstance(judged.step, Shell)
    assert " ".join(judged.step.argv) == f"{SET} {word}"
    assert judged.step.needs_reboot
    assert judged.step.needs_maintenance


def test_what_waits_for_a_restart_takes_the_restart_only():
    judged = asked(True, kernel_listing("TRUE", "FALSE"))
    assert judged.fields == {"ats_support": ("on after a restart", True)}
    assert not isinstance(judged.step, Shell)
    assert judged.step.needs_reboot
    back = asked(False, kernel_listing("TRUE", "FALSE"))
    assert " ".join(back.step.argv) == f"{SET} FALSE"


def test_a_host_that_cannot_be_asked():
    failed = asked(True, ProbeFailure("ssh.stopped", "SSH is stopped", "start it")).problems["ssh.stopped"]
    assert "SSH is stopped" in failed.message
    assert failed.remedy == "start it"
    assert "not asked" in asked(True, None).problems["kernel.unreadable"].message
    refused = asked(True, CommandOutput(1, "", "Invalid Key: atsSupport\n")).problems["kernel.unreadable"]
    assert "Invalid Key" in refused.message


def test_in_a_plan_it_is_one_window():
    plan = plan_one(estate(machine(ESX1, ats=kernel_listing("FALSE", "FALSE"))), ESX1, Kernel(ats_support=True))
    assert not plan.problems
    said = words([p.step for p in plan.steps])
    assert said.index(f"{SET} TRUE") < said.index("reboot") < said.index("as-planned")


def test_back_into_a_playbook():
    for listing, stated in ((kernel_listing("TRUE", "TRUE"), True), (kernel_listing("FALSE", "FALSE"), None)):
        state = state_of(Kernel, machine(ESX1, ats=listing))
        told = state.export(ESX1, None, "playbook").state
        assert (told and told.ats_support) == stated
    waiting = state_of(Kernel, machine(ESX1, ats=kernel_listing("TRUE", "FALSE")))
    assert waiting.export(ESX1, None, "playbook").state is None
    assert waiting.export(ESX1, None, "playbook").left_out == "kernel left out: ATS is on after a restart"
