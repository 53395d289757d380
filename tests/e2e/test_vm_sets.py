"""Sets of VMs on the lab: made once, ready with their addresses, grown, shrunk; what is not theirs stays."""

from __future__ import annotations

import itertools
import json

import pytest
from support.vm_sets import FARM, FULL, HOSTS, INVENTORY, Sets, play

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


def test_each_new_vm_has_a_line_for_each_nic_and_each_address_is_named(sets, cli):
    pools = (("host", "lan", "mgmt"), ("guest", "storage", "storage"), ("index", "rdma", "rail1"))
    cards = [f"{{name: {n}, port_group: dvpg-{g}, addresses: {p}, primary: {n == 'host'}}}" for n, g, p in pools]
    text = play("train-[01:03]", cards=cards).replace("True", "true").replace("False", "false")
    assert sets("plan", cli.file(text)) == 0, cli.out
    for index, net in itertools.product(range(3), ("10.20.0.1{}", "10.30.0.1{}", "172.16.1.1{}")):
        number = index if net.startswith("172") else index + 1
        assert cli.out.count(f" {net.format(number)}/24 ") == 1
    own = cli.out.partition("  + train-02\n")[2].partition("  + train-03\n")[0].splitlines()
    assert sum(line.strip().startswith("+") for line in own) == 3, "one for each NIC"


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
    cli("run", "list")
    run = cli.out.split()[0]
    before = set(sets.vms())
    assert sets("rollback", run, "--yes") == 0, cli.out + cli.err
    assert "train-01 stays" in cli.text("rollback.stays")
    assert set(sets.vms()) == before


@pytest.mark.parametrize(
    ("fault", "rule"),
    [
        ("address-taken", "guest.conflict"),
        ("gateway-silent", "guest.gateway-silent"),
        ("{guest-address: 10.9.9.9}", "guest.address-missing"),
    ],
)
def test_what_a_guest_finds_at_its_boot_is_no_success(sets, cli, fault, rule):
    sets.lab.set_faults(f"- {{on: PowerOnVM_Task, nth: 1, do: {fault}}}")
    playbook = cli.file(play("train-01", nics=1))
    assert sets("apply", playbook, "--yes", "-o", "json") == 1
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


SCRATCH = "{name: scratch, gb: 500, datastore: nfs-scratch}"
LOCAL = "{name: local, gb: 50, provisioning: thick, controller: nvme}"


@pytest.fixture
def stores(sets, make_lab, monkeypatch):
    """A farm whose template has two disks, with a second datastore and a datastore cluster."""
    disks = "template: true, more_disks_gb: [100]"
    more = """
datastores:
  - {name: nfs-scratch, capacity_gb: 4096}
  - {name: pod-1, capacity_gb: 1000, free_gb: 500, cluster: pod}
  - {name: pod-2, capacity_gb: 1000, free_gb: 900, cluster: pod}
datastore_clusters: [{name: pod}]
"""
    sets.lab = make_lab(FARM.replace("template: true", disks) + more)
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(sets.lab.directory))
    return sets


def disks_of(sets, name):
    """The files of a VM's disks by the clone, and those that were added to it later."""
    return sets.ledger(name, "CloneVM_Task")[0]["detail"]["disks"]


def test_disks_of_the_template_grow_and_others_are_added_by_the_clone(stores, new_client):
    said = f"[{{number: 2, gb: 150}}, {SCRATCH}, {LOCAL}]"
    stores.applied(play("train-[01:02]", nics=1, disks=said))
    for name in ("train-01", "train-02"):
        assert [len(stores.ledger(name, c)) for c in ("CloneVM_Task", "ReconfigVM_Task", "PowerOnVM_Task")] == [1, 0, 1]
        own = [d for d in new_client(stores.lab).vm(name).config.hardware.device if type(d).__name__.endswith("Disk")]
        assert [d.capacityInKB >> 20 for d in own] == [200, 150, 500, 50]
        assert [d.backing.fileName.startswith("[nfs-scratch]") for d in own] == [False, False, True, False]
        assert [bool(d.backing.thinProvisioned) for d in own] == [True, True, True, False]
    stores.applied(play("train-01", nics=1, disks=said), "--destroy", 1)
    (gone,) = stores.ledger("train-02", "Destroy_Task")
    assert len(gone["detail"]["disks"]) == 4
    assert any(d.startswith("[nfs-scratch]") for d in gone["detail"]["disks"])


