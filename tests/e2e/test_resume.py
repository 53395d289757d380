"""A run that is killed anywhere is brought to its end by `resume`: every effect once, everything put back."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sys
from collections import Counter
from pathlib import Path

import pytest
from support import prefork
from support.gates import LONG, heard, struck, until
from support.labs import started
from support.places import INVENTORY, PLAYBOOKS
from support.processes import apply, killed_at
from support.seeds import few

from vsphere_ai.runs import journal

pytestmark = pytest.mark.lab
MISSION = PLAYBOOKS / "ai-ready-cluster.yml"
ONCE = ("ReconfigVM_Task", "UpgradeVM_Task", "ShutdownGuest", "PowerOnVM_Task", "UpdateGraphicsConfig",
        "esxcli system shutdown reboot", "EnterMaintenanceMode_Task", "ExitMaintenanceMode_Task")  # fmt: skip


@pytest.fixture(autouse=True)
def _own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setattr("vsphere_ai.app.runs.quiesce.NEVER_DOWN", 3.0)
    monkeypatch.setattr("vsphere_ai.app.runs.quiesce.STILL_RUNNING", 3.0)


def judge(farm, ledger, before):
    """Everything is as planned, put back, and happened once."""
    now = farm()
    for name, host in now["hosts"].items():
        assert host["maintenance"] == before["hosts"][name]["maintenance"], name
        assert host["ssh"]["running"] == before["hosts"][name]["ssh"]["running"], name
    for name, vm in now["vms"].items():
        assert vm["power"] == before["vms"][name]["power"], name
    assert all(now["vms"][f"train-0{n}"]["vgpu"] == ["grid_a100-3-20c"] for n in range(1, 5))
    assert all(len(now["vms"][f"train-0{n}"]["pvrdma"]) == 1 for n in range(1, 5))
    count = Counter((e["object"], e["call"]) for e in ledger() if e["call"] in ONCE)
    assert {k: n for k, n in count.items() if n > 1} == {}


POINTS = [
    r"train-01 +\[\d+/\d+\] shut down \(guest shutdown only\)",
    r"esx01\S+ +\[\d+/\d+\] enter maintenance mode",
    r"esx01\S+ +\[\d+/\d+\] enter maintenance mode — done",
    r"esx01\S+ +\[\d+/\d+\] set graphics",
    r"esx01\S+ +\[\d+/\d+\] MIG enabled on GPU 0000:3b:00.0 — done",
    r"esx01\S+ +\[\d+/\d+\] reboot \(over SSH\)",
    r"esx01\S+ +\[\d+/\d+\] reboot \(over SSH\) — done",
    r"esx01\S+ +\[\d+/\d+\] wait until the host is connected",
    r"esx01\S+ +\[\d+/\d+\] start TSM-SSH again after boot",
    r"esx01\S+ +\[\d+/\d+\] read back — done",
    r"train-01 +\[\d+/\d+\] upgrade to hardware version 19",
    r"train-01 +\[\d+/\d+\] reconfigure",
    r"train-01 +\[\d+/\d+\] power on",
    r"esx01\S+ +\[\d+/\d+\] health gate",
    r"esx02\S+ +\[\d+/\d+\] reboot \(over SSH\) — done",
    r"train-03 +\[\d+/\d+\] reconfigure",
]


@pytest.mark.parametrize("point", few(POINTS, 4))
def test_a_killed_run_is_resumed(lab, cli, farm, ledger, point):
    before = farm()
    killed_at(lab, point, MISSION)
    assert cli.states() == ["unfinished"]
    assert cli("plan", MISSION) in (0, 1)
    assert "run.unfinished" in cli.rules
    assert cli("resume") == 0, cli.out + cli.err
    assert "run.not-approved" not in cli.rules
    judge(farm, ledger, before)
    assert cli("plan", MISSION, "--detailed-exitcode") == 0
    assert cli.states() == ["finished"]
    assert cli("resume") == 64


def test_a_run_is_rolled_back(cli, farm):
    before = farm()
    assert cli("apply", PLAYBOOKS / "time-sliced.yml", "--yes") == 0
    (run,) = (record.id for record in journal.every())
    assert cli("rollback", run, "--yes") == 0, cli.out + cli.err
    now = farm()
    for name in ("esx01.lab.local", "esx02.lab.local"):
        assert [g["active"] for g in now["hosts"][name]["gpus"]] == [g["active"] for g in before["hosts"][name]["gpus"]]
    assert all(now["vms"][n]["vgpu"] == [] and now["vms"][n]["power"] == v["power"] for n, v in before["vms"].items())


def test_two_runs_at_once_have_one_winner(lab, cli, ledger):
    lab.set_faults("- {on: EnterMaintenanceMode_Task, nth: 1, do: hold}\n")  # the winner is there until the other ends
    argv = [sys.executable, "-m", "vsphere_ai", "apply", "-i", str(INVENTORY), str(MISSION), "--yes"]
    environment = {**os.environ, "VSPHERE_AI_LAB_DIR": str(lab.directory)}
    both = [prefork.Popen(argv, stdout=prefork.DEVNULL, stderr=prefork.PIPE, text=True, env=environment)
            for _ in range(2)]  # fmt: skip
    until(lambda: any(p.poll() is not None for p in both))
    lab.clear_faults()
    errors = [p.communicate(timeout=LONG)[1] for p in both]
    assert sorted(p.returncode for p in both) == [0, 7], errors
    assert "another run works on this vCenter" in "".join(errors)
    count = Counter((e["object"], e["call"]) for e in ledger() if e["call"] in ONCE)
    assert max(count.values()) == 1


def test_a_journal_is_ours_alone(cli, tmp_path):
    assert cli("apply", PLAYBOOKS / "pvrdma-only.yml", "--yes") == 0
    folder = tmp_path / "state" / "runs"
    assert oct(folder.stat().st_mode)[-3:] == "700"
    assert {oct(f.stat().st_mode)[-3:] for f in folder.glob("*.db")} == {"600"}


@pytest.mark.parametrize("lock", ["local", "none"])
@pytest.mark.parametrize("where", [".", "runs", "locks"])
@pytest.mark.parametrize("spoil", ["file", "link", "open"])
def test_without_safe_folders_nothing_is_changed(cli, ledger, tmp_path, spoil, where, lock):
    """T-09: what a run has to remember is not left where somebody else can put something else."""
    if where == "locks" and lock == "none":
        pytest.skip("such a run needs no lock")
    folder = tmp_path / "state" / where
    folder.parent.mkdir(exist_ok=True)
    if spoil == "file":
        folder.write_text("")
    elif spoil == "link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        folder.symlink_to(tmp_path / "elsewhere")
    else:
        folder.mkdir()
        folder.chmod(0o777)
    assert cli("apply", PLAYBOOKS / "pvrdma-only.yml", "--yes", "--lock", lock) == 8, cli.out + cli.err
    assert str(folder) in cli.err
    assert ledger() == []


# -- what came after a run that was cut off is not undone without asking

NO_VGPU = "- vms: train-[01:04]\n  vgpu: []\n"


def state_of(cli, run):
    assert cli("run", "list", "-o", "json") == 0
    return next(r["state"] for r in json.loads(cli.out)["runs"] if r["run"] == run)


def test_a_run_is_superseded_by_later_ones_that_ended_well(lab, cli, farm):
    process = apply(lab, MISSION)
    assert process.until(lambda out: any("enter maintenance mode" in o and '"done"' in o for o in out))
    process.send(signal.SIGINT)
    assert process.wait() == 130, process.said
    (first,) = (record.id for record in journal.every())
    assert state_of(cli, first) == "stopped"
    cli("plan", MISSION)
    assert first in cli.text("run.unfinished"), "its steps are not all done, though it owes nothing"
    assert cli("apply", MISSION, "--yes") == 0, cli.err
    assert cli("apply", cli.file(NO_VGPU), "--yes") == 0, cli.err
    assert state_of(cli, first) == "superseded"
    cli("plan", MISSION)
    assert "run.unfinished" not in cli.rules
    wanted = farm()["vms"]
    assert cli("resume") == 64
    assert cli.error == "run.none"
    assert cli("resume", first) == 0, cli.out + cli.err
    assert "train-01: vgpu" in cli.text("run.changed-later")
    assert farm()["vms"] == wanted
    assert state_of(cli, first) == "finished"


def test_a_run_that_was_rolled_back_is_over(lab, cli, farm):
    killed_at(lab, r"esx01\S+ +\[\d+/\d+\] enter maintenance mode — done", PLAYBOOKS / "time-sliced.yml")
    (first,) = (record.id for record in journal.every())
    assert cli("rollback", first, "--yes") == 0, cli.out + cli.err
    assert state_of(cli, first) == "rolled back"
    wanted = farm()["vms"]
    cli("plan", PLAYBOOKS / "time-sliced.yml")
    assert "run.unfinished" not in cli.rules
    assert cli("resume") == 64
    assert cli.error == "run.none"
    assert cli("resume", first) == 64, cli.out
    assert first in cli.text("run.not-latest")
    assert farm()["vms"] == wanted
    assert cli("run", "show", first) == 0
    assert "vsphere-ai resume" not in cli.out
    assert "vsphere-ai rollback" not in cli.out


def test_a_rollback_that_has_nothing_to_do_is_one(cli):
    assert cli("apply", PLAYBOOKS / "time-sliced.yml", "--yes") == 0
    (first,) = (record.id for record in journal.every())
    assert cli("rollback", first, "--yes") == 0, cli.out + cli.err
    record = journal.open_run(first)
    assert record.run.rolled_back in cli.out + cli.err
    # as if it had gone on since, and somebody had put everything back by hand
    record.update(rolled_back=None, resumed=journal.now(), exit_code=1)
    assert state_of(cli, first) == "failed"
    assert cli("rollback", first, "--yes") == 0, cli.out + cli.err
    assert len(cli.states()) == 2, "nothing had to be done"
    assert state_of(cli, first) == "rolled back"


def test_one_broken_connection_stops_no_plan(lab, cli):
    lab.set_faults([{"on": "ssh: nvidia-smi", "nth": 1, "when": "before", "do": "reset"}])
    assert cli("plan", MISSION) == 0, cli.out + cli.err
    assert lab.get("/lab/faults")["fired"]


def test_a_host_nobody_reaches_over_ssh_is_exit_5(lab, cli, ledger):
    lab.set_faults([{"on": "ssh: nvidia-smi", "when": "before", "do": "reset"}])
    assert cli("plan", MISSION) == 5, cli.out + cli.err
    assert cli("apply", MISSION, "--yes") == 5
    assert "[ssh.unreachable]" in cli.out
    assert ledger() == []


def test_a_moved_inventory_is_named(lab, cli, farm, ledger, tmp_path):
    own, moved = tmp_path / "own.yml", tmp_path / "moved.yml"
    own.write_text(INVENTORY.read_text(encoding="utf-8"), encoding="utf-8")
    before = farm()
    killed_at(lab, "enter maintenance mode — done", MISSION, inventory=own)
    own.rename(moved)
    assert cli("resume", "--yes") == 64
    assert cli("resume", "--yes", "-i", moved) == 0, cli.out + cli.err
    judge(farm, ledger, before)
    run = next(iter(journal.every())).id
    assert cli("rollback", run, "--yes") == 64
    assert cli("rollback", run, "--yes", "-i", moved) == 0, cli.out + cli.err


def test_what_was_done_and_undone_is_not_done_again_unasked(lab, cli, ledger):
    killed_at(lab, r"esx01\S+ +\[\d+/\d+\] read back — done", PLAYBOOKS / "pvrdma-only.yml")
    lab.post("/lab/reset")  # somebody has put everything back
    before = len(ledger())
    assert cli("resume") == 64, cli.out + cli.err
    assert re.search(r"esx0\d\.lab\.local: .*Net.PVRDMAVmknic", cli.text("run.undone"))
    assert len(ledger()) == before
    assert cli("resume", "--yes") == 0, cli.out + cli.err


def test_a_second_reboot_is_refused_and_the_ways_on_are_named(lab, cli, ledger):
    killed_at(lab, r"esx01\S+ +\[\d+/\d+\] health gate.* — done", MISSION)
    lab.post("/lab/reset")  # as if the reboot had done nothing
    before = len(ledger())
    assert cli("resume", "--yes") == 3, cli.out + cli.err
    run = next(iter(journal.every())).id
    assert cli.error == "run.reboots-again"
    assert "esx01.lab.local" in cli.err
    assert f"vsphere-ai resume {run} --reboot-again" in cli.err
    assert f"vsphere-ai rollback {run}" in cli.err
    assert len(ledger()) == before


@pytest.mark.parametrize("way", ["resume", "rollback"])
def test_a_run_on_another_vcenter_is_not_taken_up(lab, cli, ledger, way):
    killed_at(lab, r"esx01\S+ +\[\d+/\d+\] set graphics", MISSION)
    record = next(iter(journal.every()))
    record.update(instance="11111111-2222-3333-4444-555555555555")
    before = len(ledger())
    assert cli(way, record.id, "--yes") == 3, cli.out + cli.err
    assert cli.error == "run.other-vcenter"
    assert len(ledger()) == before


@pytest.mark.parametrize("way", ["resume", "rollback"])
def test_a_run_that_goes_without_a_lock_is_not_taken_up_beside_it(lab, cli, ledger, way):
    lab.set_faults("- {on: EnterMaintenanceMode_Task, nth: 1, do: hold}\n")
    process = apply(lab, MISSION, "--lock", "none")
    struck(lab, 1, alive=process.process)
    (record,) = journal.every()
    assert cli(way, record.id, "--yes", "--lock", "none") == 7, cli.out + cli.err
    assert cli.error == "run.under-way"
    assert f"process {process.process.pid}" in cli.err
    lab.clear_faults()
    assert process.wait() == 0, process.said


BOTH_PLAN = """
import os
from vsphere_ai.app.runs import resume_run
from vsphere_ai.cli.main import run
planned = resume_run.plan_from
def held(*arguments):
    found = planned(*arguments)
    os.write(1, b"planned\\n")
    os.read(0, 1)  # until the other one has ended
    return found
