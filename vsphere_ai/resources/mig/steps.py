"""Steps that change MIG of one GPU: its mode, and its GPU instances."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from vsphere_ai.gpu import commands
from vsphere_ai.gpu.mig import moves
from vsphere_ai.gpu.mig.search import Transition
from vsphere_ai.gpu.smi import live
from vsphere_ai.model.state import Change
from vsphere_ai.model.steps import Step
from vsphere_ai.model.view import View
from vsphere_ai.resources._helpers.factories import restart, shell
from vsphere_ai.resources.mig.gpu import GpuMig, Slot, after_boot, boards_of, way_to

Gpus = Mapping[str, GpuMig]


def gpu_steps(change: Change, view: View, wanted: Gpus, read: Gpus, left: Gpus) -> Iterator[Step]:
    """Yield per GPU the mode, then what is destroyed, then what is made; `left` is what stands on the GPUs then."""
    boards, before = boards_of(view.facts(change.target.ref)), (change.before.gpus if change.before else None) or {}
    for pci, gpu in wanted.items():
        slot, have = Slot(change.target, pci, boards.get(pci)), before.get(pci)
        if gpu.mode and (have is None or have.mode != gpu.mode):
            yield from mode_steps(change, view, slot, gpu.mode, read.get(pci))
        if gpu.layout is not None and gpu.mode != "disabled":
            yield from layout_steps(change, view, slot, gpu.layout, left.get(pci))


def mode_steps(change: Change, view: View, slot: Slot, mode: str, now: GpuMig | None) -> Iterator[Step]:
    """Yield the steps that set the mode of a GPU; `now` is what was read of it."""
    target, pci, board = slot
    if board is None:
        return
    facts = view.facts(target.ref)
    # a pending change that is taken back needs no reboot: the GPU still is in the desired state
    reboot = board.mig_needs_reboot_on_esxi and (now is None or not (now.mode or "").startswith(mode))
    if now is not None and now.mode != mode and after_boot(now.mode) == mode:
        yield restart(change, f"reboot, which GPU {pci} waits for")
        return
    deferred = target.ref in view.rebooting and not board.mig_mode_persists
    if mode == "disabled" and not deferred:  # a GPU with instances refuses to leave MIG mode
        now_there = live.readable(facts)
        # vSphere takes the instance of a VM away when the window powers it off
        idle = tuple(i for i in now_there.instances[pci] if not i.in_use)
        for move in moves.moves(board, Transition((), idle, ()), pci, now_there.compute):
            yield shell(change, move.argv, move.summary)
    step = shell(change, commands.set_mig_mode(pci, mode == "enabled"), f"MIG {mode} on GPU {pci}")
    yield replace(step, needs_maintenance=True, needs_reboot=reboot, after_reboot=deferred)


def layout_steps(
    change: Change, view: View, slot: Slot, layout: Sequence[str], before: GpuMig | None
) -> Iterator[Step]:
    """Yield the steps that destroy and create GPU instances; `before` is what stands on the GPU then."""
    target, pci, board = slot
    facts, deferred = view.facts(target.ref), target.ref in view.rebooting
    way = way_to(view, slot, layout, before)
    if board is None or not isinstance(way, Transition):
        return
    for move in moves.moves(board, way, pci, live.readable(facts).compute):
        yield shell(change, move.argv, move.summary, after_reboot=deferred)
