"""Placement one VM after another: hosts that are kept in groups give the places that hosts by name give."""

from __future__ import annotations

import random

import pytest

from vsphere_ai.capacity.first_fit import AlikeHosts, FirstFit
from vsphere_ai.capacity.host import HostGpus
from vsphere_ai.capacity.verdict import VmDemand
from vsphere_ai.gpu.catalog import board
from vsphere_ai.gpu.vgpus.slot import GpuSlot, StayingVgpu

A100 = board("a100-40gb")
TIME_SLICED = ("grid_a100-4c", "grid_a100-10c", "grid_a100-20c", "grid_a100-40c")
MIG = ("grid_a100-1-5c", "grid_a100-2-10c", "grid_a100-3-20c")


def farm(chance, mode, names):
    """Some hosts by name with the group of each, and the GPUs of all."""
    hosts, groups = {}, {}
    for number in range(chance.randint(1, 9)):
        name = f"esx{number}"
        hosts[name], groups[name] = machine(chance, name, mode, names), chance.choice("abc")
    return hosts, groups


def machine(chance, name, mode, names):
    running = lambda gpu: (StayingVgpu(f"{name}-{gpu}", chance.choice(names)),) if chance.random() < 0.4 else ()  # noqa: E731
    slots = [GpuSlot(name, f"0000:{gpu}0:00.0", A100, mode, running(gpu)) for gpu in range(chance.randint(1, 3))]
    return HostGpus(slots, chance.choice(("performance", "consolidation")))


@pytest.mark.parametrize("mode", ["time_sliced", "mig"])
@pytest.mark.parametrize("seed", range(60))
def test_hosts_in_groups_give_the_places_that_hosts_by_name_give(seed, mode):
    chance, names = random.Random(seed), TIME_SLICED if mode == "time_sliced" else MIG
    hosts, groups = farm(chance, mode, names)
    alike = AlikeHosts()
    for name, host in hosts.items():
        alike.put(name, groups[name], host)
    for _ in range(4):  # hosts change, are taken out, and come back, in other groups too
        wanted = [(tuple(chance.choices(names, k=chance.randint(0, 2))), chance.choice("abc")) for _ in range(5)]
        near = [frozenset({group, chance.choice("abc")}) for _, group in wanted]
        vms = list(zip((f"vm{n}" for n in range(len(wanted))), (p for p, _ in wanted), near, strict=True))
        by_group = [VmDemand(vm, profiles, own) for vm, profiles, own in vms]
        reach = {own: frozenset(n for n, g in groups.items() if g in own) for own in near}
        by_name = [VmDemand(vm, profiles, reach[own]) for vm, profiles, own in vms]
        some = chance.sample(by_group, 2)
        for chosen in (by_group, some, some[:1]):
            refs = {d.name for d in chosen}
            assert alike.place(chosen) == FirstFit({n: hosts[n] for n in groups}).place(
                d for d in by_name if d.name in refs
            )
        assert dict(alike.groups()).keys() == set(groups.values())
        name = chance.choice(sorted(hosts))
        hosts[name] = machine(chance, name, mode, names)
        if chance.random() < 0.5:
            groups.pop(name, None)
            alike.put(name)
        else:
            groups[name] = chance.choice("abc")
            alike.put(name, groups[name], hosts[name])
