"""What a GPU board is made of: its profiles from the board table, its product names, and the ids NVML gives them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib import resources
from typing import Any

import yaml


@dataclass(frozen=True)
class Product:
    """The names of one PCI device: in nvidia-smi, in pci.ids (shown without a driver), and in vGPU type names."""

    name: str
    pci_name: str
    vgpu_board: str = ""
    memory_mib: int = 0


PRODUCTS: Mapping[int, Product] = {
    0x20B0: Product("NVIDIA A100-SXM4-40GB", "GA100 [A100 SXM4 40GB]", "a100x", 40960),
    0x20B1: Product("NVIDIA A100-PCIE-40GB", "GA100 [A100 PCIe 40GB]", "a100", 40960),
    0x20F1: Product("NVIDIA A100-PCIE-40GB", "GA100 [A100 PCIe 40GB]", "a100", 40960),
    0x20B2: Product("NVIDIA A100-SXM4-80GB", "GA100 [A100 SXM4 80GB]", "a100dx", 81920),
    0x20B5: Product("NVIDIA A100 80GB PCIe", "GA100 [A100 PCIe 80GB]", "a100d", 81920),
    0x20B7: Product("NVIDIA A30", "GA100GL [A30 PCIe]", "a30", 24576),
    0x2330: Product("NVIDIA H100 80GB HBM3", "GH100 [H100 SXM5 80GB]", "h100xm", 81559),
    0x2331: Product("NVIDIA H100 PCIe", "GH100 [H100 PCIe]", "h100", 81559),
    0x2321: Product("NVIDIA H100 NVL", "GH100 [H100L 94GB]", "h100l", 95830),
    0x2335: Product("NVIDIA H200", "GH100 [H200 SXM 141GB]", "h200x", 143771),
    0x233B: Product("NVIDIA H200 NVL", "GH100 [H200 NVL]", "h200", 143771),
    0x2BB5: Product(
        "NVIDIA RTX PRO 6000 Blackwell Server Edition",
        "GB202GL [RTX PRO 6000 Blackwell Server Edition]",
        "rtx_pro_6000_blackwell_dc",
        97887,
    ),
    0x2235: Product("NVIDIA A40", "GA102GL [A40]", "a40", 46068),
    0x26B5: Product("NVIDIA L40", "AD102GL [L40]", "l40", 46068),
    0x26B9: Product("NVIDIA L40S", "AD102GL [L40S]", "l40s", 46068),
    0x2236: Product("NVIDIA A10", "GA102GL [A10]", "a10", 23028),
    0x27B8: Product("NVIDIA L4", "AD104GL [L4]", "l4", 23034),
    0x1EB8: Product("Tesla T4", "TU104GL [Tesla T4]", "t4", 15360),
    0x1DB1: Product("Tesla V100-SXM2-16GB", "GV100GL [Tesla V100 SXM2 16GB]", "v100x", 16384),
    0x1DB4: Product("Tesla V100-PCIE-16GB", "GV100GL [Tesla V100 PCIe 16GB]", "v100", 16384),
    0x1DB5: Product("Tesla V100-SXM2-32GB", "GV100GL [Tesla V100 SXM2 32GB]", "v100dx", 32768),
    0x1DB6: Product("Tesla V100-PCIE-32GB", "GV100GL [Tesla V100 PCIe 32GB]", "v100d", 32768),
}

_REV1, _REV2, _OTHER = 7, 9, 10
"""Positions NVML's profile list gives to +me, double-memory 1g and the graphics variants, behind the plain ones."""


@dataclass(frozen=True)
class Profile:
    """A GPU instance profile; sizes and starts are in memory slices, engine counts as `-lgip` prints them."""

    name: str
    id: int
    compute_slices: int
    size: int
    starts: tuple[int, ...]
    max_instances: int
    memory_gib: float
    engines: Mapping[str, int] = field(compare=False)
    vgpu: str | None = None
    min_driver: int = 0

    @property
    def media(self) -> bool:
        """Tell whether it takes the GPU's only JPEG and OFA engines (``+me``)."""
        return "+me" in self.name

    @property
    def plain(self) -> bool:
        """Tell whether the name has no suffix such as ``+me`` or ``+gfx``."""
        return self.name[-1] == "b"


