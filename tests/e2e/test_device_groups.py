"""Vendor device groups on a lab with vSphere 8.0: added and removed whole, and single devices stay apart from them."""

from __future__ import annotations

import json
import re

import pytest
from support.device_groups import FOUR, PAIR, SCENARIO, WHOLE

from vsphere_ai.runs import journal

pytestmark = pytest.mark.lab
ESX = "esx01.lab.local"


@pytest.fixture
def groups(make_lab, monkeypatch):
    made = make_lab(SCENARIO)
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(made.directory))
    return made


@pytest.fixture
def entries(groups):
    def read(target=None, call=None):
        found = groups.get("/lab/ledger")["entries"]
        return [e for e in found if target in (None, e["object"]) and call in (None, e["call"])]

    return read


def settled(cli, playbook, entries):
    before = len(entries())
    assert cli("plan", playbook, "--detailed-exitcode") == 0, cli.out
    assert cli("apply", playbook, "--yes") == 0, cli.out + cli.err
    assert len(entries()) == before


def play(*names, vm="train-01", more=""):
    listed = ", ".join(f'"{n}"' for n in names)
    return f"- vms: {vm}\n  hardware: {{version: 20}}\n  device_groups: [{listed}]\n{more}"


def test_a_pair_comes_and_goes_whole(cli, groups, entries):
    playbook = cli.file(play(PAIR))
    assert cli("plan", playbook, "--detailed-exitcode") == 2, cli.out
    assert re.search(r"2 × nvidia_h100l-94c.*NVLink", cli.out)
    assert cli("apply", playbook, "--yes") == 0, cli.out + cli.err
    (change,) = entries("train-01", "ReconfigVM_Task")
    assert change["detail"]["deviceGroups"] == {"added": [PAIR], "removed": []}
    assert [d["vgpu"] for d in change["detail"]["devices"]] == ["nvidia_h100l-94c"] * 2
    assert change["detail"]["extraConfig"]["pciPassthru.64bitMMIOSizeGB"] == "512"
    assert change["detail"]["memoryReservationLockedToMax"] is True
    assert len(entries("train-01", "PowerOnVM_Task")) == 1
    settled(cli, playbook, entries)
    assert cli("show") == 0
    assert f'device_groups: ["{PAIR}"]' in cli.out, cli.out
    assert "left out" not in cli.out
    assert cli("plan", cli.file(cli.out, "shown.yml"), "--detailed-exitcode") == 0, cli.out
    assert cli("apply", cli.file(play(), "none.yml"), "--yes") == 0, cli.out + cli.err
    assert entries("train-01", "ReconfigVM_Task")[1]["detail"]["deviceGroups"] == {"added": [], "removed": [PAIR]}
    assert groups.get("/lab/farm")["vms"][0]["vgpu"] == []
    settled(cli, cli.file(play(), "none.yml"), entries)


def test_two_alike_are_two(cli, entries):
    both = cli.file(play(PAIR, PAIR))
    assert cli("apply", both, "--yes") == 0, cli.out + cli.err
    assert len(entries("train-01", "ReconfigVM_Task")) == 1
    settled(cli, both, entries)
    one = cli.file(play(PAIR), "one.yml")
    assert cli("apply", one, "--yes") == 0, cli.out + cli.err
    removed = entries("train-01", "ReconfigVM_Task")[1]["detail"]
    assert removed["deviceGroups"] == {"added": [], "removed": [PAIR]}
    assert [d["operation"] for d in removed["devices"]] == ["remove", "remove"]
    settled(cli, one, entries)


def test_single_vgpus_and_groups_stay_apart(cli, entries):
    playbook = cli.file(play(PAIR, more="  vgpu: [nvidia_h100l-94c]\n"))
    assert cli("apply", playbook, "--yes") == 0, cli.out + cli.err
    (change,) = entries("train-01", "ReconfigVM_Task")
    assert [d["vgpu"] for d in change["detail"]["devices"]] == ["nvidia_h100l-94c"] * 3
    assert change["detail"]["extraConfig"]["pciPassthru.64bitMMIOSizeGB"] == "1024"  # three boards of 94 GB
    settled(cli, playbook, entries)
    alone = cli.file("- vms: train-01\n  vgpu: []\n", "alone.yml")
    assert cli("apply", alone, "--yes") == 0, cli.out + cli.err
    changed = entries("train-01", "ReconfigVM_Task")[1]["detail"]
    assert [d["operation"] for d in changed["devices"]] == ["remove"]
    assert "deviceGroups" not in changed
    settled(cli, cli.file(play(PAIR), "pair.yml"), entries)


def test_a_group_replaces_another_in_one_reconfigure(cli, entries):
    assert cli("apply", cli.file(play(PAIR)), "--yes") == 0, cli.out + cli.err
    four = cli.file(play(FOUR), "four.yml")
    assert cli("apply", four, "--yes") == 0, cli.out + cli.err
    change = entries("train-01", "ReconfigVM_Task")[1]
    assert change["detail"]["deviceGroups"] == {"added": [FOUR], "removed": [PAIR]}
    settled(cli, four, entries)


