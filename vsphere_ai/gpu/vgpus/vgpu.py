"""vGPU profile names as vSphere lists them, their link to MIG, and the MMIO window they need."""

from __future__ import annotations

import re
from dataclasses import dataclass

from vsphere_ai.errors import UsageError
from vsphere_ai.gpu.catalog import TYPE_SUFFIXES, Board, Profile, boards, type_of_profile

# <brand>_<board>-[<slices>-]<GB><series>[suffix]; a middle number makes it MIG-backed.
# NVIDIA AI Enterprise User Guide, appendix A; vSphere spells nvidia-smi's name in lower case, blanks as underscores.
_NAME = re.compile(
    r"(?P<brand>grid|nvidia)_(?P<board>[a-z0-9_]+(?:-ada)?)-(?:(?P<slices>[1-7])-)?"
    r"(?P<fb>\d{1,3})(?P<series>[abcq])(?P<suffix>meall|me|nome|gfx|\d)?"
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
    def stem(self) -> str:
        """First part of the name, which identifies the product: ``grid_a100``."""
        return f"{self.brand}_{self.board}"

    @property
    def ending(self) -> str:
        """Last part of the name, as NVIDIA writes it: ``3-20C``, ``40C``."""
        return self.name[len(self.stem) + 1 :].upper()

    @property
    def is_mig(self) -> bool:
        """Return whether a GPU instance stands behind it; otherwise the GPU is shared in time."""
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


@dataclass(frozen=True)
class InstanceShare:
    """A part of a GPU instance: up to `per_instance` time-sliced vGPUs of `fb_gb` GB each share one of `profile`.

    All vGPUs of an instance have the same framebuffer size; their series may differ (NVIDIA vGPU 19, ESXi 9.0.1).
    """

    profile: Profile
    fb_gb: int
    per_instance: int


def mig_profile(board: Board, vgpu: VgpuProfile) -> Profile | None:
    """Return the GPU instance profile a MIG-backed vGPU stands on on that board; None when it has none there.

    Where NVIDIA publishes no vGPU type of a profile, ``3-20c`` is taken for ``3g.20gb``: every published one is so.
    """
    if not vgpu.is_mig or vgpu.stem not in board.vgpu_names:
        return None
    ending = f"{vgpu.slices}-{vgpu.fb_gb}C{vgpu.suffix}".upper()
    whole = next((p for p in board.profiles if ending == (p.vgpu_suffix or type_of_profile(p.name))), None)
    share = share_of(board, vgpu) if whole is None else None
    return share.profile if share else whole


def share_of(board: Board, vgpu: VgpuProfile, *, listed: bool = False) -> InstanceShare | None:
    """Return the part of a GPU instance behind a vGPU name; None when it takes an instance alone, or is none here.

    With `listed` the host itself offers it, so that it is one even where NVIDIA publishes no count.
    """
    if not board.shared_instances or not vgpu.is_mig or vgpu.stem not in board.vgpu_names:
        return None
    for profile in board.profiles:
        name, _, variant = profile.name.partition("gb")
        memory = name.partition("g.")[2]
        same = profile.compute_slices == vgpu.slices and TYPE_SUFFIXES.get(variant) == vgpu.suffix
        if not same or not memory.isdecimal():
            continue
        memory_gb = int(memory)
        published = board.types.get(vgpu.ending)
        counted = published // profile.max_instances if published is not None else None
        most = counted or (memory_gb // vgpu.fb_gb if listed and vgpu.fb_gb else 0)
        return InstanceShare(profile, vgpu.fb_gb, most) if vgpu.fb_gb < memory_gb and most else None
    return None


def board_of(vgpu: VgpuProfile) -> Board | None:
    """Return the board whose vGPU names these are, None when the catalogue does not know it."""
    return next((b for b in boards() if vgpu.stem in b.vgpu_names), None)


def renamed(vgpu: VgpuProfile, board: Board) -> tuple[str, ...]:
    """Return what a type of that ending is called on a board: no name when the board has no such type."""
    here = (parse(f"{stem}-{vgpu.ending.lower()}") for stem in board.vgpu_names)
    return tuple(p.name for p in here if (mig_profile(board, p) if p.is_mig else time_sliced(board, p)))


def time_sliced(board: Board, vgpu: VgpuProfile) -> bool:
    """Return whether the catalogue has that time-sliced size for the board; any series of a C size counts."""
    return not vgpu.is_mig and (vgpu.ending in board.types or any(t.fb_gb == vgpu.fb_gb for t in board.time_sliced))


def mmio_size_gb(total_fb_gb: int) -> int:
    """Return ``pciPassthru.64bitMMIOSizeGB`` for GPUs with that much framebuffer in all, whole boards counted.

    VMware's rule: round up to the next power of two, then double; 40 GB gives 128, 80 GB gives 256. A total that
    is a power of two goes to the next one, as in VMware's example of two 16 GB GPUs.
    """
    if total_fb_gb <= 0:
        raise ValueError(f"no framebuffer: {total_fb_gb}")
    return 2 << total_fb_gb.bit_length()
