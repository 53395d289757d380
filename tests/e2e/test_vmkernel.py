"""VMkernel adapters on the lab: made and changed once, named for PVRDMA, shown as they can be stated."""

from __future__ import annotations

import pytest
from support.places import PLAYBOOKS

pytestmark = pytest.mark.lab
HOSTS = ("esx01.lab.local", "esx02.lab.local")
NEW = """
- hosts: "esx0[1:2].lab.local"
  vmkernel:
    dvpg-rdma: {mtu: 4500, pvrdma: true, services: [vmotion]}
"""
CHANGED = ("SelectVnicForNicType", "UpdateOptions", "UpdateVirtualNic")


def settled(cli, playbook, ledger):
    """A second plan is empty, and a second apply changes nothing."""
    before = len(ledger())
    assert cli("plan", playbook, "--detailed-exitcode") == 0, cli.out
    assert cli("apply", playbook, "--yes") == 0, cli.out + cli.err
    assert len(ledger()) == before


def test_an_adapter_is_changed_and_named(cli, ledger, farm):
    playbook = cli.file(NEW)
    assert cli("apply", playbook, "--yes") == 0, cli.out + cli.err
    for host in HOSTS:
        assert sorted(e["call"] for e in ledger(host)) == list(CHANGED)
        assert farm()["hosts"][host]["pvrdma"]["vmknic"] == "vmk2"
    (entry,) = ledger(HOSTS[0], "UpdateVirtualNic")
    assert entry["detail"] == {"device": "vmk2", "address": "10.21.0.1/255.255.0.0", "mtu": 4500}
    settled(cli, playbook, ledger)


TWO = """
name: two
timing: {boot_seconds: 0.4, task_seconds: 0.005, shutdown_seconds: 0.1, vmotion_seconds: 0.02}
clusters: [{name: gpu-a}]
switches:
  - {name: dvs-rdma, mtu: 9000, uplinks: 1, port_groups: [{name: dvpg-rdma}, {name: dvpg-other}]}
  - {name: dvs-lan, uplinks: 1, port_groups: [{name: dvpg-lan}]}
hosts:
  - name: esx[01:02].lab.local
    cluster: gpu-a
    nics:
      - {name: vmnic0, pci: 0000:18:00.0, switch: dvs-lan}
      - {name: vmnic4, pci: 0000:5e:00.0, model: ConnectX-6, switch: dvs-rdma, rdma: vmrdma0}
    vmkernel: [{name: vmk0, port_group: dvpg-lan}]
"""
MAKE = """
- hosts: all
  vmkernel:
    dvpg-rdma:
      address: {esx01.lab.local: 10.40.0.1/24, esx02.lab.local: 10.40.0.2/24}
      mtu: 9000
      pvrdma: true
      services: [vSphereProvisioning]
"""


@pytest.fixture
def own(make_lab, monkeypatch):
    lab = make_lab(TWO)
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(lab.directory))
    return lab


def entries(lab, call=None):
    return [e for e in lab.get("/lab/ledger")["entries"] if call in (None, e["call"])]


def test_an_adapter_is_made_and_its_new_name_used(cli, own):
    playbook = cli.file(MAKE)
    assert cli("apply", playbook, "--yes") == 0, cli.out + cli.err
    made = [e["detail"] for e in entries(own, "AddVirtualNic")]
    assert sorted(d["address"] for d in made) == ["10.40.0.1/255.255.255.0", "10.40.0.2/255.255.255.0"]
    assert {(d["device"], d["mtu"]) for d in made} == {("vmk1", 9000)}
    assert [e["detail"] for e in entries(own, "UpdateOptions")] == [{"options": {"Net.PVRDMAVmknic": "vmk1"}}] * 2
    selected = [e["detail"] for e in entries(own, "SelectVnicForNicType")]
    assert selected == [{"nicType": "vSphereProvisioning", "device": "vmk1"}] * 2
    before = len(entries(own))
    assert cli("plan", playbook, "--detailed-exitcode") == 0, cli.out
    assert cli("apply", playbook, "--yes") == 0
    assert len(entries(own)) == before


def test_what_show_says_is_as_it_is(cli, own):
    assert cli("apply", cli.file(MAKE), "--yes") == 0
    assert cli("show") == 0
    assert 'address: {esx01.lab.local: "10.40.0.1/24", esx02.lab.local: "10.40.0.2/24"}' in cli.out, cli.out
    assert cli("plan", cli.file(cli.out, "shown.yml"), "--detailed-exitcode") == 0, cli.out


def test_an_adapter_on_a_port_group_of_the_same_plan(cli, own):
    playbook = cli.file(
        "- datacenters: DC0\n  port_groups: {dvpg-new: {switch: dvs-rdma, vlan: 7}}\n"
        "- hosts: all\n  vmkernel: {dvpg-new: {address: dhcp, pvrdma: true}}\n"
    )
    assert cli("apply", playbook, "--yes") == 0, cli.out + cli.err
    assert [e["detail"] for e in entries(own, "UpdateOptions")] == [{"options": {"Net.PVRDMAVmknic": "vmk1"}}] * 2
    assert cli("plan", playbook, "--detailed-exitcode") == 0, cli.out


def test_a_lost_answer_makes_no_second_adapter(cli, own):
    own.set_faults("- {on: AddVirtualNic, nth: 1, do: lost-reply}")
    assert cli("apply", cli.file(MAKE), "--yes") == 0, cli.out + cli.err
    (rule,) = own.get("/lab/faults")["rules"]
    assert rule["fired"] == 1
    assert len(entries(own, "AddVirtualNic")) == 2


def test_the_management_adapter_is_refused(cli, ledger):
    playbook = cli.file("- hosts: esx01.lab.local\n  vmkernel: {dvpg-lan: {address: 10.99.0.1/24}}\n")
    assert cli("apply", playbook, "--yes") == 1
    assert "vmkernel.management" in cli.out + cli.err
    assert ledger() == []


def test_one_address_for_two_hosts_is_refused(cli, own):
    assert cli("plan", cli.file("- hosts: all\n  vmkernel: {dvpg-rdma: {address: 10.40.0.1/24}}\n")) == 1
    assert "vmkernel.address-taken" in cli.out + cli.err


def test_the_example_applies_and_changes_nothing_the_second_time(cli, ledger):
    playbook = PLAYBOOKS / "rdma-hosts.yml"
    assert cli("apply", playbook, "--yes") == 0, cli.out + cli.err
    assert [len(ledger(host, "esxcli system shutdown reboot")) for host in HOSTS] == [1, 1]
    settled(cli, playbook, ledger)
