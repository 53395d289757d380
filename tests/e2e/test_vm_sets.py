"""Sets of VMs on the lab: made once, ready with their addresses, grown, shrunk; what is not theirs stays."""

from __future__ import annotations

import json

import pytest
from support.vm_sets import FARM, FULL, INVENTORY, play

pytestmark = pytest.mark.lab


@pytest.fixture
def sets(cli, make_lab, monkeypatch):
    """A farm with a template; `sets(*arguments)` runs a command with its inventory."""
    lab = make_lab(FARM)
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(lab.directory))
    return Sets(cli, lab, cli.file(INVENTORY, "inventory.yml"))


class Sets:
    def __init__(self, cli, lab, inventory):
        self.cli, self.lab, self.inventory = cli, lab, inventory

    def __call__(self, command, *more):
        return self.cli(command, *more, "-i", self.inventory)

    def applied(self, text, *more):
        """Apply a playbook; the plan after it is empty, and a second apply changes nothing."""
        playbook = self.cli.file(text)
        assert self("apply", playbook, "--yes", *more) == 0, self.cli.out + self.cli.err
        before = len(self.ledger())
        assert self("plan", playbook, "--detailed-exitcode") == 0, self.cli.out
        assert self("apply", playbook, "--yes") == 0
        assert len(self.ledger()) == before

    def ledger(self, target=None, call=None):
        """What the lab has changed, without the folders of the lock."""
        folders = ("CreateFolder", "Rename_Task")
        everything = [e for e in self.lab.get("/lab/ledger")["entries"] if e["call"] not in folders]
        found = [e for e in everything if e["call"] != "Destroy_Task" or "-" in e["object"]]
        return [e for e in found if target in (None, e["object"]) and call in (None, e["call"])]

    def vms(self):
        return {vm["name"]: vm for vm in self.lab.get("/lab/farm")["vms"]}

    def refused(self, text):
        """The rules of the problems of a plan; nothing was changed."""
        before = len(self.ledger())
        self("plan", self.cli.file(text), "--format", "json")
        found = {p["rule"] for p in json.loads(self.cli.out)["problems"]}
        assert len(self.ledger()) == before
        return found


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
    sets.applied(play("train-[01:03]", nics=2))
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
