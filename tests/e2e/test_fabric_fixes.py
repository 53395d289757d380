"""What `rdma trace -o playbook` writes, applied: the ways are whole then, and what was whole still is."""

from __future__ import annotations

import json
from random import Random

import pytest
import yaml

pytestmark = pytest.mark.lab
TIMING = {"boot_seconds": 0.4, "task_seconds": 0.005, "shutdown_seconds": 0.1, "vmotion_seconds": 0.02}
TRAIN = {"hardware": 19, "power": "on", "memory_reservation_locked": True, "network": "dvpg-lan"}
PLACEHOLDER = "CHOOSE AN ADDRESS"


def host(number, nics, vmks, **more):
    """A host with NICs on dvs-rdma: name -> whether it is an RDMA NIC; the first is on Uplink 1, and so on."""
    found = [{"name": "vmnic0", "pci": "0000:18:00.0", "switch": "dvs-lan"}]
    for n, (name, able) in enumerate(nics.items()):
        nic = {"name": name, "pci": f"0000:5{n}:00.0", "switch": "dvs-rdma"}
        found.append({**nic, "model": "ConnectX-6", "rdma": "vmrdma0"} if able else nic)
    adapters = [{"name": "vmk0", "port_group": "dvpg-lan"}]
    adapters += [{"name": f"vmk{n}", "port_group": g, "mtu": m} for n, (g, m) in enumerate(vmks.items(), 2)]
    return {"name": f"esx{number:02d}.lab.local", "cluster": "gpu-a", "nics": found, "vmkernel": adapters, **more}


def farm(hosts, *, mtu=1500, active=("Uplink 1", "Uplink 2"), vms=None):
    """A farm of one cluster with a VM on each host; `vms` overrides what they are, by number."""
    groups = [{"name": "dvpg-rdma", "vlan": 100, "active_uplinks": list(active)},
              {"name": "dvpg-store", "vlan": 7, "active_uplinks": list(active)}]  # fmt: skip
    guests = []
    for n, at in enumerate(hosts, 1):
        own = (vms or {}).get(n, {"pvrdma": ["dvpg-rdma"]})
        guests.append({"name": f"train-{n:02d}", "host": at["name"], **TRAIN, **own})
    return yaml.safe_dump({
        "name": "fixes",
        "timing": TIMING,
        "clusters": [{"name": "gpu-a"}],
        "switches": [{"name": "dvs-rdma", "mtu": mtu, "uplinks": 2, "port_groups": groups},
                     {"name": "dvs-lan", "uplinks": 1, "port_groups": [{"name": "dvpg-lan"}]}],
        "hosts": hosts,
        "vms": guests,
    })  # fmt: skip


@pytest.fixture
def run(cli, make_lab, monkeypatch):
    """Start a farm, trace VMs and apply their fixes; returns the two traces and the playbook."""

    def fix(text, *vms):
        lab = make_lab(text)
        monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(lab.directory))
        whole = {t["vm"] for t in traced(cli)["traces"] if t["healthy"]}
        before = traced(cli, *vms)
        playbook = before["playbook"]
        for n in range(20, 40):
            if PLACEHOLDER in playbook:
                assert cli("plan", cli.file(playbook, "asis.yml")) == 65, cli.out + cli.err
                assert PLACEHOLDER in cli.err
                playbook = playbook.replace(PLACEHOLDER, f"10.9.0.{n}/24", 1)
        assert cli("apply", cli.file(playbook, "fix.yml"), "--yes") == 0, playbook + cli.out + cli.err
        assert whole <= {t["vm"] for t in traced(cli)["traces"] if t["healthy"]}, playbook
        return before, traced(cli, *vms), playbook

    return fix


def traced(cli, *vms):
    cli("rdma", "trace", *(vms or ["train-*"]), "-o", "json")
    return json.loads(cli.out)


def broken(document):
    return {(t["vm"], h["target"]["name"]) for t in document["traces"] for h in t["links"] if h["verdict"] == "fail"}


READY = {"pvrdma_vmknic": "vmk2", "pvrdma_firewall": True}