def test_disks_of_a_vm_that_is_there_grow_and_more_are_added(stores):
    stores.applied(play("train-01", nics=1, disks=f"[{SCRATCH}]"))
    more = f"[{{number: 1, gb: 210}}, {SCRATCH.replace('500', '600')}, {{name: second, gb: 20}}]"
    stores.applied(play("train-01", nics=1, disks=more))
    assert len(stores.ledger("train-01", "ReconfigVM_Task")) == 1
    assert len(stores.ledger("train-01", "PowerOnVM_Task")) == 1
    assert stores.refused(play("train-01", nics=1, disks=f"[{SCRATCH}]")) == {"vm_set.disk-shrinks"}
    stores.applied(play("train-01", nics=1, disks=f"[{{name: second, gb: 20}}, {LOCAL}]"))
    assert len(stores.ledger("train-01", "PowerOnVM_Task")) == 2


@pytest.mark.parametrize(
    ("disks", "rule"),
    [
        ("[{number: 3, gb: 10}]", "vm_set.no-disk"),
        ("[{number: 2, gb: 10}]", "vm_set.disk-shrinks"),
        ("[{name: a, gb: 10, datastore: missing}]", "vm_set.not-found"),
        ("[{name: a, gb: 5000, provisioning: thick, datastore: nfs-scratch}]", "vm_set.no-space"),
    ],
)
def test_disks_that_cannot_be_are_refused(stores, disks, rule):
    assert rule in stores.refused(play("train-01", nics=1, disks=disks))


def test_vms_in_a_datastore_cluster_are_where_most_space_is_left(stores, cli):
    stores.applied(play("train-[01:03]", nics=1, datastore="pod"))
    homes = [next(iter(disks_of(stores, f"train-0{n}"))).partition("]")[0] for n in (1, 2, 3)]
    assert homes == ["[pod-2", "[pod-2", "[pod-1"]
    assert stores.refused(play("other-x", name="other", nics=1, datastore="pod", linked="true")) == {
        "vm_set.no-datastore"
    }


def test_more_cpus_are_given_in_a_power_cycle_that_ends_with_a_ready_guest(sets, cli):
    sets.applied(play("train-01", nics=1, cpus=2))
    playbook = cli.file(play("train-01", nics=1, cpus=4))
    assert sets("plan", playbook, "-o", "json") == 0
    assert [(a["check"], a["note"]) for a in json.loads(cli.out)["answers"]] == [("CheckVmConfig", "")]
    sets.applied(play("train-01", nics=1, cpus=4))
    assert len(sets.ledger("train-01", "PowerOnVM_Task")) == 2


RDMA = "{{name: r, port_group: dvpg-rdma, type: pvrdma, mtu: {}, addresses: rail1}}"
STORAGE = "{{name: s, port_group: dvpg-rdma, role: storage, mtu: {}, addresses: storage}}"
RAISED = HOSTS.replace("  rolling:", "  vmkernel: {dvpg-rdma: {mtu: 9000}}\n  rolling:")


@pytest.mark.parametrize(
    ("plays", "card", "refused"),
    [
        (HOSTS, RDMA.format(9000), True),
        (HOSTS, RDMA.format(1500), False),
        (RAISED, RDMA.format(9000), False),
        ("", STORAGE.format(9000), True),
        (RAISED, STORAGE.format(9000), False),
        ("", STORAGE.replace("role: storage, ", "").format(9000), False),
    ],
    ids=["pvrdma", "it fits", "raised in the same plan", "storage", "storage raised", "no role"],
)
def test_an_mtu_is_compared_with_the_vmkernel_adapters_of_the_host(make_lab, cli, monkeypatch, plays, card, refused):
    lab = make_lab(FARM.replace("port_group: dvpg-rdma}]", "port_group: dvpg-rdma, mtu: 1500}]"))
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(lab.directory))
    sets = Sets(cli, lab, cli.file(INVENTORY, "inventory.yml"))
    found = sets.refused(plays + play("train-01", cards=(card,)))
    assert ("vm_set.vmknic-mtu" in found) is refused
    assert not {rule for rule in found if rule.startswith("vm_set.")} - {"vm_set.vmknic-mtu"}
