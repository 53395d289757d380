"""Whatever we find stays as it is found: SSH, maintenance, power; and what stands in the way is said before."""

from __future__ import annotations

import json
import os
import sys
import threading

import pytest
from support import prefork
from support.gates import LONG
from support.places import INVENTORY, PLAYBOOKS
from support.processes import killed_at

from vsphere_ai.runs import journal

pytestmark = pytest.mark.lab
MISSION = PLAYBOOKS / "ai-ready-cluster.yml"
MIG = "- hosts: esx01.lab.local\n  graphics: {default_type: shared_direct}\n  mig: {mode: enabled}\n"
ROLLING = "  rolling: {evacuate: power_off}\n"


def ssh(soap, host, *, running):
    system = soap.host(host).configManager.serviceSystem
    (system.StartService if running else system.StopService)("TSM-SSH")


def test_what_stopped_ssh_hides_is_not_known_and_refuses_no_pipeline(cli, ledger, farm, soap):
    """`plan && apply`: apply starts SSH, reads, and plans again."""
    ssh(soap, "esx01", running=False)
    before, playbook, saved = ledger(), cli.file(MIG + ROLLING), cli.folder / "plan.json"
    assert cli("plan", playbook) == 0, cli.out
    assert "[ssh.stopped]" in cli.out
    assert "nothing can be applied" not in cli.out
    assert "apply starts it" in cli.out.splitlines()[-1]
    assert cli("plan", playbook, "--detailed-exitcode") == 2, "what is not known is not nothing"
    assert cli("plan", playbook, "--to", saved) == 1, "an incomplete plan is not saved"
    assert (saved.exists(), "--start-ssh" in cli.err) == (False, True)
    assert cli.plan(playbook)["awaits_ssh"] is True
    assert ledger() == before
    assert cli("apply", playbook, "--yes") == 0, cli.out + cli.err
    assert all(gpu["mig"]["current"] for gpu in farm()["hosts"]["esx01.lab.local"]["gpus"])


def test_a_plan_that_something_else_stands_against_is_refused_with_ssh_stopped_too(cli, soap):
    ssh(soap, "esx01", running=False)
    assert (
        cli("plan", cli.file(MIG + ROLLING + "- hosts: esx01.lab.local\n  passthrough: {'0000:ff:00.0': true}\n")) == 1
    )
    assert "nothing can be applied" in cli.out


def test_a_plan_may_be_allowed_to_start_ssh_for_reading(cli, ledger, farm, soap):
    ssh(soap, "esx01", running=False)
    before = len(ledger())
    assert cli("plan", cli.file(MIG + ROLLING), "--start-ssh") == 0, cli.out
    assert [(e["object"], e["call"]) for e in ledger()[before:]] == [
        ("esx01.lab.local", "StartService"),
        ("esx01.lab.local", "StopService"),
    ]
    assert not farm()["hosts"]["esx01.lab.local"]["ssh"]["running"]


DIES_BEFORE_STOPPING_SSH = """
import os
from vsphere_ai.cli.main import run
from vsphere_ai.connect import service
service._stop = lambda *_: os._exit(9)
run()
"""


@pytest.fixture
def left_running(lab, cli, soap, farm):
    """A `plan --start-ssh` was killed while it read esx01, whose SSH had been stopped; return the playbook."""
    ssh(soap, "esx01", running=False)
    play = cli.file(MIG + ROLLING)
    argv = [sys.executable, "-c", DIES_BEFORE_STOPPING_SSH, "plan", "-i", str(INVENTORY), str(play), "--start-ssh"]
    died = prefork.run(argv, env={**os.environ, "VSPHERE_AI_LAB_DIR": str(lab.directory)}, timeout=LONG)
    assert died.returncode == 9
    assert running(farm)
    return play


def running(farm):
    return farm()["hosts"]["esx01.lab.local"]["ssh"]["running"]


