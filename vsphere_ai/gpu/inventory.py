"""GPUs of a host: its NVIDIA graphics devices, and their boards by PCI address. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vsphere_ai.gpu.catalog import Board, board_of_device
from vsphere_ai.model.facts import Facts

NVIDIA = 0x10DE
DISPLAY = 0x0300  # class 0x0300 VGA controller, 0x0302 3D controller (A100, H100)


def boards_of(facts: Facts) -> dict[str, Board | None]:
    """Return PCI address -> board of every NVIDIA GPU of a host, with the vGPU names of that device; None = unknown.

    The API sends the ids as signed shorts. SR-IOV virtual functions of a GPU show sub device id 0 and are left out.
    """
    found: dict[str, Board | None] = {}
    for device in facts.get("hardware.pciDevice", ()):
        display = device["classId"] & 0xFF00 == DISPLAY
        if device["vendorId"] & 0xFFFF == NVIDIA and display and device.get("subDeviceId"):
            found[device["id"]] = board_of_device(device["deviceId"], device["subDeviceId"])
    return dict(sorted(found.items()))


def nvidia_gpus(facts: Facts) -> tuple[Mapping[str, Any], ...]:
    """Return the NVIDIA entries of graphicsInfo; the BMC's own VGA is listed there as well."""
    return tuple(g for g in facts.get("config.graphicsInfo", ()) if "nvidia" in g.get("vendorName", "").lower())
