"""One VM of a set on the lab: replaced on a farm without a free GPU, and changed alone with `--limit`."""

from __future__ import annotations

import pytest
from support.vm_sets import FARM, HOSTS, play

pytestmark = pytest.mark.lab
NAMES = ("train-01", "train-02", "train-03", "train-04")
VGPU = "  vgpu: [grid_a100-40c]\n"


def uuids(sets):
    return {name: sets.client.vm(name).config.instanceUuid for name in NAMES if name in sets.names}


def test_a_vm_is_replaced_where_every_gpu_is_taken(sets, cli, new_client):
    """Four GPUs, four VMs with all of one: the GPU of the new VM is that of the old one."""
    text = HOSTS + play("train-[01:04]", nics=1, more=VGPU)
    sets.applied(text)
    sets.client = new_client(sets.lab)
    assert sets.refused(HOSTS + play("train-[01:05]", nics=1, more=VGPU)) == {"vm_set.no-room"}, "the farm is full"
    held, before = sets.addresses(), uuids(sets)
    hosts = {name: sets.client.vm(name).runtime.host.name for name in NAMES}
    playbook = cli.file(text)
    calls = len(sets.ledger())
    assert sets("replace", playbook, "train-02", "--yes", "--destroy", 1) == 0, cli.out + cli.err
    after = uuids(sets)
    assert {n for n in NAMES if after[n] != before[n]} == {"train-02"}
    assert {name: sets.client.vm(name).runtime.host.name for name in NAMES} == hosts
    assert sets.addresses() == held
    assert {e["object"] for e in sets.ledger()[calls:]} <= {"train-02", "ubuntu-22.04", "group-d1", "Datacenters"}
    assert sets.vms()["train-02"]["power"] == "poweredOn"
    assert sets("plan", playbook, "--detailed-exitcode") == 0, cli.out


def test_all_vms_are_replaced_where_every_gpu_is_taken(sets, cli, new_client):
    text = HOSTS + play("train-[01:04]", nics=1, more=VGPU)
    sets.applied(text)
    sets.client = new_client(sets.lab)
    held, before = sets.addresses(), uuids(sets)
    assert sets("replace", cli.file(text), *NAMES, "--yes", "--destroy", 4) == 0, cli.out + cli.err
    assert sets.addresses() == held
    assert not set(before.values()) & set(uuids(sets).values())


def test_a_limit_changes_one_vm_and_keeps_the_addresses_of_the_others(sets, cli, new_client):
    sets.applied(play("train-[01:03]", nics=2))
    sets.client = new_client(sets.lab)
    held, before = sets.addresses(), uuids(sets)
    playbook = cli.file(play("train-[01:03]", nics=2, cpus=12))
    assert sets("plan", playbook, "--limit", "train-02", "--detailed-exitcode") == 2
    calls = len(sets.ledger())
    assert sets("apply", playbook, "--limit", "train-02", "--yes") == 0, cli.out + cli.err
    assert {e["object"] for e in sets.ledger()[calls:]} == {"train-02"}
    assert {n: sets.client.vm(n).config.hardware.numCPU for n in before} == {
        "train-01": 8, "train-02": 12, "train-03": 8,
    }  # fmt: skip
    assert sets.addresses() == held
    assert uuids(sets) == before


def test_a_limit_makes_one_vm_of_a_set_that_grows(sets, cli, new_client):
    """The addresses of the VM that is not made yet are its own already: the next run gives no other ones."""
    sets.applied(play("train-01", nics=1))
    sets.client = new_client(sets.lab)
    playbook = cli.file(play("train-[01:04]", nics=1))
    assert sets("apply", playbook, "--limit", "train-03", "--yes") == 0, cli.out + cli.err
    assert {n for n in sets.names if n.startswith("train")} == {"train-01", "train-03"}
    held = sets.addresses()
    assert sets("apply", playbook, "--yes") == 0
    assert {key: held[key] for key in held if key in sets.addresses()} == held
    assert len(set(sets.addresses().values())) == 4


def test_a_limit_to_one_vm_destroys_none_of_those_that_leave(sets, cli, new_client):
    sets.applied(play("train-[01:03]", nics=1))
    held = sets.addresses()
    less = cli.file(play("train-01", nics=1, cpus=12))
    assert sets("apply", less, "--limit", "train-01", "--yes") == 0, cli.out + cli.err
    assert {"train-02", "train-03"} <= sets.names
    assert sets.addresses() == held


@pytest.mark.parametrize(("reserved", "free_gb"), [("full", 18), ("0", 28)])
def test_a_vm_is_replaced_where_only_its_own_disks_leave_room(sets, cli, make_lab, monkeypatch, reserved, free_gb):
    """A clone takes 10 GB, and 10 more for a swap file where no memory is reserved."""
    more = f"datastores: [{{name: vsan-gpu}}, {{name: small, type: VMFS, capacity_gb: 1000, free_gb: {free_gb}}}]\n"
    sets.lab = make_lab(FARM + more)
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(sets.lab.directory))
    own = f"  hardware: {{memory_reservation: {reserved}}}\n"
    text = play("train-[01:01]", nics=1, datastore="small", cpus=2, memory_gb=10, more=own)
    sets.applied(text)
    assert "vm_set.no-space" in sets.refused(text.replace("01:01", "01:02")), "another one has no room"
    assert sets("replace", cli.file(text), "train-01", "--yes", "--destroy", 1) == 0, cli.out + cli.err
    assert sets.vms()["train-01"]["power"] == "poweredOn"
