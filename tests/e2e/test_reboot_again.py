"""A run reboots a host once, whatever cut it off; a second reboot is asked for by name, and leads to the end."""

from __future__ import annotations

import json
import time

import pytest
from support.cut_off import DIES_BEFORE_ITS_REBOOT, ESX1, dies, killed_in_the_reboot, rebooted, reboots
from support.gates import busy
from support.places import INVENTORY

from vsphere_ai.runs import journal

pytestmark = pytest.mark.lab
ESX2 = "esx02.lab.local"
MIG = """
- hosts: gpu_hosts
  mig: {mode: enabled}
  rolling: {max_unavailable: 1, evacuate: power_off, timeout: 6s, settle: 2s}
"""
GRAPHICS = """
- hosts: esx01.lab.local
  graphics: {{default_type: {0}}}
  rolling: {{evacuate: power_off, reboot: api}}
"""


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr("vsphere_ai.execution.actions.waits.READ_BACK_HOST", 2)


def owing(cli):
    assert cli("run", "list", "-o", "json") == 0
    return {r["run"]: (r["state"], r["pending"]) for r in json.loads(cli.out)["runs"]}


def set_back(soap):
    """Give esx01 its old graphics types again, as somebody else may: with a reboot, so that one is due again."""
    host = soap.host("esx01")
    booted = host.runtime.bootTime
    manager = host.configManager.graphicsManager
    config = manager.graphicsConfig
    config.hostDefaultGraphicsType = "shared"
    for device in config.deviceType:
        device.graphicsType = "shared"
    manager.UpdateGraphicsConfig(config)
    soap.wait(host.RebootHost_Task(False))
    rebooted(soap, booted)


def test_a_reboot_that_did_not_do_it_leads_to_an_end(lab, cli, ledger, farm):
    """T-48: nvidia-smi said it would, and after the reboot MIG is off: each message leads on, to no debts."""
    before = farm()
    play = cli.file(MIG)
    lab.set_faults("- {on: 'ssh: nvidia-smi -i', nth: 1, do: malformed}\n")
    assert cli.run("apply", play, "--yes") == 1
    assert cli.failed == {(ESX1, "step.not-verified")}
    assert "mig" in cli.text("step.not-verified")
    lab.clear_faults()
    ((first, (_, owes)),) = owing(cli).items()
    assert owes
    assert reboots(ledger) == [ESX1]

    assert cli("resume", "--yes") == 3, "a second reboot is not covered by a yes to the first"
    assert cli.error == "run.reboots-again"
    assert ESX1 in cli.err
    way_on = f"vsphere-ai resume {first} --reboot-again"
    assert way_on in cli.err
    assert f"vsphere-ai rollback {first}" in cli.err
    assert cli("apply", play, "--yes") == 1  # it would take a second host out of service
    assert "rolling.budget" in cli.out
    assert f"vsphere-ai resume {first}" in cli.text("run.unfinished")
    assert reboots(ledger) == [ESX1]

    assert cli("resume", first, "--reboot-again") == 64, "it is shown and asked for"
    assert cli.error == "usage.no-terminal"
    assert reboots(ledger) == [ESX1]
    assert cli(*way_on.split()[1:], "--yes") == 0, cli.out + cli.err
    found = owing(cli)
    assert found.pop(first) == ("superseded", [])
    assert [*found.values()] == [("finished", [])]
    assert reboots(ledger) == [ESX1, ESX1, ESX2]
    judged = {v["name"] for v in lab.check(since=0)["invariants"] if not v["ok"]}
    assert judged <= {"reboots"}, "somebody allowed the second one"
    now = farm()
    for name in (ESX1, ESX2):
        assert not now["hosts"][name]["maintenance"]
        assert now["hosts"][name]["ssh"]["running"] == before["hosts"][name]["ssh"]["running"]
    assert {n: v["power"] for n, v in now["vms"].items()} == {n: v["power"] for n, v in before["vms"].items()}
    assert cli("plan", play, "--detailed-exitcode") == 0


def test_going_on_as_a_new_run_the_way_back_still_leads_to_before_the_first(lab, cli, farm, ledger):
    lab.set_faults("- {on: 'ssh: nvidia-smi -i', nth: 1, do: malformed}\n")
    assert cli("apply", cli.file(MIG), "--yes", "--lock", "vcenter") == 1
    lab.clear_faults()
    (first,) = owing(cli)
    assert cli("resume", "--reboot-again", "--yes", "-o", "json") == 0, cli.err
    (second,) = set(owing(cli)) - {first}
    assert journal.open_run(second).run.rolls_back == ""
    assert journal.open_run(second).run.rolled_back is None
    assert cli("rollback", first, "--yes") == 0, cli.out + cli.err
    assert not any(g["mig"]["current"] for n in (ESX1, ESX2) for g in farm()["hosts"][n]["gpus"])
    assert all(not owes for _, owes in owing(cli).values())


