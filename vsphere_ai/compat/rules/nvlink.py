"""Rules about several vGPUs of one VM: peer-to-peer over NVLink, and unified memory."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Literal

from vsphere_ai.compat.base import Evidence, PlannedValue, RuleCase, vm_rule
from vsphere_ai.compat.devices import vgpu_names
from vsphere_ai.gpu.corrections import UnifiedMemory
from vsphere_ai.gpu.vgpus.vgpu import VgpuNameError, board_of, parse
from vsphere_ai.model.finding import Finding
from vsphere_ai.resources.corrections import text_of
from vsphere_ai.resources.mixins import VmDevices, offered
from vsphere_ai.resources.topics import Topic

Share = Literal["whole", "part", "mig", "unknown"]

UVM_KEY = re.compile(r"pciPassthru\d+\.cfg\.enable_uvm")


@vm_rule(
    "vm.peer-to-peer",
    "Peer-to-peer between the VM's vGPUs",
    source="NVIDIA AI Enterprise 9, NVIDIA vGPU for Compute: Peer-To-Peer (P2P) CUDA Transfers",
    verdicts={
        "pass": "at most one vGPU, or each has the full frame buffer",
        "warn": "several vGPUs of which some are MIG-backed or a part of a GPU, or unified memory on A100",
        "fail": "a device group joined by NVLink has a MIG-backed vGPU, or one that is a part of a GPU",
        "unknown": "the catalogue does not know the GPU of a vGPU",
    },
    reads=("config.extraConfig", "config.hardware.device"),
    about=Topic.VGPU | Topic.DEVICE_GROUPS,
)
def vm_peer_to_peer(case: RuleCase) -> Finding:
    """The vGPUs of one VM reach each other over NVLink only if each has the full frame buffer of a GPU.

    Not over PCIe, and never from or to a MIG-backed vGPU. On A100, unified memory switches it off as well.
    """
    names, on = vgpu_names(case), _unified_memory(case)
    seen = ("config.hardware.device", ", ".join(names) or "no vGPU")
    shares = {name: _share(name) for name in names}
    unfit = sorted(name for name, share in shares.items() if share in ("mig", "part"))
    if len(names) < 2:
        return case.passed(f"{len(names)} vGPU: nothing to reach", seen)
    if unfit and _linked(case):
        needs = "peer-to-peer needs time-sliced vGPUs with the full frame buffer of a GPU"
        help = "choose a device group of such vGPUs, or one without NVLink"
        return case.failed(f"{', '.join(unfit)} cannot use NVLink: {needs}", seen, help=help)
    if unfit:
        why = f"{', '.join(unfit)} is MIG-backed or a part of a GPU"
        message = f"no peer-to-peer between the VM's {len(names)} vGPUs ({why}): NCCL copies through the guest's memory"
        help = "for training on several GPUs, use time-sliced vGPUs with the full frame buffer"
        return case.warned(message, seen, help=help)
    if "unknown" in shares.values():
        return case.unknown(f"the catalogue does not know the GPU of {', '.join(sorted(shares))}", seen)
    if on and any(n.startswith("grid_a100") for n in names):
        return case.warned(
            "unified memory is on: on A100 it switches peer-to-peer over NVLink off",
            seen,
            on,
            help=f"write {text_of(UnifiedMemory(case.own))} where the VM's GPUs exchange data over NVLink",
        )
    return case.passed(f"{len(names)} vGPUs, each with the full frame buffer of a GPU", seen)


@vm_rule(
    "vm.unified-memory",
    "Unified memory on whole GPUs only",
    source="NVIDIA AI Enterprise 9, NVIDIA NVSwitch; NVIDIA Virtual GPU Software User Guide, Unified Memory",
    verdicts={
        "pass": "unified memory is off, or every vGPU has a GPU or a GPU instance to itself",
        "fail": "unified memory is on, and a time-sliced vGPU has only a part of a GPU",
    },
    reads=("config.extraConfig", "config.hardware.device"),
    about=Topic.VGPU,
)
def vm_unified_memory(case: RuleCase) -> Finding:
    """Unified memory needs a vGPU that has a GPU, or a GPU instance, to itself.

    NVIDIA's page on NVSwitch systems narrows that to time-sliced vGPUs with the full frame buffer.
    """
    names, on = vgpu_names(case), _unified_memory(case)
    parts = sorted({name for name in names if _share(name) == "part"})
    if on and parts:
        help = f"write {text_of(UnifiedMemory(case.own))}, or use a profile with the full frame buffer"
        return case.failed(f"unified memory is on, and {', '.join(parts)} is a part of a GPU", on, help=help)
    if on:
        return case.passed("every vGPU is a whole one", on)
    return case.passed("unified memory is off", ("config.extraConfig", "no enable_uvm"))


def _linked(case: RuleCase) -> bool:
    """Return whether a device group of the VM joins its GPUs by NVLink, by its name."""
    states = offered(case.view, case.ref, VmDevices)
    return any(link.lower().startswith("nvlink") for state in states for link in state.joins())


def unified_memory(extra: Iterable[Mapping[str, object]], planned: PlannedValue | None) -> Evidence | None:
    """Return the evidence that unified memory is on for a vGPU of a VM, or will be after a plan; None: it is off.

    `extra` is ``config.extraConfig`` of the VM, `planned` what a plan makes of it.
    """
    if planned is not None:
        return planned.evidence if planned.value else None
    keys = {str(o["key"]): str(o["value"]) for o in extra}
    on = (key for key, value in keys.items() if UVM_KEY.fullmatch(key) and value == "1")
    return next((("config.extraConfig", f"{key} = 1") for key in on), None)


def _unified_memory(case: RuleCase) -> Evidence | None:
    return unified_memory(case.need("config.extraConfig"), case.planned("config.extraConfig"))


def _share(name: str) -> Share:
    """Return how much of a GPU a vGPU has, by the catalogue's most per GPU."""
    try:
        profile = parse(name.lower())
    except VgpuNameError:
        return "unknown"
    board = board_of(profile)
    if profile.is_mig:
        return "mig"
    if board is None:
        return "unknown"
    most = next((t.max_equal for t in board.time_sliced if t.fb_gb == profile.fb_gb), None)
    return "unknown" if most is None else "whole" if most == 1 else "part"
