"""Checks of MIG layouts: what a host lists, and ids that mean something else there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from vsphere_ai.gpu import live
from vsphere_ai.gpu.listed_board import ListedBoard, boards_as_listed
from vsphere_ai.gpu.listings import UnreadableOutput
from vsphere_ai.gpu.placement import Impossible
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.state import Problem, Target
from vsphere_ai.model.view import View
from vsphere_ai.resources.mig.gpu import (
    GpuMig,
    Slot,
    way_to,
)

UNLISTED = "have mode: enabled applied first; the layout once the host lists the GPU's profiles"


def listing_problems(target: Target, facts: Facts) -> Iterator[Problem]:
    """Yield that the answer of nvidia-smi is missing or cannot be read."""
    try:
        if live.live(facts) is None:
            yield Problem(target, "mig.not-read", "MIG was not read on this host")
    except UnreadableOutput as error:
        yield Problem(target, "mig.unreadable", error.message, error.remedy)


def meanings_of(boards: Mapping[str, ListedBoard], ids: Mapping[str, Sequence[str]]) -> dict[str, dict[str, str]]:
    """Return id -> PCI address -> the profile it stands for there."""
    found: dict[str, dict[str, str]] = {}
    for pci, listed in boards.items():
        for number in ids[pci]:
            profile = listed.board.find_profile(number) if listed.board else None
            if profile is not None:
                found.setdefault(number, {})[pci] = profile.name
    return found


def id_problems(target: Target, facts: Facts, ids: Mapping[str, Sequence[str]]) -> Iterator[Problem]:
    """A number means one profile on an A100 and another on an A30."""
    boards = {pci: listed for pci, listed in boards_as_listed(facts).items() if pci in ids}
    for pci, listed in boards.items():
        for number in dict.fromkeys(ids[pci]):
            other = listed.other_meaning(number)
            if other is not None:
                yield Problem(
                    target,
                    "mig.id",
                    f"GPU {pci}: id {number} is {other[1].name} on this host, {other[0].name} in the catalogue",
                    "write the profile's name",
                )
    for number, meanings in meanings_of(boards, ids).items():
        if len({name.partition("g.")[0] for name in meanings.values()}) > 1:
            each = " and ".join(f"{name} on {pci}" for pci, name in meanings.items())
            yield Problem(target, "mig.id", f"id {number} is {each}", "write profile names, per GPU under gpus")


def layout_problems(view: View, slot: Slot, wanted: GpuMig, before: GpuMig | None) -> Iterator[Problem]:
    """Yield why a GPU cannot have its layout; `before` is what stands on it then."""
    target, pci, board = slot
    if board is None:
        return
    if wanted.layout is None or (wanted.mode == "disabled" and not wanted.layout):
        return
    if wanted.mode == "disabled":
        yield Problem(target, "mig.contradiction", f"GPU {pci}: a layout needs mode: enabled")
    way = way_to(view, slot, wanted.layout, before)
    if isinstance(way, Impossible):
        close = "; ".join(f"{n.short} (-cgi {n.cgi})" for n in way.nearest)
        what = f"cut into {', '.join(wanted.layout)}" if wanted.layout else "emptied"
        yield Problem(
            target,
            "mig.layout",
            f"GPU {pci} ({board.title}) cannot be {what}: {'; '.join(way.reasons)}",
            f"closest legal layouts: {close}" if close else UNLISTED if board.named_profiles else "",
        )
