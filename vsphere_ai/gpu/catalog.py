"""GPU boards as NVIDIA documents them: MIG profiles, legal placements, PCI device ids, vGPU names."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import yaml

from vsphere_ai.errors import UsageError

Count = int | None
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
    ce: int
    dec: int
    enc: int
    jpeg: int
    ofa: int


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
        """Tell whether it takes the media extensions (``+me``), of which a GPU has one set."""
        return "+me" in self.name


@dataclass(frozen=True)
class TimeSliced:
    """A time-sliced C-series vGPU size in GB, and how many fit on a GPU; None where NVIDIA publishes no count."""

    fb_gb: int
    max_equal: Count
    max_mixed: Count


@dataclass(frozen=True)
class Board:
    """A GPU board; boards that differ in nothing relevant share one entry. Slices are 0 on boards without MIG."""

    key: str
    title: str
    architecture: str
    memory_gb: int
    device_ids: tuple[int, ...]
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
    vgpu_prefix: str = "nvidia_"
    vgpu_boards: tuple[str, ...] = ()
    """The board's spellings in vSphere vGPU names, e.g. ``a100`` in ``grid_a100-3-20c``."""
    time_sliced: tuple[TimeSliced, ...] = ()

    def __hash__(self) -> int:
        return hash(self.key)

    @property
    def mig_capable(self) -> bool:
        """Tell whether the GPU can be divided into GPU instances."""
        return bool(self.profiles or self.named_profiles)

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
    text = (resources.files("vsphere_ai.gpu") / "boards.yaml").read_text("utf-8")
    # PyYAML is built without libyaml on some platforms; the C parser is four times faster.
    data = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506
    return tuple(_board(entry) for entry in data["boards"])


def board(key: str) -> Board:
    """Return the board with that key, e.g. ``a100-40gb``; `UnknownBoard` with the nearest names if there is none."""
    for each in boards():
        if each.key == key.lower():
            return each
    keys = [b.key for b in boards()]
    near = difflib.get_close_matches(key.lower(), keys, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    raise UnknownBoard(f"unknown GPU board {key!r}", f"{hint}known boards: {', '.join(keys)}")


def board_of_device(device_id: int) -> Board | None:
    """Return the board with that NVIDIA PCI device id (``0x20f1``), None when the catalogue does not know it.

    vSphere shows `deviceId` as a signed 16-bit number; both spellings are understood.
    """
    return next((b for b in boards() if device_id & 0xFFFF in b.device_ids), None)


def _board(entry: Mapping[str, Any]) -> Board:
    fields = dict(entry)
    fields["device_ids"] = tuple(fields["device_ids"])
    for names in ("vgpu_boards", "named_profiles"):
        fields[names] = tuple(fields.get(names, ()))
    fields["profiles"] = tuple(_profile(p) for p in fields.get("profiles", ()))
    sizes = fields.pop("time_sliced", {})
    return Board(**fields, time_sliced=tuple(TimeSliced(fb, *counts) for fb, counts in sizes.items()))


def _profile(entry: Mapping[str, Any]) -> Profile:
    fields = dict(entry)
    engines = Engines(**{name: fields.pop(name) for name in Engines.__dataclass_fields__})
    suffix, starts = fields.pop("vgpu", None), tuple(fields.pop("starts"))
    aliases = tuple(fields.pop("aliases", ()))
    return Profile(**fields, starts=starts, engines=engines, vgpu_suffix=suffix, aliases=aliases)
