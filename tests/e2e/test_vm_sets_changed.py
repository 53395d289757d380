"""Day-2 changes of sets on the lab: the plan says of each field what it takes, and the run does exactly that."""

from __future__ import annotations

import json

import pytest
from support.vm_sets import play

pytestmark = pytest.mark.lab
POWER = ("ShutdownGuest", "PowerOffVM_Task", "PowerOnVM_Task")


@pytest.fixture
def one(sets, new_client):
    sets.applied(play("train-01", nics=1))
    sets.client = new_client(sets.lab)
    return sets


def effects(sets, text):
    """What the plan says that each changed field of the set takes, and the rules of its problems."""
    sets("plan", sets.cli.file(text), "-o", "json")
    plan = json.loads(sets.cli.out)
    said = {c["field"]: c.get("effect") for i in plan["items"] if i["kind"] == "vm_set" for c in i["changes"]}
    return said, {p["rule"] for p in plan["problems"]}


def calls(sets, before):
    return [e["call"] for e in sets.ledger()[before:] if e["object"] == "train-01"]


def test_cpus_and_memory_change_in_one_power_cycle(one, cli):
    text = play("train-01", nics=1, cpus=12, memory_gb=48)
    assert effects(one, text) == ({"cpus": "power cycle", "memory_gb": "power cycle"}, set())
    one("plan", cli.file(text))
    assert "8 → 12  (power cycle)" in cli.out
    assert "could not be asked" not in cli.out, "vCenter's own check knows the VM"
    before = len(one.ledger())
    one.applied(text)
    found = calls(one, before)
    assert found.count("ReconfigVM_Task") == 1
    assert found.count("PowerOnVM_Task") == 1
    hardware = one.client.vm("train-01").config.hardware
    assert (hardware.numCPU, hardware.memoryMB) == (12, 48 * 1024)
    assert one.client.vm("train-01").guest.net[0].ipAddress, "and its guest was waited for"


def test_a_vm_with_hot_add_gets_more_while_it_runs(one, cli):
    soap = one.client
    soap.wait(soap.vm("train-01").PowerOffVM_Task())
    hot = soap.vim.vm.ConfigSpec(cpuHotAddEnabled=True, memoryHotAddEnabled=True)
    soap.wait(soap.vm("train-01").ReconfigVM_Task(hot))
    one.applied(play("train-01", nics=1))
    more = play("train-01", nics=1, cpus=12, memory_gb=48)
    assert effects(one, more) == ({"cpus": "in place", "memory_gb": "in place"}, set())
    before = len(one.ledger())
    one.applied(more)
    assert calls(one, before) == ["ReconfigVM_Task"]
    less = play("train-01", nics=1, cpus=4, memory_gb=48)
    assert effects(one, less) == ({"cpus": "power cycle"}, set()), "only more of them"


def test_a_disk_and_the_power_state_change_in_place(one, cli):
    one.client.wait(one.client.vm("train-01").PowerOffVM_Task())
    text = play("train-01", nics=1, disk_gb=300, cpus=12)
    said, problems = effects(one, text)
    assert said == {"disk_gb": "in place", "power_state": "in place", "ready": "in place", "cpus": "in place"}
    assert not problems
    one.applied(text)


@pytest.mark.parametrize(
    ("more", "field"),
    [({"source": "other-01"}, "source"), ({"guest_id": "rhel8_64Guest"}, "guest_id")],
)
def test_what_only_a_new_vm_takes_is_refused_with_a_remedy(one, cli, more, field):
    said, problems = effects(one, play("train-01", nics=1, **more))
    assert said[field] == "rebuild"
    assert problems == {"vm_set.rebuild"}
    one("plan", cli.file(play("train-01", nics=1, **more)))
    assert "vsphere-ai replace PLAYBOOK VM" in cli.out


def test_a_vgpu_of_a_running_vm_changes_in_a_power_cycle(sets, cli):
    """Of a VM of a set, the state of the set is not in the desired state while the VM is off."""
    ready = "\n- hosts: all\n  graphics: {default_type: shared_direct}\n  rolling: {evacuate: power_off}\n"
    sets.applied(ready + play("train-01", nics=1, more="  vgpu: [grid_a100-10c]\n"))
    sets.applied(ready + play("train-01", nics=1, more="  vgpu: [grid_a100-20c]\n"))
    assert len(sets.ledger("train-01", "PowerOnVM_Task")) == 2