resume_run.plan_from = held
run()
"""


@pytest.mark.parametrize("second", ["resume", "rollback"])
def test_a_run_is_taken_up_once_also_without_a_lock(lab, cli, farm, ledger, second):
    """Two processes that go on with one run would each send what is left of it."""
    before = farm()
    killed_at(lab, r"esx01\S+ +\[\d+/\d+\] enter maintenance mode — done", MISSION)
    (record,) = journal.every()
    argv = [sys.executable, "-c", BOTH_PLAN, "resume", record.id, "--yes", "--lock", "none"]
    pipe = prefork.PIPE
    first = prefork.Popen(argv, stdin=pipe, stdout=pipe, stderr=prefork.STDOUT, text=True)
    heard(first.stdout, "^planned$")
    assert cli(second, record.id, "--yes", "--lock", "none") == 7, cli.out + cli.err
    assert cli.error == "run.under-way"
    assert f"process {first.pid}" in cli.err
    said, _ = first.communicate("\n", timeout=LONG)
    assert first.returncode == 0, said
    judge(farm, ledger, before)


TIMING = "timing: {boot_seconds: 0.15, task_seconds: 0.005, shutdown_seconds: 0.05, vmotion_seconds: 0.02}"
R0 = Path(__file__).parents[1] / "reliability" / "r0"
TOOL = (sys.executable, "-m", "vsphere_ai")


@contextlib.contextmanager
def small_farm(tmp_path, monkeypatch):
    """A farm of a lab of its own; everything is as it was in the end."""
    from vsphere_ai.lab.front import process

    farm = (R0 / "farm.yml").read_text(encoding="utf-8")
    text, changed = re.subn(r"(?m)^timing: .*$", TIMING, farm)
    assert changed == 1
    (tmp_path / "farm.yml").write_text(text, encoding="utf-8")
    lab = started(tmp_path / "lab", tmp_path / "farm.yml")
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(lab.directory))
    try:
        yield lab
        checks = lab.check(since=0, max_down=1)["invariants"]
        assert [c for c in checks if not c["ok"] and c["name"] != "sessions"] == []
    finally:
        process.stop(tmp_path / "lab")


def upgrade_of_one(tmp_path, more=""):
    (tmp_path / "one.yml").write_text(f"- vms: train-05\n  hardware: {{version: 19}}\n{more}", encoding="utf-8")
    return [*TOOL, "apply", "-i", str(R0 / "inventory.yml"), str(tmp_path / "one.yml"), "--yes"]


def test_a_guest_that_goes_down_after_the_run_has_died(tmp_path, monkeypatch):
    """What was told to shut down goes off behind everybody's back, and is not somebody else's doing."""
    with small_farm(tmp_path, monkeypatch) as lab:
        lab.set_faults("- {on: ShutdownGuest, nth: 1, do: guest-stuck}\n")
        killed_when_struck(lab, upgrade_of_one(tmp_path))
        until(lambda: lab.get("/lab/traffic")["calls"].get("ShutdownGuest") == 1)
        assert power(lab) == "poweredOn", "it is still going down"
        with resumed(lab) as resume:
            heard(resume.stdout, "train-05: waiting for its guest")
            lab.clear_faults()


def test_a_guest_that_goes_down_while_a_run_is_resumed(tmp_path, monkeypatch):
    """It took longer than it was given, and is off when resume, which has read that it runs, comes to switch it off."""
    with small_farm(tmp_path, monkeypatch) as lab:
        lab.set_faults("- {on: ShutdownGuest, nth: 1, do: guest-stuck}\n")
        short = "  power: {shutdown_timeout: 1s}\n"
        done = prefork.run(upgrade_of_one(tmp_path, short), capture_output=True, text=True, timeout=LONG)
        assert done.returncode == 1, done.stdout + done.stderr
        assert "train-05 was asked to shut down and may do so yet" in done.stdout + done.stderr
        assert power(lab) == "poweredOn"
        lab.add_faults("- {on: HasPrivilegeOnEntities, do: hold}\n")
        with resumed(lab) as resume:
            struck(lab, 2, alive=resume)
            lab.release_fault(1)
            until(lambda: power(lab) == "poweredOff")
            lab.release_fault(2)
        calls = [e["call"] for e in lab.get("/lab/ledger")["entries"]]
        assert calls.count("ShutdownGuest") == 1, "it was told a second time, so this is not the case that is meant"


@pytest.mark.parametrize("method", ["UpgradeVM_Task", "PowerOnVM_Task"])
def test_a_task_that_still_runs_when_the_run_is_resumed(tmp_path, monkeypatch, method):
    """Read too early, its end would look like somebody else's doing, or a VM that boots be switched off again."""
    with small_farm(tmp_path, monkeypatch) as lab:
        lab.set_faults(f"- {{on: {method}, nth: 1, do: {{task-stuck: 20}}}}\n")
        killed_when_struck(lab, upgrade_of_one(tmp_path))
        until(lambda: lab.get("/lab/traffic")["calls"].get(method) == 1)
        assert method not in [e["call"] for e in lab.get("/lab/ledger")["entries"]], "it is still under way"
        with resumed(lab) as resume:
            heard(resume.stdout, r"train-05: the task \S+ .*is still under way; waiting for its end")
            lab.clear_faults()
        count = Counter(e["call"] for e in lab.get("/lab/ledger")["entries"])
        assert {count[m] for m in ("ShutdownGuest", "UpgradeVM_Task", "PowerOnVM_Task")} == {1}, count


def killed_when_struck(lab, argv):
    """Kill a run when the first rule of the lab has fired."""
    run = prefork.Popen(argv)
    struck(lab, 1, alive=run)
    run.kill()
    run.wait(LONG)


@contextlib.contextmanager
def resumed(lab):
    """`resume` in a process of its own; it ends well, and train-05 runs."""
    resume = prefork.Popen([*TOOL, "resume"], stdout=prefork.PIPE, stderr=prefork.STDOUT, text=True)
    try:
        yield resume
        said, _ = resume.communicate(timeout=LONG)
    finally:
        resume.kill()
        resume.wait()
    assert resume.returncode == 0, said
    assert "not by this run" not in said
    assert power(lab) == "poweredOn", said


def power(lab):
    return next(v["power"] for v in lab.get("/lab/farm")["vms"] if v["name"] == "train-05")
