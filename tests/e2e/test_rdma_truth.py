"""What is said of RDMA on farms that are not quite right: an MTU that shrinks, a NIC of another driver, firmware."""

from __future__ import annotations

import json
import re

import pytest

pytestmark = pytest.mark.lab
FARM = """
name: truth
vcenter: {VCENTER}
timing: {boot_seconds: 0.4, task_seconds: 0.005, shutdown_seconds: 0.1, vmotion_seconds: 0.02}
clusters: [{name: gpu-a}]
switches:
  - {name: dvs-rdma, mtu: 9000, uplinks: 1, port_groups: [{name: dvpg-rdma, vlan: 100}]}
  - {name: dvs-lan, uplinks: 1, port_groups: [{name: dvpg-lan}]}
  - {name: dvs-store, mtu: 9000, uplinks: 1, port_groups: [{name: dvpg-store}]}
hosts:
  - name: esx[01:02].lab.local
    cluster: gpu-a
    VERSION
    nics:
      - {name: vmnic0, pci: "0000:18:00.0", switch: dvs-lan}
      - {name: vmnic4, pci: "0000:5e:00.0", model: ConnectX-6, switch: dvs-rdma, rdma: vmrdma0}
      - {name: vmnic6, pci: "0000:60:00.0", model: BCM57414, switch: dvs-store, rdma: vmrdma1}
    vmkernel: [{name: vmk0, port_group: dvpg-lan}, {name: vmk2, port_group: dvpg-rdma}]
    pvrdma_firewall: true
    pvrdma_vmknic: VMKNIC
    ssh: {running: SSH}
vms:
  - name: train-[01:02]
    host: esx[01:02].lab.local
    hardware: 19
    power: on
    memory_reservation_locked: true
    network: dvpg-lan
    pvrdma: [dvpg-rdma]
"""
SEVEN = ("{version: 7.0.2, build: 17958471, api: 7.0.2.0}", "version: 7.0.2")
EIGHT = ("{version: 8.0.2, build: 22385739, api: 8.0.2.0}", "version: 8.0.2\n    build: 22380479")
ESX = "esx01.lab.local"


@pytest.fixture
def farm(make_lab, monkeypatch):
    def start(release=SEVEN, *, vmknic="vmk2", ssh="true"):
        words = {"VCENTER": release[0], "VERSION": release[1], "VMKNIC": vmknic, "SSH": ssh}
        text = FARM.replace("{VCENTER}", "VCENTER")
        for word, value in words.items():
            text = text.replace(word, value)
        lab = make_lab(text)
        monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(lab.directory))
        return lab

    return start


def findings(cli, playbook, rule):
    cli("check", *([cli.file(playbook)] if playbook else []), "-o", "json")
    found = json.loads(cli.out)["findings"]
    return {(f["verdict"], f["message"]) for f in found if f["rule"] == rule and f["target"]["name"] == ESX}


def only(found):
    (one,) = found
    return one


SHRINK = f"""
- datacenters: DC0
  switches: {{dvs-rdma: {{mtu: 1500}}}}
- hosts: esx0*
  vmkernel: {{dvpg-rdma: {{mtu: 1500}}}}
- hosts: {ESX}
  roce: {{version: rocev2}}
"""


def traced(cli):
    """Exit code of a trace of all paths, whether these are whole, and what each pair of VMs uses."""
    code = cli("rdma", "trace", "train-*", "-o", "json")
    document = json.loads(cli.out)
    return code, {t["healthy"] for t in document["traces"]}, {(*p["vms"], p["use"]) for p in document["pairs"]}


def nics(found):
    """Verdict and NICs of the only finding."""
    verdict, message = only(found)
    return verdict, set(re.findall(r"vmnic\d", message))


def test_a_switch_that_shrinks_takes_the_rdma_mtu_along(farm, cli):
    farm()
    verdict, message = only(findings(cli, SHRINK, "host.rdma-mtu"))
    assert (verdict, "vmrdma0 1024, 4096 before this plan" in message) == ("warn", True)
    planned = {(f["rule"], f["target"] and f["target"]["name"]) for f in cli.plan(cli.file(SHRINK))["findings"]}
    assert ("host.rdma-mtu", ESX) in planned, "the plan says so, too"
    assert cli("apply", cli.file(SHRINK), "--yes") == 0, cli.out + cli.err
    verdict, message = only(findings(cli, SHRINK, "host.rdma-mtu"))
    assert (verdict, "vmrdma0 1024" in message) == ("warn", True)


