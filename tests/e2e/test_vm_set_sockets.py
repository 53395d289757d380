"""Cores per socket of new VMs: those of the play go into the clone, and what cannot be is refused before it."""

from __future__ import annotations

import pytest
from support.vm_sets import FARM, play

pytestmark = pytest.mark.lab
EIGHT = FARM.replace("template: true, cpus: 8", "template: true, cpus: 8, cores_per_socket: 8")


@pytest.fixture
def eight(sets, make_lab, monkeypatch):
    """A farm whose template has one socket of eight cores."""
    sets.lab = make_lab(EIGHT)
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(sets.lab.directory))
    return sets


def sockets(new_client, sets, name):
    hardware = new_client(sets.lab).vm(name).config.hardware
    return hardware.numCPU, hardware.numCoresPerSocket


def test_the_cores_of_the_play_go_into_the_clone(eight, new_client):
    eight.applied(play("train-[01:02]", nics=1, cpus=12, more="  tuning: {cores_per_socket: 6}\n"))
    assert sockets(new_client, eight, "train-02") == (12, 6)
    assert not eight.ledger("train-02", "ReconfigVM_Task"), "the clone brought them"


@pytest.mark.parametrize("more", ["", "\n- vms: train-[01:02]\n  tuning: {cores_per_socket: 6}\n"])
def test_cpus_that_the_sockets_of_the_source_do_not_take_are_refused(eight, more):
    """Also where another play would change the sockets: the clone comes before."""
    assert "vm_set.cores" in eight.refused(play("train-[01:02]", nics=1, cpus=12) + more)


def test_cores_that_do_not_divide_the_cpus_are_refused(eight):
    assert "tuning.cores" in eight.refused(play("train-01", nics=1, cpus=16, more="  tuning: {cores_per_socket: 6}\n"))


def test_a_vm_that_is_there_keeps_its_sockets_unless_the_play_says_others(eight, new_client):
    eight.applied(play("train-01", nics=1, cpus=16))
    assert sockets(new_client, eight, "train-01") == (16, 8)
    assert "vm_set.cores" in eight.refused(play("train-01", nics=1, cpus=12))
    eight.applied(play("train-01", nics=1, cpus=12, more="  tuning: {cores_per_socket: 4}\n"))
    assert sockets(new_client, eight, "train-01") == (12, 4)


@pytest.mark.parametrize("small", ["esx01", "esx02"])
def test_cpus_that_one_host_only_has_are_on_that_host(sets, make_lab, monkeypatch, small):
    """What the host lacks on which a VM would be before hosts are chosen refuses no other host."""
    head, hosts = FARM.split("hosts:\n")
    one, rest = hosts.split("vms:\n")
    alike = (one.replace("esx[01:02]", name) for name in ("esx01", "esx02"))
    sized = (h.replace("cluster: gpu-a", "cluster: gpu-a\n    cpu_cores: 8") if small in h else h for h in alike)
    sets.lab = make_lab(f"{head}hosts:\n{''.join(sized)}vms:\n{rest}")
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(sets.lab.directory))
    sets.applied(play("train-[01:02]", nics=1, more="  tuning: {cpus: 32}\n"))
    hosts = {vm["host"] for vm in sets.vms().values() if vm["name"].startswith("train")}
    assert hosts == {"esx01.lab.local", "esx02.lab.local"} - {f"{small}.lab.local"}
    more = play("train-[01:03]", nics=1, more="  tuning: {cpus: 200}\n")
    assert {"admission.vcpus", "vm_set.no-host"} <= sets.refused(more), "of those that are there, and of the new one"