def ssh_check(cli):
    """What doctor has to say of SSH on esx01."""
    assert cli("doctor", "-i", INVENTORY, "--limit", "esx01.lab.local", "-o", "json") == 0, cli.out
    checks = json.loads(cli.out)["findings"]
    (found,) = (c for c in checks if c["target"]["name"] == "esx01.lab.local" and "SSH" in c["message"])
    return found


def test_ssh_that_a_killed_command_left_running_is_named_until_it_is_stopped(cli, farm, left_running):
    way = "vsphere-ai show esx01.lab.local --start-ssh"
    named = ssh_check(cli)
    assert named["verdict"] == "warn"
    assert way in named["remedy"]
    assert cli("plan", left_running) == 0, cli.out
    assert "esx01.lab.local" in cli.text("ssh.left-running")
    assert way in cli.text("ssh.left-running")
    assert running(farm), "looking changes nothing"
    assert cli(*way.split()[1:]) == 0
    assert not running(farm)
    assert way not in ssh_check(cli)["remedy"]
    assert cli("plan", left_running, "--start-ssh") == 0
    assert "ssh.left-running" not in cli.rules


def test_a_plan_made_while_such_ssh_runs_is_carried_out(cli, farm, left_running):
    saved = cli.folder / "plan.json"
    assert cli("plan", left_running, "--to", saved) == 0, cli.out
    planned = json.loads(saved.read_text("utf-8"))["steps"]
    assert {s["target"]["name"] for s in planned if s.get("action") == "start-ssh"} == {"esx01.lab.local"}
    assert cli("apply", saved) == 0, cli.out + cli.err
    assert "ssh.left-running" in cli.rules
    assert not running(farm)
    assert all(g["mig"]["current"] for g in farm()["hosts"]["esx01.lab.local"]["gpus"])


def test_a_refused_apply_says_that_it_stopped_such_ssh(cli, farm, soap, ledger, left_running):
    assert cli("plan", left_running, "--to", saved := cli.folder / "plan.json") == 0, cli.out
    soap.wait(soap.vm("train-02").PowerOffVM_Task())
    before = len(ledger())
    assert cli("apply", saved) == 3
    assert cli.error == "plan.stale"
    assert "esx01.lab.local" in cli.text("ssh.left-running")
    assert "TSM-SSH" not in cli.err, "our own tidying is no difference"
    assert {e["call"] for e in ledger()[before:]} <= {"StartService", "StopService"}
    assert not running(farm)


def test_apply_starts_ssh_and_leaves_it_stopped(cli, farm, soap):
    ssh(soap, "esx01", running=False)
    assert cli("apply", cli.file(MIG + ROLLING), "--yes") == 0, cli.out
    host = farm()["hosts"]["esx01.lab.local"]
    assert not host["ssh"]["running"]
    assert host["ssh"]["policy"] == "off"
    assert all(g["mig"]["current"] for g in host["gpus"])


def test_a_host_found_in_maintenance_stays_in_it(cli, farm, soap, ledger):
    for name in ("train-01", "train-02"):
        soap.wait(soap.vm(name).PowerOffVM_Task())
    soap.wait(soap.host("esx01").EnterMaintenanceMode_Task(timeout=60))
    before = len(ledger())
    assert cli("apply", cli.file(MIG + ROLLING), "--yes") == 0, cli.out
    calls = [e["call"] for e in ledger()[before:]]
    assert "EnterMaintenanceMode_Task" not in calls
    assert "ExitMaintenanceMode_Task" not in calls
    assert farm()["hosts"]["esx01.lab.local"]["maintenance"]
    assert farm()["vms"]["train-01"]["power"] == "poweredOff"


def test_running_vms_are_not_evacuated_unless_the_play_says_how(cli, ledger):
    assert cli("plan", cli.file(MIG)) == 1
    assert "[rolling.evacuate]" in cli.out
    assert "train-01" in cli.out
    assert ledger() == []


