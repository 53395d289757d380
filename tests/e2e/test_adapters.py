"""Network adapters and SR-IOV on the lab: all at once, others untouched, virtual functions counted."""

from __future__ import annotations

import pytest
from support.places import PLAYBOOKS

pytestmark = pytest.mark.lab
FOUR = """
- hosts: esx02.lab.local
  sriov: {"0000:5e:00.0": 4}
  rolling: {evacuate: power_off}
  pvrdma_host: {vmknic: vmk2, firewall: true}
- vms: train-04
  hardware: {version: 19}
  adapters:
    - {port_group: dvpg-lan}
    - {type: vmxnet3, port_group: dvpg-lan, mac: "00:50:56:01:02:03"}
    - {type: e1000e, port_group: dvpg-lan, connected: false}
    - {type: sriov, port_group: dvpg-rdma}
    - {type: pvrdma, port_group: dvpg-rdma, protocol: rocev2}
"""


def reboots(ledger, host):
    """The reboots of a host, over SSH or through vCenter."""
    return [e for e in ledger(host) if "reboot" in e["call"].casefold()]


def settled(cli, playbook, ledger):
    """A second plan is empty, and a second apply changes nothing."""
    before = len(ledger())
    assert cli("plan", playbook, "--detailed-exitcode") == 0, cli.out
    assert cli("apply", playbook, "--yes") == 0, cli.out + cli.err
    assert len(ledger()) == before


def test_adapters_of_four_types_come_with_one_reconfigure(cli, ledger, farm):
    playbook = cli.file(FOUR)
    assert cli("apply", playbook, "--yes") == 0, cli.out + cli.err
    (entry,) = ledger("train-04", "ReconfigVM_Task")
    added = [(d["operation"], d["type"], d["connected"]) for d in entry["detail"]["devices"]]
    assert added == [
        ("add", "VirtualVmxnet3", True),
        ("add", "VirtualE1000e", False),
        ("add", "VirtualSriovEthernetCard", True),
        ("add", "VirtualVmxnet3Vrdma", True),
    ]
    assert entry["detail"]["devices"][0]["mac"] == "00:50:56:01:02:03"
    assert len(reboots(ledger, "esx02.lab.local")) == 1
    assert [e["detail"]["devices"] for e in ledger("esx02.lab.local", "UpdatePassthruConfig")] == [
        [{"id": "0000:5e:00.0", "passthrough": False, "functions": 4}]
    ]
    settled(cli, playbook, ledger)


def test_a_running_vm_gets_and_loses_adapters_without_going_off(cli, ledger):
    def adapters(*entries, exclusive="false"):
        return f"- vms: train-03\n  adapters: {{exclusive: {exclusive}, adapters: [{', '.join(entries)}]}}\n"

    plain, off = "{port_group: dvpg-lan}", "{port_group: dvpg-lan, connected: false}"
    for text, operations in (
        (adapters(plain, plain, off), ["add", "add"]),
        (adapters(*["{port_group: dvpg-lan, connected: true}"] * 3), ["edit"]),
        (adapters(plain), []),
        (adapters(plain, exclusive="true"), ["remove", "remove"]),
    ):
        before, playbook = len(ledger()), cli.file(text)
        assert cli("apply", playbook, "--yes") == 0, cli.out + cli.err
        entries = ledger()[before:]
        assert [d["operation"] for e in entries for d in e["detail"]["devices"]] == operations
        assert {e["call"] for e in entries} <= {"ReconfigVM_Task"}
        settled(cli, playbook, ledger)


def test_an_address_is_given_and_taken_back_with_one_power_cycle_each(cli, ledger):
    def mac(value):
        return cli.file(f'- vms: train-03\n  adapters: [{{port_group: dvpg-lan, mac: "{value}"}}]\n')

    for value, cycles in (("00:50:56:0a:0b:0c", 1), ("assigned", 2)):
        assert cli("apply", mac(value), "--yes") == 0, cli.out + cli.err
        assert len(ledger("train-03", "PowerOnVM_Task")) == cycles
        settled(cli, mac(value), ledger)
    edits = [d["mac"] for e in ledger("train-03", "ReconfigVM_Task") for d in e["detail"]["devices"]]
    assert edits[0] == "00:50:56:0a:0b:0c"
    assert edits[1].startswith("00:50:56:8")


def test_what_show_says_is_as_it_is(cli, ledger):
    assert cli("apply", cli.file(FOUR), "--yes") == 0, cli.out + cli.err
    assert cli("show") == 0
    assert '"0000:5e:00.0": 4' in cli.out
    assert "{type: sriov, port_group: dvpg-rdma, connected: true, physical_function: auto}" in cli.out
    before = len(ledger())
    assert cli("plan", cli.file(cli.out, "shown.yml"), "--detailed-exitcode") == 0, cli.out
    assert len(ledger()) == before


