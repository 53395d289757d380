"""`--kind`: only these kinds of settings of a playbook; and what a saved plan cannot be narrowed by."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.lab
PLAY = """
- hosts: gpu_hosts
  graphics: {default_type: shared_direct}
  mig: {mode: enabled}
  rolling: {evacuate: power_off}
- vms: train-[01:02]
  hardware: {version: 19}
  vgpu: [grid_a100-3-20c]
"""


def kinds(plan):
    return {item["kind"] for item in plan["items"]}


def test_only_the_chosen_kinds_are_planned_and_applied(cli, ledger):
    playbook = cli.file(PLAY)
    assert kinds(cli.plan(playbook, "--kind", "hardware")) == {"hardware"}
    assert kinds(cli.plan(playbook, "--kind", "graphics, mig")) == {"graphics", "mig"}
    assert cli("verify", playbook, "--kind", "hardware") == 2
    assert cli("apply", playbook, "--kind", "hardware", "--yes") == 0, cli.out + cli.err
    assert cli.rules >= {"kind.left-out"}
    assert "graphics, mig, vgpu" in cli.text("kind.left-out")
    assert {e["object"] for e in ledger()} == {"train-01", "train-02"}
    assert cli("verify", playbook, "--kind", "hardware") == 0, cli.out
    assert cli("verify", playbook) == 2, "the others are as they were"
    assert cli("check", playbook, "--kind", "hardware") == 0, cli.out


def test_a_kind_that_builds_on_one_left_out_says_so(cli):
    playbook = cli.file(PLAY)
    assert cli("plan", playbook, "--kind", "vgpu") == 1
    assert "vgpu builds on graphics, mig, hardware" in cli.text("kind.needs")
    assert ("train-01", "vgpu.profile") in cli.problems(playbook, "--kind", "vgpu")
    assert cli("plan", playbook, "--kind", "graphics,mig,vgpu,hardware") == 0, cli.out
    assert not cli.rules & {"kind.left-out", "kind.needs"}


@pytest.mark.parametrize(
    ("kind", "near"), [("graphc", "'graphics'"), ("hardware,vgpus", "'vgpu'"), ("ntp", "graphics, mig, hardware, vgpu")]
)
def test_a_kind_that_is_none_or_not_there_is_a_wrong_command_line(cli, ledger, kind, near):
    for command in (("plan",), ("apply", "--yes"), ("verify",), ("check",)):
        assert cli(command[0], cli.file(PLAY), *command[1:], "--kind", kind) == 64
        assert cli.error == "usage.kind"
        assert near in cli.err
    assert ledger() == []


def test_a_check_of_everything_has_no_playbook_to_narrow(cli):
    assert cli("check", "--kind", "mig") == 64
    assert cli.error == "usage.kind"


def test_a_saved_plan_is_carried_out_as_a_whole(cli, ledger, tmp_path):
    saved = tmp_path / "plan.json"
    assert cli("plan", cli.file(PLAY), "--kind", "hardware", "--to", saved) == 0, cli.err
    for option, value in (("--kind", "vgpu"), ("--limit", "train-01")):
        assert cli("apply", saved, option, value) == 64
        assert cli.error == "usage.saved-plan"
    assert ledger() == []
    assert cli("apply", saved) == 0, cli.out + cli.err
    assert {e["object"] for e in ledger()} == {"train-01", "train-02"}
