"""Rules about several vGPUs of one VM: peer-to-peer over NVLink, and unified memory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar, Literal

from vsphere_ai.compat.base import Case, Evidence, Meanings, Paths, Rule
from vsphere_ai.compat.devices import vgpu_names
from vsphere_ai.gpu.vgpu import VgpuNameError, VgpuProfile, board_of, parse
from vsphere_ai.model.finding import Finding
from vsphere_ai.resources.mixins import VmDevices, offered

Share = Literal["whole", "part", "mig", "unknown"]

UVM_KEY = re.compile(r"pciPassthru\d+\.cfg\.enable_uvm")


class VmPeerToPeer(Rule):
    """vGPUs of one VM reach each other over NVLink only if each has the full frame buffer of a GPU.

    Not over PCIe, and never from or to a MIG-backed vGPU. On A100, unified memory switches it off as well.
    """

    id = "vm.peer-to-peer"
    title = "Peer-to-peer between the VM's vGPUs"
    target = "vm"
    source = "NVIDIA AI Enterprise 9, NVIDIA vGPU for Compute: Peer-To-Peer (P2P) CUDA Transfers"
    verdicts: ClassVar[Meanings] = {
        "pass": "at most one vGPU, or each has the full frame buffer",
        "warn": "several vGPUs of which some are MIG-backed or a part of a GPU, or unified memory on A100",
        "fail": "a device group joined by NVLink has a MIG-backed vGPU, or one that is a part of a GPU",
        "unknown": "the catalogue does not know the GPU of a vGPU",
    }
    properties: ClassVar[Paths] = {"VirtualMachine": ("config.extraConfig", "config.hardware.device")}
    needed_by = frozenset({"vgpu", "device_groups"})

    def judge(self, case: Case) -> Iterator[Finding]:
        """Go by the names of the vGPUs, and by the setting of unified memory."""
        names, on = vgpu_names(case), _unified_memory(case)
        seen = ("config.hardware.device", ", ".join(names) or "no vGPU")
        shares = {name: _share(name) for name in names}
        unfit = sorted(name for name, share in shares.items() if share in ("mig", "part"))
        if len(names) < 2:
            yield case.passed(f"{len(names)} vGPU: nothing to reach", seen)
        elif unfit and _linked(case):
            yield case.failed(
                f"{', '.join(unfit)} cannot use NVLink: peer-to-peer needs time-sliced vGPUs with the full frame "
                "buffer of a GPU", seen, help="choose a device group of such vGPUs, or one without NVLink",
            )  # fmt: skip
        elif unfit:
            yield case.warned(
                f"no peer-to-peer between the VM's {len(names)} vGPUs ({', '.join(unfit)} is MIG-backed or a part of a "
                "GPU): NCCL copies through the guest's memory", seen,
                help="for training on several GPUs, use time-sliced vGPUs with the full frame buffer",
            )  # fmt: skip
        elif "unknown" in shares.values():
            yield case.unknown(f"the catalogue does not know the GPU of {', '.join(sorted(shares))}", seen)
        elif on and any(n.startswith("grid_a100") for n in names):
            yield case.warned(
                "unified memory is on: on A100 it switches peer-to-peer over NVLink off", seen, on,
                help="write uvm: false where the VM's GPUs exchange data over NVLink",
            )  # fmt: skip
        else:
            yield case.passed(f"{len(names)} vGPUs, each with the full frame buffer of a GPU", seen)


class VmUnifiedMemory(Rule):
    """Unified memory needs a vGPU that has a GPU, or a GPU instance, to itself.

    NVIDIA's page on NVSwitch systems narrows that to time-sliced vGPUs with the full frame buffer.
    """

    id = "vm.unified-memory"
    title = "Unified memory on whole GPUs only"
    target = "vm"
    source = "NVIDIA AI Enterprise 9, NVIDIA NVSwitch; NVIDIA Virtual GPU Software User Guide, Unified Memory"
    verdicts: ClassVar[Meanings] = {
        "pass": "unified memory is off, or every vGPU has a GPU or a GPU instance to itself",
        "fail": "unified memory is on, and a time-sliced vGPU has only a part of a GPU",
    }
    properties: ClassVar[Paths] = {"VirtualMachine": ("config.extraConfig", "config.hardware.device")}
    needed_by = frozenset({"vgpu"})

    def judge(self, case: Case) -> Iterator[Finding]:
        """Go by the names of the vGPUs."""
        names, on = vgpu_names(case), _unified_memory(case)
        parts = sorted({name for name in names if _share(name) == "part"})
        if on and parts:
            yield case.failed(
                f"unified memory is on, and {', '.join(parts)} is a part of a GPU", on,
                help="write uvm: false, or use a profile with the full frame buffer",
            )  # fmt: skip
        else:
            yield case.passed("unified memory is off" if not on else "every vGPU is a whole one",
                              on or ("config.extraConfig", "no enable_uvm"))  # fmt: skip


def _linked(case: Case) -> bool:
    """Return whether a device group of the VM joins its GPUs by NVLink, by its name."""
    states = offered(case.view, case.ref, VmDevices)
    return any(link.lower().startswith("nvlink") for state in states for link in state.joins())


def _unified_memory(case: Case) -> Evidence | None:
    """Return the evidence that unified memory is on for a vGPU of the VM, or will be after this plan."""
    extra = {o["key"]: str(o["value"]) for o in case.need("config.extraConfig")}
    planned = case.planned("config.extraConfig")
    if planned is not None:
        return planned.evidence if planned.value else None
    return next(
        (("config.extraConfig", f"{k} = 1") for k, v in extra.items() if UVM_KEY.fullmatch(k) and v == "1"), None
    )


def _share(name: str) -> Share:
    """Return how much of a GPU a vGPU has, by the catalogue's most per GPU."""
    profile = _parsed(name)
    board = board_of(profile) if profile else None
    if profile is not None and profile.is_mig:
        return "mig"
    if profile is None or board is None:
        return "unknown"
    most = next((t.max_equal for t in board.time_sliced if t.fb_gb == profile.fb_gb), None)
    return "unknown" if most is None else "whole" if most == 1 else "part"


def _parsed(name: str) -> VgpuProfile | None:
    try:
        return parse(name.lower())
    except VgpuNameError:
        return None
