"""Farms with planted slow parts, and how fast a trial of a search runs on them."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from functools import cache
from statistics import median

from vsphere_ai.benchmarks.slow_part.trials import can_share
from vsphere_ai.model.nodes import Node, NodeGpu, Rail


@cache
def farm(count, *, per_host=1, per_switch=None, rails=8, gpus=8):
    """Nodes `vm-000`…; VMs of a host share its uplinks, hosts of a switch its switch."""
    per_switch = per_switch or max(4, count // 4)
    made = []
    for at in range(count):
        host, switch = at // per_host, at // per_switch
        made.append(
            Node(
                f"vm-{at:03d}",
                f"10.0.{at // 250}.{at % 250 + 1}",
                host=f"esx{host:03d}.lab.local",
                gpus=tuple(NodeGpu(i, host_pci=f"0000:{0x10 + i:02x}:00.0", uuid=f"GPU-{at}-{i}") for i in range(gpus)),
                rails=tuple(
                    Rail(
                        f"ens{224 + r}",
                        number=r,
                        rdma_device=f"mlx5_{r}",
                        vmnic=f"vmnic{4 + r}",
                        switch_port=f"leaf{switch:02d} Eth{at % per_switch}/{r}",
                    )
                    for r in range(rails)
                ),
            )
        )
    return made


@dataclass
class Planted:
    """What is slow: VMs as a whole, (VM, rail), (VM, GPU), links of two switches, rails of every VM."""

    vms: tuple[str, ...] = ()
    rails: tuple[tuple[str, int], ...] = ()
    gpus: tuple[tuple[str, int], ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    fabric_rails: tuple[int, ...] = ()
    slowdown: float = 0.25


@dataclass
class Fleet:
    """Answers trials: the bandwidth of a healthy set, less what is planted, with noise."""

    nodes: list[Node]
    planted: Planted
    seed: int = 0
    noise: float = 0.03
    healthy: float = 190.0
    rounds: list = field(default_factory=list)

    def __post_init__(self):
        self.rng = random.Random(self.seed)
        self.of = {n.vm: n for n in self.nodes}
        self.switches = {n.vm: {r.switch_port.partition(" ")[0] for r in n.rails} for n in self.nodes}

    def is_slow(self, trial):
        vms, plant = set(trial.vms), self.planted
        gpus = lambda vm: trial.gpus or tuple(g.index for g in self.of[vm].gpus)  # noqa: E731
        if any(gpu in gpus(vm) for vm, gpu in plant.gpus if vm in vms):
            return True
        if len(vms) == 1:
            return False  # the network is not measured
        rails = lambda vm: trial.rails or tuple(r.number for r in self.of[vm].rails)  # noqa: E731
        if any(set(plant.fabric_rails) & set(rails(vm)) for vm in vms):
            return True
        if any(rail in rails(vm) for vm, rail in plant.rails if vm in vms):
            return True
        return bool(vms & set(plant.vms)) or any(self.spans(vms, *link) for link in plant.links)

    def spans(self, vms, one, other):
        return {one, other} <= set().union(*(self.switches[vm] for vm in vms))

    def bandwidth(self, trial):
        one = self.of[trial.vms[0]]
        share = len(trial.rails or one.rails) / max(1, len(one.rails))
        base = 2.4 * self.healthy if len(trial.vms) == 1 else self.healthy * share
        level = base * (1 - self.planted.slowdown * self.is_slow(trial))
        return median(self.rng.gauss(level, self.noise * level) for _ in range(trial.runs))

    def run(self, search):
        """Carry out a search; every round is one that VMs can run at the same time."""
        try:
            trials = next(search)
            while True:
                assert trials
                assert can_share(trials), trials
                assert all(len(set(t.vms)) == len(t.vms) for t in trials)
                self.rounds.append(trials)
                trials = search.send({t: self.bandwidth(t) for t in trials})
        except StopIteration as done:
            return done.value

    @property
    def trials(self):
        return sum(map(len, self.rounds))
