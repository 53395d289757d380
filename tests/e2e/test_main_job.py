"""Every example playbook: plan changes nothing, apply does each thing once, and then nothing is left to do."""

from __future__ import annotations

from collections import Counter

import pytest
from support.places import PLAYBOOKS, SET_PLAYBOOKS

pytestmark = pytest.mark.lab
EXAMPLES = sorted({*PLAYBOOKS.glob("*.yml")} - {*SET_PLAYBOOKS})
REBOOTS = ("esxcli system shutdown reboot", "reboot", "RebootHost_Task")


def per_object(entries, *calls):
    return Counter(e["object"] for e in entries if e["call"] in calls)


@pytest.mark.parametrize("playbook", EXAMPLES, ids=lambda p: p.stem)
def test_an_example_converges_with_every_effect_once(cli, ledger, farm, playbook):
    before = farm()
    assert cli("plan", playbook, "--detailed-exitcode") == 2
    assert ledger() == [], "a plan changed something"

    assert cli("apply", playbook, "--yes") == 0, cli.out + cli.err
    done = ledger()
    assert max(per_object(done, *REBOOTS).values(), default=0) <= 1
    for calls in (("ReconfigVM_Task",), ("UpgradeVM_Task",), ("ShutdownGuest", "PowerOffVM_Task"), ("PowerOnVM_Task",)):
        assert max(per_object(done, *calls).values(), default=0) <= 1, calls
    assert per_object(done, "EnterMaintenanceMode_Task") == per_object(done, "ExitMaintenanceMode_Task")

    after = farm()
    for name, vm in before["vms"].items():
        assert after["vms"][name]["power"] == vm["power"], f"{name} is not as it was found"
    for name, host in before["hosts"].items():
        if "services:" not in playbook.read_text("utf-8"):  # which sets whether SSH runs
            assert after["hosts"][name]["ssh"]["running"] == host["ssh"]["running"], name
        assert not after["hosts"][name]["maintenance"], name

    assert cli("plan", playbook, "--detailed-exitcode") == 0
    assert cli("apply", playbook, "--yes") == 0
    assert ledger() == done, "the second apply changed something"
    assert cli("verify", playbook) == 0

    cli("show")
    shown = cli.file(cli.out, "show.yml")
    assert cli("plan", shown, "--detailed-exitcode") == 0, cli.out


def test_the_mission_ends_with_shared_gpus_and_rdma(cli, ledger, farm):
    assert cli("apply", PLAYBOOKS / "ai-ready-cluster.yml", "--yes") == 0
    now = farm()
    for name in ("esx01.lab.local", "esx02.lab.local"):
        for gpu in now["hosts"][name]["gpus"]:
            assert (gpu["active"], gpu["mig"]["current"]) == ("sharedDirect", True)
    for number in range(1, 5):
        vm = now["vms"][f"train-{number:02d}"]
        assert vm["vgpu"] == ["grid_a100-3-20c"]
        assert len(vm["pvrdma"]) == 1
    assert per_object(ledger(), *REBOOTS) == {"esx01.lab.local": 1, "esx02.lab.local": 1}
    assert set(per_object(ledger(), "PowerOnVM_Task")) == {"train-01", "train-02", "train-03"}


def test_one_host_of_the_cluster_is_down_at_a_time(cli, ledger):
    assert cli("apply", PLAYBOOKS / "ai-ready-cluster.yml", "--yes") == 0
    windows, down = 0, 0
    for entry in ledger():
        down += {"EnterMaintenanceMode_Task": 1, "ExitMaintenanceMode_Task": -1}.get(entry["call"], 0)
        windows = max(windows, down)
    assert windows == 1


def test_a_reboot_through_vcenter(cli, ledger):
    text = (PLAYBOOKS / "ai-ready-cluster.yml").read_text(encoding="utf-8").replace("reboot: ssh", "reboot: api")
    assert cli("apply", cli.file(text), "--yes") == 0, cli.out
    assert per_object(ledger(), "RebootHost_Task") == {"esx01.lab.local": 1, "esx02.lab.local": 1}


def test_the_seed_command_is_refused_with_its_arithmetic(cli, ledger):
    play = cli.file("- hosts: gpu_hosts\n  mig: {layout: '-cgi 19,14,9,5,5,2 -C'}\n  rolling: {evacuate: power_off}\n")
    assert cli("apply", play, "--yes") == 1
    words = " ".join(cli.out.split())
    for reason in ("14 of 7 compute slices", "15 of 8 memory slices", "no profile 2 on this GPU", "4g.20gb fits once"):
        assert reason in words
    assert "4-2-1 (-cgi 5:0,14:4,19:6)" in words
    assert ledger() == []


def test_a_profile_changes_in_place(cli, ledger, farm, soap):
    assert cli("apply", PLAYBOOKS / "time-sliced.yml", "--yes") == 0
    before = len(ledger())
    play = cli.file("- vms: train-01\n  vgpu: [grid_a100-40c]\n")
    cards = cards_of(soap, "train-01")
    assert cli("apply", play, "--yes") == 0, cli.out + cli.err
    calls = [e["call"] for e in ledger()[before:]]
    assert calls == ["ShutdownGuest", "ReconfigVM_Task", "PowerOnVM_Task"]
    assert farm()["vms"]["train-01"]["vgpu"] == ["grid_a100-40c"]
    assert cards_of(soap, "train-01") == cards


def test_vgpu_and_pvrdma_are_removed_again(cli, farm):
    assert cli("apply", PLAYBOOKS / "ai-ready-cluster.yml", "--yes") == 0
    assert cli("apply", cli.file("- vms: training\n  vgpu: []\n  pvrdma: []\n"), "--yes") == 0, cli.out
    for number in range(1, 5):
        vm = farm()["vms"][f"train-{number:02d}"]
        assert (vm["vgpu"], vm["pvrdma"]) == ([], [])


def test_two_equal_vgpus_are_two(cli, farm):
    assert cli("apply", PLAYBOOKS / "time-sliced.yml", "--yes") == 0
    play = cli.file("- vms: train-03\n  vgpu: [grid_a100-40c, grid_a100-40c]\n")
    assert cli("apply", play, "--yes") == 0, cli.out + cli.err
    assert farm()["vms"]["train-03"]["vgpu"] == ["grid_a100-40c"] * 2
    assert farm()["vms"]["train-03"]["power"] == "poweredOn"


def test_several_partial_vgpus_are_refused_before_anything_is_touched(cli, ledger):
    assert cli("apply", PLAYBOOKS / "time-sliced.yml", "--yes") == 0
    done = ledger()
    play = cli.file("- vms: train-01\n  vgpu: [grid_a100-20c, grid_a100-20c]\n")
    assert cli("apply", play, "--yes") == 1
    assert "[vgpu.partial]" in cli.out
    assert ledger() == done


def cards_of(soap, name):
    """Return (key, MAC) of every network adapter, read with a plain pyVmomi client."""
    card = soap.vim.vm.device.VirtualEthernetCard
    return sorted((d.key, d.macAddress) for d in soap.vm(name).config.hardware.device if isinstance(d, card))
