"""The 64-bit MMIO window of a VM, and how much memory GPUs show in it: a whole board's, also where a VM has a share.

Source: VMware "How to enable large-BAR GPUs"; a vGPU shows the large BAR of its whole board.
"""

from __future__ import annotations

from collections.abc import Mapping

from vsphere_ai.gpu.catalog import board_of_device
from vsphere_ai.gpu.vgpus.listed_board import boards_as_listed
from vsphere_ai.gpu.vgpus.vgpu import VgpuNameError, board_of, parse
from vsphere_ai.model.facts import Facts

# keys of a VM, counted at its next power-on only
MMIO_KEY, MMIO_SIZE_KEY = "pciPassthru.use64bitMMIO", "pciPassthru.64bitMMIOSizeGB"
NVIDIA = 0x10DE
DEFAULT_GB = 32
"""Size of a window that is on without a size (VMware, "How to enable large-BAR GPUs")."""
SMALL_BAR = ("maxwell", "turing")
"""Boards of these generations fit below 4 GB, no window is needed."""


def size_of(settings: Mapping[str, str]) -> int:
    """Return the GB of the window that advanced settings of a VM make, 0 where it is off."""
    known = {key.lower(): str(value) for key, value in settings.items()}
    if known.get(MMIO_KEY.lower(), "").lower() != "true":
        return 0
    size = known.get(MMIO_SIZE_KEY.lower(), "")
    return int(size) if size.isdecimal() else DEFAULT_GB


def of_vgpu(name: str, host: Facts | None) -> int:
    """Return the GB to count for a vGPU profile; `host` knows boards that are newer than the catalogue."""
    try:
        profile = parse(name)
    except VgpuNameError:
        return 0
    listed = (entry.board for entry in boards_as_listed(host).values()) if host else iter(())
    board = board_of(profile) or next((b for b in listed if b and profile.stem in b.vgpu_names), None)
    return board.memory_gb if board and board.memory_gb is not None else profile.fb_gb


def is_whole(name: str, host: Facts | None) -> bool:
    """Return whether a vGPU profile has all of the framebuffer of its board; `host` as for `of_vgpu`."""
    try:
        return parse(name).fb_gb >= of_vgpu(name, host)
    except VgpuNameError:
        return False


def of_device(vendor: int, device: int) -> int:
    """Return the GB to count for a whole PCI device by its (unsigned) ids: 0 unless it is a GPU with a large BAR."""
    board = board_of_device(device) if vendor == NVIDIA else None
    is_large = board is not None and board.architecture not in SMALL_BAR
    return board.memory_gb if board and is_large and board.memory_gb is not None else 0
