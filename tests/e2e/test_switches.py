"""A fabric is made, adjusted and left alone: datacenter, port groups, hosts, on the simulated farm."""

from __future__ import annotations

import json

import yaml

FABRIC = """
- datacenters: DC0
  switches:
    dvs-new: {version: 7.0.2, mtu: 9000, uplinks: [Uplink 1], nioc: true, shares: {vmotion: 75}}
  port_groups:
    dvpg-new: {switch: dvs-new, vlan: 300, active_uplinks: [Uplink 1]}
- hosts: gpu_hosts
  uplinks:
    dvs-new: {Uplink 1: vmnic4}
    dvs-rdma: {}
"""


def calls(entries):
    return [(e["object"], e["call"]) for e in entries]


def test_a_fabric_is_made_in_one_go_and_then_is_as_planned(cli, ledger):
    playbook = cli.file(FABRIC)
    assert cli("apply", playbook, "--yes") == 0, cli.out + cli.err
    made = calls(ledger())
    assert made[:3] == [
        ("dvs-new", "CreateDVS_Task"),
        ("dvs-new", "EnableNetworkResourceManagement"),
        ("dvs-new", "ReconfigureDvs_Task"),
    ]
    assert ("dvpg-new", "AddDVPortgroup_Task") in made
    members = [e["detail"]["hosts"][0] for e in ledger("dvs-new", "ReconfigureDvs_Task") if "hosts" in e["detail"]]
    assert {(m["host"], m["operation"]) for m in members} == {
        (f"esx0{n}.lab.local", op) for n in (1, 2) for op in ("add", "edit")
    }
    assert all(m["uplinks"] == {"Uplink 1": "vmnic4"} for m in members if m["operation"] == "edit")
    before = len(ledger())
    assert cli("plan", playbook, "--detailed-exitcode") == 0, cli.out
    assert cli("apply", playbook, "--yes") == 0
    assert len(ledger()) == before


def test_what_show_writes_is_a_playbook_without_changes(cli, ledger):
    assert cli("apply", cli.file(FABRIC), "--yes") == 0, cli.out + cli.err
    assert cli("show") == 0
    kinds = {"switches", "port_groups", "uplinks"}
    shown = [play for play in yaml.safe_load(cli.out) if kinds & play.keys()]
    kept = yaml.safe_dump([{k: v for k, v in p.items() if k in {"datacenters", "hosts", *kinds}} for p in shown])
    assert "dvs-new" in kept
    assert "Uplink 1: vmnic4" in kept
    before = len(ledger())
    assert cli("plan", cli.file(kept, "shown.yml"), "--detailed-exitcode") == 0, cli.out + cli.err
    assert len(ledger()) == before


def test_a_switch_is_adjusted_and_its_members_follow(cli, ledger, soap):
    playbook = cli.file(
        "- datacenters: DC0\n  switches:\n    dvs-lan:\n      mtu: 9000\n      nioc: false\n"
        "      uplinks: [Uplink 1, Uplink 2, Uplink 3]\n      shares: {vmotion: low, vsan: 77}\n"
    )
    assert cli("apply", playbook, "--yes") == 0, cli.out + cli.err
    assert calls(ledger()) == [("dvs-lan", "EnableNetworkResourceManagement"), ("dvs-lan", "ReconfigureDvs_Task")]
    assert ledger()[1]["detail"] == {
        "mtu": 9000, "uplinks": ["Uplink 1", "Uplink 2", "Uplink 3"], "shares": {"vmotion": 25, "vsan": 77},
    }  # fmt: skip
    proxies = {p.dvsName: p for p in soap.host("esx01").config.network.proxySwitch}
    assert proxies["dvs-lan"].mtu == 9000
    assert [kv.value for kv in proxies["dvs-lan"].uplinkPort] == ["Uplink 1", "Uplink 2", "Uplink 3"]
    assert cli("apply", playbook, "--yes") == 0
    assert len(ledger()) == 2


def test_an_old_switch_is_upgraded_first(cli, make_lab, monkeypatch):
    lab = make_lab(
        "{name: x, timing: {task_seconds: 0.005}, switches: [{name: d, version: 6.5.0, port_groups: [{name: p}]}], "
        "hosts: [{name: h.lab.local, nics: [{name: vmnic0, pci: '0000:18:00.0', switch: d}]}]}"
    )
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(lab.directory))
    text = "- datacenters: DC0\n  switches: {d: {version: 7.0.2}}\n  port_groups: {p: {mac_learning: true}}\n"
    assert cli("apply", cli.file(text), "--yes") == 0, cli.out + cli.err
    entries = lab.get("/lab/ledger")["entries"]
    assert calls(entries) == [("d", "PerformDvsProductSpecOperation_Task"), ("p", "ReconfigureDVPortgroup_Task")]
    assert cli("plan", cli.file(text), "--detailed-exitcode") == 0


