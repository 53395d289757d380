"""Steps that change MIG of one GPU: its mode, and its GPU instances."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vsphere_ai.gpu import commands, live, moves
from vsphere_ai.gpu.search import Transition
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import Shell, Step
from vsphere_ai.model.view import View
from vsphere_ai.resources.mig.gpu import (
    GpuMig,
    Slot,
    after_boot,
    way_to,
)


def mode_steps(view: View, slot: Slot, mode: str, now: GpuMig | None) -> Iterator[Step]:
    """Yield the steps that set the mode of a GPU; `now` is what was read of it."""
    target, pci, board = slot
    if board is None:
        return
    facts = view.facts(target.ref)
    # a pending change that is taken back needs no reboot: the GPU still is as wanted
    reboot = board.mig_needs_reboot_on_esxi and (now is None or not (now.mode or "").startswith(mode))
    if now is not None and now.mode != mode and after_boot(now.mode) == mode:
        yield Step(
            target=target,
            kinds=("mig",),
            needs_maintenance=True,
            needs_reboot=True,
            summary=f"reboot, which GPU {pci} waits for",
        )
        return
    deferred = target.ref in view.rebooting and not board.mig_mode_persists
    if mode == "disabled" and not deferred:  # a GPU with instances refuses to leave MIG mode
        now_there = live.readable(facts)
        # vSphere takes the instance of a VM away when the window powers it off
        idle = tuple(i for i in now_there.instances[pci] if not i.in_use)
        for move in moves.moves(board, Transition((), idle, ()), pci, now_there.compute):
            yield _shell(target, move, deferred=False)
    yield Shell(
        target=target,
        kinds=("mig",),
        needs_maintenance=True,
        needs_reboot=reboot,
        after_reboot=deferred,
        argv=commands.set_mig_mode(pci, mode == "enabled"),
        summary=f"MIG {mode} on GPU {pci}",
    )


def layout_steps(view: View, slot: Slot, layout: Sequence[str], before: GpuMig | None) -> Iterator[Step]:
    """Yield the steps that destroy and create GPU instances; `before` is what stands on the GPU then."""
    target, pci, board = slot
    facts, deferred = view.facts(target.ref), target.ref in view.rebooting
    way = way_to(view, slot, layout, before)
    if board is None or not isinstance(way, Transition):
        return
    for move in moves.moves(board, way, pci, live.readable(facts).compute):
        yield _shell(target, move, deferred=deferred)


def _shell(target: Target, move: moves.Move, *, deferred: bool) -> Shell:
    return Shell(target=target, kinds=("mig",), after_reboot=deferred, argv=move.argv, summary=move.summary)
