"""vCenter knows more, or less, than it shows: its answers beside those of the requirements, in both directions."""

from __future__ import annotations

import json

import pytest
from e2e.test_admission import DEVICE, TEMPLATE, changed, farm, made, rule, running
from e2e.test_admission import vm as vm_of
from pyVmomi import vim
from support.vm_sets import INVENTORY, play

pytestmark = pytest.mark.lab
DRY_RUN = "ClusterEnterMaintenanceMode"
MOVING = farm(vm_of("t-01") + vm_of("t-02", host=2), hosts=3, version="8.0.3")
STUCK = farm(vm_of("lic-01"), version="8.0.3", rules=rule("host-affinity", "lic-01", hosts="[esx01.lab.local]"))


SETTING = "- vms: t-01\n  tuning: {extra_config: {a.key: '1'}}\n"
OBJECTS = {"on": "CheckVmConfig_Task", "do": {"check-finds": "CannotUseNetwork"}}


def only_run(cli):
    assert cli("run", "list", "-o", "json") == 0
    (run,) = json.loads(cli.out)["runs"]
    return run["run"]


@pytest.fixture
def on(cli, make_lab, monkeypatch):
    """Start a farm whose vCenter answers its checks with a fault of the lab; return what plans there."""

    def start(scenario, playbook, *rules):
        lab = make_lab(scenario)
        monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(lab.directory))
        if rules:
            lab.set_faults(list(rules))
        own = "-i", cli.file(INVENTORY, "inventory.yml"), cli.file(playbook)
        code = cli("plan", *own, "-o", "json")
        return lab, own, code, json.loads(cli.out)

    return start


def remarks(plan):
    return {f["rule"] for f in plan["findings"] if f["rule"] in ("vcenter.admits", "vcenter.unanswered")}


def refusals(plan):
    return {(p["target"]["name"], p["rule"]) for p in plan["problems"]}


def test_an_evacuation_that_only_vcenter_refuses_is_refused_with_its_fault(on, cli):
    lab, own, code, plan = on(MOVING, DEVICE, {"on": DRY_RUN, "do": {"check-finds": "DrsDisabledOnVm"}})
    assert (code, refusals(plan), remarks(plan)) == (1, {("t-01", "vcenter.check")}, set())
    (problem,) = plan["problems"]
    assert "(DrsDisabledOnVm); what was read does not show why" in problem["message"]
    before = running(lab)
    assert cli("apply", *own, "--yes") == 1
    assert (changed(lab), running(lab)) == ([], before)


def test_an_evacuation_that_vcenter_admits_as_well_is_carried_out(on, cli):
    lab, own, code, plan = on(MOVING, DEVICE)
    assert (code, refusals(plan), remarks(plan)) == (0, set(), set())
    assert [(a["target"]["name"], a["check"], a["faults"]) for a in plan["answers"]] == [("t-01", DRY_RUN, [])]
    assert lab.get("/lab/traffic")["calls"][DRY_RUN] == 1
    assert cli("apply", *own, "--yes") == 0, cli.out + cli.err
    assert running(lab) == {"t-01", "t-02"}


def test_what_both_refuse_is_no_difference(on):
    _, _, code, plan = on(STUCK, DEVICE)
    assert (code, refusals(plan), remarks(plan)) == (1, {("lic-01", "rolling.nowhere")}, set())
    assert [a["faults"] != [] for a in plan["answers"] if a["check"] == DRY_RUN] == [True], "vCenter was asked"


def test_what_vcenter_admits_and_the_plan_does_not_stays_refused(on):
    _, _, code, plan = on(STUCK, DEVICE, {"on": DRY_RUN, "do": "check-passes"})
    assert (code, refusals(plan), remarks(plan)) == (1, {("lic-01", "rolling.nowhere")}, {"vcenter.admits"})


