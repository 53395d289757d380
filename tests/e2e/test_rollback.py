"""A rollback puts back what a run found, and names what it cannot put back."""

from __future__ import annotations

import re

import pytest
from support.every_kind import ALONE, TOGETHER
from support.places import PLAYBOOKS

pytestmark = pytest.mark.lab
VERSION = "version 19, it was 17"
MEMORY = "memory locked yes, it was no"
WINDOW = ("mmio 64bit yes, it was no", "mmio size gb 128, it was not set")
GROUP = ("dvpg-new switch dvs-rdma, it was not set", "dvpg-new vlan 7, it was not set")
# playbook -> what a rollback of it names
CASES = {
    "ai-ready-cluster.yml": {VERSION, *WINDOW},
    "pvrdma-only.yml": {MEMORY},
    "together": {VERSION, *WINDOW, *GROUP},
    "gpudirect": {VERSION, *WINDOW},
    "tuning": {MEMORY},
    "pvrdma_host": set(),
    "switches": {"dvs-new mtu 9000, it was not set", "dvs-new uplinks Uplink 1, it was not set"},
}
# what differs on the farm afterwards -> the words that name it
NAMED = {
    r"/vms/[^/]+/hardware": VERSION,
    r"/vms/[^/]+/memory_reserved_mb": MEMORY,
    r"/vms/[^/]+/extra_config/pciPassthru\.use64bitMMIO": WINDOW[0],
    r"/vms/[^/]+/extra_config/pciPassthru\.64bitMMIOSizeGB": WINDOW[1],
}
TRACES = r"/hosts/[^/]+/(boot_time|ssh/login_attempts)"


def differing(one, two, path=""):
    if isinstance(one, dict) and isinstance(two, dict):
        return [p for k in {*one, *two} for p in differing(one.get(k), two.get(k), f"{path}/{k}")]
    return [path] if one != two else []


def stays(text):
    joined = re.sub(r"\n {12}(?=\S)", " ", text)
    return set(re.findall(r"^      = \w+ +stays: (.*)$", joined, re.MULTILINE))


TWICE = """
name: twice
timing: {boot_seconds: 0.4, task_seconds: 0.005, shutdown_seconds: 0.05}
clusters: [{name: gpu-a}]
switches: [{name: dvs-lan, uplinks: 1, mtu: 9000, port_groups: [{name: dvpg-lan}, {name: dvpg-store}]}]
hosts:
  - name: esx01.lab.local
    cluster: gpu-a
    nics: [{name: vmnic0, pci: '0000:18:00.0', switch: dvs-lan}]
    vmkernel: [{name: vmk0, port_group: dvpg-lan}, {name: vmk1, port_group: dvpg-store, ip: 10.40.0.5, mtu: 1500}]
  - name: esx02.lab.local
    cluster: gpu-a
    nics: [{name: vmnic0, pci: '0000:18:00.0', switch: dvs-lan}]
    vmkernel: [{name: vmk0, port_group: dvpg-lan}, {name: vmk1, port_group: dvpg-store, ip: 10.40.0.5, mtu: 1500}]
"""


def test_an_address_that_two_adapters_have_all_the_time_is_not_in_the_way(cli, make_lab, monkeypatch):
    """The states that a run found have the addresses of adapters; a rollback changes none of them."""
    lab = make_lab(TWICE)
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(lab.directory))
    playbook = cli.file("- hosts: all\n  vmkernel: {dvpg-store: {mtu: 9000}}\n")
    assert cli("apply", playbook, "--yes") == 0, cli.out + cli.err
    assert cli("run", "list") == 0
    assert cli("rollback", cli.out.split()[0], "--yes") == 0, cli.out + cli.err
    calls = [e["call"] for e in lab.get("/lab/ledger")["entries"]]
    assert calls == ["UpdateVirtualNic"] * 4
    assert "also the address of esx02.lab.local vmk1" in cli.out


@pytest.mark.parametrize("name", CASES)
def test_the_farm_is_as_before_but_for_what_is_named(cli, farm, name):
    before = farm()
    playbook = PLAYBOOKS / name if name.endswith(".yml") else cli.file({**ALONE, "together": TOGETHER}[name])
    assert cli("apply", playbook, "--yes") == 0, cli.out + cli.err
    cli("run", "list")
    run = cli.out.split()[0]
    assert cli("rollback", run, "--yes") == 0, cli.out + cli.err
    named = stays(cli.out)
    assert named == CASES[name]
    if len(cli.states()) > 1:
        cli("run", "list")
        cli("run", "show", next(line.split()[0] for line in cli.out.splitlines() if "rollback" in line))
        assert set(re.findall(r"^  \S.*?: \w+ stays: (.*)$", cli.out, re.MULTILINE)) == named
    left = [p for p in differing(before, farm()) if not re.fullmatch(TRACES, p)]
    assert [p for p in left if not any(re.fullmatch(way, p) and said in named for way, said in NAMED.items())] == []
    runs = len(cli.states())
    assert cli("rollback", run, "--yes") == 0
    assert stays(cli.out) == named  # said again, though there is nothing left to do
    assert cli("rollback", run, "--yes", "-o", "json") == 0
    assert {line.partition(" stays: ")[2] for line in cli.text("rollback.stays").splitlines()} == named
    assert len(cli.states()) == runs, "there was nothing left to do"