@dataclass(frozen=True)
class Board:
    """A kind of GPU: geometry, profiles in listing order (none without MIG), and how MIG mode behaves on ESXi."""

    key: str
    architecture: str
    memory_gb: int
    memory_slices: int
    compute_slices: int
    profiles: tuple[Profile, ...]
    device_ids: tuple[int, ...]
    mig_needs_reboot: bool
    mig_mode_persists: bool
    vgpu_prefix: str
    vgpu_boards: tuple[str, ...]
    time_sliced: Mapping[int, int] = field(compare=False)

    @cached_property
    def unit(self) -> int:
        """The size of the smallest profile, in memory slices."""
        return min((p.size for p in self.profiles), default=1)

    def is_double(self, profile: Profile) -> bool:
        """Tell whether this is a one-slice profile with the memory of two."""
        return profile.compute_slices == 1 and profile.size > self.unit

    def nvml_order(self, profile: Profile) -> tuple[int, int]:
        """Return the position in NVML's list of profile kinds, by which `-lgi` sorts."""
        if self.is_double(profile):
            return _REV2, profile.compute_slices
        if profile.plain:
            return 0, profile.compute_slices
        return (_REV1, profile.compute_slices) if profile.name.endswith("+me") else (_OTHER, profile.id)

    def default_starts(self, profile: Profile) -> tuple[int, ...]:
        """Return the order in which the driver tries placements when none is asked for (measured, undocumented)."""
        if self.compute_slices != 7:
            return profile.starts
        if profile.size == 1:
            return (6, 4, 5, 0, 1, 2, 3)
        return {2: (4, 0, 2, 6), 4: (4, 0), 8: (0,)}[profile.size]

    def gi_id(self, profile: Profile, start: int, *, swapped: bool = False) -> int:
        """Return the GPU instance id at `start`: a binary tree over the memory, on some boards half-swapped."""
        if swapped and profile.size < self.memory_slices:
            start = (start + self.memory_slices // 2) % self.memory_slices
        return self.memory_slices // profile.size - 1 + start // profile.size


def board(key: str) -> Board:
    """Return the board with this key, e.g. ``a100-40gb``; KeyError names the known ones."""
    try:
        return _boards()[key]
    except KeyError:
        raise KeyError(f"no GPU board {key!r}; known: {', '.join(_boards())}") from None


def board_keys() -> tuple[str, ...]:
    """Return the keys of all boards."""
    return tuple(_boards())


@cache
def _boards() -> dict[str, Board]:
    text = resources.files("vsphere_ai.gpu").joinpath("boards.yaml").read_text(encoding="utf-8")
    rows = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))["boards"]  # noqa: S506 - safe loaders
    return {row["key"]: _board(row) for row in rows}


def _board(row: Mapping[str, Any]) -> Board:
    return Board(
        key=row["key"],
        architecture=row["architecture"],
        memory_gb=row["memory_gb"],
        memory_slices=row.get("memory_slices") or 0,
        compute_slices=row.get("compute_slices") or 0,
        profiles=tuple(_profile(p, row) for p in row.get("profiles") or ()),
        device_ids=tuple(row["device_ids"]),
        mig_needs_reboot=bool(row.get("mig_needs_reboot_on_esxi")),
        mig_mode_persists=bool(row.get("mig_mode_persists")),
        vgpu_prefix=row.get("vgpu_prefix") or "",
        vgpu_boards=tuple(row.get("vgpu_boards") or ()),
        time_sliced={gb: most[0] or row["memory_gb"] // gb for gb, most in (row.get("time_sliced") or {}).items()},
    )


def _profile(row: Mapping[str, Any], of: Mapping[str, Any]) -> Profile:
    memory = row.get("memory_gib")
    share: float = of["memory_gb"] * row["memory_slices"] / of["memory_slices"]
    return Profile(
        name=row["name"],
        id=row["id"],
        compute_slices=row["compute_slices"],
        size=row["memory_slices"],
        starts=tuple(row["starts"]),
        max_instances=row["max_instances"],
        memory_gib=share if memory is None else memory,
        engines={engine: row.get(engine) or 0 for engine in ("sm", "ce", "dec", "enc", "jpeg", "ofa")},
        vgpu=row.get("vgpu"),
        min_driver=row.get("min_driver") or 0,
    )