def test_a_lost_gpu_is_missed_also_by_the_run_that_goes_on(lab, cli, farm, soap):
    lab.set_faults("- {on: 'ssh: nvidia-smi -i', nth: 1, do: malformed}\n")
    assert cli("apply", cli.file(MIG), "--yes") == 1
    gone = "when: before, do: {gpu-missing: '0000:86:00.0'}"
    lab.set_faults(f"- {{on: RebootHost_Task, {gone}}}\n- {{on: 'ssh: esxcli system shutdown reboot', {gone}}}\n")
    booted = soap.host("esx01").runtime.bootTime
    soap.wait(soap.host("esx01").RebootHost_Task(False))
    rebooted(soap, booted)
    assert cli.run("resume", "--reboot-again", "--yes") == 6, cli.out + cli.err
    assert cli.failed == {(ESX1, "host.unhealthy")}
    assert "1 of 2 GPUs" in cli.text("host.unhealthy"), "measured by what was there before the first of the two"
    assert farm()["hosts"][ESX1]["maintenance"]
    assert cli.run("resume") == 6
    assert cli.failed == {(ESX1, "host.gpus-missing")}
    assert "1 of 2 GPUs" in cli.text("host.gpus-missing")


def test_a_run_that_died_while_its_host_rebooted_does_not_reboot_it_again(lab, cli, soap, ledger):
    """The reboot was under way and its step not yet written down as done; somebody set the change back since."""
    lab.set_faults("- {on: RebootHost_Task, nth: 1, when: after, do: {delay: 60s}}\n")
    booted = soap.host("esx01").runtime.bootTime
    killed_in_the_reboot(lab, cli.file(GRAPHICS.format("shared_direct")))
    lab.clear_faults()
    (first,) = owing(cli)
    (cut,) = (s for s in journal.open_run(first).steps() if s.what == "reboot")
    assert cut.state == "begun"
    rebooted(soap, booted)
    set_back(soap)
    others = reboots(ledger)
    assert others == [ESX1, ESX1], "ours, and theirs"

    for _ in range(2):  # the first one settles what was waited for, and the second one still knows
        assert cli("resume", "--yes") == 3, cli.out + cli.err
        assert cli.error == "run.reboots-again"
        assert reboots(ledger) == others
    (cut,) = (s for s in journal.open_run(first).steps() if s.what == "reboot")
    assert cut.state == "done"
    assert cli("resume", "--reboot-again", "--yes") == 0, cli.out + cli.err
    assert reboots(ledger) == [*others, ESX1]
    assert all(not owes for _, owes in owing(cli).values())


def test_a_reboot_soon_after_another_one_is_seen_by_its_boot_time(lab, cli, soap, ledger):
    assert cli("apply", cli.file(GRAPHICS.format("shared_direct")), "--yes") == 0, cli.out + cli.err
    booted = soap.host("esx01").runtime.bootTime
    killed_in_the_reboot(lab, cli.file(GRAPHICS.format("shared")))
    rebooted(soap, booted)
    began = time.monotonic()
    assert cli("resume") == 0, cli.out + cli.err
    assert time.monotonic() - began < 90 * busy(), "it waited 120 s to see a host go down that was up again"
    assert reboots(ledger) == [ESX1, ESX1]


DIES_HANDING_OVER = """
import os
from vsphere_ai.cli.main import run
from vsphere_ai.runs.journal import Journal
resolve = Journal.resolve
Journal.resolve = lambda self, *pending: os._exit(9) if len(pending) > 1 else resolve(self, *pending)
run()
"""


def test_a_new_run_that_dies_while_it_takes_over_pending_actions_has_them(lab, cli, ledger, farm):
    before = farm()
    lab.set_faults("- {on: 'ssh: nvidia-smi -i', nth: 1, do: malformed}\n")
    assert cli("apply", cli.file(MIG), "--yes") == 1
    lab.clear_faults()
    ((first, (_, owed)),) = owing(cli).items()
    assert dies(lab, DIES_HANDING_OVER, "resume", first, "--reboot-again", "--yes") == 9
    found = owing(cli)
    assert found.pop(first)[1] == []
    ((second, (state, owes)),) = found.items()
    assert (state, owes) == ("unfinished", owed)
    for command in ("resume", "rollback"):
        assert cli(command, first, "--yes") == 3, "hosts would stay as that one left them"
        assert cli.error == "run.taken-over"
        assert f"vsphere-ai resume {second}" in cli.err
    assert cli("plan", cli.file(MIG)) in (0, 1, 2)
    assert second in cli.text("run.unfinished")
    assert first not in cli.text("run.unfinished")
    assert cli("resume", "--yes") == 0, cli.out + cli.err
    assert {name: (s, o) for name, (s, o) in owing(cli).items()} == {
        first: ("superseded", []), second: ("finished", [])}  # fmt: skip
    assert reboots(ledger) == [ESX1, ESX1, ESX2]
    now = farm()
    assert {n: v["power"] for n, v in now["vms"].items()} == {n: v["power"] for n, v in before["vms"].items()}
    assert not any(h["maintenance"] for h in now["hosts"].values())


def test_a_host_that_was_never_told_to_reboot_is_not_given_up(lab, cli, ledger, monkeypatch):
    """The play waits for a shorter time than it takes to know that the host does not go down."""
    monkeypatch.setattr("vsphere_ai.app.runs.quiesce.NEVER_DOWN", 8.0)
    monkeypatch.setattr("vsphere_ai.app.runs.quiesce.AT_LEAST", 4.0)
    play = cli.file(GRAPHICS.format("shared_direct").replace("reboot: api", "timeout: 3s"))
    assert dies(lab, DIES_BEFORE_ITS_REBOOT, "apply", "-i", INVENTORY, play, "--yes") == 9
    assert reboots(ledger) == []
    assert cli.run("resume", "--yes") == 0, cli.out + cli.err
    assert not cli.failed
    assert reboots(ledger) == [ESX1]
    assert all(not owes for _, owes in owing(cli).values())