def test_vms_without_devices_move_away_with_vmotion(cli, farm, ledger):
    assert cli("apply", cli.file(MIG + "  rolling: {evacuate: vmotion}\n"), "--yes") == 0, cli.out
    assert farm()["vms"]["train-01"]["power"] == "poweredOn"
    assert farm()["vms"]["train-01"]["host"] != "esx01.lab.local"
    assert not [e for e in ledger() if e["call"] in ("ShutdownGuest", "PowerOffVM_Task")]


def test_vgpu_vms_are_pinned_and_refused_for_vmotion(cli, ledger):
    assert cli("apply", MISSION, "--yes") == 0
    done = ledger()
    play = cli.file("- hosts: esx01.lab.local\n  graphics: {default_type: shared}\n  rolling: {evacuate: vmotion}\n")
    assert cli("plan", play) == 1
    assert "[rolling.pinned]" in cli.out
    assert ledger() == done


def test_mig_off_would_strand_running_mig_vms(cli, ledger):
    assert cli("apply", MISSION, "--yes") == 0
    done = ledger()
    assert cli("plan", cli.file("- hosts: esx01.lab.local\n  mig: {mode: disabled}\n" + ROLLING)) == 1
    assert "[power.stranded]" in cli.out
    assert ledger() == done


def test_vms_outside_the_playbook_are_named_first(cli):
    impact = cli.plan(cli.file(MIG + ROLLING))["impact"]
    assert [vm["name"] for vm in impact["outside"]] == ["train-01", "train-02"]


def test_lockdown_is_reported_and_never_changed(cli, ledger, soap):
    soap.host("esx01").configManager.hostAccessManager.ChangeLockdownMode("lockdownNormal")
    before = ledger()
    assert cli("apply", cli.file(MIG + ROLLING), "--yes") == 1
    assert "[ssh.lockdown]" in cli.out
    assert ledger() == before


def test_a_guest_without_tools_needs_force(cli, farm, soap):
    soap.wait(soap.vm("odd-01").PowerOnVM_Task())
    play = "- vms: odd-01\n  hardware: {memory_reservation: full}\n"
    assert cli("plan", cli.file(play)) == 1
    assert "[power.tools]" in cli.out


def test_show_names_what_it_could_not_read(cli):
    assert cli("show", "esx-odd.lab.local") == 0
    assert "# esx-odd.lab.local: MIG left out" in cli.out


def test_limit_narrows_to_some_targets(cli):
    plan = cli.plan(MISSION, "--limit", "train-01")
    assert {i["target"]["name"] for i in plan["items"]} == {"train-01"}
    assert cli("plan", MISSION, "--limit", "nobody") != 0


# -- T-45: every way a host may be found


NO_SSH_NEEDED = "- hosts: esx01.lab.local\n  pvrdma_host: {firewall: true}\n"


@pytest.mark.parametrize("lockdown", ["lockdownDisabled", "lockdownNormal", "lockdownStrict"])
@pytest.mark.parametrize("running", [True, False], ids=["ssh", "no-ssh"])
@pytest.mark.parametrize("maintenance", [True, False], ids=["maintenance", "in-service"])
def test_a_host_is_in_its_previous_state_after_a_run(cli, farm, soap, ledger, maintenance, running, lockdown):
    if maintenance:
        for name in ("train-01", "train-02"):
            soap.wait(soap.vm(name).PowerOffVM_Task())
        soap.wait(soap.host("esx01").EnterMaintenanceMode_Task(timeout=60))
    if not running:
        ssh(soap, "esx01", running=False)
    host = soap.host("esx01")
    if lockdown != "lockdownDisabled":
        host.configManager.hostAccessManager.ChangeLockdownMode(lockdown)

    def found():
        now = farm()
        service = now["hosts"]["esx01.lab.local"]["ssh"]
        power = {n: v["power"] for n, v in now["vms"].items()}
        return (now["hosts"]["esx01.lab.local"]["maintenance"], service["running"], service["policy"],
                str(host.config.lockdownMode), power)  # fmt: skip

    before, entries = found(), len(ledger())
    assert before[:2] == (maintenance, running)
    assert before[3:] == (lockdown, {**before[4], "train-01": "poweredOff" if maintenance else "poweredOn"})
    wanted = MIG + ROLLING
    if lockdown == "lockdownDisabled":
        assert cli("apply", cli.file(wanted), "--yes") == 0, cli.out + cli.err
        assert all(g["mig"]["current"] for g in farm()["hosts"]["esx01.lab.local"]["gpus"])
    else:
        assert cli("apply", cli.file(wanted), "--yes") == 1
        assert "[ssh.lockdown]" in cli.out
        assert len(ledger()) == entries
        # what needs no shell is done all the same
        assert cli("apply", cli.file(NO_SSH_NEEDED), "--yes") == 0, cli.out + cli.err
        assert farm()["hosts"]["esx01.lab.local"]["pvrdma"]["firewall"]
    assert found() == before


