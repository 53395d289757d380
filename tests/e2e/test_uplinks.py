"""Hosts under distributed switches on the simulated farm: moved NICs, and a management network that is never cut."""

from __future__ import annotations

import pytest

MOVE = """
- hosts: esx01.lab.local
  uplinks:
    dvs-lan: {Uplink 1: vmnic0}
    dvs-rdma: {Uplink 1: vmnic1}
"""


def nics(soap, host, switch):
    found = next(p for p in soap.host(host).config.network.proxySwitch if p.dvsName == switch)
    names = {kv.key: kv.value for kv in found.uplinkPort}
    return {names[s.uplinkPortKey]: s.pnicDevice for s in found.spec.backing.pnicSpec}


def test_a_nic_moves_from_one_switch_to_another(cli, ledger, soap):
    playbook = cli.file(MOVE)
    assert cli("apply", playbook, "--yes") == 0, cli.out + cli.err
    done = [(e["object"], e["detail"]["hosts"][0]["uplinks"]) for e in ledger()]
    assert done == [("dvs-lan", {"Uplink 1": "vmnic0"}), ("dvs-rdma", {"Uplink 1": "vmnic1"})]
    assert nics(soap, "esx01", "dvs-rdma") == {"Uplink 1": "vmnic1"}
    assert nics(soap, "esx02", "dvs-rdma") == {"Uplink 1": "vmnic4"}
    assert cli("plan", playbook, "--detailed-exitcode") == 0
    assert cli("apply", playbook, "--yes") == 0
    assert len(ledger()) == 2


def test_the_management_network_is_not_cut(cli, ledger):
    playbook = cli.file("- hosts: gpu_hosts\n  uplinks:\n    dvs-lan: {}\n")
    assert cli("apply", playbook, "--yes") == 1
    assert "uplinks.management" in cli.out
    assert {"vmk0", "dvs-lan"} <= set(cli.out.split())
    assert ledger() == []


def test_every_host_of_a_plan_joins_the_same_switch(cli, ledger, make_lab, monkeypatch):
    lab = make_lab(
        "{name: x, timing: {task_seconds: 0.01}, clusters: [{name: c}], "
        "switches: [{name: d, uplinks: 1, port_groups: [{name: p}]}], hosts: [{name: 'h[1:8].lab.local', cluster: c, "
        "nics: [{name: vmnic0, pci: '0000:18:00.0'}, {name: vmnic1, pci: '0000:18:00.1', switch: d}]}]}"
    )
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(lab.directory))
    playbook = cli.file("- hosts: h*\n  uplinks: {d: {Uplink 1: vmnic0}}\n")
    assert cli("apply", playbook, "--yes") == 0, cli.out + cli.err
    entries = [e for e in lab.get("/lab/ledger")["entries"] if e["call"] == "ReconfigureDvs_Task"]
    assert sorted(e["detail"]["hosts"][0]["host"] for e in entries) == [f"h{n}.lab.local" for n in range(1, 9)]
    assert cli("plan", playbook, "--detailed-exitcode") == 0


@pytest.mark.parametrize("do", [{"task-fails": "ConcurrentAccess"}, "lost-reply"])
def test_a_refused_version_and_a_lost_answer_are_overcome(cli, ledger, soap, lab, do):
    lab.set_faults([{"on": "ReconfigureDvs_Task", "nth": 1, "do": do}])
    playbook = cli.file("- hosts: esx01.lab.local\n  uplinks: {dvs-rdma: {}}\n")
    assert cli("apply", playbook, "--yes") == 0, cli.out + cli.err
    assert nics(soap, "esx01", "dvs-rdma") == {}
    assert len(ledger("dvs-rdma", "ReconfigureDvs_Task")) == 1
    assert cli("plan", playbook, "--detailed-exitcode") == 0
