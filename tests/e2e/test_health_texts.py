"""Lines of drivers that are no failure of a VM: an XID that says so itself, and a NIC whose slot has too little power.

Sources: NVIDIA's catalogue of XIDs (144 to 150 by unit, status and ``Fatal`` or ``Nonfatal``); Linux,
drivers/net/ethernet/mellanox/mlx5/core/events.c.
"""

from __future__ import annotations

import json

import pytest
from e2e.test_health_kinds import FARM, HOSTS, INVENTORY, NICS, VM, play

pytestmark = pytest.mark.lab
NONFATAL = "RLW_RXPIPE Nonfatal XC0 i0 Link 11 (0x0409a0c2 0x00000008 0x00000001 0x00000000 0x00100000 0x00000004)"
SLOT_POWER = (
    "mlx5_core 0000:1b:00.0: mlx5_pcie_event:299:(pid 4711): Detected insufficient power on the PCIe slot (27W)."
)


def test_a_line_that_is_no_failure_is_shown_and_fails_no_vm(cli, make_lab, monkeypatch):
    lab = make_lab(FARM)
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(lab.directory))
    inventory = cli.file(INVENTORY, "inventory.yml")
    gpus = "  vgpu: [grid_a100-10c]\n"
    playbook = cli.file(
        HOSTS + play("train-[01:02]", cpus=16, memory_gb=64, cards=NICS, more="  hardware: {version: 19}\n" + gpus)
    )
    assert cli("apply", playbook, "--yes", "-i", inventory) == 0, cli.out + cli.err
    learned = cli.folder / "learned.yml"
    assert cli("health", playbook, "-i", inventory, "--learn", learned) == 0, cli.err
    profile = cli.file(learned.read_text("utf-8") + "interval: 0\n", "profile.yml")
    for defect, shown in (
        ({"kind": "xid", "vm": VM, "number": 145, "text": NONFATAL}, ("xid", "info")),
        ({"kind": "log-line", "vm": VM, "text": SLOT_POWER}, ("nic-log", "warn")),
    ):
        lab.set_defects(defect)
        code = cli("health", playbook, "-i", inventory, "--profile", profile, "-o", "json")
        findings = [f for f in json.loads(cli.out)["findings"] if f["verdict"] != "pass"]
        assert [(f["rule"], f["verdict"], f["target"]["name"]) for f in findings] == [(*shown, VM)]
        assert code == 0
