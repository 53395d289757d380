"""Sets of VMs on the lab: made once, ready with their addresses, grown, shrunk; what is not theirs stays."""

from __future__ import annotations

import pytest
from support.vm_sets import FULL, play

from vsphere_ai.guests.ready import READY

pytestmark = pytest.mark.lab


NAMES = ("train-01", "train-02", "train-03", "train-04")


def test_four_vms_with_three_nics_each(sets, cli):
    assert sets("plan", cli.file(FULL)) == 0
    for index in range(4):
        assert all(f"{net}{start + index}/24" in cli.out for net, start in (("10.20.0.", 11), ("172.16.1.", 10)))
    sets.applied(FULL)
    for name in NAMES:
        calls = ("CloneVM_Task", "ReconfigVM_Task", "PowerOnVM_Task")
        assert [len(sets.ledger(name, call)) for call in calls] == [1, 1, 1]
    assert {"other-01", "ubuntu-22.04", *NAMES} == set(sets.vms())


def test_a_set_grows_and_shrinks(sets):
    sets.applied(play("train-[01:02]", nics=2))
    sets.applied(play("train-[01:04]", nics=2))
    assert len(sets.ledger(call="CloneVM_Task")) == 4
    sets.applied(play("train-[01:03]", nics=2), "--destroy", 1)
    assert [e["object"] for e in sets.ledger(call="Destroy_Task") if e["object"].startswith("train")] == ["train-04"]
    assert set(sets.vms()) == {"other-01", "ubuntu-22.04", *NAMES[:3]}


def test_a_name_that_another_vm_has_is_refused(sets):
    text = play("other-[01:02]", nics=1)
    assert sets.refused(text) == {"vm_set.name-taken"}


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ({"source": "missing"}, "vm_set.not-found"),
        ({"cluster": "missing"}, "vm_set.not-found"),
        ({"cluster": None}, "vm_set.no-pool"),
        ({"folder": "missing"}, "vm_set.not-found"),
        ({"datastore": "missing"}, "vm_set.not-found"),
        ({"snapshot": "missing"}, "vm_set.no-snapshot"),
        ({"source": "other-01"}, "vm_set.source-on"),
    ],
)
def test_what_apply_would_need_is_checked_before(sets, fields, rule):
    assert rule in sets.refused(play("train-01", nics=1, **fields))


def test_pools_without_room_refuse_the_whole_set(sets):
    assert sets.refused(play("train-[01:11]", nics=1)) == {"addresses.no-room"}


def test_a_nic_with_dhcp_is_waited_for(sets):
    sets.applied(play("train-01", cards=("{name: mgmt, port_group: dvpg-dhcp}",)))
    assert len(sets.ledger("train-01", "PowerOnVM_Task")) == 1


def test_a_rollback_names_the_vms_that_stay(sets, cli):
    sets.applied(play("train-01", nics=1))
    cli("runs")
    run = cli.out.split()[0]
    before = set(sets.vms())
    assert sets("rollback", run, "--yes") == 0, cli.out + cli.err
    assert "train-01 stays" in cli.text("rollback.stays")
    assert set(sets.vms()) == before


@pytest.mark.parametrize(
    ("fault", "rule"), [("address-taken", "guest.conflict"), ("gateway-silent", "guest.gateway-silent")]
)
def test_what_a_guest_finds_at_its_boot_is_no_success(sets, cli, fault, rule):
    sets.lab.set_faults(f"- {{on: PowerOnVM_Task, nth: 1, do: {fault}}}")
    playbook = cli.file(play("train-01", nics=1))
    assert sets("apply", playbook, "--yes", "--format", "json") == 1
    assert cli.failed == {("train-01", rule)}
    sets.lab.clear_faults()
    assert len(sets.ledger("train-01", "CloneVM_Task")) == 1
    assert "train-01" in sets.names


def test_the_first_disk_grows_with_the_clone_and_in_place(sets):
    sets.applied(play("train-01", nics=1, disk_gb=210))
    sets.applied(play("train-01", nics=1, disk_gb=220))
    assert len(sets.ledger("train-01", "PowerOnVM_Task")) == 1
    assert sets.refused(play("train-01", nics=1, disk_gb=215)) == {"vm_set.disk-shrinks"}


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ({"disk_gb": 1}, "vm_set.disk-shrinks"),
        ({"disk_gb": 210, "linked": "true"}, "vm_set.linked"),
        ({"cards": ("{name: mgmt, port_group: dvpg-lan, mtu: 9000, addresses: mgmt}",)}, "vm_set.mtu"),
    ],
)
def test_disks_and_mtus_are_checked_before(sets, fields, rule):
    assert rule in sets.refused(play("train-01", nics=1, **fields))


def test_a_guest_says_again_that_it_is_ready_when_vcenter_has_forgotten_it(sets, cli, new_client):
    text = play("train-[01:02]", nics=1)
    sets.applied(text)
    sets.lab.set_faults("- {on: PowerOnVM_Task, target: train-01, nth: 1, do: guestinfo-lost}")
    client = new_client(sets.lab)
    vm = client.vm("train-01")

    def said():
        return {o.key for o in vm.config.extraConfig if o.key == READY}

    client.wait(vm.PowerOffVM_Task())
    client.wait(vm.PowerOnVM_Task())
    client.until(said)
    assert sets("plan", cli.file(text), "--detailed-exitcode") == 0, cli.out
    assert len(sets.ledger("train-01", "CloneVM_Task")) == 1
