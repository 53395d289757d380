"""What a run was approved for is gone, or has another name, by the time it is finished or rolled back: the rest is."""

from __future__ import annotations

import json

import pytest
from support.gates import LONG
from support.places import INVENTORY, PLAYBOOKS
from support.processes import Process, apply, killed_at

pytestmark = pytest.mark.lab
MISSION = PLAYBOOKS / "ai-ready-cluster.yml"
DOWN = r"esx01\S+ +\[\d+/\d+\] enter maintenance mode — done"


@pytest.fixture(autouse=True)
def _own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setattr("vsphere_ai.app.runs.quiesce.NEVER_DOWN", 3.0)
    monkeypatch.setattr("vsphere_ai.app.runs.quiesce.STILL_RUNNING", 3.0)


@pytest.fixture
def cut_off(lab, cli, soap):
    """A run that was killed with esx01 in maintenance mode; return its name."""
    killed_at(lab, DOWN, MISSION)
    (run,) = runs(cli)
    assert run["pending"]
    return run["run"]


def runs(cli):
    assert cli("run", "list", "-o", "json") == 0
    return json.loads(cli.out)["runs"]


def unregister(soap, name):
    vm = soap.vm(name)
    if vm.runtime.powerState != "poweredOff":
        soap.wait(vm.PowerOffVM_Task())
    vm.UnregisterVM()


def put_back(lab):
    """The lab's own judge finds nothing that was left behind."""
    found = {i["name"]: i["findings"] for i in lab.check(since=0)["invariants"] if not i["ok"]}
    found.pop("sessions", None)  # a killed tool closes none
    return found


@pytest.mark.parametrize("gone", ["train-04", "train-02"])
def test_a_run_is_finished_without_a_vm_that_was_removed_since(lab, cli, soap, farm, cut_off, gone):
    """One of another host that nothing was done to yet, and one that the run has switched off."""
    unregister(soap, gone)
    assert cli("resume", "--yes") == 1, cli.out + cli.err
    assert gone in cli.text("object.gone")
    assert put_back(lab) == {}
    now = farm()["vms"]
    rest = {"train-01", "train-02", "train-03", "train-04"} - {gone}
    assert all(now[name]["vgpu"] == ["grid_a100-3-20c"] for name in rest)
    assert all(now[name]["power"] == "poweredOn" for name in rest - {"train-04"})
    (run,) = runs(cli)
    assert (run["state"], run["pending"]) == ("finished", [])
    assert cli("resume") == 64, "it is not offered for ever"


def test_a_run_is_rolled_back_without_a_vm_that_was_removed_since(lab, cli, soap, farm, cut_off):
    before = farm()
    unregister(soap, "train-04")
    assert cli("rollback", cut_off, "--yes") == 1, cli.out + cli.err
    assert "train-04" in cli.text("object.gone")
    assert put_back(lab) == {}
    assert farm()["vms"]["train-01"]["vgpu"] == before["vms"]["train-01"]["vgpu"]
    assert all(not run["pending"] for run in runs(cli))


def test_a_run_that_failed_because_a_vm_was_removed_can_be_finished(lab, cli, soap, farm, monkeypatch):
    from vsphere_ai.execution.actions.executor import StepExecutor

    do = StepExecutor.do

    def remove_first(self, step, *more):
        if step.target.name == "train-04" and "train-04" in farm()["vms"]:
            unregister(soap, "train-04")
        return do(self, step, *more)

    monkeypatch.setattr(StepExecutor, "do", remove_first)
    assert cli("apply", MISSION, "--yes") == 1, cli.out + cli.err
    assert cli("resume", "--yes") == 1, cli.out + cli.err
    assert put_back(lab) == {}
    assert [(r["state"], r["pending"]) for r in runs(cli)] == [("finished", [])]


