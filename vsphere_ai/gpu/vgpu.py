"""vGPU profile names as vSphere lists them, their link to MIG, and the MMIO window they need."""

from __future__ import annotations

import re
from dataclasses import dataclass

from vsphere_ai.errors import UsageError
from vsphere_ai.gpu.catalog import Board, Profile, boards

# <brand>_<board>-[<slices>-]<GB><series>[suffix]; a middle number makes it MIG-backed.
# NVIDIA AI Enterprise User Guide, appendix A; vSphere spells nvidia-smi's name in lower case, blanks as underscores.
_NAME = re.compile(
    r"(?P<brand>grid|nvidia)_(?P<board>[a-z0-9_]+)-(?:(?P<slices>[1-7])-)?"
    r"(?P<fb>\d{1,3})(?P<series>[abcq])(?P<suffix>me|gfx|\d)?"
)


class VgpuNameError(UsageError):
    """A text is not a vGPU profile name."""

    title = "vGPU profile"


@dataclass(frozen=True)
class VgpuProfile:
    """A vGPU profile name taken apart; `fb_gb` is its framebuffer in GB, `slices` its GPU slices when MIG-backed."""

    name: str
    brand: str
    board: str
    slices: int | None
    fb_gb: int
    series: str
    suffix: str = ""

    @property
    def is_mig(self) -> bool:
        """Tell whether a GPU instance stands behind it; otherwise the GPU is shared in time."""
        return self.slices is not None


def parse(name: str) -> VgpuProfile:
    """Take a name such as ``grid_a100-3-20c`` apart; `VgpuNameError` when it is none.

    The name proves nothing: only the host's own list says what it offers.
    """
    match = _NAME.fullmatch(name)
    if match is not None:
        slices = int(match["slices"]) if match["slices"] else None
        return VgpuProfile(
            name, match["brand"], match["board"], slices, int(match["fb"]), match["series"], match["suffix"] or ""
        )
    spelled = name.strip().lower().replace(" ", "_")
    help_ = f"write {spelled}" if _NAME.fullmatch(spelled) else "vSphere's names look like grid_a100-3-20c"
    raise VgpuNameError(f"{name!r} is not a vGPU profile name", help_)


def mig_profile(board: Board, vgpu: VgpuProfile) -> Profile | None:
    """Return the GPU instance profile a MIG-backed vGPU takes on that board; None when it has none there.

    Where NVIDIA publishes no vGPU type of a profile, ``3-20c`` is taken for ``3g.20gb``: every published one is so.
    """
    if not vgpu.is_mig or vgpu.board not in board.vgpu_boards:
        return None
    suffix = f"{vgpu.slices}-{vgpu.fb_gb}{vgpu.series}{vgpu.suffix}".upper()
    name = f"{vgpu.slices}g.{vgpu.fb_gb}gb{'+' if vgpu.suffix else ''}{vgpu.suffix}"
    return next((p for p in board.profiles if p.vgpu_suffix == suffix or (not p.vgpu_suffix and p.name == name)), None)


def board_of(vgpu: VgpuProfile) -> Board | None:
    """Return the board whose vGPU names these are, None when the catalogue does not know it."""
    return next((b for b in boards() if vgpu.board in b.vgpu_boards), None)


def mmio_size_gb(total_fb_gb: int) -> int:
    """Return ``pciPassthru.64bitMMIOSizeGB`` for GPUs with that much framebuffer in all, whole boards counted.

    VMware's rule: round up to the next power of two, then double; 40 GB gives 128, 80 GB gives 256. A total that
    is a power of two goes to the next one, as in VMware's example of two 16 GB GPUs.
    """
    if total_fb_gb <= 0:
        raise ValueError(f"no framebuffer: {total_fb_gb}")
    return 2 << total_fb_gb.bit_length()