def test_whole_devices_of_a_group_are_not_those_of_pci_devices(cli, entries):
    host = '- hosts: esx02.lab.local\n  rolling: {evacuate: power_off}\n  passthrough: {"0000:3b:00.0": true, '
    playbook = cli.file(host + '"0000:86:00.0": true}\n' + play(WHOLE, vm="train-02"))
    assert cli("plan", cli.file(play(WHOLE, vm="train-02"), "early.yml")) == 1
    assert "[device_groups.room]" in cli.out
    assert cli("apply", playbook, "--yes") == 0, cli.out + cli.err
    settled(cli, playbook, entries)
    assert cli("apply", cli.file("- vms: train-02\n  pci_devices: []\n", "none.yml"), "--yes") == 0, cli.out
    assert len(entries("train-02", "ReconfigVM_Task")) == 1


def test_what_cannot_be_is_refused_with_what_would_work(cli, entries):
    assert cli("plan", cli.file(play(PAIR.replace("94c", "49c")))) == 1
    assert "[device_groups.unknown]" in cli.out
    assert PAIR in cli.out
    assert FOUR in cli.out
    assert cli("plan", cli.file(play(PAIR).replace("version: 20", "version: 19"), "old.yml")) == 1
    assert "[device_groups.hardware-version]" in cli.out
    assert entries() == []


def test_groups_take_room_like_any_vgpu(cli, entries):
    """The host has four GPUs: two pairs and one more vGPU do not fit, which vCenter would say at power-on only."""
    many = play(PAIR, PAIR) + "- vms: train-04\n  vgpu: [nvidia_h100l-94c]\n"
    assert cli("plan", cli.file(many)) == 1, cli.out
    assert "[capacity." in cli.out
    assert entries() == []


def test_a_rollback_takes_the_group_away(cli, groups, entries):
    assert cli("apply", cli.file(play(PAIR)), "--yes") == 0, cli.out + cli.err
    (record,) = journal.every()
    assert cli("rollback", record.id, "--yes") == 0, cli.out + cli.err
    assert entries("train-01", "ReconfigVM_Task")[1]["detail"]["deviceGroups"]["removed"] == [PAIR]
    assert groups.get("/lab/farm")["vms"][0]["vgpu"] == []


def test_a_saved_plan_adds_what_it_shows(cli, entries, tmp_path):
    saved = tmp_path / "plan.json"
    assert cli("plan", cli.file(play(PAIR, PAIR)), "--to", saved) == 0, cli.out + cli.err
    assert cli("apply", saved, "--yes") == 0, cli.out + cli.err
    (change,) = entries("train-01", "ReconfigVM_Task")
    assert change["detail"]["deviceGroups"]["added"] == [PAIR, PAIR]
    assert cli("apply", saved, "--yes") == 3  # it was made for a VM without them
    assert len(entries("train-01", "ReconfigVM_Task")) == 1


def test_somebody_else_takes_the_group_between_plan_and_apply(cli, entries, tmp_path):
    assert cli("apply", cli.file(play(PAIR)), "--yes") == 0, cli.out + cli.err
    saved = tmp_path / "plan.json"
    assert cli("plan", cli.file(play(), "none.yml"), "--to", saved) == 0, cli.out + cli.err
    assert cli("apply", cli.file(play(FOUR), "four.yml"), "--yes") == 0, cli.out + cli.err
    before = len(entries())
    assert cli("apply", saved, "--yes") == 3, cli.out + cli.err
    assert len(entries()) == before


# -- devices that others have


@pytest.fixture
def rivals(cli, make_lab, monkeypatch):
    """A second running VM on the host with two whole GPUs, both passed through."""
    second = "  - {name: train-05, host: esx02.lab.local, power: on, hardware: 20, network: dvpg-lan}\n"
    made = make_lab(SCENARIO + second)
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(made.directory))
    host = '- hosts: esx02.lab.local\n  rolling: {evacuate: power_off}\n  passthrough: {"0000:3b:00.0": true, '
    assert cli("apply", cli.file(host + '"0000:86:00.0": true}\n', "through.yml"), "--yes") == 0, cli.out + cli.err

    def refused(playbook, *words):
        before = len(made.get("/lab/ledger")["entries"])
        assert cli("plan", cli.file(playbook, "refused.yml")) == 1, cli.out
        for word in words:
            assert word in cli.out, cli.out
        assert len(made.get("/lab/ledger")["entries"]) == before

    return refused


FIXED = '  pci_devices: [{host_device: "0000:3b:00.0"}]\n'
DYNAMIC = "  pci_devices: [{vendor: 10de, device: 2321}]\n"


