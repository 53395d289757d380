"""GPU boards of the lab: their profiles from the board table, their product names, and the ids NVML gives them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib import resources
from itertools import pairwise
from typing import Any

import yaml


@dataclass(frozen=True)
class BoardNames:
    """The names of one PCI device: in nvidia-smi and in pci.ids (shown without a driver)."""

    name: str
    pci_name: str
    memory_mib: int = 0


PRODUCTS: Mapping[int, BoardNames] = {
    0x20B0: BoardNames("NVIDIA A100-SXM4-40GB", "GA100 [A100 SXM4 40GB]", 40960),
    0x20B1: BoardNames("NVIDIA A100-PCIE-40GB", "GA100 [A100 PCIe 40GB]", 40960),
    0x20F1: BoardNames("NVIDIA A100-PCIE-40GB", "GA100 [A100 PCIe 40GB]", 40960),
    0x20B2: BoardNames("NVIDIA A100-SXM4-80GB", "GA100 [A100 SXM4 80GB]", 81920),
    0x20B5: BoardNames("NVIDIA A100 80GB PCIe", "GA100 [A100 PCIe 80GB]", 81920),
    0x20B7: BoardNames("NVIDIA A30", "GA100GL [A30 PCIe]", 24576),
    0x2330: BoardNames("NVIDIA H100 80GB HBM3", "GH100 [H100 SXM5 80GB]", 81559),
    0x2331: BoardNames("NVIDIA H100 PCIe", "GH100 [H100 PCIe]", 81559),
    0x2321: BoardNames("NVIDIA H100 NVL", "GH100 [H100L 94GB]", 95830),
    0x2335: BoardNames("NVIDIA H200", "GH100 [H200 SXM 141GB]", 143771),
    0x233B: BoardNames("NVIDIA H200 NVL", "GH100 [H200 NVL]", 143771),
    0x2BB5: BoardNames(
        "NVIDIA RTX PRO 6000 Blackwell Server Edition",
        "GB202GL [RTX PRO 6000 Blackwell Server Edition]",
        97887,
    ),
    0x2235: BoardNames("NVIDIA A40", "GA102GL [A40]", 46068),
    0x26B5: BoardNames("NVIDIA L40", "AD102GL [L40]", 46068),
    0x26B9: BoardNames("NVIDIA L40S", "AD102GL [L40S]", 46068),
    0x2236: BoardNames("NVIDIA A10", "GA102GL [A10]", 23028),
    0x27B8: BoardNames("NVIDIA L4", "AD104GL [L4]", 23034),
    0x1EB8: BoardNames("Tesla T4", "TU104GL [Tesla T4]", 15360),
    0x1DB1: BoardNames("Tesla V100-SXM2-16GB", "GV100GL [Tesla V100 SXM2 16GB]", 16384),
    0x1DB4: BoardNames("Tesla V100-PCIE-16GB", "GV100GL [Tesla V100 PCIe 16GB]", 16384),
    0x1DB5: BoardNames("Tesla V100-SXM2-32GB", "GV100GL [Tesla V100 SXM2 32GB]", 32768),
    0x1DB6: BoardNames("Tesla V100-PCIE-32GB", "GV100GL [Tesla V100 PCIe 32GB]", 32768),
}

_REV1, _REV2, _OTHER = 7, 9, 10
"""Positions NVML's profile list gives to +me, double-memory 1g and the graphics variants, behind the plain ones."""


@dataclass(frozen=True)
class SimulatedProfile:
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
        """Return whether it takes the GPU's only JPEG and OFA engines (``+me``)."""
        return "+me" in self.name

    @property
    def gb(self) -> int:
        """The memory in its name."""
        return int(self.name.partition("g.")[2].partition("gb")[0])

    @property
    def variant(self) -> str:
        """What follows the memory in the name, as the names of vGPU types spell it: ``ME`` for ``+me``."""
        extra = self.name.partition("gb")[2]
        return {"-me": "NOME", "+me.all": "MEALL"}.get(extra, extra[1:].upper())

    @property
    def plain(self) -> bool:
        """Return whether the name has no suffix such as ``+me`` or ``+gfx``."""
        return self.name[-1] == "b"