@pytest.mark.parametrize("command", ["resume", "rollback"])
def test_a_vm_that_was_renamed_since_is_still_the_one_that_was_approved(lab, cli, soap, farm, cut_off, command):
    for name in ("train-01", "train-04"):  # one is switched off by the run, one not yet touched
        soap.wait(soap.vm(name).Rename_Task(f"{name}-renamed"))
    assert cli(command, cut_off, "--yes") == 0, cli.out + cli.err
    assert put_back(lab) == {}
    now = farm()["vms"]
    wanted = ["grid_a100-3-20c"] if command == "resume" else []
    assert now["train-01-renamed"]["vgpu"] == now["train-04-renamed"]["vgpu"] == wanted
    assert now["train-01-renamed"]["power"] == "poweredOn"


@pytest.mark.parametrize("command", ["resume", "rollback"])
def test_a_vm_that_was_moved_since_is_still_the_one_that_was_approved(lab, cli, soap, farm, command):
    """Also where the playbook names it by its path, which is another one now."""
    places = ", ".join(f"/DC0/vm/ai/training/train-0{n}" for n in range(1, 5))
    text = MISSION.read_text(encoding="utf-8").replace("vms: train-[01:04]", f"vms: [{places}]")
    assert places in text
    killed_at(lab, DOWN, cli.file(text))
    (run,) = runs(cli)
    folder = soap.vm("train-01").parent.CreateFolder("quarantine")
    soap.wait(folder.MoveIntoFolder_Task([soap.vm("train-01"), soap.vm("train-04")]))
    assert cli(command, run["run"], "--yes") == 0, cli.out + cli.err
    assert put_back(lab) == {}
    now = farm()["vms"]
    wanted = ["grid_a100-3-20c"] if command == "resume" else []
    assert now["train-01"]["vgpu"] == now["train-04"]["vgpu"] == wanted
    assert now["train-01"]["power"] == "poweredOn"


def test_a_limit_that_names_what_is_gone_does_not_stop_a_resume(lab, cli, soap):
    killed_at(lab, DOWN, MISSION, "--limit", "gpu_hosts,train-04")
    unregister(soap, "train-04")
    assert cli("resume", "--yes") == 1, cli.out + cli.err
    assert put_back(lab) == {}
    assert runs(cli)[0]["state"] == "finished"


def test_a_vm_that_is_removed_between_its_change_and_the_look_at_it_fails_alone(lab, cli, soap, farm):
    lab.set_faults("- {on: ReconfigVM_Task, target: train-04, nth: 1, when: after, do: {delay: 3s}}\n")
    run = apply(lab, MISSION)
    assert run.until(lambda _: lab.get("/lab/faults")["fired"], 60), run.said
    soap.vm("train-04").UnregisterVM()
    assert run.wait(LONG) == 1, run.said
    outcomes = json.loads(run.out[-1])["outcomes"]
    assert {(o["target"], o["rule"]) for o in outcomes if o["state"] == "failed"} == {("train-04", "object.gone")}
    assert "Traceback" not in run.said
    assert put_back(lab) == {}
    now = farm()["vms"]
    assert all(now[name]["vgpu"] == ["grid_a100-3-20c"] for name in ("train-01", "train-02", "train-03"))


def test_a_vm_that_is_moved_and_renamed_during_the_run_is_finished(lab, soap, farm):
    lab.set_faults("- {on: ReconfigVM_Task, target: train-04, nth: 1, when: after, do: {delay: 1s}}\n")
    run = Process(lab, "apply", "-i", INVENTORY, MISSION, "--yes")
    assert run.until(lambda _: lab.get("/lab/faults")["fired"], 60), run.said
    vm = soap.vm("train-04")
    soap.wait(vm.Rename_Task("taken-away"))
    soap.wait(vm.parent.CreateFolder("quarantine").MoveIntoFolder_Task([vm]))
    assert run.wait(LONG) == 0, run.said
    assert put_back(lab) == {}
    assert farm()["vms"]["taken-away"]["vgpu"] == ["grid_a100-3-20c"]
