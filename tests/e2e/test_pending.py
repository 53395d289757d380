"""What somebody else left half-way is finished, not sent again: graphics, pending MIG, instances made by hand."""

from __future__ import annotations

import pytest
from support.places import INVENTORY

from vsphere_ai.connect.secure_shell.esxi import EsxiSsh
from vsphere_ai.connect.secure_shell.ssh_endpoint import SshEndpoint
from vsphere_ai.language.inventories.inventory import load_inventory
from vsphere_ai.security.credentials import fetch

pytestmark = pytest.mark.lab
ESX = "esx01.lab.local"
PLAY = f"- hosts: {ESX}\n  graphics: {{default_type: shared_direct}}\n  mig: {{mode: enabled}}\n"
ROLLING = "  rolling: {evacuate: power_off}\n"
BUS = "00000000:3B:00.0"


@pytest.fixture
def shell(lab):
    """Run a command on esx01 as an operator would: `shell("nvidia-smi", "-L")`."""
    from pathlib import Path

    ssh = load_inventory(INVENTORY).ssh
    address, port = ssh.endpoint(ESX)
    password = fetch(ssh.password).reveal()
    endpoint = SshEndpoint(ESX, address, port, ssh.username, Path(ssh.known_hosts), password)

    def run(*argv):
        with EsxiSsh(endpoint) as open_shell:
            return open_shell.run(argv, 20, changes=True)

    return run


def calls(entries):
    return [e["call"] for e in entries if e["object"] == ESX]


def changes(plan):
    assert plan["problems"] == []
    return [change for item in plan["items"] for change in item["changes"]]


def test_configured_graphics_only_need_the_restart(cli, ledger, soap):
    manager = soap.host("esx01").configManager.graphicsManager
    config = manager.graphicsConfig
    config.hostDefaultGraphicsType = "sharedDirect"
    for device in config.deviceType:
        device.graphicsType = "sharedDirect"
    manager.UpdateGraphicsConfig(config)
    before = len(ledger())
    play = cli.file(f"- hosts: {ESX}\n  graphics: {{default_type: shared_direct}}\n{ROLLING}")
    found = changes(cli.plan(play))
    assert all("shared_direct" in change["before"] for change in found), "what is configured already"
    assert {change["after"] for change in found} == {"shared_direct"}
    assert cli("apply", play, "--yes") == 0, cli.out
    done = calls(ledger()[before:])
    assert "UpdateGraphicsConfig" not in done
    assert done.count("esxcli system shutdown reboot") == 1
    assert cli("plan", play, "--detailed-exitcode") == 0


def test_a_pending_mode_only_needs_the_reboot(cli, ledger, shell, farm):
    assert shell("nvidia-smi", "-i", BUS, "-mig", "1").status == 0, "pending, and the driver says 0"
    before = len(ledger())
    play = cli.file(f"- hosts: {ESX}\n  mig: {{gpus: {{'0000:3b:00.0': {{mode: enabled}}}}}}\n{ROLLING}")
    (change,) = changes(cli.plan(play))
    assert change["before"].startswith("disabled (enabled")
    assert change["after"] == "enabled"
    assert cli("apply", play, "--yes") == 0, cli.out
    done = calls(ledger()[before:])
    assert "nvidia-smi -mig" not in done
    assert done.count("esxcli system shutdown reboot") == 1
    assert [g["mig"]["current"] for g in farm()["hosts"][ESX]["gpus"]] == [True, False]


def test_a_pending_mode_is_taken_back_without_a_reboot(cli, ledger, shell):
    shell("nvidia-smi", "-i", BUS, "-mig", "1")
    before = len(ledger())
    play = cli.file(f"- hosts: {ESX}\n  mig: {{mode: disabled}}\n{ROLLING}")
    assert cli("apply", play, "--yes") == 0, cli.out
    assert "esxcli system shutdown reboot" not in calls(ledger()[before:])
    assert cli("plan", play, "--detailed-exitcode") == 0


def test_only_the_difference_of_a_layout_is_changed(cli, ledger, shell, soap, farm):
    for name in ("train-01", "train-02"):
        soap.wait(soap.vm(name).PowerOffVM_Task())
    assert cli("apply", cli.file(PLAY + ROLLING), "--yes") == 0, cli.out
    assert shell("nvidia-smi", "mig", "-i", BUS, "-cgi", "9:4,19:0", "-C").status == 0
    before = len(ledger())
    play = cli.file(f"- hosts: {ESX}\n  mig: {{gpus: {{'0000:3b:00.0': [3g.20gb, 2g.10gb]}}}}\n")
    assert cli("apply", play, "--yes") == 0, cli.out
    done = [e for e in ledger()[before:] if e["channel"] == "ssh"]
    assert [e["call"] for e in done] == ["nvidia-smi mig -dci", "nvidia-smi mig -dgi", "nvidia-smi mig -cgi"]
    placed = {(i["profile"], i["start"]) for i in farm()["hosts"][ESX]["gpus"][0]["instances"]}
    assert ("3g.20gb", 4) in placed, "the instance that could stay was moved"
    assert {p for p, _ in placed} == {"3g.20gb", "2g.10gb"}
    assert not [e for e in ledger()[before:] if e["call"] == "EnterMaintenanceMode_Task"]


def test_instances_in_use_are_never_touched(cli, ledger):
    assert cli("apply", cli.file(PLAY + ROLLING + "- vms: 'train-[01:02]'\n  vgpu: [grid_a100-3-20c]\n"), "--yes") == 0
    done = ledger()
    play = cli.file(f"- hosts: {ESX}\n  mig: {{gpus: {{'0000:3b:00.0': [7g.40gb]}}}}\n")
    assert cli("apply", play, "--yes") == 1
    assert "[mig.layout]" in cli.out
    assert ledger() == done
