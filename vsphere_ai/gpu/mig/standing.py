"""GPU instances present on a GPU, as an operator writes them: ``3g.20gb:4,1g.5gb:5``, and the VMs that hold them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from vsphere_ai.gpu.catalog import Board
from vsphere_ai.gpu.mig import layout
from vsphere_ai.gpu.mig.search import Instance, spots


def standing(board: Board, text: str, in_use: Iterable[str] = ()) -> tuple[Instance, ...]:
    """Return what stands on a GPU of that board, by start; `text` names every start, empty is an empty GPU.

    `in_use` are some of them that must not be destroyed, each with an optional ``=NAME`` of who holds it.
    `LayoutError` when the instances cannot stand there together, or one in use is not among them.
    """
    if not text.strip():
        found: dict[tuple[str, int], Instance] = {}
    else:
        found = {(i.profile_name, i.start): i for i in _instances(board, text)}
        _apart(board, tuple(found.values()), text)
    for item in in_use:
        spelled, _, user = item.partition("=")
        for held in _instances(board, spelled):
            key = (held.profile_name, held.start)
            if key not in found:
                raise layout.LayoutError(f"{held} is in use, but not on the GPU", "name it in --from too")
            found[key] = replace(held, in_use=True, used_by=user.strip())
    return tuple(sorted(found.values(), key=lambda i: i.start))


def _instances(board: Board, text: str) -> list[Instance]:
    found = []
    for item in layout.parse(text):
        profile = board.profile(item.profile)
        if item.start is None:
            legal = ", ".join(f"{profile.name}:{s}" for s in profile.starts)
            raise layout.LayoutError(f"{item} stands nowhere: its start is missing", f"write one of {legal}")
        if item.start not in profile.starts:
            legal = ", ".join(str(s) for s in profile.starts)
            raise layout.LayoutError(f"{item} cannot stand there", f"{profile.name} starts at {legal} on {board.key}")
        found.append(Instance(profile.name, item.start))
    return found


def _apart(board: Board, instances: tuple[Instance, ...], text: str) -> None:
    taken: dict[int, Instance] = {}
    for instance, spot in zip(instances, spots(board, instances), strict=True):
        for memory_slice in range(spot.start, spot.start + spot.profile.memory_slices):
            other = taken.setdefault(memory_slice, instance)
            if other is not instance:
                said = f"{other} and {instance} overlap at memory slice {memory_slice}"
                raise layout.LayoutError(said, "give each instance a start of its own")
    if len(instances) != len(layout.parse(text)):
        raise layout.LayoutError(f"an instance is named twice in {text!r}", "name each once, with its start")
