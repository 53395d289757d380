"""Crossover of two VMs: a slow VM and a healthy one change hosts, to see whether the VM or its host is slow.

Two pairs are measured before and after: four trials in two rounds. The moves back are part of the plan, to be carried
out also where anything fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from vsphere_ai.benchmarks.layers import RUNS
from vsphere_ai.benchmarks.trials import Judge, Results, Trial
from vsphere_ai.model.nodes import Node

Answer = Literal["vm", "host", "both", "neither", "not-reproduced", "not-measured"]
ANSWERS: dict[Answer, str] = {
    "vm": "the slowdown follows the VM: its image, driver, NUMA nodes, UVM setting or RDMA settings",
    "host": "the slowdown stays with the host: its GPUs, adapters, links or settings",
    "both": "the VM is slow on the other host, and the other VM is slow on this host",
    "neither": "after the swap both are fast: the VM and its host are slow only together, or it was transient",
    "not-reproduced": "before the swap the VM was not slow: nothing was moved",
    "not-measured": "a measurement is missing: nothing can be said",
}


@dataclass(frozen=True)
class Move:
    """A VM that goes to another host: with vMotion, or powered off (`cold`) as passthrough devices need."""

    vm: str
    host: str
    cold: bool


@dataclass(frozen=True)
class Crossover:
    """A swap of two VMs with the trials before and after it; `trials` are the suspect's and the healthy VM's."""

    suspect: Node
    healthy: Node
    trials: tuple[Trial, Trial]
    judge: Judge

    @property
    def moves(self) -> tuple[Move, Move]:
        """The swap."""
        return self._moves(self.healthy.host, self.suspect.host)

    @property
    def moves_back(self) -> tuple[Move, Move]:
        """The swap undone."""
        return self._moves(self.suspect.host, self.healthy.host)

    def _moves(self, suspect_to: str, healthy_to: str) -> tuple[Move, Move]:
        pairs = (self.suspect, suspect_to), (self.healthy, healthy_to)
        one, other = (Move(node.vm, host, any(not gpu.profile for gpu in node.gpus)) for node, host in pairs)
        return one, other

    def is_reproduced(self, before: Results) -> bool:
        """Return whether the suspect is slow beside the healthy VM, so that a swap can say something."""
        own, other = (before.get(trial) for trial in self.trials)
        return own is not None and other is not None and self.judge.is_slow(own, other)

    def answer(self, before: Results, after: Results | None) -> Answer:
        """Return what the trials say; `after` is None where nothing was moved."""
        norm = before.get(self.trials[1])
        if norm is None or before.get(self.trials[0]) is None:
            return "not-measured"
        if not self.is_reproduced(before):
            return "not-reproduced"
        own, other = (after.get(trial) if after else None for trial in self.trials)
        if own is None or other is None:
            return "not-measured"
        slow = self.judge.is_slow(own, norm), self.judge.is_slow(other, norm)
        answers: dict[tuple[bool, bool], Answer] = {(True, False): "vm", (False, True): "host", (True, True): "both"}
        return answers.get(slow, "neither")


def crossover(suspect: Node, healthy: Node, partners: Sequence[str], judge: Judge) -> Crossover:
    """Return the swap of a suspect with a healthy VM; each is measured with its own partner, which stays.

    ValueError: the two are on one host, or a partner is one of them.
    """
    if suspect.host == healthy.host:
        raise ValueError("the two VMs are on one host")
    if len({suspect.vm, healthy.vm, *partners[:2]}) != 4:
        raise ValueError("two partners are needed, other VMs than the two")
    runs = RUNS * judge.runs
    pairs = (suspect.vm, partners[0]), (healthy.vm, partners[1])
    one, other = (Trial(pair, runs=runs, why="crossover") for pair in pairs)
    return Crossover(suspect, healthy, (one, other), judge)
