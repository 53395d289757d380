"""A run restores and finishes what is its own: what a later run changed is left to that one, or named."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace

import pytest
from support.processes import killed_at

from vsphere_ai.model.records.run_record import RunDocuments
from vsphere_ai.runs import journal

pytestmark = pytest.mark.lab
ESX1, ESX2 = "esx01.lab.local", "esx02.lab.local"
REBOOTS = ("esxcli system shutdown reboot", "RebootHost_Task")
GRAPHICS = """
- hosts: {0}
  graphics: {{default_type: {1}}}
  rolling: {{evacuate: power_off, reboot: api, max_unavailable: 1}}
"""
BOTH = "esx[01:02].lab.local"
FIRST_IS_DONE = r"esx01\S+ +\[\d+/\d+\] health gate.* — done"


def types(farm):
    return {name: farm()["hosts"][name]["graphics"]["default"] for name in (ESX1, ESX2)}


def reboots(ledger):
    return [e["object"] for e in ledger() if e["call"] in REBOOTS]


def state_of(cli, run):
    assert cli("run", "list", "-o", "json") == 0
    return next(r["state"] for r in json.loads(cli.out)["runs"] if r["run"] == run)


@pytest.fixture
def cut_off(lab, cli):
    """A run that was killed between its two hosts; its name."""
    killed_at(lab, FIRST_IS_DONE, cli.file(GRAPHICS.format(f'"{BOTH}"', "shared_direct")))
    (record,) = journal.every()
    return record.id


def test_a_rollback_leaves_a_host_that_only_a_later_run_changed(cli, cut_off, ledger, farm):
    assert types(farm) == {ESX1: "sharedDirect", ESX2: "shared"}
    assert cli("apply", cli.file(GRAPHICS.format(ESX2, "shared_direct")), "--yes") == 0, cli.out + cli.err
    before = reboots(ledger)
    assert cli.run("rollback", cut_off, "--yes") == 0, cli.out + cli.err
    assert types(farm) == {ESX1: "shared", ESX2: "sharedDirect"}
    assert reboots(ledger) == [*before, ESX1]
    assert ESX2 not in {o["target"] for o in cli.summary["outcomes"]}, "it is none of this rollback's"
    assert state_of(cli, cut_off) == "rolled back"


def test_a_rollback_names_what_a_later_run_has_changed_too(cli, farm):
    assert cli("apply", cli.file(GRAPHICS.format(ESX1, "shared_direct")), "--yes") == 0, cli.out + cli.err
    first = next(iter(journal.every())).id
    play = cli.file("- hosts: esx01.lab.local\n  graphics: {assignment_policy: consolidation}\n", "second.yml")
    assert cli("apply", play, "--yes") == 0, cli.out + cli.err
    (second,) = {b.id for b in journal.every()} - {first}
    assert cli("rollback", first, "--yes") == 0, cli.out + cli.err
    assert f"{ESX1}: graphics" in cli.text("rollback.undoes-later")
    assert second in cli.text("rollback.undoes-later")


def test_what_was_switched_is_put_back_though_the_plan_is_refused_today(lab, cli, farm, ledger):
    """Its VM cannot get the port group any more: the host still leaves maintenance mode, and its VMs run again."""
    before = farm()
    play = cli.file(GRAPHICS.format(ESX1, "shared_direct") + "  pvrdma_host: {vmknic: vmk2, firewall: true}\n")
    killed_at(lab, r"esx01\S+ +\[\d+/\d+\] enter maintenance mode — done", play)
    (record,) = journal.every()
    document = record.documents.desired
    for play in document["plays"]:
        for state in play["states"]:
            if state["kind"] == "pvrdma_host":
                state["state"]["vmknic"] = "vmk99"  # as if somebody had removed it since
    record._write(RunDocuments(desired=document), {"desired"})
    assert farm()["hosts"][ESX1]["maintenance"]
    assert cli("resume", "--yes") == 1, cli.out + cli.err
    assert ESX1 in cli.text("plan.refused")
    assert "vmk99" in cli.text("plan.refused")
    now = farm()
    assert not now["hosts"][ESX1]["maintenance"]
    assert {n: v["power"] for n, v in now["vms"].items()} == {n: v["power"] for n, v in before["vms"].items()}
    assert reboots(ledger) == []
    assert state_of(cli, record.id) == "failed", "what it was to change is not done"
    assert journal.open_run(record.id).pending() == ()


def test_only_the_cleanup_of_a_run_is_done_when_that_is_wanted(lab, cli, farm, ledger):
    before = farm()
    killed_at(lab, r"esx01\S+ +\[\d+/\d+\] enter maintenance mode — done",
              cli.file(GRAPHICS.format(ESX1, "shared_direct")))  # fmt: skip
    (record,) = journal.every()
    assert cli("resume", "--cleanup", "--yes") == 0, cli.out + cli.err
    now = farm()
    assert not now["hosts"][ESX1]["maintenance"]
    assert types(farm) == {ESX1: "shared", ESX2: "shared"}
    assert {n: v["power"] for n, v in now["vms"].items()} == {n: v["power"] for n, v in before["vms"].items()}
    assert journal.open_run(record.id).pending() == ()
    assert state_of(cli, record.id) == "failed"
    assert cli("resume", record.id, "--yes") == 0, cli.out + cli.err
    assert types(farm) == {ESX1: "sharedDirect", ESX2: "shared"}


def test_a_health_gate_that_a_later_run_has_passed_is_no_longer_pending(lab, cli, farm):
    """The alarm went; the first run need not be resumed for that."""
    alarm = "{raise-alarm: Host memory usage}"
    lab.set_faults(f"- {{on: ExitMaintenanceMode_Task, target: {ESX1}, when: after, do: {alarm}}}\n")
    assert cli("apply", cli.file(GRAPHICS.format(ESX1, "shared_direct")), "--yes") == 6, cli.out + cli.err
    lab.clear_faults()
    (record,) = journal.every()
    assert [d.kind for d in record.pending()] == ["gate"]
    assert cli("apply", cli.file(GRAPHICS.format(ESX1, "shared"), "back.yml"), "--yes") == 0, cli.out + cli.err
    assert state_of(cli, record.id) == "superseded"
    assert journal.open_run(record.id).pending() == ()
    assert cli("plan", cli.file(GRAPHICS.format(ESX1, "shared"))) == 0
    assert "run.unfinished" not in cli.rules


def cut_off_in_its_window(lab, cli):
    play = cli.file(GRAPHICS.format(ESX1, "shared_direct"))
    killed_at(lab, r"esx01\S+ +\[\d+/\d+\] reboot \(through vCenter\)$", play)
    (record,) = journal.every()
    return play, record.id


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_farm_that_a_killed_run_left_open_is_not_called_done(lab, cli, farm, soap, form):
    """The settings are in the desired state, but the host is in maintenance mode and its VMs are off."""
    play, run = cut_off_in_its_window(lab, cli)
    soap.until(lambda: soap.host("esx01").runtime.connectionState == "connected")
    journal.open_run(run).resolve(*(d for d in journal.open_run(run).pending() if d.kind == "reboot"))
    off = [n for n, v in farm()["vms"].items() if v["power"] == "poweredOff" and v["host"] == ESX1]
    assert farm()["hosts"][ESX1]["maintenance"]
    said = []
    for _ in range(2):
        assert cli("apply", play, "--yes", "-o", form) == 1, cli.out + cli.err
        said = cli.summary["open"] if form == "json" else cli.text("run.left-open").splitlines()
        assert all(f"resume {run}" in s for s in said)
        assert {re.match(r"[! ]*(\S+)", s)[1] for s in said} >= {ESX1, *off}
    assert cli("apply", play, "--yes", "--resume", "-o", form) == 0, cli.out + cli.err
    assert not farm()["hosts"][ESX1]["maintenance"]
    assert cli("apply", play, "--yes", "-o", form) == 0, cli.out + cli.err
    assert run not in cli.out + cli.err


def test_on_a_terminal_apply_asks_whether_to_finish_it_first(lab, cli, farm, soap, monkeypatch):
    play, run = cut_off_in_its_window(lab, cli)
    soap.until(lambda: soap.host("esx01").runtime.connectionState == "connected")
    answers, asked = {}, []
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    ends = re.compile(r"\?| on | to ")
    monkeypatch.setattr("click.prompt", lambda text, **_: asked.append(text) or answers[ends.split(text)[0]])
    question = f"Finish run {run} first"
    for answer in ("no", "yes"):
        assert farm()["hosts"][ESX1]["maintenance"]
        answers |= {question: answer, "Apply": "no"}
        before = len(asked)
        assert cli("apply", play) == (1 if answer == "no" else 0), "the plan itself is declined"
        assert asked[before].startswith(question)
        assert re.search(rf"! {ESX1} .*{run}", cli.err)
    assert not farm()["hosts"][ESX1]["maintenance"]
    assert journal.open_run(run).pending() == ()


def test_what_was_put_back_by_hand_is_not_left_open(lab, cli, farm, soap):
    play, run = cut_off_in_its_window(lab, cli)
    assert cli("resume", run, "--yes") == 0, cli.out + cli.err
    record = journal.open_run(run)
    for owed in record.ever_pending():
        if owed.pending.kind in ("maintenance", "off"):
            record.add_pending(
                owed.pending
            )  # as if the run had been cut off, and an operator had put back what it left
    assert cli("apply", play, "--yes") == 0, cli.out + cli.err


def test_other_work_does_not_hide_what_a_killed_run_left(lab, cli, farm):
    _, run = cut_off_in_its_window(lab, cli)
    other = cli.file("- hosts: esx02.lab.local\n  graphics: {assignment_policy: consolidation}\n", "other.yml")
    assert cli("apply", other, "--yes", "-o", "json") == 1, cli.out + cli.err
    assert (cli.summary["exit_code"], cli.summary["failed"]) == (1, 0)
    assert any(ESX1 in line and f"resume {run}" in line for line in cli.summary["open"])
    (later,) = {b.id for b in journal.every()} - {run}
    assert state_of(cli, later) == "finished", "that one has done its part"


def test_a_run_goes_on_without_what_a_later_run_changed(cli, cut_off, ledger, farm):
    """Nothing of it is sent again, and no host goes down for it."""
    back = cli.file(GRAPHICS.format(ESX1, "shared"), "back.yml")
    assert cli("apply", back, "--yes") == 0, cli.out + cli.err
    (later,) = {b.id for b in journal.every()} - {cut_off}
    before = reboots(ledger)
    assert cli("resume", cut_off, "--yes") == 0, cli.out + cli.err
    assert f"{ESX1}: graphics" in cli.text("run.changed-later")
    assert later in cli.text("run.changed-later")
    assert reboots(ledger) == [*before, ESX2]
    assert types(farm) == {ESX1: "shared", ESX2: "sharedDirect"}
