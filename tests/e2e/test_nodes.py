"""Nodes of training on the lab: the VMs of a set, and others by name, with what their hosts have behind them."""

from __future__ import annotations

import json

import paramiko
import pytest
import yaml
from support.vm_sets import FARM, FULL, INVENTORY

from vsphere_ai import app
from vsphere_ai.app.training.nodes import trust as nodes_trust
from vsphere_ai.connect.secure_shell.hostkeys import fingerprint
from vsphere_ai.errors import UsageError
from vsphere_ai.security.state_dir import lab_dir

pytestmark = pytest.mark.lab
LEAVES = "leaves: {leaf-a: {hosts: ['esx[01:02].lab.local']}}\n"


@pytest.fixture
def estate(cli, make_lab, monkeypatch):
    lab = make_lab(FARM)
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(lab.directory))
    inventory = cli.file(INVENTORY + LEAVES, "inventory.yml")
    playbook = cli.file(FULL)
    return cli, app.EstateRequest(inventory), inventory, playbook


def test_the_vms_of_a_set_are_nodes_with_their_hosts_gpus_and_rails(estate):
    cli, request, inventory, playbook = estate
    with pytest.raises(UsageError, match="no VM of train is there"):
        app.list_nodes(app.NodesRequest(playbook=playbook, estate=request))
    assert cli("apply", playbook, "--yes", "-i", inventory) == 0, cli.out
    found = app.list_nodes(app.NodesRequest(playbook=playbook, set="train", estate=request))
    assert [n.vm for n in found.nodes] == [f"train-{i:02d}" for i in range(1, 5)]
    assert [n.address for n in found.nodes] == [f"10.20.0.{i}" for i in range(11, 15)]
    farm = farm_now()
    assert {n.vm: n.host for n in found.nodes}.items() <= {vm["name"]: vm["host"] for vm in farm["vms"]}.items()
    for node in found.nodes:
        (gpu,) = node.gpus
        host = next(h for h in farm["hosts"] if h["name"] == node.host)
        assert [g["pci"] for g in host["gpus"] if node.vm in g["vms"]] == [gpu.host_pci]
        assert gpu.profile == "grid_a100-10c"
        (rail,) = node.rails
        assert (rail.number, rail.vmnic, rail.interface) == (1, "vmnic4", "rdma1")
        assert rail.address.startswith("172.16.1.")
        assert rail.switch_port == "leaf-a"
        assert node.interface == "mgmt"
    state = found.states["train-01"]
    assert (state.power, state.passthrough) == ("poweredOn", False)
    assert {"10.20.0.11", "172.16.1.10", "10.30.0.11"} <= set(state.leased)
    assert set(state.leased) == set(state.reported)
    by_storage = app.list_nodes(app.NodesRequest(playbook=playbook, nic="storage", estate=request))
    assert by_storage.nodes[0].address == "10.30.0.11"
    for wrong in ({"set": "trian"}, {"nic": "mgmtt"}):
        with pytest.raises(UsageError):
            app.list_nodes(app.NodesRequest(playbook=playbook, estate=request, **wrong))


def test_vms_by_name_need_no_set(estate):
    _, request, _, _ = estate
    found = app.list_nodes(app.NodesRequest(vms=["other-01"], estate=request))
    (node,) = found.nodes
    assert (node.vm, node.host, node.gpus, node.rails) == ("other-01", "esx01.lab.local", (), ())
    with pytest.raises(UsageError):
        app.list_nodes(app.NodesRequest(vms=["absent-*"], estate=request))
    with pytest.raises(UsageError, match="no VMs are named"):
        app.list_nodes(app.NodesRequest(estate=request))


def farm_now():
    from vsphere_ai.lab.front import process

    return process.find(lab_dir()).get("/lab/farm")


def test_keys_of_guests_are_trusted_by_their_fingerprints(estate, monkeypatch):
    cli, _, inventory, playbook = estate
    assert cli("apply", playbook, "--yes", "-i", inventory) == 0, cli.out
    lab_known = lab_dir() / "known_hosts"
    connection = yaml.safe_load((lab_dir() / "connection.yml").read_text())["guests"]
    own = cli.folder / "known"
    section = {**connection, "known_hosts": str(own), "key_file": str(lab_dir() / connection["key_file"])}
    mine = cli.file(INVENTORY + f"guests: {json.dumps(section)}\n", "mine.yml")
    assert cli("trust", "guest", playbook, "-i", mine, "--yes") == 64, "nothing would be compared"
    assert cli("trust", "guest", playbook, "-i", mine, "--yes", "--fingerprint", "SHA256:x") == 4
    assert not own.exists()
    key = paramiko.HostKeys(str(lab_known)).lookup(f"[{section['addresses']['train-01'].replace(':', ']:')}")
    (one,) = key.values()
    assert cli("trust", "guest", "train-*", "-i", mine, "--yes", "--fingerprint", fingerprint(one)) == 0, cli.err
    assert cli.out.count(fingerprint(one)) == 4
    assert set(own.read_text().splitlines()) <= set(lab_known.read_text().splitlines())
    assert len(own.read_text().splitlines()) == 4

    # what the guests report in vCenter needs no confirmation, and is all that is accepted
    own.unlink()
    assert cli("trust", "guest", playbook, "-i", mine) == 0, cli.err
    assert cli.out.count("new, as vCenter shows it") == 4
    assert len(own.read_text().splitlines()) == 4
    own.unlink()
    monkeypatch.setattr(nodes_trust, "_reported", lambda _: ("SHA256:of another machine",))
    assert cli("trust", "guest", playbook, "-i", mine) == 4
    assert "reports SHA256:of another machine in vCenter" in cli.err
    assert not own.exists()
