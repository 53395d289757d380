"""One of several calls of the same kind loses its answer: it is adopted, sent once, and the rest goes on."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.lab
SEVERAL = """
- datacenters: DC0
  switches: {dvs-a: {mtu: 9000, nioc: true, shares: {vmotion: high}}, dvs-b: {uplinks: [one, two]}}
  port_groups:
    dvpg-n1: {switch: dvs-a, vlan: 7}
    dvpg-n2: {switch: dvs-a, vlan: 8}
    dvpg-rdma: {vlan: 9}

- hosts: esx0[1:2].lab.local
  uplinks: {dvs-lan: {Uplink 1: vmnic0}, dvs-a: {Uplink 1: vmnic1}}
  vmkernel: {dvpg-n1: {address: dhcp}, dvpg-n2: {address: dhcp}}
"""
CALLS = {"CreateDVS_Task": 2, "AddDVPortgroup_Task": 2, "ReconfigureDVPortgroup_Task": 1, "ReconfigureDvs_Task": 7,
         "EnableNetworkResourceManagement": 1, "AddVirtualNic": 4}  # fmt: skip
LOST = [("CreateDVS_Task", 1), ("CreateDVS_Task", 2), ("AddDVPortgroup_Task", 1), ("ReconfigureDVPortgroup_Task", 1),
        ("ReconfigureDvs_Task", 1), ("ReconfigureDvs_Task", 4), ("EnableNetworkResourceManagement", 1),
        ("AddVirtualNic", 1)]  # fmt: skip
NEVER_THERE = [("CreateDVS_Task", 1), ("AddDVPortgroup_Task", 1), ("ReconfigureDvs_Task", 2)]


@pytest.fixture(autouse=True)
def _own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setattr("vsphere_ai.execution.actions.executor.LOST_CALL", 2.0)


def carried_out(lab, cli, rule):
    """Apply with one fault; return how often its call came to the server."""
    lab.set_faults(f"- {rule}\n")
    playbook = cli.file(SEVERAL)
    assert cli("apply", playbook, "--yes") == 0, cli.out + cli.err
    (counted,) = lab.get("/lab/faults")["rules"]
    assert counted["fired"] == 1
    assert cli("plan", playbook, "--detailed-exitcode") == 0, cli.out
    return counted["met"]


@pytest.mark.parametrize(("call", "nth"), LOST, ids=[f"{call}-{nth}" for call, nth in LOST])
def test_a_lost_answer_is_adopted_and_nothing_is_sent_again(lab, cli, call, nth):
    assert carried_out(lab, cli, f"{{on: {call}, nth: {nth}, do: lost-reply}}") == CALLS[call]


@pytest.mark.parametrize(("call", "nth"), NEVER_THERE, ids=[f"{call}-{nth}" for call, nth in NEVER_THERE])
def test_what_never_got_there_is_sent_again(lab, cli, call, nth):
    assert carried_out(lab, cli, f"{{on: {call}, nth: {nth}, when: before, do: reset}}") == CALLS[call] + 1
