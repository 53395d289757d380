"""Network I/O Control on the simulated farm: bandwidth of a switch, its pools, port groups in them, adapters of VMs."""

from __future__ import annotations

import json

import pytest
from pyVmomi import vim

pytestmark = pytest.mark.lab
POOL_TASK = "DvsReconfigureVmVnicNetworkResourcePool_Task"
SWITCH = """
- datacenters: DC0
  switches:
    dvs-lan:
      nioc: true
      bandwidth: {virtual_machine: {reservation: 200}, vmotion: {limit: 5000}}
      resource_pools: {gpu-lan: 400, spare: 100}
  port_groups:
    dvpg-lan: {resource_pool: gpu-lan}
    dvpg-new: {switch: dvs-lan, vlan: 7, resource_pool: spare}
"""
ALL = (
    SWITCH
    + """
- vms: train-04
  adapters: [{port_group: dvpg-lan, shares: high, reservation: 100, limit: 800}]
"""
)


def done(ledger):
    return [(e["object"], e["call"]) for e in ledger()]


def settled(cli, playbook, ledger):
    before = len(ledger())
    assert cli("plan", playbook, "--detailed-exitcode") == 0, cli.out
    assert cli("apply", playbook, "--yes") == 0, cli.out + cli.err
    assert len(ledger()) == before


def test_switch_pools_port_groups_and_an_adapter_in_one_go(cli, ledger):
    playbook = cli.file(ALL)
    assert cli("apply", playbook, "--yes") == 0, cli.out + cli.err
    assert done(ledger) == [
        ("dvs-lan", "ReconfigureDvs_Task"),
        ("dvs-lan", POOL_TASK),
        ("dvpg-lan", "ReconfigureDVPortgroup_Task"),
        ("dvpg-new", "AddDVPortgroup_Task"),
        ("train-04", "ReconfigVM_Task"),
    ]
    traffic, pools, moved, made, vm = (e["detail"] for e in ledger())
    assert traffic["reservations"] == {"virtualMachine": 200}
    assert traffic["limits"] == {"vmotion": 5000}
    assert pools["pools"] == [
        {"operation": "add", "name": "spare", "reservation": 100},
        {"operation": "add", "name": "gpu-lan", "reservation": 400},
    ]
    assert (moved["pool"], made["pool"]) == ("gpu-lan", "spare")
    assert [d["bandwidth"] for d in vm["devices"]] == [{"shares": 100, "reservation": 100, "limit": 800}]
    settled(cli, playbook, ledger)


def test_a_rollback_takes_back_all_of_it(cli, ledger, soap):
    assert cli("apply", cli.file(ALL), "--yes", "-o", "json") == 0, cli.out + cli.err
    run = json.loads(cli.out.splitlines()[0])["run"]
    before = len(ledger())
    assert cli.run("rollback", run, "--yes") == 0, cli.out + cli.err
    stays = cli.text("rollback.stays")
    back = ledger()[before:]
    (pools,) = (e["detail"]["pools"] for e in back if e["call"] == POOL_TASK)
    # the port group that was made stays, and with it its pool
    assert {(p["operation"], p["name"]) for p in pools} == {("remove", "gpu-lan"), ("edit", "spare")}
    assert "dvs-lan spare 0" in stays
    (traffic,) = (e["detail"] for e in back if e["call"] == "ReconfigureDvs_Task")
    assert (traffic["reservations"], traffic["limits"]) == ({"virtualMachine": 0}, {"vmotion": -1})
    (vm,) = (e["detail"]["devices"] for e in back if e["object"] == "train-04")
    assert [(d["operation"], "bandwidth" in d) for d in vm] == [("edit", False)]


