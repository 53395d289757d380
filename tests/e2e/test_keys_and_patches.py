"""Encrypted VMs, hosts that are patched alive, members of vSAN, and bandwidth that VMs reserve: plans on the lab.

What a host would refuse is refused by the plan, nothing is changed, and what ran runs on; the farm beside it, in which
one thing is otherwise, is carried out.
"""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.lab
FARM = """
name: keys
timing: {{boot_seconds: 0.4, task_seconds: 0.005, shutdown_seconds: 0.05, vmotion_seconds: 0.02, guest_seconds: 0.1}}
vcenter: {{version: 8.0.3}}
clusters: [{{name: gpu-a, drs: fullyAutomated, ha: false}}]
switches: [{{name: dvs-lan, uplinks: 1, port_groups: [{{name: dvpg-lan, vlan: 20}}]}}]
hosts:
  - name: esx01.lab.local
    cluster: gpu-a
    version: 8.0.3
    nics: [{{name: vmnic0, pci: '0000:18:00.0', model: X710, switch: dvs-lan}}]
    ssh: {{running: true}}
{first}
  - name: esx02.lab.local
    cluster: gpu-a
    version: 8.0.3
    nics: [{{name: vmnic0, pci: '0000:18:00.0', model: X710, switch: dvs-lan}}]
    ssh: {{running: true}}
{second}
vms:
  - {{name: t-01, host: esx01.lab.local, power: on, network: dvpg-lan, tools: running, hardware: 19{vm}}}
  - {{name: t-02, host: esx01.lab.local, power: on, network: dvpg-lan, tools: running, hardware: 19}}
"""
WINDOW = """
- hosts: esx01.lab.local
  nics: {vmnic0: {speed: 10000}}
  rolling: {evacuate: vmotion, timeout: 10s}
"""
UPGRADE = "- vms: t-01\n  hardware: {version: 20}\n"
RESTART = "- hosts: esx01.lab.local\n  kernel: {ats_support: true}\n  rolling: {evacuate: vmotion, timeout: 20s}\n"


@pytest.fixture
def on(cli, make_lab, monkeypatch):
    """Start a farm of two hosts and two VMs; return the lab."""

    def use(first="", second="", vm=""):
        own = ("".join(f"    {line}\n" for line in text.splitlines()) for text in (first, second))
        made = make_lab(FARM.format(first=next(own), second=next(own), vm=vm))
        monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(made.directory))
        return made

    return use


def refused(cli, lab, play):
    """Return the rules that a plan is refused by; nothing is changed, and all VMs run."""
    before = lab.get("/lab/ledger")["entries"]
    assert cli("apply", cli.file(play), "--yes") == 1, cli.out + cli.err
    assert lab.get("/lab/ledger")["entries"] == before
    assert {v["power"] for v in lab.get("/lab/farm")["vms"]} == {"poweredOn"}
    return {p["rule"]: p["message"] for p in cli.plan(cli.file(play))["problems"]}


def carried_out(cli, lab, play):
    """Carry a plan out; return the verdict of each finding that is no pass, by rule."""
    plan = cli.plan(cli.file(play))
    assert cli("apply", cli.file(play), "--yes") == 0, cli.out + cli.err
    assert {v["power"] for v in lab.get("/lab/farm")["vms"]} == {"poweredOn"}
    return {f["rule"]: f["verdict"] for f in plan["findings"] if f["verdict"] != "pass"}


def test_an_encrypted_vm_moves_to_no_host_that_takes_no_keys(cli, on):
    lab = on(second="encryption: pendingIncapable", vm=", tpm: true")
    found = refused(cli, lab, WINDOW)
    assert any("encryption mode was turned off" in message for message in found.values()), found


@pytest.mark.parametrize("mode", ["safe", "incapable", "prepared"])
def test_where_vcenter_can_turn_the_mode_on_it_does(cli, on, new_client, mode):
    lab = on(second=f"encryption: {mode}", vm=", tpm: true")
    carried_out(cli, lab, WINDOW)
    assert new_client(lab).host("esx02").runtime.cryptoState == "safe"


def test_while_a_host_is_patched_alive_no_vm_is_powered_off_there(cli, on):
    lab = on(first="partial_maintenance: quickPatchPartialMM")
    assert "admission.host-state" in refused(cli, lab, UPGRADE)
    assert "host.partial-maintenance" in refused(cli, lab, RESTART)
    carried_out(cli, lab, "- vms: t-01\n  adapters: [{port_group: dvpg-lan, shares: high}]\n")


def test_no_vm_moves_to_a_host_that_is_patched_alive(cli, on):
    lab = on(second="partial_maintenance: quickPatchPartialMM")
    found = refused(cli, lab, WINDOW)
    assert any("patched alive" in message for message in found.values()), found


def test_of_another_partial_mode_only_the_doubt_is_shown(cli, on):
    lab = on(first="partial_maintenance: nsxPartialMM")
    assert carried_out(cli, lab, UPGRADE).items() >= {("admission.host-state", "unknown")}


def test_a_window_of_a_member_of_vsan_says_what_is_not_known(cli, on):
    lab = on(first="vsan: true", second="vsan: true")
    assert carried_out(cli, lab, WINDOW)["rolling.vsan"] == "unknown"
    assert "rolling.vsan" not in carried_out(cli, lab, UPGRADE)


RESERVED = """
- datacenters: DC0
  switches: {dvs-lan: {nioc: true, bandwidth: {virtual_machine: {reservation: 100}}, resource_pools: {train: 200}}}
  port_groups: {dvpg-lan: {resource_pool: train}}
- vms: t-01,t-02
  adapters: [{port_group: dvpg-lan, reservation: %s}]
"""


@pytest.mark.parametrize(("mbits", "fits"), [(50, True), (60, False)])
def test_a_vm_goes_off_only_where_the_nics_of_its_host_have_what_it_reserves(cli, on, mbits, fits):
    """The pool has 200 Mbit/s, of two hosts with one NIC each; both VMs are on one of them."""
    lab = on()
    carried_out(cli, lab, RESERVED % mbits)
    if fits:
        carried_out(cli, lab, UPGRADE)
    else:
        assert "reserve 120 Mbit/s on dvpg-lan" in refused(cli, lab, UPGRADE)["admission.bandwidth"]
