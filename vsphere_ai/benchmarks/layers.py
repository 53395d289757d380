"""Layers of a slow VM: what is inside of it (GPUs, NVLink, PCIe), each of its rails, or the VM and its host as a whole.

The same trials are run on healthy VMs at the same time, so that no bandwidth of a layer has to be known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from vsphere_ai.benchmarks.trials import Judge, Search, Trial
from vsphere_ai.model.nodes import Node

RUNS = 3
"""Times as many runs for a trial of a layer, which is compared with one other trial only."""

Layer = Literal["gpu", "inside", "rail", "vm"]


@dataclass(frozen=True)
class SlowLayer:
    """The slow part of a VM. `gpus` are CUDA indexes (two where they cannot be kept apart), `rail` a rail's number.

    `inside`: the VM alone is slow, and no single GPU is why. `vm`: neither the inside nor a single rail is slow.
    """

    vm: str
    layer: Layer
    gpus: tuple[int, ...] = ()
    rail: int | None = None


def examine(node: Node, pair: Sequence[str], spare: Sequence[str], judge: Judge) -> Search[SlowLayer]:
    """Find the slow layer of a VM; `pair` is it and a healthy VM, `spare` two other healthy ones, or none."""
    judge = replace(judge, runs=RUNS * judge.runs)
    if len(node.gpus) > 1:
        alone, other = (Trial((vm,), runs=judge.runs, why="inside") for vm in pair)
        results = yield alone, other
        if judge.is_slow(results.get(alone), results.get(other)):
            gpus = yield from _slow_gpus(node, judge)
            return SlowLayer(node.vm, "gpu" if gpus else "inside", gpus)
    rails = sorted({rail.number for rail in node.rails if rail.number is not None})
    if len(rails) > 1:
        slow = yield from _slow_rail(rails, pair, spare, judge)
        if slow is not None:
            return SlowLayer(node.vm, "rail", rail=slow)
    return SlowLayer(node.vm, "vm")


def _slow_gpus(node: Node, judge: Judge) -> Search[tuple[int, ...]]:
    """Halve the GPUs of a VM; both halves are measured at once and compared. Empty where neither is slower."""
    suspects, good = [gpu.index for gpu in node.gpus], list[int]()
    while len(suspects) > 1:
        half = (len(suspects) + 1) // 2
        parts = (suspects[:half], suspects[half:])
        padded = [(*part, *(good[at : at + 1] if len(part) == 1 else ())) for at, part in enumerate(parts)]
        if any(len(part) < 2 for part in padded):
            return tuple(suspects)
        one, other = (Trial((node.vm,), gpus=tuple(part), runs=judge.runs, why="gpus") for part in padded)
        results = yield one, other
        if judge.is_slow(results.get(one), results.get(other)):
            suspects, good = parts[0], [*good, *parts[1]]
        elif judge.is_slow(results.get(other), results.get(one)):
            suspects, good = parts[1], [*good, *parts[0]]
        else:
            return ()
    return tuple(suspects)


def _slow_rail(rails: Sequence[int], pair: Sequence[str], spare: Sequence[str], judge: Judge) -> Search[int | None]:
    """Halve the rails of a pair; None where both halves are slow, or none is."""
    every, half = len(rails), (len(rails) + 1) // 2
    slow: list[bool] = []
    for part in (rails[:half], rails[half:]):
        slow.append((yield from _is_slow_on(part, every, pair, spare, judge)))
    if slow[0] == slow[1]:
        return None
    suspects = list(rails[:half] if slow[0] else rails[half:])
    while len(suspects) > 1:
        part = suspects[: (len(suspects) + 1) // 2]
        is_slow = yield from _is_slow_on(part, every, pair, spare, judge)
        suspects = part if is_slow else suspects[len(part) :]
    return suspects[0]


def _is_slow_on(
    part: Sequence[int], every: int, pair: Sequence[str], spare: Sequence[str], judge: Judge
) -> Search[bool]:
    """Return whether a pair is slow on some rails: against a healthy pair, else by its share of the rails."""
    own = Trial(tuple(pair), rails=tuple(part), runs=judge.runs, why="rails")
    other = Trial(tuple(spare), rails=tuple(part), runs=judge.runs, why="rails") if len(spare) > 1 else None
    results = yield (own, other) if other else (own,)
    against = results.get(other) if other else None
    share = judge.reference * len(part) / every if judge.reference else None
    return judge.is_slow(results.get(own), against if against is not None else share)