RUNNING = """
- datacenters: DC0
  switches: {dvs-rdma: {mtu: 9000}}
- hosts: esx01.lab.local
  vmkernel: {dvpg-rdma: {mtu: 9000, pvrdma: true}}
"""


def test_a_smaller_mtu_under_an_adapter_for_pvrdma_is_refused(cli, ledger):
    assert cli("apply", cli.file(RUNNING), "--yes") == 0, cli.out + cli.err
    before = len(ledger())
    lower = cli.file("- datacenters: DC0\n  switches: {dvs-rdma: {mtu: 1500}}\n", "lower.yml")
    assert cli("plan", lower) == 1
    said = " ".join((cli.out + cli.err).split())
    assert "[switches.mtu]" in said
    assert "esx01.lab.local vmk2 (9000)" in said
    assert cli("apply", lower, "--yes") == 1
    assert len(ledger()) == before


def test_what_a_shared_change_does_to_others_is_said(cli):
    """Two active uplinks take RDMA from VMs that run, and that the playbook does not name."""
    first = (
        "- hosts: all:!esx-odd.lab.local\n  pvrdma_host: {vmknic: vmk2, firewall: true}\n"
        "- vms: train-01\n  hardware: {version: 19}\n  pvrdma: [{port_group: dvpg-rdma}]\n"
    )
    assert cli("apply", cli.file(first), "--yes") == 0, cli.out + cli.err
    teamed = cli.file(
        "- datacenters: DC0\n  switches: {dvs-rdma: {uplinks: [Uplink 1, Uplink 2]}}\n"
        "  port_groups: {dvpg-rdma: {active_uplinks: [Uplink 1, Uplink 2]}}\n",
        "teamed.yml",
    )
    plan = cli.plan(teamed)
    assert plan["problems"] == []
    (found,) = (f for f in plan["findings"] if f["rule"] == "vm.rdma-path")
    assert found["verdict"] == "warn"
    assert "train-01" in str(found)


LOWER = """
- datacenters: DC0
  switches: {dvs-rdma: {mtu: 1500, nioc: false}}
- hosts: all:!esx-odd.lab.local
  vmkernel: {dvpg-rdma: {mtu: 1500}}
"""
HOSTS = ["esx01.lab.local", "esx02.lab.local", "esx03.lab.local"]


def order(entries, mtu):
    """Who got an MTU, in the order it happened; the hosts, which go side by side, by name."""
    found = [e["object"] for e in entries if e["detail"].get("mtu") == mtu]
    at = found.index("dvs-rdma")
    return [*sorted(found[:at]), found[at], *sorted(found[at + 1 :])]


def test_frames_are_never_larger_than_the_switch(cli, ledger):
    """Lowered: who sends first, then the switch. Raised, as by a rollback: the other way round."""
    lower = cli.file(LOWER, "lower.yml")
    assert cli("apply", lower, "--yes", "-o", "json") == 0, cli.out + cli.err
    run = json.loads(cli.out.splitlines()[0])["run"]
    assert calls(ledger())[0] == ("dvs-rdma", "EnableNetworkResourceManagement")
    assert order(ledger(), 1500) == [*HOSTS, "dvs-rdma"]
    assert cli("plan", lower, "--detailed-exitcode") == 0, cli.out
    before = len(ledger())
    assert cli("rollback", run, "--yes", "-o", "json") == 0, cli.out + cli.err
    run = json.loads(cli.out.splitlines()[0])["run"]
    assert order(ledger()[before:], 9000) == ["dvs-rdma", *HOSTS]
    before = len(ledger())
    assert cli("rollback", run, "--yes") == 0, cli.out + cli.err
    assert order(ledger()[before:], 1500) == [*HOSTS, "dvs-rdma"]


def test_a_switch_is_not_lowered_while_an_adapter_is_not(cli, ledger, lab):
    lab.set_faults([{"on": "UpdateVirtualNic", "nth": 2, "do": {"fault": "ResourceInUse"}}])
    assert cli("apply", cli.file(LOWER, "lower.yml"), "--yes") == 1, cli.out + cli.err
    lab.clear_faults()
    assert ledger("dvs-rdma", "ReconfigureDvs_Task") == []
    assert cli("resume", "--yes") == 0, cli.out + cli.err
    assert order(ledger(), 1500) == [*HOSTS, "dvs-rdma"]