def test_looking_changes_nothing(lab, cli, ledger):
    looks = (("plan", MISSION), ("check", MISSION), ("check",), ("verify", MISSION), ("show",), ("capacity",),
             ("capacity", MISSION), ("doctor",), ("doctor", "--permissions", MISSION), ("run", "list"))  # fmt: skip
    assert [(look[0], code) for look in looks if (code := cli(*look)) not in (0, 1, 2)] == []
    assert ledger() == []


# -- what somebody switches between the plan and its turn is theirs

OFF, RUNNING = ("train-03", "external.off"), ("esx02.lab.local", "external.ssh")
TWO = """- hosts: esx[01:02].lab.local
  graphics: {default_type: shared_direct, assignment_policy: performance}
  mig: {mode: enabled}
  rolling: {max_unavailable: 1, evacuate: power_off, reboot: api, timeout: 1m}
"""


@pytest.fixture
def while_asked(monkeypatch):
    """Let somebody act while the operator thinks about the plan that is shown."""
    from vsphere_ai.app.runs import apply_plan

    shown = apply_plan.approve

    def arrange(act):
        monkeypatch.setattr(apply_plan, "approve", lambda *given, **more: (shown(*given, **more), act())[0])

    return arrange


def held_against(lab, **options):
    return {v["name"]: v["findings"] for v in lab.check(**options)["invariants"] if not v["ok"]}


def test_what_another_user_switched_before_the_steps_of_a_host_stays_so(lab, cli, farm, ledger, soap):
    ssh(soap, "esx02", running=False)
    lab.set_faults([{"on": "RebootHost_Task", "target": "esx01*", "nth": 1, "do": {"delay": "3s"}}])

    def act():
        soap.until(lambda: soap.host("esx01").runtime.inMaintenanceMode, 30)
        soap.wait(soap.vm("train-03").PowerOffVM_Task())
        ssh(soap, "esx02", running=True)
        lab.mark()

    somebody = threading.Thread(target=act)
    somebody.start()
    code = cli.run("apply", cli.file(TWO), "--yes")
    somebody.join()
    assert code == 0, cli.out + cli.err
    assert cli.outcomes("skipped") == {OFF, RUNNING}
    first, second = cli.summary["external_changes"]
    assert "train-03" in first
    assert "esx02.lab.local" in second
    gates = {e["step"]: e["text"] for e in cli.events if e["what"] == "done" and "health gate" in e["summary"]}
    assert sorted("train-03" in text for text in gates.values()) == [False, True], "it is not said to run"
    now = farm()
    assert now["vms"]["train-03"]["power"] == "poweredOff"
    assert now["hosts"]["esx02.lab.local"]["ssh"]["running"], "also after the reboot, which stops it"
    assert all(g["mig"]["current"] for n in ("01", "02") for g in now["hosts"][f"esx{n}.lab.local"]["gpus"])
    assert not ledger("train-03", "PowerOnVM_Task")
    assert not [e for e in ledger("esx02.lab.local", "StopService") if e["operation"]], "none but to read it"
    assert held_against(lab) == {}
    assert set(cli.states()) == {"finished"}