def test_options_of_one_driver_are_not_those_of_another(farm, cli):
    farm()
    play = f"- hosts: {ESX}\n  rolling: {{evacuate: power_off}}\n  roce: {{pfc_priority: 3, trust: dscp, dscp: 26}}\n"
    assert cli("apply", cli.file(play), "--yes") == 0, cli.out + cli.err
    assert nics(findings(cli, play, "host.roce-dcb")) == ("pass", {"vmnic4"})
    both = f"{play}  nics: {{vmnic0: {{speed: auto}}}}\n"
    assert nics(findings(cli, both, "host.roce-lossless")) == ("warn", {"vmnic6"})
    paused = f"{play}  nics: {{vmnic6: {{pause: {{rx: true, tx: true}}}}}}\n"
    assert nics(findings(cli, paused, "host.roce-lossless")) == ("pass", {"vmnic4", "vmnic6"})


@pytest.mark.parametrize("more", ["vmnic0: {speed: 1000}", "vmnic4: {coalesce: {rx_usecs: 2}}"])
def test_a_word_about_another_setting_hides_no_pause(farm, cli, more):
    farm()
    off = ", ".join(f"{n}: {{pause: {{rx: false, tx: false}}}}" for n in ("vmnic4", "vmnic6"))
    play = f"- hosts: {ESX}\n  rolling: {{evacuate: power_off}}\n  nics: {{NICS}}\n"
    assert cli("apply", cli.file(play.replace("NICS", off)), "--yes") == 0, cli.out + cli.err
    found = findings(cli, play.replace("NICS", more), "host.roce-lossless")
    assert nics(found) == ("warn", {"vmnic4", "vmnic6"})


def test_the_tag_on_the_wrong_adapter_is_mended(farm, cli):
    farm(vmknic="vmk0")
    assert traced(cli) == (1, {False}, {("train-01", "train-02", "unknown")})
    assert cli("rdma", "trace", "train-*") == 1
    assert re.search(r"vmk0 1500 .*dvs-rdma", cli.out)
    play = "- vms: train-*\n  pvrdma: [{port_group: dvpg-rdma}]\n"
    verdict, message = only(findings(cli, play, "host.pvrdma-vmknic"))
    assert verdict == "warn"
    assert {"vmk0", "dvs-lan", "1500"} <= set(re.findall(r"[\w-]+", message))
    cli("rdma", "trace", "train-*", "-o", "playbook")
    assert cli("apply", cli.file(cli.out), "--yes") == 0, cli.out + cli.err
    assert traced(cli) == (0, {True}, {("train-01", "train-02", "roce")})
    assert cli("rdma", "trace", "train-*") == 0, cli.out
    assert re.search(r"RoCE.*4096", cli.out)


def firmware(cli, *more):
    assert cli("rdma", "devices", ESX, "-o", "json", *more) == 0, cli.err
    (host,) = json.loads(cli.out)["hosts"]
    return {d["nic"]: (d["driver_version"], d["firmware"], d["firmware_unknown"]) for d in host["devices"]}


KNOWN = {"vmnic4": ("4.19.16.10", "20.28.1002", ""), "vmnic6": ("216.0.50.0", "216.0.251.0/pkg 216.0.333.11", "")}


def test_on_7_the_shell_tells_the_firmware(farm, cli):
    lab = farm()
    assert firmware(cli) == KNOWN
    assert cli("rdma", "devices", ESX) == 0
    assert "driver nmlx5_rdma on nmlx5_core 4.19.16.10, firmware 20.28.1002" in cli.out
    assert "driver bnxtroce on bnxtnet 216.0.50.0, firmware 216.0.251.0/pkg 216.0.333.11" in cli.out
    assert lab.get("/lab/ledger")["entries"] == []


def test_on_7_without_ssh_it_is_said_why(farm, cli):
    lab = farm(ssh="false")
    unknown = firmware(cli)
    assert {nic: found[:2] for nic, found in unknown.items()} == {"vmnic4": ("", ""), "vmnic6": ("", "")}
    (why,) = {found[2] for found in unknown.values()}
    assert "TSM-SSH" in why
    cli("rdma", "devices", ESX)
    assert why in cli.out
    assert lab.get("/lab/ledger")["entries"] == []
    assert firmware(cli, "--start-ssh") == KNOWN
    calls = [e["call"] for e in lab.get("/lab/ledger")["entries"]]
    assert calls == ["StartService", "StopService"]


def test_on_8_vcenter_tells_it_and_no_shell_is_asked(farm, cli):
    lab = farm(EIGHT, ssh="false")
    assert firmware(cli, "--start-ssh") == KNOWN
    assert lab.get("/lab/ledger")["entries"] == []


def test_a_host_without_rdma_is_not_asked(cli, ledger):
    assert cli("rdma", "devices", "esx-odd.lab.local", "--start-ssh") == 0, cli.err
    assert ledger() == []
