"""The question before a run: it names the vCenter, and asks for a number where VMs go or several hosts reboot."""

from __future__ import annotations

import io
import sys
from dataclasses import replace

import pytest
from support.estates import ESX1, estate, guest, host, made, vm, wants
from support.missions import DESIRED, plain_farm
from support.raising import refused

from vsphere_ai.app.events import ignore
from vsphere_ai.app.events.results import Proposal, VCenterContext
from vsphere_ai.app.runs.approval import ConfirmedCounts, approve
from vsphere_ai.cli.console.run_output import RunOutput
from vsphere_ai.errors import Conflict, UsageError
from vsphere_ai.model.world import World
from vsphere_ai.report.folding import wrapped
from vsphere_ai.report.plans.world_text import world_lines
from vsphere_ai.resources.host_graphics import HostGraphics

WORLD = World("prod", "vc.example.com", "ops@vsphere.local", "vsphere-ai.yaml", "found in this folder")
TWO = made(plain_farm(), DESIRED)
ONE = made(estate(host(ESX1), guest(vm(1), ESX1)), {ESX1: wants(HostGraphics(default_type="shared_direct"))})
BOTH = replace(TWO, impact=replace(TWO.impact, destroyed=(vm(1), vm(2), vm(3))))


def proposal(plan, world=WORLD, **more):
    return Proposal(plan, "0" * 64, VCenterContext(world), **more)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def asked(monkeypatch, capsys, plan, *answers, world=WORLD):
    """Answer the questions about a plan; return whether it is carried out, and what was asked."""
    monkeypatch.setattr(sys, "stdin", Terminal("".join(f"{a}\n" for a in answers)))
    agreed = RunOutput().confirm(proposal(plan, world))
    return agreed, capsys.readouterr().err


@pytest.mark.parametrize(("answer", "agreed"), [("yes", True), ("y", False), ("1", False), ("", False)])
def test_one_host_takes_a_yes(monkeypatch, capsys, answer, agreed):
    assert asked(monkeypatch, capsys, ONE, answer)[0] is agreed


@pytest.mark.parametrize(("answer", "agreed"), [("2", True), ("yes", False), ("3", False), ("02", False)])
def test_several_hosts_take_their_number(monkeypatch, capsys, answer, agreed):
    found, words = asked(monkeypatch, capsys, TWO, answer)
    assert found is agreed
    question = "Apply to vCenter prod (vc.example.com)? 2 hosts reboot. Type 2 to confirm"
    assert question in " ".join(words.split())


@pytest.mark.parametrize("columns", [40, 80])
def test_no_line_of_the_question_is_wider_than_the_terminal(monkeypatch, capsys, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    _, words = asked(monkeypatch, capsys, TWO, "2")
    assert max(len(line) for line in words.splitlines() if not line.startswith("inventory ")) <= columns


@pytest.mark.parametrize(("answers", "agreed"), [(("3", "2"), True), (("3", "3"), False), (("2",), False)])
def test_vms_that_go_and_hosts_that_reboot_are_asked_about_one_after_the_other(monkeypatch, capsys, answers, agreed):
    assert asked(monkeypatch, capsys, BOTH, *answers)[0] is agreed


def test_the_lab_is_called_so_and_a_hostile_name_is_harmless(monkeypatch, capsys):
    lab = replace(WORLD, name="a\x1b[2J", lab=True)
    _, words = asked(monkeypatch, capsys, ONE, "no", world=lab)
    assert 'LAB vCenter "a\\u001b[2J" (vc.example.com)' in words


def test_right_above_the_question_are_user_and_inventory_whatever_scrolled_away(monkeypatch, capsys):
    _, words = asked(monkeypatch, capsys, BOTH, "3", "2")
    place, inventory, question, *_ = words.strip().splitlines()
    assert place == "vCenter prod (vc.example.com) as ops@vsphere.local"
    assert inventory == "inventory vsphere-ai.yaml (found in this folder)"
    assert question.startswith("Apply to vCenter prod (vc.example.com)?")
    assert words.count("as ops@vsphere.local") == 1


def test_the_header_names_vcenter_user_and_inventory():
    first, second = wrapped(world_lines(replace(WORLD, lab=True)), 100)
    assert first == "LAB  vCenter prod (vc.example.com) as ops@vsphere.local"
    assert second == "inventory vsphere-ai.yaml (found in this folder)"


def test_without_a_terminal_the_numbers_are_named(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    with refused(UsageError, "usage.no-terminal") as caught:
        RunOutput().confirm(proposal(BOTH))
    assert caught.value.remedy == "give --yes --destroy 3 --reboot 2"


@pytest.mark.parametrize("plan", [ONE, TWO])
def test_a_number_that_is_given_has_to_be_the_plans(plan):
    hosts = len(plan.impact.reboots)
    assert approve(proposal(plan, confirmed=True), lambda _: False, ignore, ConfirmedCounts(reboot=hosts))
    assert approve(proposal(plan, confirmed=True), lambda _: False, ignore)
    with refused(Conflict, "reboot.other-number") as caught:
        approve(proposal(plan, confirmed=True), lambda _: False, ignore, ConfirmedCounts(reboot=hosts + 1))
    assert f"--reboot {hosts}" in caught.value.remedy
