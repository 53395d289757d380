"""Hosts of the VMs of a set on the lab: chosen with room for each, said in the plan, and addressed by."""

from __future__ import annotations

import json

import pytest
from support.vm_sets import FARM, HOSTS, INVENTORY, PLAIN_HOST, play

pytestmark = pytest.mark.lab


@pytest.fixture
def three(sets, make_lab, monkeypatch):
    """A farm with a third host, which has no GPUs."""
    sets.lab = make_lab(FARM.replace("\nvms:", PLAIN_HOST, 1))
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(sets.lab.directory))
    return sets


def gpus(names, profile, **fields):
    return HOSTS + play(names, nics=1, more=f"  hardware: {{version: 19}}\n  vgpu: [{profile}]\n", **fields)


def test_the_plan_says_why_a_vm_is_on_its_host(sets, cli):
    assert sets("plan", cli.file(gpus("train-[01:03]", "grid_a100-20c")), "-o", "json") == 0
    notes = sorted(
        n for i in json.loads(cli.out)["items"] if i["kind"] == "vm_set" for n in i["notes"] if n.startswith("on ")
    )
    on = "on esx0{}.lab.local: {} of 3 VMs of the set there, room for {} more grid_a100-20c"
    assert notes == [on.format(1, 1, 3), on.format(2, 2, 2), on.format(2, 2, 2)], "other-01 is on esx01"


@pytest.mark.parametrize(
    ("names", "profile", "fields"),
    [("train-[01:05]", "grid_a100-40c", {}), ("train-[01:03]", "grid_a100-10c", {"memory_gb": 900})],
)
def test_vms_that_find_no_host_are_refused_before_anything_is_made(sets, names, profile, fields):
    assert sets.refused(gpus(names, profile, **fields)) == {"vm_set.no-room"}


def test_capacity_counts_the_vms_that_a_set_makes(sets, cli):
    """There are two GPUs on each of two hosts."""
    fits = cli.file(gpus("train-[01:04]", "grid_a100-40c"))
    assert sets("capacity", fits) == 0, cli.err
    assert "FITS (exact)" in cli.out
    assert sets("capacity", cli.file(gpus("train-[01:05]", "grid_a100-40c"), "more.yml")) == 1
    assert "DOES NOT FIT (exact)" in cli.out
    assert "5 of grid_a100-40c are to power on on the 4 GPUs of esx01.lab.local" in cli.out.replace("\n  ", " ")


def test_the_node_health_check_of_a_playbook_has_the_sizes_of_its_vms(sets, cli):
    playbook = cli.file(play("train-[01:02]", nics=1, cpus=16, memory_gb=64))
    assert sets("apply", playbook, "--yes") == 0, cli.out + cli.err
    checks = {}
    for what in (playbook, "train-*"):
        assert sets("render", "nhc", what) == 0, cli.err
        checks[what] = [line for line in cli.out.splitlines() if "check_hw_cpu" in line or "physmem" in line]
    assert checks[playbook] == checks["train-*"]
    assert any("check_hw_cpuinfo 16 16 16" in line for line in checks[playbook])


def test_the_node_health_check_is_the_same_whichever_way_the_vms_are_named(three, cli):
    """A playbook, a pattern and names of VMs give the same checks; the link of a PVRDMA rail by its slot."""
    cards = (
        "{name: mgmt, port_group: dvpg-lan, role: mgmt, primary: true, addresses: mgmt}",
        "{name: rdma1, port_group: dvpg-rdma, type: pvrdma, protocol: rocev2, role: rdma, rail: 1, addresses: rail1}",
    )
    playbook = HOSTS + play("train-[01:02]", cards=cards, more="  hardware: {version: 19}\n  vgpu: [grid_a100-10c]\n")
    three.applied(playbook)
    checks = []
    for what in ((cli.file(playbook),), ("train-*",), ("train-01", "train-02")):
        assert three("render", "nhc", *what) == 0, cli.err
        checks.append([line for line in cli.out.splitlines() if not line.startswith("#")])
    assert checks[0] == checks[1] == checks[2]
    for check in (
        "check_hw_cpuinfo",
        "check_hw_physmem",
        "check_hw_eth rdma1",
        "state ACTIVE/' rdma link",
        "nvidia-smi -L",
    ):
        assert any(check in line for line in checks[0]), checks[0]


BY_HOST = """
  one: {subnet: 10.40.1.0/24, ranges: [10.40.1.11-10.40.1.20], affinity: {hosts: [esx01.*]}, quarantine: 0}
  two: {subnet: 10.40.2.0/24, ranges: [10.40.2.11-10.40.2.20], affinity: {hosts: [esx02.*]}, quarantine: 0}
  three: {subnet: 10.40.3.0/24, ranges: [10.40.3.11-10.40.3.20], affinity: {hosts: [esx03.*]}, quarantine: 0}
"""


