"""Names of MIG profiles as mig-parted reads them, compute instances among them, and the GPU instances these need.

Source: github.com/NVIDIA/go-nvlib v0.12.0, pkg/nvlib/device/mig_profile.go (the form of a name), and
github.com/NVIDIA/mig-parted v0.15, pkg/mig/config/config.go (SetMigConfig: one instance after the other).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from vsphere_ai.gpu.mig.layout import LayoutItem

_FORM = re.compile(
    r"(?:(?P<compute>\d{1,9})c\.)?(?P<slices>\d{1,9})g\.(?P<memory>\d{1,9})gb(?P<sign>[+-](?=.)|$)(?P<extras>.+)?",
    re.ASCII,
)
_EXTRA = re.compile(r"[A-Za-z](?:[A-Za-z0-9.]*[A-Za-z0-9])?")
_PART = re.compile(r"(\d+)c\.((\d+)g\..+)")


def read_profile(name: str) -> str | None:
    """Return the name of a profile as it is usually written; None where mig-parted refuses it.

    ``03g.20gb`` is 3g.20gb there, and so is ``3c.3g.20gb``: a compute instance of all slices.
    """
    match = _FORM.fullmatch(name)
    if match is None:
        return None
    extras = match["extras"].split(",") if match["extras"] else []
    if len(set(extras)) < len(extras) or not all(map(_EXTRA.fullmatch, extras)):
        return None
    slices, compute = int(match["slices"]), int(match["compute"] or match["slices"])
    whole = f"{slices}g.{int(match['memory'])}gb{match['sign']}{','.join(sorted(extras))}"
    return whole if compute == slices else f"{compute}c.{whole}"


def is_part(item: LayoutItem) -> bool:
    """Return whether an item is a compute instance that takes a part of a GPU instance: ``1c.3g.20gb``."""
    return _PART.fullmatch(item.profile) is not None


def gpu_instances(items: Sequence[LayoutItem]) -> Iterator[tuple[LayoutItem, ...]]:
    """Yield the GPU instances that items need, in the order in which mig-parted gets to them.

    It puts a compute instance into the GPU instance that it made last, where that is of the same profile and has the
    slices, and into a new one otherwise; larger ones come first. If the GPU has no place for all of these, it tries
    the other orders, which need fewer. Only sums of slices are counted. A part that is larger than its GPU instance is
    left as it is: no GPU has such a profile.
    """
    if not any(map(is_part, items)):
        yield tuple(items)
        return
    for reopened in (False, True):
        yield tuple(_filled(sorted(items, key=_order), reopened=reopened))


def _order(item: LayoutItem) -> tuple[str, int]:
    part = _PART.fullmatch(item.profile)
    return (part[2], -int(part[1])) if part else (item.profile, -1_000_000_000)


def _filled(items: Iterable[LayoutItem], *, reopened: bool) -> Iterator[LayoutItem]:
    """Yield the GPU instances of items in order; `reopened`: earlier ones with free slices are used as well."""
    free: dict[str, list[int]] = {}
    for item in items:
        part = _PART.fullmatch(item.profile)
        if part is None or int(part[1]) > int(part[3]):
            yield item
            continue
        of = free.setdefault(part[2], [])
        at = next((n for n, left in enumerate(of) if left >= int(part[1]) and (reopened or n == len(of) - 1)), None)
        if at is None:
            at = len(of)
            of.append(int(part[3]))
            yield LayoutItem(part[2])
        of[at] -= int(part[1])
