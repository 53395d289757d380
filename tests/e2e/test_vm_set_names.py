"""Names of VMs of a set that others have too: members are known by their marks, and no run ends without one of them."""

from __future__ import annotations

import json

import pytest
from support.vm_sets import HOSTS, play

pytestmark = pytest.mark.lab
TWO = play("train-[01:02]", nics=1)


@pytest.fixture
def client(sets, new_client):
    return new_client(sets.lab)


def cloned(client, name, folder):
    """Clone the template as someone else would."""
    vim, source = client.vim, client.vm("ubuntu-22.04")
    host = client.host("esx01")
    location = vim.vm.RelocateSpec(pool=host.parent.resourcePool, host=host)
    client.wait(source.CloneVM_Task(folder, name, vim.vm.CloneSpec(location=location, template=False, powerOn=False)))


def made_elsewhere(client, name):
    other = client.vm("ubuntu-22.04").parent.parent.CreateFolder("others")
    cloned(client, name, other)


def powers(sets, name):
    vms = [vm for vm in sets.lab.get("/lab/farm")["vms"] if vm["name"] == name]
    return sorted((vm["folder"], vm["power"]) for vm in vms)


def test_a_vm_of_that_name_in_another_folder_is_none_of_the_set(sets, client):
    made_elsewhere(client, "train-01")
    sets.applied(TWO)
    assert powers(sets, "train-01") == [("ai", "poweredOn"), ("others", "poweredOff")]


def test_a_set_that_is_there_is_not_confused_by_one_that_comes_later(sets, client, cli):
    sets.applied(TWO)
    made_elsewhere(client, "train-02")
    sets.applied(play("train-[01:02]", nics=1, cpus=6) + "\n- vms: train-[01:02]\n  hardware: {version: 19}\n")
    versions = {vm["folder"]: vm["hardware"] for vm in sets.lab.get("/lab/farm")["vms"] if vm["name"] == "train-02"}
    assert versions["ai"] == "vmx-19" != versions["others"]
    assert sets("destroy", "train", "--yes", "--destroy", 2) == 0, cli.out + cli.err
    assert powers(sets, "train-02") == [("others", "poweredOff")]


def test_the_same_folder_has_a_name_once(sets, client):
    cloned(client, "train-02", client.vm("ubuntu-22.04").parent)
    assert "vm_set.name-taken" in sets.refused(TWO)


def test_a_run_whose_vm_lost_its_name_to_another_is_not_at_its_end(sets, client, cli):
    sets.lab.set_faults("- {on: CloneVM_Task, nth: 2, do: {task-fails: InvalidState}}")
    assert sets("apply", cli.file(TWO), "--yes") == 1
    sets.lab.clear_faults()
    (missing,) = {"train-01", "train-02"} - sets.names
    cloned(client, missing, client.vm("ubuntu-22.04").parent)
    assert sets("resume", "--yes") == 1, "a VM of the set is missing"
    assert "[vm_set.name-taken]" in cli.out
    assert cli.states()[-1] != "finished"
    client.wait(client.vm(missing).Rename_Task("login-1"))
    assert sets("resume", "--yes") == 0, cli.out + cli.err
    assert {"train-01", "train-02", "login-1"} <= sets.names
    assert cli.states()[-1] == "finished"


@pytest.mark.parametrize("mode", ["local", "none"])
def test_addresses_without_the_lock_in_vcenter_are_refused_before_the_run(sets, cli, mode):
    playbook = cli.file(TWO)
    assert sets("apply", playbook, "--yes", "--lock", mode) == 7
    assert cli.error == "lock.none"
    assert cli.states() == [], "there is no run to go on with"
    assert sets.ledger() == []
    assert sets("apply", playbook, "--yes") == 0, cli.out + cli.err
    assert sets("apply", playbook, "--yes", "--lock", mode) == 0, "nothing is leased any more"


def test_more_vms_than_addresses_are_refused_with_true_numbers(sets, cli):
    plan = json.dumps(cli.plan(cli.file(play("train-[01:12]", nics=1)), "-i", sets.inventory))
    assert "'mgmt' has addresses for 10 of 12 VMs more" in plan


def test_no_vm_is_powered_on_where_its_host_stays_in_maintenance_mode(sets, client):
    """Also where the plan reboots the host: one that was found in maintenance mode is left in it."""
    sets.applied(TWO)
    host = client.vm("train-01").runtime.host
    for vm in host.vm:
        if vm.runtime.powerState == "poweredOn":
            client.wait(vm.PowerOffVM_Task())
    client.wait(host.EnterMaintenanceMode_Task(0, False, None))
    assert "admission.host-state" in sets.refused(HOSTS + TWO)
    client.wait(host.ExitMaintenanceMode_Task(0))
    sets.applied(TWO)
