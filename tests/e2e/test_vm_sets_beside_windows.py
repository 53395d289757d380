"""New VMs of a set on hosts to which DRS moves VMs of other hosts: each finds its memory, or the plan is refused."""

from __future__ import annotations

import json

import pytest
from support.vm_sets import play

pytestmark = pytest.mark.lab
NIC = "{{name: vmnic{n}, pci: '0000:18:00.{n}', model: X710, switch: dvs-lan}}"
HOST = """
  - name: esx0{n}.lab.local
    cluster: gpu-a
    memory_gb: {memory}
    nics: [{nics}]
    vmkernel: [{{name: vmk0, port_group: dvpg-lan}}]
    ssh: {{running: true, policy: "on"}}"""
VM = "  - {{name: {name}, host: esx0{n}.lab.local, folder: ai, network: dvpg-lan, tools: running, {more}}}\n"
ROLLING = "{evacuate: vmotion, timeout: 20s, settle: 1s}"
FULL = "  hardware: {memory_reservation: full}\n"


@pytest.fixture
def farm(sets, make_lab, monkeypatch):
    """Makes a farm of three hosts with so many GB; `vms` are (name, host, GB), all of it reserved."""

    def made(memory, *vms):
        nics = ", ".join(NIC.format(n=n) for n in (0, 1))
        text = "name: beside\ntiming: {boot_seconds: 0.3, task_seconds: 0.01, vmotion_seconds: 0.02}\n"
        text += "clusters: [{name: gpu-a, drs: fullyAutomated}]\n"
        text += "switches: [{name: dvs-lan, uplinks: 2, port_groups: [{name: dvpg-lan}]}]\nhosts:"
        text += "".join(HOST.format(n=n, memory=gb, nics=nics) for n, gb in enumerate(memory, 1))
        text += "\nvms:\n" + VM.format(name="ubuntu-22.04", n=3, more="template: true, memory_gb: 8")
        for name, host, gb in vms:
            more = f"power: on, memory_gb: {gb}, memory_reservation_locked: true"
            text += VM.format(name=name, n=host, more=more)
        sets.lab = make_lab(text)
        monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(sets.lab.directory))
        return sets

    return made


def playbook(cli, host, gb, *windows, rolling=ROLLING):
    """A set of one VM on a host, with so many GB reserved, and hosts whose NICs are changed in maintenance mode."""
    where = f"{{hosts: [esx0{host}.lab.local], vm_host_rule: must}}"
    text = play("train-[01:01]", nics=1, cpus=2, memory_gb=gb, placement=where, more=FULL)
    hosts = ",".join(f"esx0{n}.lab.local" for n in windows)
    emptied = f"- hosts: {hosts}\n  nics: {{vmnic1: {{speed: 10000}}}}\n  rolling: {rolling}\n" if hosts else ""
    return cli.file(emptied + text)


def running(sets):
    return {name: vm["host"] for name, vm in sets.vms().items() if vm["power"] == "poweredOn"}


def test_a_new_vm_powers_on_before_the_window_whose_vms_drs_could_move_to_its_host(farm, cli):
    """The host has room for one of them; DRS would take it, as the first of two hosts without a VM."""
    sets = farm((64, 48, 48), ("moves", 1, 24))
    text = playbook(cli, 2, 32, 1)
    assert sets("plan", text) == 0, cli.out
    assert "train-01 powered on before the first window: DRS may move VMs to the same host" in " ".join(cli.out.split())
    assert sets("apply", text, "--yes") == 0, cli.out + cli.err
    assert running(sets) == {"moves": "esx03.lab.local", "train-01": "esx02.lab.local"}


def test_a_vm_of_a_set_that_is_changed_keeps_its_memory(farm, cli):
    """While it is off, its host would be the first of two without a VM."""
    sets = farm((64, 48, 48), ("moves", 1, 24))
    sets.applied(playbook(cli, 2, 20).read_text(encoding="utf-8"))
    text = playbook(cli, 2, 32, 1)
    assert sets("plan", text) == 0, cli.out
    assert "train-01 changed before the first window: DRS may move VMs" in " ".join(cli.out.split())
    assert sets("apply", text, "--yes") == 0, cli.out + cli.err
    assert running(sets) == {"moves": "esx03.lab.local", "train-01": "esx02.lab.local"}


def test_where_there_is_room_for_both_nothing_waits(farm, cli):
    sets = farm((64, 96, 48), ("moves", 1, 24))
    text = playbook(cli, 2, 32, 1)
    assert sets("plan", text) == 0, cli.out
    assert "powered on before" not in cli.out
    assert sets("apply", text, "--yes") == 0, cli.out + cli.err


def test_a_new_vm_that_takes_the_only_place_of_a_vm_that_moves_is_refused_with_its_figures(farm, cli):
    sets = farm((64, 48, 48), ("moves", 1, 24), ("stays", 3, 40))
    assert sets("plan", playbook(cli, 2, 32, 1), "-o", "json") == 1
    (problem,) = json.loads(cli.out)["problems"]
    assert problem["rule"] == "rolling.nowhere"
    assert "GB" in problem["message"]


@pytest.mark.parametrize("at_a_time", [1, 2])
def test_a_new_vm_on_a_host_with_a_window_powers_on_before_the_next_window(farm, cli, at_a_time):
    """The first host is empty by then, and DRS would fill it from the second one; two at once have no time between."""
    sets = farm((48, 64, 64), ("moves-1", 1, 8), ("moves-2", 2, 30))
    rolling = ROLLING.replace("}", f", max_unavailable: {at_a_time}}}")
    text = playbook(cli, 1, 32, 1, 2, rolling=rolling)
    assert sets("plan", text) == 0, cli.out
    shown = " ".join(cli.out.split())
    assert ("1 host at a time, not 2" in shown) == (at_a_time == 2)
    assert "train-01 powered on after the window of esx01.lab.local" in shown
    assert sets("apply", text, "--yes") == 0, cli.out + cli.err
    assert running(sets)["train-01"] == "esx01.lab.local"
    assert running(sets)["moves-2"] == "esx03.lab.local"