def test_what_show_writes_is_a_playbook_without_changes(cli, ledger):
    assert cli("apply", cli.file(ALL), "--yes") == 0, cli.out + cli.err
    assert cli("show") == 0
    shown = cli.out
    assert "gpu-lan: 400" in shown
    assert "resource_pool: gpu-lan" in shown
    assert "reservation: 100" in shown
    assert "resource_pool: default" not in shown
    before = len(ledger())
    assert cli("plan", cli.file(shown, "shown.yml"), "--detailed-exitcode") == 0, cli.out + cli.err
    assert len(ledger()) == before


def test_a_pool_goes_once_no_port_group_is_in_it(cli, ledger):
    assert cli("apply", cli.file(SWITCH), "--yes") == 0, cli.out + cli.err
    remove = "- datacenters: DC0\n  switches: {dvs-lan: {resource_pools: {gpu-lan: absent, never: absent}}}\n"
    assert cli("plan", cli.file(remove, "remove.yml")) != 0
    assert "switches.pool-in-use" in cli.out
    both = cli.file(remove + "  port_groups: {dvpg-lan: {resource_pool: default}}\n", "both.yml")
    before = len(ledger())
    assert cli("apply", both, "--yes") == 0, cli.out + cli.err
    assert done(ledger)[before:] == [("dvpg-lan", "ReconfigureDVPortgroup_Task"), ("dvs-lan", POOL_TASK)]
    assert "pool" not in ledger()[before]["detail"]
    assert ledger()[-1]["detail"]["pools"] == [{"operation": "remove", "name": "gpu-lan"}]
    settled(cli, both, ledger)


def test_a_new_switch_gets_its_bandwidth_at_once_and_its_pools_with_its_nics(cli, ledger):
    first = (
        "- datacenters: DC0\n  switches:\n    dvs-new:\n      uplinks: [Uplink 1]\n      nioc: true\n"
        "      bandwidth: {virtual_machine: {reservation: 1000}}\n      resource_pools: {empty: 0}\n"
        "  port_groups: {dvpg-new: {switch: dvs-new, resource_pool: empty}}\n"
        "- hosts: gpu_hosts\n  uplinks: {dvs-new: {Uplink 1: vmnic4}, dvs-rdma: {}}\n"
    )
    assert cli("plan", cli.file(first.replace("empty: 0", "empty: 1"))) != 0
    assert "switches.resource-pools" in cli.out
    assert cli("apply", cli.file(first), "--yes") == 0, cli.out + cli.err
    more = cli.file(first.replace("empty: 0", "empty: 2000"), "more.yml")
    assert cli("apply", more, "--yes") == 0, cli.out + cli.err
    assert ledger("dvs-new", POOL_TASK)[-1]["detail"]["pools"] == [
        {"operation": "edit", "name": "empty", "reservation": 2000}
    ]
    settled(cli, more, ledger)


def test_less_for_vms_comes_after_less_for_their_pools(cli, ledger):
    """Their quotas never exceed what is reserved, whichever way it goes."""
    wide = "- datacenters: DC0\n  switches: {dvs-lan: {bandwidth: {virtual_machine: {reservation: 200}}, "
    assert cli("apply", cli.file(f"{wide}resource_pools: {{a: 400, b: 100}}}}}}\n"), "--yes") == 0, cli.out + cli.err
    less = wide.replace("200", "50") + "resource_pools: {a: 0, b: 300}}}\n"
    before = len(ledger())
    assert cli("apply", cli.file(less, "less.yml"), "--yes") == 0, cli.out + cli.err
    assert done(ledger)[before:] == [("dvs-lan", POOL_TASK), ("dvs-lan", POOL_TASK), ("dvs-lan", "ReconfigureDvs_Task")]
    assert [p["name"] for e in ledger()[before:-1] for p in e["detail"]["pools"]] == ["b", "a"]
    tight = less.replace("a: 0, b: 300", "a: 300, b: 0")
    before = len(ledger())
    assert cli("apply", cli.file(tight, "tight.yml"), "--yes") == 0, cli.out + cli.err
    assert [p["name"] for e in ledger()[before:] for p in e["detail"]["pools"]] == ["b", "a"]
    assert len(ledger()) == before + 1


