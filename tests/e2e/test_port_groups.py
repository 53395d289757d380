"""Port groups on the simulated farm: adjusted in place under running VMs, and made for PVRDMA in one playbook."""

from __future__ import annotations

import re

PVRDMA = """
- datacenters: DC0
  switches: {dvs-rdma: {mtu: 9000}}
  port_groups:
    dvpg-fast: {switch: dvs-rdma, vlan: 200, active_uplinks: [Uplink 1], security: {forged_transmits: true}}
- hosts: all:!esx-odd.lab.local
  pvrdma_host: {vmknic: vmk2, firewall: true}
- vms: train-04
  hardware: {version: 19}
  pvrdma: [{port_group: dvpg-fast}]
"""


def test_an_adapter_gets_a_port_group_that_the_same_playbook_makes(cli, ledger, soap):
    playbook = cli.file(PVRDMA)
    assert cli("apply", playbook, "--yes") == 0, cli.out + cli.err
    assert ledger()[0]["call"] == "AddDVPortgroup_Task"
    (reconfigured,) = ledger("train-04", "ReconfigVM_Task")
    group = soap.find(soap.vim.dvs.DistributedVirtualPortgroup, "dvpg-fast")
    assert [d["portgroup"] for d in reconfigured["detail"]["devices"]] == [group.key]
    before = len(ledger())
    assert cli("plan", playbook, "--detailed-exitcode") == 0, cli.out
    assert cli("apply", playbook, "--yes") == 0
    assert len(ledger()) == before


def test_running_vms_stay_connected(cli, ledger, farm):
    playbook = cli.file(
        "- datacenters: DC0\n  port_groups:\n    dvpg-lan:\n      trunk: [20, 30-39]\n      mac_learning: true\n"
        "      teaming: loadbalance_loadbased\n      security: {promiscuous: false, forged_transmits: true}\n"
    )
    on = {n for n, vm in farm()["vms"].items() if vm["power"] == "poweredOn"}
    notes = [note for item in cli.plan(playbook)["items"] for note in item["notes"]]
    assert any("esx01.lab.local" in note for note in notes), "whose management network it is"
    assert cli("apply", playbook, "--yes") == 0, cli.out + cli.err
    (entry,) = ledger()
    assert (entry["object"], entry["detail"]["vlan"]) == ("dvpg-lan", [[20, 20], [30, 39]])
    assert {n for n, vm in farm()["vms"].items() if vm["power"] == "poweredOn"} == on
    assert cli("plan", playbook, "--detailed-exitcode") == 0, cli.out


def test_what_is_wrong_is_said_with_its_place(cli):
    groups = "    p: {switch: d, vlan: 5, trunk: [1]}\n    q: {trunk: [9-5]}\n    r: {vlam: 1}\n"
    assert cli("plan", cli.file(f"- datacenters: DC0\n  port_groups:\n{groups}")) == 65
    said = " ".join(cli.err.split())
    assert cli.error == "input"
    faults = dict(re.findall(r"play\.yml:(\d+:\d+) error (.*?)(?= \S*play\.yml:|$)", said))
    assert sorted(faults) == ["3:8", "4:16", "5:9"]
    assert {"VLAN", "trunk"} <= set(re.findall(r"\w+", faults["3:8"]))
    assert "'9-5'" in faults["4:16"]
    assert re.findall(r"'[^']*'", faults["5:9"]) == ["'vlam'", "'vlan'"], "what was given, and what is near it"


def test_a_bare_name_is_not_a_switch(cli):
    assert cli("plan", cli.file("- datacenters: DC0\n  switches: [dvs-rdma]\n")) == 65
    assert "play.yml:2:" in cli.err
    assert cli("plan", cli.file("- hosts: gpu_hosts\n  uplinks: {dvs-rdma: vmnic4}\n")) == 65
    assert "play.yml:2:23" in cli.err
