"""What vCenter's own checks refuse, plan and apply refuse, whatever the planner knows of it."""

from __future__ import annotations

import pytest

from vsphere_ai.execution import vcenter_checks

pytestmark = pytest.mark.lab
PLAY = "- vms: train-04\n  hardware: {memory_reservation: full}\n"
REFUSED = {"error": ({"_typeName": "GenericVmConfigFault", "msg": "no such device"},)}


@pytest.fixture
def refused(monkeypatch):
    """From now on vCenter's answers hold a refusal that nothing on the lab explains."""

    def begin():
        ended = vcenter_checks._ended

        def with_refusal(vcenter, tasks):
            found = ended(vcenter, tasks)
            assert found
            assert all(facts.get("info.state") == "success" for facts in found.values())
            return {
                ref: type(facts)(ref, {**facts.properties, "info.result": (REFUSED,)}) for ref, facts in found.items()
            }

        monkeypatch.setattr(vcenter_checks, "_ended", with_refusal)

    return begin


def test_a_refusal_of_vcenter_refuses_the_plan(cli, ledger, refused):
    play = cli.file(PLAY)
    assert "CheckVmConfig" in {answer["check"] for answer in cli.plan(play)["answers"]}
    refused()
    assert cli("plan", play) == 1
    (problem,) = cli.plan(play)["problems"]
    assert (problem["target"]["name"], problem["rule"]) == ("train-04", "vcenter.check")
    assert "no such device" in problem["message"], "vCenter's own words"
    assert cli("apply", play, "--yes") == 1
    assert "[vcenter.check]" in cli.out
    assert ledger() == []


def test_a_saved_plan_is_asked_about_again(cli, ledger, refused, tmp_path):
    saved = tmp_path / "plan.json"
    assert cli("plan", cli.file(PLAY), "--to", saved) == 0
    refused()
    assert cli("apply", saved) == 1
    assert ledger() == []


def test_what_vcenter_accepts_is_carried_out(cli, ledger, tmp_path):
    saved = tmp_path / "plan.json"
    assert cli("plan", cli.file(PLAY), "--to", saved) == 0
    assert cli("apply", saved) == 0, cli.err
    assert [e["call"] for e in ledger("train-04")] == ["ReconfigVM_Task"]


def test_a_vm_that_runs_with_its_vgpu_is_not_asked_to_power_on(cli):
    plan = cli.plan(cli.file("- vms: train-01\n  hardware: {memory_reservation: full}\n"))
    assert plan["problems"] == []
    assert [a["check"] for a in plan["answers"]] == ["CheckVmConfig"]
