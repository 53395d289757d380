"""GPUs under load: how fast one computes, and the clocks, heat and power that nvidia-smi shows on either side."""

from __future__ import annotations

from collections.abc import Mapping

from vsphere_ai.lab.guest.defects import Defects
from vsphere_ai.lab.guest.machine import GuestGpu, GuestMachine

PEAK = {"H200": 989.0, "H100": 989.0, "A100": 312.0, "A800": 312.0, "L40S": 362.0, "A30": 165.0, "V100": 125.0}
"""Dense bf16 TFLOP/s of boards (fp16 for V100), from NVIDIA's data sheets."""
OTHER_PEAK = 100.0
MODEL_FLOPS = 0.45
"""Part of the peak that training of a large model reaches."""
HOT, LOADED, IDLE = (93, "305.00"), (68, "389.40"), (34, "61.50")
"""Temperature in °C and power in W."""
LOWERED = 0.7
"""Clocks of a GPU that lowers them by itself, as a part of those that it should have."""


def is_throttled(defects: Defects, place: Mapping[str, str]) -> bool:
    """Return whether a GPU lowers its clocks by itself when it works; a power cap does not count."""
    return any(d.text("reason", "thermal") != "power" for d in defects.of("gpu-throttled", **place))


def slow(defects: Defects, place: Mapping[str, str]) -> float:
    """Return how fast a GPU computes for a moment, before it grows hot."""
    return defects.factor("gpu-slow", **place)


def speed(defects: Defects, place: Mapping[str, str]) -> float:
    """Return how fast a GPU computes, as a part of what it should."""
    return slow(defects, place) * (LOWERED if is_throttled(defects, place) else 1.0)


def peak(gpu: GuestGpu) -> float:
    """Return the TFLOP/s of a GPU's board."""
    return next((flops for name, flops in PEAK.items() if name in gpu.physical.name), OTHER_PEAK)


def pace(machine: GuestMachine, nodes: int) -> float:
    """Return by how much a VM is slower in runs of so many VMs."""
    product = 1.0
    for each in machine.defects.of("pace", vm=machine.name, host=machine.host.name):
        product *= each.number("factor", 0.5) if nodes >= each.number("vms", 2) else 1.0
    return product


def shown(defects: Defects, place: Mapping[str, str], *, loaded: bool) -> tuple[int, str]:
    """Return the temperature and the power that nvidia-smi shows."""
    return (HOT if is_throttled(defects, place) else LOADED) if loaded else IDLE
