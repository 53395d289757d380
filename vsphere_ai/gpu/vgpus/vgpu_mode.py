"""vGPU mode of a host's GPUs: whether time-sliced vGPUs of several sizes may share one (vSphere 8.0 Update 3).

Source: vSphere Web Services API reference, HostGraphicsConfigDeviceType.vgpuMode and HostGraphicsInfo.vgpuMode.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vsphere_ai.gpu.catalog import Board
from vsphere_ai.gpu.devices import boards_of, nvidia_gpus
from vsphere_ai.model.facts import Facts

FIRST_API = (8, 0, 3, 0)
FIRST_ESXI = (8, 0, 3)
MIG = "multiInstanceGpu"
FROM_API = {"sameSize": "same_size", "mixedSize": "mixed_size"}
TO_API = {v: k for k, v in FROM_API.items()}
# mixed sizes need Ampere or newer (NVIDIA vGPU User Guide, "vGPUs with different amounts of frame buffer")
EQUAL_SIZES_ONLY = ("volta", "turing")


def configured(facts: Facts) -> dict[str, str]:
    """Return PCI address -> configured vGPU mode of the NVIDIA GPUs that show one, spelled as in a playbook."""
    config = facts.get("config.graphicsConfig") or {}
    modes = {d["deviceId"]: d.get("vgpuMode") for d in config.get("deviceType", ())}
    found = {g["pciId"]: modes.get(g["pciId"]) for g in nvidia_gpus(facts)}
    return {pci: FROM_API[mode] for pci, mode in found.items() if mode in FROM_API}


def active(facts: Facts) -> dict[str, str]:
    """Return PCI address -> vGPU mode a GPU runs in; a GPU in MIG mode, or not shared direct, runs in none."""
    modes = {g["pciId"]: g.get("vgpuMode") for g in nvidia_gpus(facts)}
    return {pci: FROM_API[mode] for pci, mode in modes.items() if mode in FROM_API}


def concerned(facts: Facts) -> tuple[str, ...]:
    """Return the GPUs on which a vGPU mode counts: those out of MIG mode; on a host with no other, all of them.

    A GPU in MIG mode may have running VMs, that would be switched off for a setting without an effect.
    """
    gpus = nvidia_gpus(facts)
    return tuple(g["pciId"] for g in gpus if g.get("vgpuMode") != MIG) or tuple(g["pciId"] for g in gpus)


def seen(facts: Facts) -> dict[str, str]:
    """Return PCI address -> vGPU mode as a plan shows it; one that is configured and not active yet says so."""
    config, now = configured(facts), active(facts)
    return {
        pci: mode if now.get(pci, mode) == mode else f"{now[pci]} (configured: {mode})" for pci, mode in config.items()
    }


def pending(facts: Facts, wanted: Mapping[str, str]) -> tuple[str, ...]:
    """Return the GPUs that are configured as desired and run in another mode."""
    config, now = configured(facts), active(facts)
    return tuple(p for p, mode in wanted.items() if config.get(p) == mode and now.get(p, mode) != mode)


def changing(facts: Facts, wanted: Mapping[str, str]) -> tuple[str, ...]:
    """Return the GPUs whose configured mode is not the wanted one."""
    config = configured(facts)
    return tuple(pci for pci, mode in wanted.items() if config.get(pci) != mode)


def equal_sizes_only(facts: Facts) -> dict[str, Board]:
    """Return PCI address -> board of the GPUs on which vGPUs of several sizes never share."""
    return {p: b for p, b in boards_of(facts).items() if b is not None and b.architecture in EQUAL_SIZES_ONLY}


def after(facts: Facts, wanted: Mapping[str, str]) -> tuple[Mapping[str, Any], ...]:
    """Return ``graphicsInfo`` as it will be read once the wanted modes are active."""
    return tuple(
        {**g, "vgpuMode": TO_API[wanted[g["pciId"]]]} if g["pciId"] in wanted and g.get("vgpuMode") != MIG else g
        for g in facts.get("config.graphicsInfo", ())
    )


def release(facts: Facts) -> tuple[int, ...]:
    """Return the ESXi version of a host as numbers, ``(8, 0, 3)``; empty when it is not known."""
    product = facts.get("config.product") or facts.get("summary.config.product") or {}
    return tuple(int(n) for n in str(product.get("version", "")).split(".") if n.isdecimal())
