"""Crossover: a slow VM goes to another host, or changes hosts with a healthy VM, to see which of the two is slow.

Two pairs are measured before, and one (a move) or two (a swap) after: at most four trials. The moves back are part of
the plan, to be carried out also where anything fails.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from vsphere_ai.benchmarks.slow_part.layers import RUNS
from vsphere_ai.benchmarks.slow_part.trials import Judge, Results, Trial
from vsphere_ai.model.finding import Finding, Subject, Verdict
from vsphere_ai.model.nodes import Node

Answer = Literal["vm", "host", "both", "neither", "not-reproduced", "not-measured"]
ANSWERS: dict[Answer, str] = {
    "vm": "the slowdown follows the VM: its image, driver, NUMA nodes, UVM setting or RDMA settings",
    "host": "the slowdown stays with the host: its GPUs, adapters, links or settings",
    "both": "the VM is slow on the other host, and the other VM is slow on this host",
    "neither": "after the swap both are fast: the VM and its host are slow only together, or it was transient",
    "not-reproduced": "the VM is not slow: nothing was moved",
    "not-measured": "a measurement is missing: nothing can be said",
}


VERDICTS: Mapping[Answer, Verdict] = {
    "vm": "fail",
    "host": "fail",
    "both": "fail",
    "neither": "unknown",
    "not-reproduced": "pass",
    "not-measured": "unknown",
}
"""Of answers: where the slow part is not known, it may be any."""
REMEDIES: Mapping[Answer, str] = {
    "vm": "compare its image, driver, NUMA nodes and RDMA settings with those of a fast VM: vsphere-ai health",
    "host": "look at these parts of the host: vsphere-ai health; replace what is worn before VMs run there again",
    "both": "look at the VM and at its host: vsphere-ai health",
    "neither": "measure again; if it is slow again, look at the connection of the VM, its host and the partner's host",
    "not-reproduced": "measure with another partner, or look for the slow part with vsphere-ai bench nccl --bisect",
    "not-measured": "look at what failed, then try again",
}


@dataclass(frozen=True)
class CrossoverMove:
    """A VM that goes to another host: with vMotion, or powered off (`cold`) as passthrough devices need."""

    vm: str
    host: str
    cold: bool


@dataclass(frozen=True)
class Crossover:
    """A swap of two VMs, or the move of one to host `to` (`healthy` None), and the trials before and after it.

    `trials` are the suspect's, and the healthy VM's or, for a move, that of a pair that stays.
    """

    suspect: Node
    healthy: Node | None
    trials: tuple[Trial, Trial]
    judge: Judge
    to: str = ""

    @property
    def after(self) -> tuple[Trial, ...]:
        """The trials that are repeated with the VMs moved."""
        return self.trials if self.healthy else self.trials[:1]

    @property
    def moves(self) -> tuple[CrossoverMove, ...]:
        """The swap, or the move."""
        pairs = (self.suspect, self.healthy.host if self.healthy else self.to), (self.healthy, self.suspect.host)
        return tuple(
            CrossoverMove(n.vm, host, any(not gpu.profile for gpu in n.gpus)) for n, host in pairs if n is not None
        )

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
        if own is None or (other is None and self.healthy):
            return "not-measured"
        if not self.healthy:
            return "vm" if self.judge.is_slow(own, norm) else "host"
        slow = self.judge.is_slow(own, norm), self.judge.is_slow(other, norm)
        answers: dict[tuple[bool, bool], Answer] = {(True, False): "vm", (False, True): "host", (True, True): "both"}
        return answers.get(slow, "neither")

    def finding(self, answer: Answer) -> Finding[Subject]:
        """Return an answer as a finding about the VM or its host; what the VM uses there is evidence against a host."""
        own, where = self.suspect, self.healthy.host if self.healthy else self.to
        sentences: Mapping[Answer, str] = {
            "vm": f"the slowdown follows {own.vm}: it is slow on {own.host} and on {where}",
            "host": f"the slowdown stays with {own.host}: {own.vm} is fast on {where}",
            "both": f"{own.vm} is slow on {where} as well, and {own.host} is slow for another VM",
            "neither": f"{own.vm} is fast on {where}, and {own.host} is fast for another VM",
            "not-reproduced": f"{own.vm} is not slow on {own.host}; nothing was moved",
        }
        on = Subject("host", own.host) if answer == "host" else Subject("vm", own.vm, own.ref, own.host)
        message = sentences.get(answer, ANSWERS[answer])
        evidence = _parts(own) if answer in ("host", "both") else ()
        return Finding(on, "bench.crossover", VERDICTS[answer], message, REMEDIES[answer], evidence)


def _parts(node: Node) -> tuple[tuple[str, str], ...]:
    """Return the parts of the host behind a VM, any of which may be why the host is slow."""
    gpus = ", ".join(gpu.host_pci or f"GPU {gpu.index}" for gpu in node.gpus)
    rails = [r for r in node.rails if r.vmnic]
    uplinks = ", ".join(r.vmnic + (f" at {r.switch_port}" if r.switch_port else "") for r in rails)
    names = {f"GPUs of {node.vm}": gpus, f"uplinks of {node.vm}": uplinks}
    return tuple((name, value or "not known") for name, value in names.items())


def crossover(suspect: Node, healthy: Node, partners: Sequence[str], judge: Judge) -> Crossover:
    """Return the swap of a suspect with a healthy VM; each is measured with its own partner, which stays.

    With one partner only, the two are measured with it one after the other. ValueError: the two are on one host, there
    is no partner, or a partner is one of them.
    """
    if suspect.host == healthy.host:
        raise ValueError("the two VMs are on one host")
    if not partners or {suspect.vm, healthy.vm} & {*partners}:
        raise ValueError("partners are needed, other VMs than the two")
    one, other = _trial(partners[0], suspect.vm, judge), _trial(partners[-1], healthy.vm, judge)
    return Crossover(suspect, healthy, (one, other), judge)


def moved(suspect: Node, to: str, pair: tuple[str, str], judge: Judge) -> Crossover:
    """Return the move of a suspect to host `to`. It is measured with the first VM of a pair that stays.

    ValueError: the suspect is on that host, or in the pair.
    """
    if suspect.host == to:
        raise ValueError("the VM is on that host")
    if suspect.vm in pair or len({*pair}) != 2:
        raise ValueError("two other VMs are needed")
    return Crossover(suspect, None, (_trial(pair[0], suspect.vm, judge), _trial(*pair, judge)), judge, to)


def _trial(head: str, other: str, judge: Judge) -> Trial:
    """Return a trial that is started from the guest of a VM that is not moved."""
    return Trial((head, other), runs=RUNS * judge.runs, why="crossover")
