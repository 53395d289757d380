"""One golden file per screen, at two widths; the only place that keeps what the tool says word for word.

After a change of the wording, ``UPDATE_GOLDEN=1 pytest tests/e2e/test_screens.py`` writes the files anew: read them.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.gates import struck
from support.places import ROOT
from support.processes import Process
from support.screens import GOLDEN, Screens

from vsphere_ai.runs import journal

pytestmark = pytest.mark.lab
MISSION = "playbooks/ai-ready-cluster.yml"
TOO_MANY = """\
- hosts: gpu_hosts
  mig: {layout: '-cgi 19,14,9,5,5,2 -C'}
  rolling: {evacuate: power_off}
- vms: train-[01:02]
  vgpu: [grid_a100-40c, grid_a100-40c]
"""
FULL = """\
- hosts: gpu_hosts
  graphics: {default_type: shared_direct}
  rolling: {evacuate: power_off}
- vms: train-[01:04]
  vgpu: [grid_a100-40c, grid_a100-40c]
"""
WRONG = "- hosts: esx*\n  mgi: {mode: enabled}\n- vms: train-01\n  hardware: {version: nineteen}\n"
ONE = "- vms: train-04\n  hardware: {version: 19, memory_reservation: full}\n"
TWO = "- vms: [train-04, infra-01]\n  hardware: {memory_reservation: 1024}\n"
PLAYS = {"two.yml": TWO, "refused.yml": TOO_MANY, "full.yml": FULL, "wrong.yml": WRONG, "one.yml": ONE}

# screen -> its command, and the exit code it ends with
FRESH = {
    "plan": (f"plan {MISSION}", 0),
    "plan-problems": ("plan refused.yml", 1),
    "check": ("check --limit esx01.lab.local,train-04", 1),
    "check-failures": ("check --failures", 2),
    "verify": (f"verify {MISSION}", 2),
    "doctor": ("doctor", 2),
    "doctor-permissions": ("doctor --permissions one.yml", 0),
    "capacity-fits": ("capacity playbooks/ai-ready-cluster.yml", 0),
    "capacity-does-not-fit": ("capacity full.yml", 1),
    "show": ("show --limit esx01.lab.local,train-04", 0),
    "rdma-trace": ("rdma trace train-01", 2),
    "rdma-devices": ("rdma devices", 0),
    "trust-host": ("trust host esx01.lab.local", 0),
    "lab-status": ("lab status", 0),
    "lab-judge": ("lab judge", 0),
    "runs-none": ("run list", 0),
    "lock-free": ("run unlock", 0),
}
NO_CONNECTION = {
    "mig-layouts": ("mig layouts a30-24gb", 0),
    "mig-explain": ("mig explain 3g.20gb,2g.10gb,19 --gpu a100-40gb", 0),
    "mig-explain-does-not-fit": ("mig explain 19,14,9,5,5,2 --gpu a100-40gb", 1),
    "mig-plan": ("mig plan 4g.20gb,2g.10gb,1g.5gb --gpu a100-40gb --from 3g.20gb:0,1g.5gb:6 --in-use 1g.5gb:6", 0),
    "mig-plan-no-way": ("mig plan 7g.40gb --gpu a100-40gb --from 1g.5gb:0 --in-use 1g.5gb:0=train-03", 1),
    "vgpu-list": ("vgpu list a30-24gb", 0),
    "explain-infiniband": ("explain infiniband", 0),
    "explain-rdma-options": ("explain rdma-options", 0),
    "error-usage": ("plan --no-such-option", 64),
    "error-no-file": ("plan nothing.yml", 64),
    "error-input": ("plan wrong.yml", 65),
}


@pytest.fixture
def screens(cli, lab, monkeypatch, tmp_path):
    for part in ("playbooks", "inventories"):
        shutil.copytree(ROOT / part, tmp_path / part)
    for name, text in PLAYS.items():
        cli.file(text, name)
    monkeypatch.chdir(tmp_path)
    return Screens(cli, monkeypatch, ((tmp_path, "~"), (lab.directory, "/lab")))


@pytest.mark.parametrize("name", FRESH)
def test_a_screen_of_the_fresh_farm(name, screens):
    command, code = FRESH[name]
    screens.both(name, command, code)


def test_screens_without_a_connection(screens):
    for name, (command, code) in NO_CONNECTION.items():
        screens.both(name, command, code)


def test_screens_of_a_run_that_ends_well(screens):
    screens.one("apply", "apply one.yml --yes", 0)
    (record,) = journal.every()
    screens.both("runs", "run list", 0)
    screens.both("show-run", f"run show {record.id}", 0)
    screens.both("rollback", f"rollback {record.id}", 64)


def test_screens_of_the_main_job(screens):
    screens.end("apply-main-job", f"apply {MISSION} --yes", 0)
    screens.both("capacity", "capacity --limit esx02.lab.local", 0)
    screens.both("rdma-trace-healthy", "rdma trace train-01", 0)
    screens.both("mig-plan-of-a-host", "mig plan 7g.40gb --host esx01.lab.local --gpu 0000:86:00.0", 0)
    (record,) = journal.every()
    screens.one("rollback-main-job", f"rollback {record.id}", 64)


def test_screens_of_a_run_that_fails(screens, lab):
    lab.set_faults("- {on: ReconfigVM_Task, nth: 1, do: {task-fails: InvalidState}}\n")
    screens.one("apply-failed", "apply one.yml --yes", 1)
    (record,) = journal.every()
    screens.both("plan-after-a-failed-run", "plan one.yml", 0)
    screens.both("show-failed-run", f"run show {record.id}", 0)


def test_screens_of_a_run_that_was_undone(screens, lab):
    lab.set_faults("- {on: ReconfigVM_Task, target: infra-01, do: {task-fails: InvalidState}}\n")
    screens.end("apply-partly", "apply two.yml --yes", 1)
    lab.post("/lab/reset")
    lab.clear_faults()
    screens.both("resume-proposal", "resume", 64)
    screens.end("resume", "resume --yes", 0)


def test_screens_of_a_lock_that_is_held(screens, lab):
    lab.set_faults("- {on: ReconfigVM_Task, nth: 1, do: hold}\n")
    holder = Process(lab, "apply", "-i", "inventories/lab.yml", "one.yml", "--yes", "--lock", "vcenter")
    struck(lab, 1, alive=holder.process)
    screens.both("lock-held", "run unlock --yes", 7)
    screens.both("runs-under-way", "run list", 0)
    lab.clear_faults()
    assert holder.wait() == 0, holder.said


def test_no_golden_file_is_left_over():
    """A screen that is no longer compared leaves no file."""
    text = Path(__file__).read_text("utf-8") + (Path(__file__).parent / "test_exit_codes.py").read_text("utf-8")
    assert [p.stem for p in GOLDEN.iterdir() if f'"{p.stem}"' not in text and not p.stem.startswith("exit-")] == []
