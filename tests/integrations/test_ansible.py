"""The Ansible collection, by the real ansible-core: built, installed without a network, and played against the lab."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from support.gates import LONG
from support.places import INVENTORY, PLAYBOOKS, ROOT
from support.required import required_module

from vsphere_ai import __version__

pytestmark = pytest.mark.lab
SOURCE = ROOT / "integrations" / "ansible"
PROGRAMS = Path(sys.executable).parent
UPGRADE = PLAYBOOKS / "hardware-upgrade.yml"
RESULT = re.compile(r"^(ok|changed|fatal): \[\w+\](?:: FAILED!)? => (\{.*\})$", re.MULTILINE)
IMPATIENT = f"""#!{sys.executable}
from vsphere_ai.connect.soap import task_monitor
from vsphere_ai.execution.actions import context, executor, task_progress
executor.LOST_CALL, task_progress.STALL, context.TASK_TIMEOUT, task_monitor._WAKE_S = 1.5, 0.5, 1.5, 0.5
context.Context.task.__defaults__ = (1.5,)
from vsphere_ai.cli.main import run
run()
"""
"""The real program, which gives a task up after 1.5 s instead of minutes."""


def ansible(program, *arguments, cwd, **environment):
    required_module("ansible", "ansible")
    return subprocess.run(
        [PROGRAMS / program, *map(str, arguments)], cwd=cwd, capture_output=True, text=True, timeout=LONG, check=False,
        env={**os.environ, "ANSIBLE_NOCOLOR": "1", "PATH": f"{PROGRAMS}:{os.environ['PATH']}", **environment},
    )  # fmt: skip


@pytest.fixture(scope="module")
def collections(tmp_path_factory):
    """The folder of an installed collection: built from the source, installed from its archive."""
    folder = tmp_path_factory.mktemp("collections")
    environment = {"ANSIBLE_HOME": str(folder / "home")}
    built = ansible("ansible-galaxy", "collection", "build", SOURCE, "--output-path", folder, cwd=folder, **environment)
    assert built.returncode == 0, built.stderr
    (archive,) = folder.glob("vsphere_ai-farm-*.tar.gz")
    assert __version__ in archive.name
    words = ("collection", "install", "--offline", archive, "-p", folder)
    installed = ansible("ansible-galaxy", *words, cwd=folder, **environment)
    assert installed.returncode == 0, installed.stderr
    return folder


@pytest.fixture
def play(lab, collections, tmp_path):
    """Play tasks, and return the exit code, the result of each task, and what was printed."""

    def run(tasks, *arguments, about=None, **environment):
        wanted = {"hosts": "localhost", "gather_facts": False, "tasks": tasks, **(about or {})}
        (tmp_path / "site.yml").write_text(json.dumps([wanted]), "utf-8")
        settings = {"ANSIBLE_COLLECTIONS_PATH": str(collections), "ANSIBLE_HOME": str(collections / "home")}
        done = ansible("ansible-playbook", "-v", "site.yml", *arguments, cwd=tmp_path, **settings, **environment)
        results = [{"how": how, **json.loads(text)} for how, text in RESULT.findall(done.stdout)]
        assert results, done.stdout + done.stderr
        return done.returncode, results, done.stdout

    return run


def apply(**options):
    return {"vsphere_ai.farm.apply": {"inventory": str(INVENTORY), **options}}


def verify(**options):
    return {"vsphere_ai.farm.verify": {"inventory": str(INVENTORY), **options}}


def changes(lab):
    return len(lab.get("/lab/ledger")["entries"])


def test_check_mode_is_the_plan_and_runs_on_the_controller(lab, play, tmp_path):
    (tmp_path / "hosts").write_text("elsewhere ansible_host=192.0.2.1 ansible_python_interpreter=/nowhere/python\n")
    before = changes(lab)
    task = apply(playbook=str(PLAYBOOKS / "ai-ready-cluster.yml"), reboot=2)
    about = {"hosts": "elsewhere", "become": True}
    code, (result,), printed = play([task], "-i", "hosts", "--check", "--diff", about=about)
    assert code == 0, printed
    assert result["changed"]
    assert result["steps"] > 20
    assert result["reboots"] == ["esx01.lab.local", "esx02.lab.local"]
    assert result["power_cycles"] == ["train-01", "train-02", "train-03"]
    assert result["vcenter"] == "lab"
    assert "run" not in result
    for line in ("--- before: host esx01.lab.local (observed)", '-mig.0000:3b:00.0 mode: "disabled"', "+vgpu.memory_l"):
        assert line in printed
    assert changes(lab) == before


def test_a_run_changes_once_and_is_then_as_wanted(lab, play, tmp_path):
    (tmp_path / "upgrade.yml").write_text(UPGRADE.read_text("utf-8"), "utf-8")
    task = apply(playbook="upgrade.yml")
    checked = {**task, "check_mode": True}
    code, (seen, done, again, drift), printed = play([checked, task, task, verify(playbook="upgrade.yml")])
    assert code == 0, printed
    assert seen["changed"] is done["changed"] is True
    assert seen["steps"] == done["steps"]
    assert seen["digest"] == done["digest"]
    assert done["counts"] == {"done": done["steps"], "failed": 0, "unknown": 0, "skipped": 0}
    assert done["verified"] == ["train-01", "train-02", "train-03", "train-04"]
    assert re.fullmatch(r"\d{8}-\d{6}-\w+", done["run"])
    assert again["changed"] is False
    assert again["steps"] == 0
    assert drift["as_wanted"] is True
    assert drift["drifted"] == []


def test_a_saved_plan_is_carried_out_and_a_stale_one_refused(lab, play, tmp_path):
    argv = [sys.executable, "-m", "vsphere_ai", "plan", "-i", INVENTORY, UPGRADE, "--to", tmp_path / "plan.json"]
    subprocess.run(argv, check=True, capture_output=True)
    task = {**apply(plan="plan.json"), "ignore_errors": True}
    shown = {**apply(plan="plan.json"), "check_mode": True}
    drift = verify(playbook=str(UPGRADE))
    code, (before, seen, done, stale), printed = play([drift, shown, task, task])
    assert code == 0, printed
    assert before["as_wanted"] is False
    assert before["drifted"][0] == {"target": "train-01", "kind": "hardware", "field": "version", "observed": 17,
                                    "wanted": 19}  # fmt: skip
    assert seen["changed"] is done["changed"] is True
    assert (stale["how"], stale["rc"], stale["changed"]) == ("fatal", 3, False)
    assert "stale" in stale["msg"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("- hosts: gpu_hosts\n  migg: {mode: enabled}\n", ["broken.yml:2:3", "did you mean 'mig'?", "(exit 65)"]),
        ("- vms: train-01\n  vgpu: [grid_a100-9-99c]\n", ["train-01: ", "vgpu.", "(exit 1)"]),
    ],
)
def test_the_reason_reaches_the_user(lab, play, tmp_path, text, words):
    (tmp_path / "broken.yml").write_text(text, "utf-8")
    before = changes(lab)
    code, (result,), _ = play([apply(playbook="broken.yml")])
    assert code == 2
    assert [w for w in words if w not in result["msg"]] == [], result["msg"]
    assert changes(lab) == before


def test_another_number_of_reboots_is_refused_in_check_mode_too(lab, play):
    before = changes(lab)
    task = {**apply(playbook=str(PLAYBOOKS / "ai-ready-cluster.yml"), reboot=1), "ignore_errors": True}
    _, results, _ = play([{**task, "check_mode": True}, task])
    assert [(each["how"], each["rc"], each["changed"]) for each in results] == [("fatal", 3, False)] * 2
    assert changes(lab) == before


def test_an_unknown_outcome_says_how_to_go_on(lab, play, tmp_path):
    program = tmp_path / "impatient"
    program.write_text(IMPATIENT, "utf-8")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    lab.set_faults("- {on: ReconfigVM_Task, target: train-02, do: {task-stuck: 20}}\n")
    task = apply(playbook=str(PLAYBOOKS / "pvrdma-only.yml"))
    code, (result,), _ = play([task], VSPHERE_AI=str(program))
    lab.clear_faults()
    assert code == 2
    assert result["rc"] == 9
    assert result["counts"]["unknown"] == 1
    assert result["changed"] is True
    assert result["resume"] == f"vsphere-ai resume {result['run']}"
    assert result["resume"] in result["msg"]
    assert "train-02: " in result["msg"]


def test_a_missing_program_is_named(play):
    _, (result,), _ = play([apply(playbook="a.yml", executable="/nowhere/vsphere-ai")])
    assert "/nowhere/vsphere-ai is no program" in result["msg"]


@pytest.mark.parametrize("module", ["apply", "verify"])
def test_the_documentation_has_every_option(collections, module):
    shown = ansible("ansible-doc", "--json", f"vsphere_ai.farm.{module}", cwd=collections,
                    ANSIBLE_COLLECTIONS_PATH=str(collections), ANSIBLE_HOME=str(collections / "home"))  # fmt: skip
    assert shown.returncode == 0, shown.stderr
    (page,) = json.loads(shown.stdout).values()
    source = (SOURCE / "plugins" / "modules" / f"{module}.py").read_text("utf-8")
    source += (SOURCE / "plugins" / "module_utils" / "command.py").read_text("utf-8")
    options = set(re.findall(r'"(\w+)": \{"type": "\w+"', source))
    assert set(page["doc"]["options"]) == options
    assert page["doc"]["attributes"]["check_mode"]["support"] == "full"
    assert page["doc"]["attributes"]["diff_mode"]["support"] == "full"
    tasks = yaml.safe_load(page["examples"])
    assert all(set(task[f"vsphere_ai.farm.{module}"]) <= options for task in tasks)
    assert {"rc"} < set(page["return"])
