"""Only the room of admission weighs a VM against a host: no other room looks at what the answer depends on."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import vsphere_ai
from vsphere_ai import admission

PRODUCT = Path(vsphere_ai.__file__).parent
DECIDING = ("planning", "sets", "capacity", "app/gpus", "app/runs", "app/vms")
"""Rooms that choose hosts, order power cycles and moves, or answer how many VMs fit."""
WEIGHED = re.compile(
    r"systemResources\..+|summary\.(?:admissionControlInfo|effective(?:Cpu|Memory)|hardware\..+)|hardware\.memory.+"
    r"|das\..+|runtime\.(?:inQuarantineMode|cryptoState|partialMaintenanceMode|\w*[fF]eatureRequirement)"
    r"|config\.(?:\w+Allocation(?:\..+)?|cpuAffinity|firmware|hardware\.simultaneousThreads|initialOverhead(?:\..+)?"
    r"|latencySensitivity|localSwapDatastore|maskedFeatureCapability|memoryReservationLockedToMax"
    r"|sharedPassthruGpuTypes|swapPlacement)"
)
"""What of a host is free, what of it a VM takes, and what a host must have: the facts that an answer is made of.

Where a VM is and whether it runs, on which host in service, are facts of every room."""


def named(folder: Path) -> list[tuple[str, str]]:
    """The properties of vCenter that are named in a folder, with their places."""
    return [
        (f"{path.relative_to(PRODUCT)}:{node.lineno}", node.value)
        for path in sorted(folder.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and WEIGHED.fullmatch(node.value)
    ]


def test_admission_names_what_is_weighed():
    assert len({path for _, path in named(Path(admission.__file__).parent)}) > 20


def test_no_other_room_weighs_a_vm_against_a_host():
    others = [f"{place}: {path}" for room in DECIDING for place, path in named(PRODUCT / room)]
    assert others == [], "ask admission.admit; a requirement that is missing is a module of admission/requirements"


def test_a_room_that_weighs_is_found(tmp_path, monkeypatch):
    (tmp_path / "room.py").write_text(
        "ok = facts['summary.effectiveMemory'] > facts['config.memoryAllocation']\n", "utf-8"
    )
    monkeypatch.setitem(globals(), "PRODUCT", tmp_path)
    assert [path for _, path in named(tmp_path)] == ["summary.effectiveMemory", "config.memoryAllocation"]
