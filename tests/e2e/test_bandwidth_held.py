"""Bandwidth that VMs hold which no playbook names: what is left for others, and what may not be taken from them."""

from __future__ import annotations

import pytest
from pyVmomi import vim

pytestmark = pytest.mark.lab
THREE = "train-01,train-02,train-03"
FULL = f"""
- datacenters: DC0
  switches:
    dvs-lan: {{nioc: true, bandwidth: {{virtual_machine: {{reservation: 200}}}}, resource_pools: {{train: 300}}}}
  port_groups: {{dvpg-lan: {{resource_pool: train}}}}
- vms: {THREE}
  adapters: [{{port_group: dvpg-lan, reservation: 100}}]
"""
SAID = f"- vms: {THREE}\n  adapters: [{{port_group: dvpg-lan, reservation: 100}}]\n"


VM_TRAFFIC = "switches: {{dvs-lan: {{bandwidth: {{virtual_machine: {{reservation: {}}}}}}}}}"
TINY = "switches: {dvs-lan: {resource_pools: {tiny: 10}}}\n  port_groups: {dvpg-lan: {resource_pool: tiny}}"


def datacenter(text):
    return f"- datacenters: DC0\n  {text}\n"


@pytest.fixture
def full(cli, farm):
    """Three VMs on two hosts run and have all of the pool."""
    assert cli("apply", cli.file(FULL, "full.yml"), "--yes") == 0, cli.out + cli.err
    assert all(farm()["vms"][vm]["power"] == "poweredOn" for vm in THREE.split(","))
    return farm


def refused(cli, ledger, play):
    before = len(ledger())
    playbook = cli.file(play, "refused.yml")
    assert cli("apply", playbook, "--yes") == 1, cli.out + cli.err
    assert len(ledger()) == before
    return {(p["rule"], p["message"]) for p in cli.plan(playbook)["problems"]}


@pytest.mark.parametrize(
    ("vm", "megabits", "total"), [("infra-01", 100, 400), ("train-04", 1, 301), ("train-04", 200, 500)]
)
def test_a_vm_alone_in_the_playbook_counts_those_on_other_hosts(cli, ledger, full, vm, megabits, total):
    play = f"- vms: {vm}\n  adapters: [{{port_group: dvpg-lan, reservation: {megabits}}}]\n"
    ((rule, message),) = refused(cli, ledger, play)
    assert rule == "adapters.reservation"
    assert message.startswith(f"{total} Mbit/s with what running VMs have of pool train")
    assert "resource_pools: {train: " + str(total) in cli.out


@pytest.mark.parametrize(
    ("play", "rules"),
    [
        (datacenter("switches: {dvs-lan: {resource_pools: {train: 299}}}"), {"switches.resource-pools"}),
        (datacenter("switches: {dvs-lan: {resource_pools: {train: 100}}}") + SAID, {"switches.resource-pools"}),
        (datacenter(VM_TRAFFIC.format(99)), {"switches.reservation"}),
        (
            datacenter(TINY),
            {"port_groups.resource-pool"},
        ),
    ],
)
def test_what_running_vms_hold_is_not_taken_from_them(cli, ledger, full, play, rules):
    assert {rule for rule, _ in refused(cli, ledger, play)} == rules


def test_a_pool_shrinks_with_what_vms_reserve(cli, ledger, full):
    """Less for the VMs in the same playbook comes first; then a power cycle finds all it needs."""
    less = datacenter("switches: {dvs-lan: {resource_pools: {train: 90}}}") + SAID.replace("100", "30")
    assert cli("apply", cli.file(less), "--yes") == 0, cli.out + cli.err
    assert [e["object"] for e in ledger()][-1] == "dvs-lan"
    assert cli("apply", cli.file("- vms: train-01\n  hardware: {version: 19}\n"), "--yes") == 0, cli.out + cli.err
    assert full()["vms"]["train-01"]["power"] == "poweredOn"


def test_a_vm_that_could_not_power_on_again_is_not_switched_off(cli, ledger, full, soap):
    """Somebody else takes from the pool what running VMs have; the plan has to know of all of them."""
    lan = soap.find(vim.DistributedVirtualSwitch, "dvs-lan")
    (train,) = (p for p in lan.config.vmVnicNetworkResourcePool if p.name == "train")
    pool = vim.dvs.VmVnicNetworkResourcePool
    quota = pool.ResourceAllocation(reservationQuota=250)
    soap.wait(lan.DvsReconfigureVmVnicNetworkResourcePool_Task(
        [pool.ConfigSpec(operation="edit", key=train.key, configVersion=train.configVersion, allocationInfo=quota)]
    ))  # fmt: skip
    ((rule, message),) = refused(cli, ledger, "- vms: train-01\n  hardware: {version: 19}\n")
    assert rule == "power.stranded"
    assert "pool train of dvs-lan reserves 250 Mbit/s, and running VMs have 300" in message
    assert full()["vms"]["train-01"]["power"] == "poweredOn"


@pytest.fixture
def off(cli, full):
    """Network I/O Control is switched off under all of it."""
    playbook = cli.file(datacenter("switches: {dvs-lan: {nioc: false}}"), "off.yml")
    assert cli("apply", playbook, "--yes") == 0, cli.out + cli.err
    return cli.out


def test_switching_it_off_says_whose_bandwidth_goes(cli, off, ledger):
    assert "nothing holds to pools train and what VMs reserve (train-01, train-02, train-03)" in off
    assert "shares count only" not in off
    assert ledger()[-1]["call"] == "EnableNetworkResourceManagement"


@pytest.mark.parametrize(
    ("play", "rule"),
    [
        (SAID, "adapters.bandwidth"),
        (datacenter(VM_TRAFFIC.format(200)), "switches.nioc"),
        (datacenter("switches: {dvs-lan: {resource_pools: {train: 300}}}"), "switches.nioc"),
        (datacenter("port_groups: {dvpg-lan: {resource_pool: train}}"), "port_groups.resource-pool"),
    ],
)
def test_what_is_only_written_is_not_as_wanted(cli, off, play, rule):
    playbook = cli.file(play)
    assert cli("verify", playbook) != 0
    assert rule in cli.out
    on = play if "switches" in play else datacenter("switches: {dvs-lan: {nioc: true}}") + play
    on = on.replace("dvs-lan: {bandwidth", "dvs-lan: {nioc: true, bandwidth").replace(
        "dvs-lan: {resource_pools", "dvs-lan: {nioc: true, resource_pools"
    )
    assert cli("apply", cli.file(on, "on.yml"), "--yes") == 0, cli.out + cli.err
    assert cli("verify", playbook) == 0, cli.out + cli.err


@pytest.mark.parametrize("limit", [(), ("--limit", "train-01")])
def test_what_show_writes_of_it_is_a_playbook_without_changes(cli, off, limit):
    assert cli("show", *limit) == 0
    assert cli("plan", cli.file(cli.out, "shown.yml"), "--detailed-exitcode") == 0, cli.out + cli.err
