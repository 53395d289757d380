"""A farm with six silent faults: found in one run, fixed by one playbook, judged by the lab's ledger."""

from __future__ import annotations

import json
import re

import pytest

pytestmark = pytest.mark.lab
FARM = """
name: six-faults
timing: {boot_seconds: 0.4, task_seconds: 0.005, shutdown_seconds: 0.1, vmotion_seconds: 0.02}
clusters: [{name: gpu-a}]
switches:
  - {name: dvs-rdma, mtu: 1500, uplinks: 2, port_groups: [{name: dvpg-rdma, vlan: 100, active_uplinks: [Uplink 1]}]}
  - {name: dvs-lan, uplinks: 1, port_groups: [{name: dvpg-lan}]}
hosts:
  - name: esx01.lab.local
    cluster: gpu-a
    nics: &nics
      - {name: vmnic0, pci: "0000:18:00.0", switch: dvs-lan}
      - {name: vmnic4, pci: "0000:5e:00.0", model: ConnectX-6, switch: dvs-rdma, rdma: vmrdma0}
    vmkernel: &vmks [{name: vmk0, port_group: dvpg-lan}, {name: vmk2, port_group: dvpg-rdma, mtu: 9000}]
    pvrdma_firewall: true
  - {name: esx02.lab.local, cluster: gpu-a, nics: *nics, vmkernel: *vmks, pvrdma_vmknic: vmk2}
  - name: esx03.lab.local
    cluster: gpu-a
    nics:
      - {name: vmnic0, pci: "0000:18:00.0", switch: dvs-lan}
      - {name: vmnic4, pci: "0000:5e:00.0", model: ConnectX-6, switch: dvs-rdma, rdma: vmrdma0}
      - {name: vmnic5, pci: "0000:5f:00.0", switch: dvs-rdma}
    vmkernel: *vmks
    pvrdma_vmknic: vmk2
    pvrdma_firewall: true
  - {name: esx04.lab.local, cluster: gpu-a, nics: *nics, vmkernel: *vmks, pvrdma_vmknic: vmk2, pvrdma_firewall: true}
  - name: esx05.lab.local
    cluster: gpu-a
    nics:
      - {name: vmnic0, pci: "0000:18:00.0", switch: dvs-lan}
      - {name: vmnic4, pci: "0000:5e:00.0", switch: dvs-rdma}
    vmkernel: *vmks
    pvrdma_vmknic: vmk2
    pvrdma_firewall: true
vms:
  - {name: train-01, host: esx01.lab.local, hardware: 19, VM}
  - {name: train-02, host: esx02.lab.local, hardware: 19, VM}
  - {name: train-03, host: esx03.lab.local, hardware: 19, VM}
  - {name: train-04, host: esx04.lab.local, hardware: 11, VM}
  - {name: train-05, host: esx05.lab.local, hardware: 19, VM}
"""
FARM = FARM.replace("VM}", "power: on, memory_reservation_locked: true, network: dvpg-lan, pvrdma: [dvpg-rdma]}")
MTU = ("MTU", "host.pvrdma-mtu")
# what is broken, per VM: the MTU of the switch is everybody's
PLANTED = {
    "train-01": {("PVRDMA vmknic", "host.pvrdma-vmknic"), MTU},
    "train-02": {("firewall", "host.pvrdma-firewall"), MTU},
    "train-03": {("RDMA NIC is the switch's only uplink", "host.rdma-uplinks"), MTU},
    "train-04": {("virtual hardware", "vm.hardware-version"), MTU},
    "train-05": {("RDMA device of that NIC", "vm.rdma-path"), MTU},
}
RULES = {  # of `check`: where each fault shows
    ("esx01.lab.local", "host.pvrdma-vmknic"),
    ("esx02.lab.local", "host.pvrdma-firewall"),
    ("esx03.lab.local", "host.rdma-uplinks"),
    *((f"esx0{n}.lab.local", "host.pvrdma-mtu") for n in (2, 3, 4, 5)),
    ("train-04", "vm.hardware-version"),
    ("esx05.lab.local", "host.rdma-device"),
    ("train-05", "vm.rdma-path"),
}


@pytest.fixture
def broken(make_lab, monkeypatch):
    lab = make_lab(FARM)
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(lab.directory))
    return lab


def trace(cli, *vms):
    code = cli("rdma", "trace", *(vms or ["train-*"]), "-o", "json")
    return code, json.loads(cli.out)


def faults(document):
    return {t["vm"]: {(h["target"]["name"], h["rule"]) for h in t["links"] if h["verdict"] == "fail"} for t in
            document["traces"]}  # fmt: skip


def entries(lab, call=""):
    return [e for e in lab.get("/lab/ledger")["entries"] if call in ("", e["call"])]


def test_six_faults_are_found_in_one_run_and_fixed_by_one_playbook(cli, broken):
    code, document = trace(cli)
    assert code == 2
    assert faults(document) == PLANTED
    assert {p["use"] for p in document["pairs"] if "train-04" not in p["vms"]} == {"tcp"}

    assert cli("check", "--failures", "-o", "json") == 2
    found = {(f["target"]["name"], f["rule"]) for f in json.loads(cli.out)["findings"]}
    assert found >= RULES
    assert entries(broken) == []  # looking changes nothing

    assert cli("rdma", "trace", "train-*", "-o", "playbook") == 2
    playbook = cli.file(cli.out, "fix.yml")
    assert cli("apply", playbook, "--yes") == 0, cli.out + cli.err
    made = entries(broken)
    reboots = [e["object"] for e in made if "reboot" in e["call"].lower()]
    assert len(reboots) == len(set(reboots)) == 0  # none of the six needs one
    assert [e["object"] for e in entries(broken, "PowerOnVM_Task")] == ["train-04"]

    code, document = trace(cli)
    assert code == 2
    assert faults(document) == {
        **{vm: set() for vm in PLANTED},
        "train-05": {("RDMA device of that NIC", "vm.rdma-path")},
    }
    used = {tuple(p["vms"]): p for p in document["pairs"]}
    assert {p["use"] for vms, p in used.items() if "train-05" not in vms} == {"roce"}
    for vms, pair in used.items():
        if "train-05" in vms:
            assert pair["use"] == "tcp"
            assert [g["target"] for g in pair["causes"]] == ["esx05.lab.local"]
    assert document["playbook"] == ""

    assert cli("plan", playbook, "--detailed-exitcode") == 0, cli.out
    assert cli("apply", playbook, "--yes") == 0
    assert len(entries(broken)) == len(made)


def test_a_whole_way_ends_with_zero(cli, lab):
    playbook = cli.file(
        "- hosts: all:!esx-odd.lab.local\n  pvrdma_host: {vmknic: vmk2, firewall: true}\n"
        "- vms: train-01,train-03\n  pvrdma: [{port_group: dvpg-rdma}]\n"
    )
    assert cli("apply", playbook, "--yes") == 0, cli.out + cli.err
    assert cli("rdma", "trace", "train-01", "train-03") == 0, cli.out
    assert re.search(r"train-01 - train-03 .*RoCE.*4096", cli.out)
    assert cli("rdma", "trace", "train-0[1:3]") == 2  # train-02 has no adapter
    assert "pvrdma: [{port_group: dvpg-rdma}]" in cli.out


def test_a_vm_that_is_not_there(cli, lab):
    assert cli("rdma", "trace", "train-99") == 64
    assert "train-99" in cli.err
