"""Wanted MIG of a host, spelled out per GPU with the start of every instance."""

from __future__ import annotations

from collections.abc import Mapping

from vsphere_ai.gpu.mig import layout as layouts
from vsphere_ai.gpu.mig.search import Transition
from vsphere_ai.model.state import Target
from vsphere_ai.model.view import View
from vsphere_ai.resources.mig.gpu import GpuMig, Slot, boards_of, way_to

Gpus = Mapping[str, GpuMig]


def settled_gpus(
    target: Target, view: View, named: Gpus, every: GpuMig, now: Gpus
) -> tuple[dict[str, GpuMig], dict[str, tuple[str, ...]]]:
    """Return the GPUs of a host with mode and placed layout, and the profiles that are written by id; both by address.

    `named` are the GPUs that a playbook names, `every` is what it states of all that have MIG.
    """
    boards = boards_of(view.facts(target.ref))
    own = dict(named)
    if every.mode or every.layout is not None:
        own = {**{pci: every for pci, board in boards.items() if board and board.mig_capable}, **own}
    written = {pci: gpu.beside(every) for pci, gpu in sorted(own.items())}
    gpus = {}
    for pci, gpu in written.items():
        layout = _placed(view, Slot(target, pci, boards.get(pci)), gpu.layout, now.get(pci))
        gpus[pci] = GpuMig.model_construct(mode=gpu.mode, layout=layout)
    return gpus, {pci: _ids(gpu.layout or ()) for pci, gpu in written.items()}


def _ids(layout: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(i.profile for i in layouts.parse(layout) if i.profile.isdecimal()) if layout else ()


def _placed(view: View, slot: Slot, layout: tuple[str, ...] | None, have: GpuMig | None) -> tuple[str, ...] | None:
    """Return the layout with the start of every instance; as it was written when it cannot be placed."""
    way = way_to(view, slot, layout, have) if layout is not None else None
    if not isinstance(way, Transition):
        return layout
    made = sorted((*way.keep, *way.create), key=lambda i: i.start)
    return tuple(f"{i.profile_name}:{i.start}" for i in made)