def test_vgpu_pvrdma_and_others_take_one_power_cycle(cli, ledger):
    playbook = cli.file(
        """
- hosts: esx01.lab.local
  graphics: {default_type: shared_direct}
  sriov: {"0000:5e:00.0": 2}
  rolling: {evacuate: power_off}
  pvrdma_host: {vmknic: vmk2, firewall: true}
- hosts: esx02.lab.local,esx03.lab.local
  pvrdma_host: {vmknic: vmk2, firewall: true}
- vms: train-01
  hardware: {version: 19}
  vgpu: [grid_a100-10c]
  pvrdma: [{port_group: dvpg-rdma}]
  adapters: [{port_group: dvpg-lan}, {port_group: dvpg-lan}, {type: sriov, port_group: dvpg-rdma}]
"""
    )
    assert cli("apply", playbook, "--yes") == 0, cli.out + cli.err
    (entry,) = ledger("train-01", "ReconfigVM_Task")
    assert sorted(d["type"] for d in entry["detail"]["devices"]) == [
        "VirtualPCIPassthrough",
        "VirtualSriovEthernetCard",
        "VirtualVmxnet3",
        "VirtualVmxnet3Vrdma",
    ]
    assert len(ledger("train-01", "PowerOnVM_Task")) == 1
    assert len(reboots(ledger, "esx01.lab.local")) == 1
    settled(cli, playbook, ledger)


def test_without_functions_the_plan_is_refused(cli, ledger):
    playbook = cli.file("- vms: train-04\n  adapters: [{type: sriov, port_group: dvpg-rdma}]\n")
    assert cli("apply", playbook, "--yes") == 1
    assert "sriov.no-vf" in cli.out + cli.err
    assert ledger() == []


@pytest.mark.parametrize("call", ["UpdatePassthruConfig", "ReconfigVM_Task"])
def test_a_lost_answer_makes_nothing_twice(cli, lab, ledger, call):
    lab.post("/lab/faults", {"rules": f"- {{on: {call}, nth: 1, do: lost-reply}}"})
    assert cli("apply", cli.file(FOUR), "--yes") == 0, cli.out + cli.err
    assert len(ledger("train-04", "ReconfigVM_Task")) == 1
    assert len(ledger("esx02.lab.local", "UpdatePassthruConfig")) == 1


def test_a_rollback_takes_away_what_was_added(cli, ledger):
    playbook = cli.file(
        """
- hosts: esx02.lab.local
  sriov: {"0000:5e:00.0": 2}
  rolling: {evacuate: power_off}
- vms: train-03
  adapters: [{port_group: dvpg-lan, mac: "00:50:56:0a:0b:0c"}, {type: e1000e, port_group: dvpg-lan}]
"""
    )
    assert cli("apply", playbook, "--yes") == 0, cli.out + cli.err
    cli("run", "list")
    (run,) = [line.split()[0] for line in cli.out.splitlines() if line[:1].isdigit()]
    assert cli("rollback", run, "--yes") == 0, cli.out + cli.err
    last = ledger("train-03", "ReconfigVM_Task")[-1]["detail"]["devices"]
    assert sorted(d["operation"] for d in last) == ["edit", "remove"]
    assert ledger("esx02.lab.local", "UpdatePassthruConfig")[-1]["detail"]["devices"][0]["functions"] == 0


def test_an_adapter_on_a_port_group_of_the_same_plan(cli, ledger):
    playbook = cli.file(
        """
- datacenters: DC0
  port_groups: {dvpg-new: {switch: dvs-lan, vlan: 7}}
- vms: train-03
  adapters: [{port_group: dvpg-new, connected: false}]
"""
    )
    assert cli("apply", playbook, "--yes") == 0, cli.out + cli.err
    (entry,) = ledger("train-03", "ReconfigVM_Task")
    assert entry["detail"]["devices"][0]["portgroup"].startswith("dvportgroup-")
    settled(cli, playbook, ledger)


def test_the_example_playbook(cli, ledger):
    playbook = PLAYBOOKS / "adapters.yml"
    assert cli("apply", playbook, "--yes") == 0, cli.out + cli.err
    assert {e["object"] for e in ledger(call="ReconfigVM_Task")} == {"train-03", "train-04"}
    settled(cli, playbook, ledger)


@pytest.mark.parametrize("kind", ["pvrdma", "adapters"])
def test_the_cluster_says_how_many_pvrdma_adapters_a_hardware_version_takes(cli, ledger, kind):
    entry = "{port_group: dvpg-rdma}" if kind == "pvrdma" else "{type: pvrdma, port_group: dvpg-rdma}"
    hosts = '- hosts: "esx[01:03].lab.local"\n  pvrdma_host: {vmknic: vmk2, firewall: true}\n'
    play = f"{hosts}- vms: train-04\n  {kind}: [{entry}, {entry}]\n"
    assert cli("plan", cli.file(play)) == 1
    told = " ".join(cli.out.split())
    assert "2 PVRDMA adapters; 1 at most (gpu-" in told
    assert "for hardware version 17)" in told
    newer = cli.file(f"{play}  hardware: {{version: 19}}\n")
    assert cli("apply", newer, "--yes") == 0, cli.out + cli.err
    settled(cli, newer, ledger)