@dataclass(frozen=True)
class SimulatedBoard:
    """A kind of GPU: geometry, profiles in listing order (none without MIG), and how MIG mode behaves on ESXi."""

    key: str
    architecture: str
    memory_gb: int
    memory_slices: int
    compute_slices: int
    profiles: tuple[SimulatedProfile, ...]
    device_ids: tuple[int, ...]
    mig_needs_reboot: bool
    mig_mode_persists: bool
    vgpu_names: Mapping[int, str] = field(compare=False)
    """PCI device id -> how the names of its vGPU types begin; devices without vGPU types are missing."""
    vgpu_types: Mapping[int, Mapping[str, int]] = field(compare=False)
    """PCI device id -> end of the name of a type -> how many of it a GPU takes."""
    subsystems: Mapping[int, int] = field(compare=False)
    """PCI device id -> PCI subsystem id, where several products share the device id."""
    measured_mixed: Mapping[int, int] = field(compare=False)
    shares_instances: bool
    """Several time-sliced vGPUs can run in one GPU instance."""

    def mixed(self, gb: int) -> int:
        """Return how many places a GPU has for a time-sliced type of that size in mixed-size mode."""
        return self.measured_mixed.get(gb) or _power_of_two(min(self.memory_gb // gb, 32))

    def places(self, gb: int) -> tuple[int, ...]:
        """Return where time-sliced types of that size begin in mixed-size mode, in GB of the frame buffer.

        Places come in pairs, the first at the one end of their part of the GPU, the second at the other (NVIDIA Virtual
        GPU Software User Guide, "vGPU placements for GPUs in mixed-size mode"). Where they fill the GPU they follow one
        another.
        """
        count = self.mixed(gb)
        if count * gb == self.memory_gb or count == 1:
            return tuple(range(0, count * gb, gb))
        cuts = [number * self.memory_gb // (count // 2) for number in range(count // 2 + 1)]
        return tuple(at for begin, end in pairwise(cuts) for at in (begin, end - gb))

    @cached_property
    def unit(self) -> int:
        """The size of the smallest profile, in memory slices."""
        return min((p.size for p in self.profiles), default=1)

    def is_double(self, profile: SimulatedProfile) -> bool:
        """Return whether this is a one-slice profile with the memory of two."""
        return profile.compute_slices == 1 and profile.size > self.unit

    def nvml_order(self, profile: SimulatedProfile) -> tuple[int, int]:
        """Return the position in NVML's list of profile kinds, by which `-lgi` sorts."""
        if self.is_double(profile):
            return _REV2, profile.compute_slices
        if profile.plain:
            return 0, profile.compute_slices
        return (_REV1, profile.compute_slices) if profile.name.endswith("+me") else (_OTHER, profile.id)

    def default_starts(self, profile: SimulatedProfile) -> tuple[int, ...]:
        """Return the order in which the driver tries placements when none is asked for (measured, undocumented)."""
        if self.compute_slices != 7:
            return profile.starts
        if profile.size == 1:
            return (6, 4, 5, 0, 1, 2, 3)
        return {2: (4, 0, 2, 6), 4: (4, 0), 8: (0,)}[profile.size]

    def gi_id(self, profile: SimulatedProfile, start: int, *, swapped: bool = False) -> int:
        """Return the GPU instance id at `start`: a binary tree over the memory, on some boards half-swapped."""
        if swapped and profile.size < self.memory_slices:
            start = (start + self.memory_slices // 2) % self.memory_slices
        return self.memory_slices // profile.size - 1 + start // profile.size


def board(key: str) -> SimulatedBoard:
    """Return the board with this key, e.g. ``a100-40gb``; KeyError names the known ones."""
    try:
        return _boards()[key]
    except KeyError:
        raise KeyError(f"no GPU board {key!r}; known: {', '.join(_boards())}") from None


def board_keys() -> tuple[str, ...]:
    """Return the keys of all boards that have a PCI device id of their own."""
    return tuple(_boards())


@cache
def _boards() -> dict[str, SimulatedBoard]:
    types = _table("vgpu_types.yaml")["types"]
    rows = (row for row in _table("boards.yaml")["boards"] if any(p["device_ids"] for p in row["products"]))
    return {row["key"]: _board(row, types) for row in rows}


def _table(name: str) -> Any:
    text = resources.files("vsphere_ai.gpu").joinpath(name).read_text(encoding="utf-8")
    return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - safe loaders


def _board(row: Mapping[str, Any], types: Mapping[str, Mapping[str, int]]) -> SimulatedBoard:
    devices = [(number, product) for product in row["products"] for number in product["device_ids"]]
    first = {number: product for number, product in reversed(devices) if product.get("vgpu_names")}
    return SimulatedBoard(
        key=row["key"],
        architecture=row["architecture"],
        memory_gb=row["memory_gb"],
        memory_slices=row.get("memory_slices") or 0,
        compute_slices=row.get("compute_slices") or 0,
        profiles=tuple(_profile(p, row) for p in row.get("profiles") or ()),
        device_ids=tuple(dict.fromkeys(number for number, _ in devices)),
        mig_needs_reboot=bool(row.get("mig_needs_reboot_on_esxi")),
        mig_mode_persists=bool(row.get("mig_mode_persists")),
        vgpu_names={number: product["vgpu_names"][0] for number, product in first.items()},
        vgpu_types={number: types[product["types"]] for number, product in first.items()},
        subsystems={n: product["subsystem_ids"][0] for n, product in first.items() if product.get("subsystem_ids")},
        measured_mixed=row.get("mixed") or {},
        shares_instances=bool(row.get("shared_instances")),
    )


def _power_of_two(most: int) -> int:
    return 1 << max(most.bit_length() - 1, 0)


def _profile(row: Mapping[str, Any], of: Mapping[str, Any]) -> SimulatedProfile:
    memory = row.get("memory_gib")
    share: float = of["memory_gb"] * row["memory_slices"] / of["memory_slices"]
    return SimulatedProfile(
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