@pytest.mark.parametrize(
    ("adapter", "rule"),
    [
        ("{port_group: dvpg-lan, reservation: 201}", "adapters.reservation"),
        ("{port_group: dvpg-lan, reservation: 150}", "adapters.reservation"),
        ("{port_group: dvpg-lan, reservation: 50, limit: 49}", "adapters.bandwidth"),
        ("{port_group: dvpg-rdma, type: sriov, shares: high}", "adapters.bandwidth"),
    ],
)
def test_more_than_there_is_is_refused(cli, ledger, adapter, rule):
    small = SWITCH.replace("gpu-lan: 400", "gpu-lan: 140")
    assert cli("apply", cli.file(small), "--yes") == 0, cli.out + cli.err
    before = len(ledger())
    assert cli("apply", cli.file(f"- vms: train-04\n  adapters: [{adapter}]\n", "vm.yml"), "--yes") != 0
    assert rule in cli.out + cli.err
    assert len(ledger()) == before


def test_two_vms_share_a_pool(cli, ledger):
    """One that runs leaves less for the other; plan and vCenter say so alike."""
    assert cli("apply", cli.file(SWITCH.replace("gpu-lan: 400", "gpu-lan: 140")), "--yes") == 0, cli.out + cli.err
    each = "- vms: {}\n  adapters: [{{port_group: dvpg-lan, reservation: {}}}]\n"
    assert cli("apply", cli.file(each.format("train-01", 100), "one.yml"), "--yes") == 0, cli.out + cli.err
    both = cli.file(each.format("train-01", 100) + each.format("train-04", 100), "both.yml")
    assert cli("plan", both) != 0
    assert "adapters.reservation" in cli.out
    fits = cli.file(each.format("train-01", 100) + each.format("train-04", 40), "fits.yml")
    assert cli("apply", fits, "--yes") == 0, cli.out + cli.err
    settled(cli, fits, ledger)


@pytest.mark.parametrize("do", ["lost-reply", "drop"])
def test_an_answer_about_pools_that_is_lost_makes_no_second_one(cli, ledger, lab, do):
    lab.set_faults(f"- {{on: {POOL_TASK}, nth: 1, do: {do}}}")
    playbook = cli.file(SWITCH)
    code = cli("apply", playbook, "--yes")
    lab.clear_faults()
    if code:
        assert cli("resume", "--yes") == 0, cli.out + cli.err
    added = [p["name"] for e in ledger("dvs-lan", POOL_TASK) for p in e["detail"]["pools"]]
    assert sorted(added) == ["gpu-lan", "spare"]
    settled(cli, playbook, ledger)


def test_a_pool_that_somebody_else_changed_is_not_overwritten(cli, ledger, soap, tmp_path):
    """A plan that was kept is not carried out when the pool is not any more what it was planned on."""
    assert cli("apply", cli.file(SWITCH), "--yes") == 0, cli.out + cli.err
    wanted = cli.file(SWITCH.replace("spare: 100", "spare: 150"), "wanted.yml")
    assert cli("plan", wanted, "--to", tmp_path / "kept.json") == 0, cli.out + cli.err
    lan = soap.find(vim.DistributedVirtualSwitch, "dvs-lan")
    (spare,) = (p for p in lan.config.vmVnicNetworkResourcePool if p.name == "spare")
    pool = vim.dvs.VmVnicNetworkResourcePool
    other = pool.ConfigSpec(
        operation="edit", key=spare.key, allocationInfo=pool.ResourceAllocation(reservationQuota=30)
    )
    soap.wait(lan.DvsReconfigureVmVnicNetworkResourcePool_Task([other]))
    before = len(ledger())
    assert cli("apply", tmp_path / "kept.json", "--yes") != 0
    assert len(ledger()) == before, cli.out + cli.err
