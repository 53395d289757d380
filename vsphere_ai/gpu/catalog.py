"""GPU boards as NVIDIA documents them: MIG profiles, legal placements, PCI device ids, vGPU names."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any

from vsphere_ai.errors import UsageError
from vsphere_ai.model.dated_table import dated_table

Count = int | None
_DEVICE_ID = re.compile(r"(?:0x|10de:)?([0-9a-f]{4})(?:10de)?")
NO_PLACEMENTS = "placements of this board are not published; they are read from the host, at the latest once MIG is on"


class UnknownBoard(UsageError):
    """No board of that name is in the catalogue."""

    title = "unknown GPU board"


class UnknownProfile(UsageError):
    """The board has no GPU instance profile of that name or id."""

    title = "unknown MIG profile"


@dataclass(frozen=True)
class Engines:
    """Hardware engines an instance of a profile gets, as `nvidia-smi mig -lgip` counts them; None = not published."""

    sm: Count
    ce: Count
    dec: Count
    enc: Count
    jpeg: Count
    ofa: Count


@dataclass(frozen=True)
class Profile:
    """A GPU instance profile, e.g. ``3g.20gb``. `id` is what ``nvidia-smi mig -cgi`` takes, unique per board only.

    An instance takes `memory_slices` consecutive memory slices beginning at one of `starts`.
    """

    name: str
    id: int
    compute_slices: int
    memory_slices: int
    starts: tuple[int, ...]
    max_instances: int
    engines: Engines
    memory_gib: float | None = None
    vgpu_suffix: str | None = None
    min_driver: int | None = None
    aliases: tuple[str, ...] = ()
    """Other names it goes by: drivers differ, R470 calls the whole A100 80GB ``7g.79gb``."""

    def __hash__(self) -> int:
        # The generated hash walks every field; the search hashes profiles by the thousand.
        return hash((self.name, self.id))

    @property
    def media(self) -> bool:
        """Return whether it takes the media extensions (``+me``), of which a GPU has one set."""
        return "+me" in self.name

    @property
    def all_media(self) -> bool:
        """Return whether it takes every media engine of the GPU (``+me.all``): only ``-me`` profiles fit beside it.

        Source: NVIDIA's nvml.h, NVML_GPU_INSTANCE_PROFILE_1_SLICE_ALL_ME.
        """
        return self.name.endswith("+me.all")

    @property
    def no_media(self) -> bool:
        """Return whether it is a profile without any media engine (``-me``)."""
        return self.name.endswith("-me")


@dataclass(frozen=True)
class TimeSliced:
    """A time-sliced C-series vGPU size in GB, and how many fit on a GPU; None where NVIDIA publishes no count."""

    fb_gb: int
    max_equal: Count
    max_mixed: Count


@dataclass(frozen=True)
class Product:
    """What is sold with a board. `vgpu_names` is how vSphere's vGPU names of it begin, e.g. ``grid_a100dx``.

    Of several names the first is likely: NVIDIA publishes the end of the name only. `subsystem_ids` separates products
    apart that share a PCI device id; empty means any. `types` is its list in ``vgpu_types.yaml``.
    """

    name: str
    device_ids: tuple[int, ...]
    vgpu_names: tuple[str, ...] = ()
    types: str = ""
    subsystem_ids: tuple[int, ...] = ()


@dataclass(frozen=True)
class Board:
    """A GPU board; boards that differ in nothing relevant share one entry. Slices are 0 on boards without MIG."""

    key: str
    title: str
    architecture: str
    memory_gb: int | None
    products: tuple[Product, ...] = ()
    memory_slices: int = 0
    compute_slices: int = 0
    profiles: tuple[Profile, ...] = ()
    named_profiles: tuple[str, ...] = ()
    """Profiles of which NVIDIA publishes the names alone; empty on every other board, and once the host lists them."""
    min_driver: int | None = None
    mig_needs_reboot_on_esxi: bool = False
    mig_mode_persists: bool = False
    verified: bool = True
    """False when profile ids or placements were derived from a relative, because NVIDIA publishes none."""
    vgpu_names: tuple[str, ...] = ()
    """How its vGPU names begin on vSphere, e.g. ``grid_a100``; once the device is known, those of its product only."""
    types: Mapping[str, int] = field(default_factory=dict, compare=False)
    """vGPU types by the end of their names (``3-20C``), and how many of one a GPU takes."""
    time_sliced: tuple[TimeSliced, ...] = ()
    shared_instances: bool = False
    """Several time-sliced vGPUs may share a GPU instance (vGPU 19, ESXi 9.0.1)."""
    also_called: tuple[str, ...] = ()

    def __hash__(self) -> int:
        return hash(self.key)

    @property
    def mig_capable(self) -> bool:
        """Return whether the GPU can be divided into GPU instances."""
        return bool(self.profiles or self.named_profiles)

    @cached_property
    def largest_first(self) -> tuple[Profile, ...]:
        """Its profiles, the largest first."""
        return tuple(sorted(self.profiles, key=lambda p: (-p.memory_slices, -p.compute_slices, p.id)))

    @property
    def device_ids(self) -> tuple[int, ...]:
        """The PCI device ids of its products."""
        return tuple(dict.fromkeys(n for p in self.products for n in p.device_ids))

    @property
    def profile_names(self) -> tuple[str, ...]:
        """The names of its profiles, those of unknown placement included."""
        return (*(p.name for p in self.profiles), *self.named_profiles)

    def profile(self, token: str | int) -> Profile:
        """Return the profile of a name (``3g.20gb``, ``MIG 3g.20gb``) or an id (``9``); `UnknownProfile` if none."""
        found = self.find_profile(token)
        if found is not None:
            return found
        text = str(token)
        if self.named_profiles:
            names = ", ".join(self.named_profiles)
            raise UnknownProfile(f"{text} cannot be placed on {self.key}", f"{NO_PLACEMENTS}; its profiles are {names}")
        known = ", ".join(f"{p.name} ({p.id})" for p in self.profiles)
        near = difflib.get_close_matches(text, [p.name for p in self.profiles], n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        remedy = f"{hint}{self.key} has {known}" if known else f"{self.title} has no MIG"
        raise UnknownProfile(f"no profile {text} on {self.key}", remedy)

    def find_profile(self, token: str | int) -> Profile | None:
        """Return the profile of a name or an id, None when the board has no such profile."""
        text = str(token).removeprefix("MIG ")
        return next((p for p in self.profiles if text in (p.name, str(p.id), *p.aliases)), None)


@cache
def boards() -> tuple[Board, ...]:
    """Return every board of the catalogue."""
    types = dated_table("gpu/vgpu_types.yaml").values["types"]
    return tuple(_board(entry, types) for entry in dated_table("gpu/boards.yaml").values["boards"])


def board(key: str) -> Board:
    """Return the board with that key, e.g. ``a100-40gb``; `UnknownBoard` with the nearest names if there is none.

    A PCI device id in hexadecimal is one, too, as lspci (``10de:20f1``) and nvidia-smi (``0x20F110DE``) write it.
    """
    asked = key.lower()
    if (device := _DEVICE_ID.fullmatch(asked)) and (found := board_of_device(int(device[1], 16))) is not None:
        return found
    for each in boards():
        if asked == each.key or asked in each.also_called:
            return each
    keys = [k for b in boards() for k in (b.key, *b.also_called)]
    begins = [k for k in keys if asked and k.startswith(asked)]
    near = begins or difflib.get_close_matches(asked, keys, n=3, cutoff=0.5)
    if len(begins) > 1:
        raise UnknownBoard(f"{key!r} is several GPU boards", f"give one of {', '.join(begins)}")
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    raise UnknownBoard(f"unknown GPU board {key!r}", f"{hint}known boards: {', '.join(keys)}")


def board_of_device(device_id: int, subsystem_id: int | None = None) -> Board | None:
    """Return the board with that NVIDIA PCI device id (``0x20f1``), None when the catalogue does not know it.

    Its vGPU names are those of this device's product alone. Of products that share a device id the subsystem id
    decides; an unknown one (None, or that of a server maker) leaves all of them. vSphere shows the ids as signed 16-bit
    numbers; both spellings are understood.
    """
    return _of_device(device_id & 0xFFFF, subsystem_id & 0xFFFF if subsystem_id is not None else None)


@cache
def _of_device(device_id: int, subsystem_id: int | None) -> Board | None:
    found = next((b for b in boards() if device_id in b.device_ids), None)
    if found is None:
        return None
    same = tuple(p for p in found.products if device_id in p.device_ids)
    return _of_products(found, tuple(p for p in same if subsystem_id in p.subsystem_ids) or same)


@cache
def _of_products(found: Board, products: tuple[Product, ...]) -> Board:
    """Return a board with some of its products only: the same object for all of its devices."""
    if products == found.products:
        return found
    names = tuple(dict.fromkeys(n for p in products for n in p.vgpu_names))
    return replace(found, products=products, vgpu_names=names)


def _board(entry: Mapping[str, Any], types: Mapping[str, Mapping[str, int]]) -> Board:
    fields = _frozen(entry)
    products = tuple(Product(**_frozen(p)) for p in fields.pop("products"))
    own, mixed = next((types[p.types] for p in products if p.types), {}), fields.pop("mixed", {})
    sizes = {int(name[:-1]) for name in own if "-" not in name and name.endswith("C")} | set(mixed)
    fields["profiles"] = tuple(_profile(_frozen(p), own) for p in fields.get("profiles", ()))
    return Board(
        **fields,
        products=products,
        vgpu_names=tuple(dict.fromkeys(n for p in products for n in p.vgpu_names)),
        types=own,
        time_sliced=tuple(TimeSliced(fb, own.get(f"{fb}C"), mixed.get(fb)) for fb in sorted(sizes, reverse=True)),
    )


def _frozen(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in entry.items()}


def _profile(fields: dict[str, Any], types: Mapping[str, int]) -> Profile:
    engines = Engines(**{name: fields.pop(name) for name in Engines.__dataclass_fields__})
    spelled = type_of_profile(fields["name"])
    return Profile(vgpu_suffix=fields.pop("vgpu", spelled if spelled in types else None), **fields, engines=engines)


def type_of_profile(name: str) -> str:
    """Return the end of the name of the C-series vGPU type a profile backs: ``1-5CME`` for ``1g.5gb+me``."""
    slices, _, rest = name.partition("g.")
    memory, _, extra = rest.partition("gb")
    return f"{slices}-{memory}C{TYPE_SUFFIXES.get(extra, extra)}".upper()


TYPE_SUFFIXES = {"": "", "+me": "me", "+gfx": "gfx", "+me.all": "meall", "-me": "nome"}
"""Variant of a GPU instance profile -> how it is spelled at the end of the names of its vGPU types."""
