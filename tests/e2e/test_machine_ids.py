"""Machine ids of guests: an image that was not cleaned gives one to all its clones, which a run notices."""

from __future__ import annotations

import pytest
from support.vm_sets import FARM, INVENTORY, Sets, play

pytestmark = pytest.mark.lab
COPIED = "template: true, image: {machine_id: copied}"
RECORDED = "cloud-init=24.1 renderer=netplan machine-id="


@pytest.fixture
def make_sets(cli, make_lab, monkeypatch):
    def make(template):
        lab = make_lab(FARM.replace("template: true", template))
        monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(lab.directory))
        return Sets(cli, lab, cli.file(INVENTORY, "inventory.yml"))

    return make


@pytest.mark.parametrize("recorded", ["", RECORDED + "clean"], ids=["unknown", "said to be clean"])
def test_a_clone_with_the_machine_id_of_another_one_is_not_fit_for_use(make_sets, cli, recorded):
    more = f", extra_config: {{vsphere-ai.image: '{recorded}'}}" if recorded else ""
    sets = make_sets(COPIED + more)
    sets.applied(play("train-01", nics=1))
    grown = cli.file(play("train-[01:02]", nics=1))
    assert sets("apply", grown, "--yes", "-o", "json") == 1
    assert cli.failed == {("train-02", "guest.machine-id")}
    assert sets("replace", grown, "train-01", "--yes", "--destroy", "1", "-o", "json") == 1
    assert cli.failed == {("train-01", "guest.machine-id")}, (
        "the VM that it replaces does not count, the other one does"
    )
    sets.applied(play("train-01", nics=1), "--destroy", "1")


def test_guests_that_are_ready_in_one_run_are_compared(make_sets, cli):
    sets = make_sets(COPIED)
    assert sets("apply", cli.file(play("train-[01:02]", nics=1)), "--yes", "-o", "json") == 1
    assert cli.failed == {("train-02", "guest.machine-id")}, "train-01 is the canary"


def test_what_the_plan_has_warned_of_is_no_failure(make_sets, cli):
    sets = make_sets(f"{COPIED}, extra_config: {{vsphere-ai.image: '{RECORDED}copied'}}")
    text = play("train-[01:02]", nics=1)
    assert sets("plan", cli.file(text)) == 0
    assert "same machine id" in cli.out
    sets.applied(text)


def test_a_vm_that_is_made_anew_is_not_compared_with_the_one_before(make_sets, cli):
    sets = make_sets(COPIED)
    playbook = cli.file(play("train-01", nics=1))
    sets.applied(play("train-01", nics=1))
    assert sets("replace", playbook, "train-01", "--yes", "--destroy", "1") == 0, cli.out + cli.err


def test_clean_images_give_each_clone_its_own(make_sets):
    make_sets("template: true").applied(play("train-[01:03]", nics=1))