@pytest.mark.parametrize("fault", ["NoPermission", "NotSupported", "InvalidState"])
def test_a_vcenter_that_gives_no_answer_is_said_once_and_never_a_yes(on, cli, fault):
    _, own, code, plan = on(MOVING, DEVICE, {"on": DRY_RUN, "do": {"fault": fault}})
    assert (code, refusals(plan), remarks(plan)) == (0, set(), {"vcenter.unanswered"})
    assert cli("apply", *own, "--yes") == 0, cli.out + cli.err
    _, _, code, plan = on(STUCK, DEVICE, {"on": DRY_RUN, "do": {"fault": fault}})
    assert (code, refusals(plan), remarks(plan)) == (1, {("lic-01", "rolling.nowhere")}, {"vcenter.unanswered"})


def test_a_clone_that_only_vcenter_refuses_is_refused_with_its_fault(on):
    scenario, play = farm(TEMPLATE % "efi"), made(8)
    _, _, code, plan = on(scenario, play)
    assert (code, refusals(plan)) == (0, set())
    _, _, code, plan = on(scenario, play, {"on": "CheckClone_Task", "do": {"check-finds": "CannotUseNetwork"}})
    assert code == 1
    assert refusals(plan) == {("n-01", "vcenter.check"), ("n-02", "vcenter.check")}
    assert all("(CannotUseNetwork)" in p["message"] for p in plan["problems"])


def test_a_rollback_asks_too(on, cli):
    lab, own, code, _ = on(MOVING, SETTING)
    assert (code, cli("apply", *own, "--yes")) == (0, 0), cli.err
    run = only_run(cli)
    lab.set_faults([OBJECTS])
    done = changed(lab)
    assert cli("rollback", run, "-i", own[1], "--yes") == 1
    assert "[vcenter.check]" in cli.out
    assert "correct what vCenter names, then roll back" in cli.out
    assert changed(lab) == done
    lab.post("/lab/faults/clear")
    assert cli("rollback", run, "-i", own[1], "--yes") == 0, cli.out + cli.err


def test_a_resumed_run_asks_too(on, cli):
    lab, own, _, _ = on(MOVING, SETTING, {"on": "ReconfigVM_Task", "nth": 1, "do": {"task-fails": "InvalidState"}})
    assert cli("apply", *own, "--yes") == 1
    done = changed(lab)
    lab.set_faults([OBJECTS])
    assert cli("resume", only_run(cli), "-i", own[1], "--yes") == 1
    assert "vCenter refuses to change its configuration" in cli.out + cli.err
    assert changed(lab) == done
    lab.post("/lab/faults/clear")
    assert cli("resume", only_run(cli), "-i", own[1], "--yes") == 0, cli.out + cli.err
    assert "ReconfigVM_Task" in {e["call"] for e in changed(lab)[len(done) :]}


@pytest.fixture
def off(sets, new_client):
    """A set of which one VM was powered off by hand, so that the next run powers it on as it is."""
    sets.text = play("train-[01:02]", nics=1)
    sets.applied(sets.text)
    sets.client = new_client(sets.lab)
    sets.client.wait(sets.client.vm("train-02").PowerOffVM_Task())
    return sets


def test_a_power_on_that_only_vcenter_refuses_is_refused_with_its_fault(off, cli):
    assert off.refused(off.text) == set()
    assert off.lab.get("/lab/traffic")["calls"]["CheckPowerOn_Task"] == 1
    off.lab.set_faults([{"on": "CheckPowerOn_Task", "do": {"check-finds": "VmHostAffinityRuleViolation"}}])
    assert off.refused(off.text) == {"vcenter.check"}
    off.lab.post("/lab/faults/clear")
    assert off("apply", cli.file(off.text), "--yes") == 0, cli.out + cli.err


def test_a_power_on_that_only_the_requirements_refuse_stays_refused(off, cli):
    vm = off.client.vm("train-02")
    off.client.wait(vm.ReconfigVM_Task(vim.vm.ConfigSpec(numCPUs=300)))
    text = play("train-[01:02]", nics=1, cpus=300)
    both = off.refused(text)
    assert "admission.vcpus" in both
    assert "vcenter.check" not in both, "vCenter's fault is the one that the requirement foresees"
    off.lab.set_faults([{"on": "CheckPowerOn_Task", "do": "check-passes"}])
    assert off("plan", cli.file(text), "-o", "json") == 1
    plan = json.loads(cli.out)
    assert "admission.vcpus" in {rule for _, rule in refusals(plan)}
    assert "vcenter.admits" in remarks(plan)
