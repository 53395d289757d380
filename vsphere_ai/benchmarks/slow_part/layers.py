"""Layers of a slow VM: what is inside of it (GPUs, NVLink, PCIe), each of its rails, or the VM and its host as a whole.

The same trials are run on healthy VMs at the same time, so that no bandwidth of a layer has to be known. Variables of
NCCL leave data only some ways, so that a slow way shows. Sources: NIC only as in microsoft/superbenchmark
(superbench/config/azure_ndv5.yaml), NVLink only as in aws-samples/awsome-distributed-training (Check 5).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from vsphere_ai.benchmarks.slow_part.trials import Judge, Search, Trial
from vsphere_ai.model.nodes import Node

RUNS = 3
"""Times as many runs for a trial of a layer, which is compared with one other trial only."""

Layer = Literal["gpu", "inside", "rail", "vm", "nvlink", "host", "nic"]
_NO_P2P, _NO_SHM = ("NCCL_P2P_DISABLE", "1"), ("NCCL_SHM_DISABLE", "1")
NVLINK, NO_NVLINK, NIC, SOCKET = "NVLink only", "no NVLink", "NIC only", "sockets only"
LAYERS: Mapping[str, Mapping[str, str]] = {
    NVLINK: {"NCCL_P2P_LEVEL": "NVL", "NCCL_NET": "Socket"},
    NO_NVLINK: dict((_NO_P2P,)),
    NIC: dict((_NO_P2P, _NO_SHM)),
    SOCKET: dict((_NO_P2P, _NO_SHM, ("NCCL_NET", "Socket"), ("NCCL_IB_DISABLE", "1"))),
}
"""Ways that data may take -> the variables of NCCL that close the others."""
EVERYTHING = "everything"


@dataclass(frozen=True)
class SlowLayer:
    """The slow part of a VM. `gpus` are CUDA indexes (two where they cannot be kept apart), `rail` a rail's number.

    `inside`: the VM alone is slow, and no single GPU is why. `vm`: neither the inside nor a single rail is slow. By
    runs that leave data only some ways: `nvlink`, `nic`, and `host`, which is what is between them: PCIe and memory.
    `ways` are those runs: the way, what the VM reached, and what a healthy one did, in GB/s.
    """

    vm: str
    layer: Layer
    gpus: tuple[int, ...] = ()
    rail: int | None = None
    ways: tuple[tuple[str, float | None, float | None], ...] = ()


def separate(slow: SlowLayer, node: Node, others: Sequence[str], judge: Judge) -> Search[SlowLayer]:
    """Find the way that is slow where no single GPU or rail is; `others` are three healthy VMs, or one for the inside.

    What is asked of the slow VM is asked of healthy ones at the same time.
    """
    ways = (NVLINK, NO_NVLINK) if slow.layer == "inside" else (NIC, SOCKET)
    count = 1 if slow.layer == "inside" else 2
    own, other = (node.vm, *others[: count - 1]), tuple(others[count - 1 : 2 * count - 1])
    if slow.layer not in ("vm", "inside") or len(other) != len(own):
        return slow
    found = []
    for way in ways:
        trials = [Trial(vms, runs=RUNS * judge.runs, why=way, layer=way) for vms in (own, other)]
        results = yield tuple(trials)
        found.append((way, results.get(trials[0]), results.get(trials[1])))
    first, second = (judge.is_slow(value, healthy) for _, value, healthy in found)
    layer: Layer = slow.layer
    if second:  # over sockets, or without NVLink: what both ways have in common, or what only this one takes
        layer = "host" if slow.layer == "vm" or not first else slow.layer
    elif first:
        layer = "nic" if slow.layer == "vm" else "nvlink"
    return replace(slow, layer=layer, ways=tuple(found))


def measure_layers(vms: Sequence[str], alone: Sequence[str], judge: Judge) -> Search[dict[Trial, float | None]]:
    """Measure pairs of VMs on every way, and on NVLink those that have several GPUs (`alone`); return the results."""
    names = list(vms)
    pairs = [(names[at], names[at + 1]) for at in range(0, len(names) - 1, 2)]
    # of an odd number the last is with the first
    rounds = [pairs, [(names[-1], names[0])]] if len(names) % 2 and len(names) > 1 else [pairs]
    found: dict[Trial, float | None] = {}
    for way in ("", NO_NVLINK, NIC, SOCKET):
        for each in rounds:
            trials = tuple(Trial(pair, runs=judge.runs, why=way or EVERYTHING, layer=way) for pair in each)
            if trials:
                results = yield trials
                found.update((trial, results.get(trial)) for trial in trials)
    trials = tuple(Trial((vm,), runs=judge.runs, why=NVLINK, layer=NVLINK) for vm in alone)
    if trials:
        results = yield trials
        found.update((trial, results.get(trial)) for trial in trials)
    return found


def slow_ways(found: Mapping[Trial, float | None], judge: Judge) -> dict[Trial, float]:
    """Return the trials that are slower than others of the same way, with their share of what those reach.

    Of a trial without a result nothing is known: it is in `found`, and not here.
    """
    slow = {}
    for way in dict.fromkeys(trial.layer for trial in found):
        own = {trial: value for trial, value in found.items() if trial.layer == way}
        limit = replace(judge, reference=None)
        limit.learn(own.values())
        for trial, value in own.items():
            if len(own) > 1 and value is not None and limit.is_slow(value) and limit.reference:
                slow[trial] = value / limit.reference
    return slow


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
