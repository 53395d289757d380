"""Sets of VMs on what the same plan makes for them first: switches, port groups, members, GPUs, functions, and room."""

from __future__ import annotations

import pytest
from support.vm_sets import FARM, HOSTS, play

pytestmark = pytest.mark.lab
VGPU = "  vgpu: [grid_a100-40c]\n"
NIC = "      - {name: vmnic0, pci: 0000:18:00.0, model: X710, switch: dvs-lan}\n"
FREE = NIC + "      - {name: vmnic1, pci: 0000:18:00.1, model: X710%s}\n"
APART = "{anti_affinity: must}"


def members(*numbers):
    """The farm with a switch for data that only these hosts are members of; the other ones have a free NIC."""
    start, end = FARM.index("  - name: esx[01:02]"), FARM.index("vms:\n")
    hosts = [
        FARM[start:end]
        .replace("esx[01:02]", f"esx0{n}")
        .replace(NIC, FREE % (", switch: dvs-data" if n in numbers else ""))
        for n in (1, 2)
    ]
    data = "switches:\n  - {name: dvs-data, uplinks: 1, port_groups: [{name: dvpg-data, vlan: 77}]}\n"
    return (FARM[:start] + "".join(hosts) + FARM[end:]).replace("switches:\n", data)


def on(port_group, **placement):
    card = f"{{name: data, port_group: {port_group}, primary: true, addresses: mgmt}}"
    return play("train-[01:02]", cards=(card,), **placement)


def joins(hosts, switch="dvs-data"):
    return f"- hosts: {hosts}\n  uplinks: {{{switch}: {{Uplink 1: vmnic1}}}}\n"


def made(port_group, switches=""):
    return f"- datacenters: DC0\n{switches}  port_groups: {{{port_group}}}\n"


NEW = made("dvpg-new: {switch: dvs-data, vlan: 99}")


@pytest.mark.parametrize("named", ["dvpg-new", "dvs-data/dvpg-new"])
@pytest.mark.parametrize("text", ["dvpg-new: {switch: dvs-data, vlan: 99}", "dvs-data/dvpg-new: {vlan: 99}"])
def test_a_port_group_that_the_plan_makes(make_sets, named, text):
    make_sets(members(1, 2)).applied(made(text) + on(named))


def test_a_host_that_is_no_member_gets_no_vm_on_a_new_port_group(make_sets):
    sets = make_sets(members(1))
    assert sets.refused(NEW + on("dvpg-new", placement=APART)) == {"vm_set.no-room"}
    sets.applied(NEW + on("dvpg-new"))
    assert {vm["host"] for vm in sets.vms().values() if vm["name"].startswith("train")} == {"esx01.lab.local"}


@pytest.mark.parametrize("there", [(), (1,)])
@pytest.mark.parametrize("port_group", ["dvpg-data", "dvpg-new"])
def test_hosts_that_join_first(make_sets, there, port_group):
    sets = make_sets(members(*there))
    joining = joins("esx02.lab.local" if there else "esx[01:02].lab.local")
    sets.applied((NEW if port_group == "dvpg-new" else "") + joining + on(port_group, placement=APART))


def test_a_switch_with_all_that_belongs_to_it(make_sets):
    switch = "  switches: {dvs-new: {uplinks: [Uplink 1]}}\n"
    text = made("dvpg-new: {switch: dvs-new, vlan: 99}", switch) + joins("esx[01:02].lab.local", "dvs-new")
    make_sets(members()).applied(text + on("dvpg-new", placement=APART))


def test_gpus_that_are_no_longer_passed_through(make_sets):
    sets = make_sets(FARM)
    passed = "  passthrough: {'0000:3b:00.0': %s, '0000:86:00.0': %s}\n  rolling:"
    alone = "- hosts: esx[01:02].lab.local\n  rolling: {evacuate: power_off, max_unavailable: 2}\n"
    sets.applied(alone.replace("  rolling:", passed % ("true", "true")))
    sets.applied(HOSTS.replace("  rolling:", passed % ("false", "false")) + play("train-[01:04]", nics=1, more=VGPU))


def test_virtual_functions_that_the_plan_makes(make_sets):
    card = "{name: rdma1, port_group: dvpg-rdma, type: sriov, role: rdma, addresses: rail1}"
    functions = HOSTS.replace("  rolling:", "  sriov: {'0000:5e:00.0': 4}\n  rolling:")
    make_sets(FARM).applied(functions + play("train-[01:04]", cards=(card,)))


@pytest.mark.parametrize("how", ["destroyed", "without its vGPU"])
def test_a_gpu_that_another_vm_has_until_then(make_sets, how):
    """Four GPUs, four VMs with one each."""
    sets = make_sets(FARM)
    sets.applied(HOSTS + play("train-[01:04]", nics=1, more=VGPU))
    after = play("next-01", name="next", nics=1, more=VGPU)
    if how == "destroyed":
        sets.applied(HOSTS + play("train-[01:03]", nics=1, more=VGPU) + after, "--destroy", 1)
        return
    three = "\n- vms: train-[01:03]\n  vgpu: [grid_a100-40c]\n- vms: train-04\n  vgpu: []\n"
    sets.applied(HOSTS + play("train-[01:04]", nics=1) + three + after)