def test_the_worst_farm(run):
    """Two hosts want different uplinks, one has no adapter on the switch, MTUs differ, nothing is prepared."""
    hosts = [
        host(1, {"vmnic4": True, "vmnic5": False}, {}),
        host(2, {"vmnic3": False, "vmnic4": True}, {"dvpg-rdma": 9000}),
        host(3, {"vmnic4": True}, {"dvpg-rdma": 1500}),
    ]
    before, after, playbook = run(farm(hosts, vms={1: {"hardware": 11, "pvrdma": ["dvpg-rdma"]}}))
    assert broken(before)
    assert broken(after) == set()
    assert after["playbook"] == ""
    plays = {next(iter(p.values())): p for p in yaml.safe_load(playbook)}
    assert plays["DC0"]["port_groups"] == {"dvpg-rdma": {"active_uplinks": ["Uplink 1"]}}
    assert plays["DC0"]["switches"] == {"dvs-rdma": {"mtu": 9000}}
    assert plays["esx02.lab.local"]["uplinks"] == {"dvs-rdma": {"Uplink 1": "vmnic4"}}
    assert plays["esx01.lab.local"]["vmkernel"]["dvpg-rdma"]["mtu"] == 9000
    assert plays["esx03.lab.local"]["vmkernel"]["dvpg-rdma"]["mtu"] == 9000
    assert {p["use"] for p in after["pairs"]} == {"roce"}


def test_what_was_whole_stays_whole_also_outside_the_trace(run, cli):
    hosts = [
        host(1, {"vmnic4": True}, {"dvpg-rdma": 9000}, **READY),
        host(2, {"vmnic4": True}, {"dvpg-rdma": 1500, "dvpg-store": 1500}, **READY),
    ]
    _, _, playbook = run(farm(hosts, active=["Uplink 1"]), "train-01")
    assert broken(traced(cli)) == set()  # train-02 was not traced, and was whole
    plays = {next(iter(p.values())): p for p in yaml.safe_load(playbook)}
    assert plays["esx02.lab.local"]["vmkernel"] == {"dvpg-rdma": {"mtu": 9000}, "dvpg-store": {"mtu": 9000}}


def test_an_adapter_for_a_vm_comes_with_all_its_hosts_need(run):
    hosts = [host(n, {"vmnic4": True}, {"dvpg-rdma": 1500}) for n in (1, 2)]
    hosts.append(host(3, {"vmnic4": True, "vmnic5": False}, {}))
    vms = {1: {"hardware": 11, "memory_reservation_locked": False}, 2: {}, 3: {}}
    before, after, playbook = run(farm(hosts, active=["Uplink 1"], vms=vms), "train-01")
    seen = [h["message"] for t in before["traces"] for h in t["links"] if h["target"]["name"] == "firewall"]
    assert [s.partition(":")[0] for s in seen[1:]] == ["esx02.lab.local", "esx03.lab.local"]
    assert broken(after) == set()
    assert "pvrdma: [{port_group: dvpg-rdma}]" in playbook


def test_no_adapter_is_suggested_that_a_host_cannot_carry(cli, make_lab, monkeypatch):
    hosts = [host(1, {"vmnic4": True}, {"dvpg-rdma": 1500}), host(2, {"vmnic4": False}, {"dvpg-rdma": 1500})]
    lab = make_lab(farm(hosts, active=["Uplink 1"], vms={1: {}, 2: {}}))
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(lab.directory))
    (found,) = traced(cli, "train-01")["traces"]
    (link,) = [h for h in found["links"] if h["target"]["name"] == "VM adapter"]
    assert link["fix"] is None
    assert "esx02.lab.local: vmnic4 -> no RDMA device" in link["remedy"]


def chance(seed):
    """A farm that is in disorder in any way a playbook can fix."""
    random = Random(seed)
    hosts = []
    for n in range(1, 5):
        able = random.choice([{"vmnic4": True}, {"vmnic4": True, "vmnic5": False}, {"vmnic3": False, "vmnic4": True}])
        vmks = random.choice([{}, {"dvpg-rdma": 1500}, {"dvpg-rdma": 9000}, {"dvpg-rdma": 4000, "dvpg-store": 1500}])
        more = random.choice([{}, {"pvrdma_firewall": True}, READY if vmks else {}])
        hosts.append(host(n, able, vmks, **more))
    active = random.choice([["Uplink 1"], ["Uplink 2"], ["Uplink 1", "Uplink 2"]])
    vms = {n: random.choice([{}, {"pvrdma": ["dvpg-rdma"]}, {"hardware": 11, "pvrdma": ["dvpg-rdma"]}])
           for n in range(1, 5)}  # fmt: skip
    return farm(hosts, mtu=random.choice([1500, 4000, 9000]), active=active, vms=vms)


@pytest.mark.parametrize("seed", range(6))
def test_whatever_is_broken_one_playbook_fixes(run, seed):
    vms = ["train-01", "train-03"] if seed % 2 else []
    before, after, playbook = run(chance(seed), *vms)
    assert broken(before)
    assert broken(after) == set(), playbook
    assert after["playbook"] == ""