def test_addresses_follow_the_host_that_has_room(three, cli):
    three.inventory = cli.file(INVENTORY + BY_HOST, "by-host.yml")
    card = "{name: mgmt, port_group: dvpg-lan, addresses: [one, two, three]}"
    more = "  hardware: {version: 19}\n  vgpu: [grid_a100-40c]\n"
    three.applied(HOSTS + play("train-[01:04]", cards=(card,), more=more))
    for vm in three.vms().values():
        if vm["name"].startswith("train"):
            assert f"10.40.{int(vm['host'][3:5])}.1" in json.dumps(vm)


def test_a_host_without_the_port_group_is_none_for_the_set(three, cli):
    three.applied(play("train-[01:03]", cards=("{name: data, port_group: dvpg-rdma, addresses: rail1}",)))
    assert {vm["host"] for vm in three.vms().values() if vm["name"].startswith("train")} == {
        "esx01.lab.local",
        "esx02.lab.local",
    }


SRIOV = "{name: rdma1, port_group: dvpg-rdma, type: sriov, role: rdma, addresses: rail1}"


def with_functions(sets, make_lab, monkeypatch, *counts):
    """A farm of hosts with so many virtual functions behind the port group of RDMA."""
    head, hosts = FARM.split("hosts:\n")
    one, rest = hosts.split("vms:\n")
    alike = "".join(
        one.replace("esx[01:02]", f"esx{number:02}").replace("rdma: vmrdma0", f"rdma: vmrdma0, vfs: {count}")
        for number, count in enumerate(counts, 1)
    )
    sets.lab = make_lab(f"{head}hosts:\n{alike}vms:\n{rest}")
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(sets.lab.directory))


def test_sriov_adapters_are_where_functions_are_free(sets, make_lab, monkeypatch, cli):
    with_functions(sets, make_lab, monkeypatch, 1, 3, 0)
    sets.applied(play("train-[01:04]", cards=(SRIOV,)))
    hosts = [vm["host"] for vm in sets.vms().values() if vm["name"].startswith("train")]
    assert sorted(hosts) == ["esx01.lab.local"] + ["esx02.lab.local"] * 3
    assert "vm_set.no-room" in sets.refused(play("train-[01:05]", cards=(SRIOV,)))
    assert "no virtual function is free for dvpg-rdma: vmnic4 (0000:5e:00.0) has 3, 3 in use there" in cli.out
    # one that is made again takes the function of the one before
    assert sets("replace", cli.file(play("train-[01:04]", cards=(SRIOV,))), "train-02", "--yes", "--destroy", "1") == 0


def test_a_host_without_virtual_functions_is_none_for_sriov(sets, make_lab, monkeypatch, cli):
    with_functions(sets, make_lab, monkeypatch, 0, 0)
    assert "vm_set.no-host" in sets.refused(play("train-01", cards=(SRIOV,)))
    assert "esx01.lab.local: no virtual function is free for dvpg-rdma: vmnic4 (0000:5e:00.0) has 0" in cli.out
    # functions that the same playbook makes are there
    functions = "- hosts: esx01.*\n  sriov: {'0000:5e:00.0': 2}\n  rolling: {evacuate: power_off}\n"
    sets.applied(functions + play("train-01", cards=(SRIOV,)), "--reboot", "1")


LEAVES = """
leaves:
  leaf-a: {hosts: esx01.lab.local, rails: [1], vmnics: [vmnic4]}
  leaf-b: {hosts: [esx02.lab.local], rails: [1], switches: [dvs-rdma]}
"""
RAIL = "{name: rdma1, port_group: dvpg-rdma, role: rdma, rail: 1, addresses: rail1}"


def on_leaves(names, **placement):
    said = ", ".join(f"{key}: {value}" for key, value in placement.items())
    return play(names, cards=(RAIL,), placement=f"{{{said}}}" if said else None)


def test_the_vms_of_a_set_are_on_one_leaf(sets, cli):
    sets.inventory = cli.file(INVENTORY + LEAVES, "leaves.yml")
    sets.applied(on_leaves("train-[01:03]", one_leaf="must"))
    assert len({vm["host"] for vm in sets.vms().values() if vm["name"].startswith("train")}) == 1
    assert {e["call"] for e in sets.ledger("train-03")} == {"CloneVM_Task", "PowerOnVM_Task"}


def test_a_set_that_has_room_on_several_leaves_only_says_so(sets, cli):
    sets.inventory = cli.file(INVENTORY + LEAVES, "leaves.yml")
    assert sets("plan", cli.file(on_leaves("train-[01:02]", anti_affinity="must")), "-o", "json") == 0
    notes = [n for i in json.loads(cli.out)["items"] if i["kind"] == "vm_set" for n in i["notes"]]
    assert "leaf-a has room for 1 of 2 VMs" in notes[0]
    assert sets.refused(on_leaves("train-[01:02]", anti_affinity="must", one_leaf="must")) == {"vm_set.leaves"}