def test_a_vm_that_another_user_powered_off_is_changed_and_stays_off(lab, cli, farm, ledger, soap, while_asked):
    while_asked(lambda: (soap.wait(soap.vm("train-03").PowerOffVM_Task()), lab.mark()))
    play = cli.file("- vms: train-03\n  hardware: {version: 19}\n")
    assert cli.run("apply", play, "--yes") == 0, cli.out + cli.err
    assert cli.outcomes("skipped") == {OFF}
    assert cli.summary["outcomes"][-1]["rule"] == OFF[1], "the power-on, which is the last step"
    (named,) = cli.summary["external_changes"]
    assert "train-03" in named
    vm = farm()["vms"]["train-03"]
    assert (vm["power"], vm["hardware"]) == ("poweredOff", "vmx-19")
    assert held_against(lab) == {}
    assert cli.states() == ["finished"]


def test_a_resumed_run_puts_back_what_it_has_switched_off_and_nothing_else(lab, cli, farm, soap):
    killed_at(lab, r"esx01\S+ +\[\d+/\d+\] enter maintenance mode — done", cli.file(TWO))
    assert [farm()["vms"][n]["power"] for n in ("train-01", "train-02")] == ["poweredOff"] * 2
    soap.wait(soap.vm("train-03").PowerOffVM_Task())
    assert cli("resume") == 0, cli.out + cli.err
    now = farm()["vms"]
    assert [now[n]["power"] for n in ("train-01", "train-02", "train-03")] == ["poweredOn"] * 2 + ["poweredOff"]
    assert "others" not in held_against(lab, since=0)
    assert set(cli.states()) == {"finished"}


def test_a_host_that_refused_and_another_user_then_took_out_of_service_is_not_changed(lab, cli, farm, ledger, soap):
    """What vCenter refused is owed to nobody: `resume` must not take their maintenance mode for its own."""
    lab.set_faults([{"on": "EnterMaintenanceMode_Task", "target": "esx01*", "do": {"task-fails": "Timedout"}}])
    assert cli("apply", cli.file(TWO.replace("[01:02]", "01")), "--yes") == 1, cli.out + cli.err
    run = next(iter(journal.every()))
    assert run.pending() == ()
    assert cli("run", "show", run.id, "-o", "json") == 0
    assert json.loads(cli.out)["pending"] == []
    lab.set_faults([])
    soap.wait(soap.host("esx01").EnterMaintenanceMode_Task(timeout=30))
    before = len(ledger())
    assert cli("resume") == 64, cli.out + cli.err
    assert "esx01.lab.local" in cli.text("run.not-approved")
    assert len(ledger()) == before
    assert farm()["hosts"]["esx01.lab.local"]["maintenance"]


def test_a_rollback_does_not_change_what_another_user_powered_off(lab, cli, farm, soap, monkeypatch):
    from vsphere_ai.app.runs import rollback_run

    assert cli("apply", cli.file(TWO), "--yes") == 0, cli.out + cli.err
    run = next(iter(journal.every())).id
    shown = rollback_run.approve

    def act(*given, **more):
        answer = shown(*given, **more)
        soap.wait(soap.vm("train-03").PowerOffVM_Task())
        lab.mark()
        return answer

    monkeypatch.setattr(rollback_run, "approve", act)
    assert cli.run("rollback", run, "--yes") == 0, cli.out + cli.err
    assert OFF in cli.outcomes("skipped")
    now = farm()["vms"]
    assert [now[n]["power"] for n in ("train-01", "train-02", "train-03")] == ["poweredOn"] * 2 + ["poweredOff"]
    assert held_against(lab) == {}
    assert cli.states() == ["rolled back", "finished"]