@pytest.mark.parametrize("theirs", [FIXED, DYNAMIC])
def test_a_group_gets_no_device_that_another_running_vm_has(cli, rivals, theirs):
    assert cli("apply", cli.file("- vms: train-05\n" + theirs), "--yes") == 0, cli.out + cli.err
    said = "esx02.lab.local has 2 of 10de:2321, the groups need 2, and 1 belong to train-05"
    rivals(play(WHOLE, vm="train-02"), "[device_groups.taken]", said)
    given = play(WHOLE, vm="train-02") + "- vms: train-05\n  pci_devices: []\n"
    assert cli("plan", cli.file(given, "given.yml"), "--detailed-exitcode") == 2, cli.out


def test_two_vms_of_one_play_do_not_get_the_same_group(rivals):
    rivals(play(WHOLE, vm="train-02,train-05"), "belong to train-05", "belong to train-02")


def test_a_group_and_single_devices_of_one_vm_are_counted_together(rivals):
    both = play(WHOLE, vm="train-02", more=DYNAMIC)
    rivals(both, "[device_groups.taken]", "its own pci_devices", "[pci_devices.taken]", "its own device_groups")


@pytest.mark.parametrize("mine", [FIXED, DYNAMIC])
def test_single_devices_leave_those_of_a_group_alone(cli, rivals, mine):
    assert cli("apply", cli.file(play(WHOLE, vm="train-02")), "--yes") == 0, cli.out + cli.err
    rivals("- vms: train-05\n" + mine, "[pci_devices.taken]", "train-02")
    rivals("- vms: train-02\n" + mine, "[pci_devices.taken]", "its own device_groups")


# -- who powers on first


@pytest.mark.parametrize("group", ["train-01", "train-04"])
def test_a_group_takes_its_gpus_before_single_vgpus_do(cli, entries, group):
    """Four GPUs in two pairs: two single vGPUs that come first take one of each pair."""
    single = {"train-01": "train-04", "train-04": "train-01"}[group]
    card = "nvidia_h100l-94c"
    full = f"- vms: {group}\n  vgpu: [{card}]\n- vms: {single}\n  vgpu: [{card}, {card}, {card}]\n"
    assert cli("apply", cli.file(full, "full.yml"), "--yes") == 0, cli.out + cli.err
    swap = cli.file(play(PAIR, vm=group, more="  vgpu: []\n") + f"- vms: {single}\n  vgpu: [{card}, {card}]\n")
    assert cli("plan", swap, "-o", "json") == 0, cli.out
    steps = {(s["target"]["name"], s["summary"]): s for s in json.loads(cli.out)["steps"]}
    powers_on = steps[group, "power on"]
    assert steps[single, "shut down (guest shutdown only)"]["id"] in powers_on["after"]
    assert powers_on["id"] in steps[single, "power on"]["after"]
    assert cli("apply", swap, "--yes") == 0, cli.out + cli.err
    assert [e["object"] for e in entries(call="PowerOnVM_Task")][-2:] == [group, single]
    settled(cli, swap, entries)


def test_who_gets_what_another_vm_gives_up_waits_until_that_one_is_off(cli, groups, entries):
    """Also where that one takes its time to shut down."""
    card = "nvidia_h100l-94c"

    def of(one, other):
        return "".join(
            f"- vms: {vm}\n  vgpu: [{', '.join([card] * count)}]\n"
            for vm, count in (("train-01", one), ("train-04", other))
        )

    assert cli("apply", cli.file(of(1, 3)), "--yes") == 0, cli.out + cli.err
    groups.set_faults("- {on: ShutdownGuest, target: train-04, do: {delay: 2s}}\n")
    swap = cli.file(of(3, 1), "swap.yml")
    assert cli("apply", swap, "--yes") == 0, cli.out + cli.err
    settled(cli, swap, entries)


@pytest.mark.usefixtures("rivals")
def test_whole_devices_change_hands_in_one_plan(cli):
    assert cli("apply", cli.file("- vms: train-05\n" + FIXED), "--yes") == 0, cli.out + cli.err
    given = cli.file(play(WHOLE, vm="train-02") + "- vms: train-05\n  pci_devices: []\n", "given.yml")
    assert cli("plan", given, "-o", "json") == 0, cli.out
    steps = {(s["target"]["name"], s["summary"]): s for s in json.loads(cli.out)["steps"]}
    assert steps["train-05", "shut down (guest shutdown only)"]["id"] in steps["train-02", "power on"]["after"]
    assert cli("apply", given, "--yes") == 0, cli.out + cli.err


@pytest.mark.usefixtures("rivals")
def test_a_host_whose_gpus_are_all_passed_through_is_in_order(cli, groups):
    """Nothing waits for a restart once it has come, and nobody asks for vGPUs there."""
    (host,) = [h for h in groups.get("/lab/farm")["hosts"] if h["name"] == "esx02.lab.local"]
    assert host["reboot_required"] is False
    assert cli("check", "-o", "json") == 0, cli.out
    assert {f["verdict"] for f in json.loads(cli.out)["findings"]} <= {"pass", "skip", "unknown"}