def test_one_leaf_is_refused_where_the_inventory_names_none(sets):
    assert sets.refused(on_leaves("train-[01:02]", one_leaf="must")) == {"vm_set.leaves"}


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        (1, 1, "GPUs on node 1; rdma1 on node 0; rdma1 may be on another node than the GPU"),
        (0, 1, "GPUs on nodes 0 and 1; rdma1 on node 0; rdma1 may be on another node than the GPU"),
    ],
)
def test_the_plan_says_on_which_numa_nodes_gpus_and_rails_are(sets, cli, make_lab, monkeypatch, first, second, words):
    farm = FARM
    for slot, node in (("3b", first), ("86", second)):
        farm = farm.replace(f"pci: 0000:{slot}:00.0, board", f"pci: 0000:{slot}:00.0, numa: {node}, board")
    sets.lab = make_lab(farm)
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(sets.lab.directory))
    more = "  hardware: {version: 19}\n  vgpu: [grid_a100-20c]\n"
    assert sets("plan", cli.file(HOSTS + play("train-01", cards=(RAIL,), more=more)), "-o", "json") == 0, cli.out
    notes = [n for i in json.loads(cli.out)["items"] if i["kind"] == "vm_set" for n in i["notes"]]
    assert f"NUMA of esx02.lab.local: {words}" in notes


def test_a_window_over_the_hosts_of_a_set_knows_what_is_on_their_gpus(sets, make_lab, monkeypatch, cli):
    """vCenter shows the members on the GPUs; the plan that has the set as well finds them there."""
    hot = "vcenter: {version: 8.0.3, build: 24022515, vgpu_vmotion: true}\nclusters:"
    farm = FARM.replace("clusters:", hot, 1).replace("470.256.02", "550.90.05\n    graphics_default: sharedDirect")
    farm = farm.replace("    cluster: gpu-a\n", "    cluster: gpu-a\n    version: 8.0.3\n    build: 24022510\n")
    farm = farm.replace("20f1}", "20f1, graphics_type: sharedDirect}")
    sets.lab = make_lab(farm.replace("running: true, policy: off", "running: true, policy: on"))
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(sets.lab.directory))
    made = play("train-[01:04]", nics=1, more="  hardware: {version: 19}\n  vgpu: [grid_a100-10c]\n")
    sets.applied(made)
    window = "- hosts: esx[01:02].lab.local\n  kernel: {ats_support: true}\n"
    rolled = cli.file(window + "  rolling: {evacuate: vmotion, timeout: 30s, settle: 2s}\n" + made, "rolled.yml")
    assert sets("apply", rolled, "--yes", "--reboot", "2") == 0, cli.out + cli.err
    assert sets.ledger(call="PowerOffVM_Task") == sets.ledger(call="ShutdownGuest") == []
    assert {call["object"] for call in sets.ledger(call="MigrateVM_Task")} == {f"train-0{n}" for n in range(1, 5)}


GPU_HOST = """
  - name: esx0{}.lab.local
    cluster: gpu-a
    memory_gb: {}
    nvidia_driver: 535.261.03
    graphics_default: sharedDirect
    gpus: [{{pci: '0000:3b:00.0', board: a100-40gb, device_id: 20f1, graphics_type: sharedDirect}}]
    nics: [{{name: vmnic0, pci: '0000:18:00.0', model: X710, switch: dvs-lan}}]
    ssh: {{running: true, policy: "on"}}"""
BESIDE = """
vms:
  - {name: ubuntu-22.04, host: esx02.lab.local, folder: ai, network: dvpg-lan, template: true, cpus: 8, memory_gb: 32}
  - {name: old, host: esx02.lab.local, network: dvpg-lan, power: on, memory_gb: 150, memory_reservation_locked: true,
     vgpu: [grid_a100-20c]}
"""


def test_a_spare_host_keeps_its_memory_for_vms_that_restart_there(sets, make_lab, monkeypatch, cli):
    """GPUs have room everywhere; only esx01 has the memory for the VM that is there, once its host is lost."""
    hosts = "".join(GPU_HOST.format(number, memory) for number, memory in ((1, 200), (2, 200), (3, 100)))
    sets.lab = make_lab(f"{FARM.partition('hosts:')[0]}hosts:{hosts}{BESIDE}")
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(sets.lab.directory))
    more = "  hardware: {version: 19, memory_reservation: full}\n  vgpu: [grid_a100-20c]\n  spare_hosts: 1\n"
    sets.applied(play("train-01", nics=1, more=more, memory_gb=60))
    (new,) = (vm for vm in sets.vms().values() if vm["name"] == "train-01")
    assert new["host"] == "esx03.lab.local"
    assert sets.refused(play("train-[01:02]", nics=1, more=more, memory_gb=60)) == {"capacity.no-spare"}
