"""Nearly full estates made to be hard to judge: planted by powering VMs on, then made a little larger or not at all."""

from __future__ import annotations

import random
from collections import defaultdict

from vsphere_ai.capacity.verdict import GpuHosts, VmDemand
from vsphere_ai.gpu.catalog import board
from vsphere_ai.gpu.vgpus.slot import GpuSlot, Sharing, StayingVgpu, step

BOARDS = ("a100-40gb", "h100-80gb-pcie", "a30-24gb", "a40-48gb", "h200-141gb")
# no server holds more: NVIDIA HGX baseboards carry up to 16 GPUs, certified PCIe servers up to 10
GPUS_PER_HOST = 16


def estate(seed, *, gpus=64, hosts=None, lost=0):
    """Return an estate of at most so many GPUs and VMs that nearly fill it, `lost` hosts left empty."""
    rng = random.Random(seed)
    number = hosts or rng.randint(1, min(16, gpus))
    each = rng.randint(1, max(1, min(GPUS_PER_HOST, gpus // number)))
    farm = _farm(rng, number, each)
    names = sorted(farm.hosts)
    sets = _host_sets(rng, names)
    pools = {key: _pool(rng, key) for key in dict.fromkeys((s.board, s.mode) for s in farm.slots)}
    demands = _planted(rng, farm, sets, pools, names[lost:] or names)
    return farm, [*_perturbed(rng, demands, sets, pools), *(_old(farm) if lost else ())]


def _old(farm):
    """The VMs that run, which have to restart when their host is lost."""
    every = frozenset(farm.hosts)
    return [VmDemand(r.vm, (r.profile,), every, running_on=s.host) for s in farm.slots for r in s.running]


def _farm(rng, number, each):
    boards = rng.sample(BOARDS, rng.choice((1, 1, 2, 3)))
    mig = rng.choice((1.0, 1.0, 0.6))
    pinned = rng.choice((0.0, 0.0, 0.3))
    mixed = rng.random() < 0.5
    slots = []
    for h in range(number):
        of = board(rng.choice(boards))
        for g in range(each):
            mode = "mig" if of.mig_capable and rng.random() < mig else "time_sliced"
            slot = GpuSlot(f"esx{h:02}", f"0000:{g:02x}:00.0", of, mode, sharing=Sharing(mixed, mixed))
            if mode == "mig" and rng.random() < pinned:
                small = next(p for p in of.profiles if p.vgpu_suffix and p.memory_slices == 1)
                starts = rng.sample(small.starts, rng.randint(1, 2))
                name = f"{of.vgpu_names[0]}-{small.vgpu_suffix.lower()}"
                running = tuple(StayingVgpu(f"old-{h}-{g}-{s}", name, s) for s in starts)
                slot = GpuSlot(slot.host, slot.pci, of, mode, running, sharing=slot.sharing)
            slots.append(slot)
    return GpuHosts(tuple(slots))


def _host_sets(rng, names):
    every = frozenset(names)
    shape = rng.choice(("one", "nested", "free"))
    if shape == "one" or len(names) < 3:
        return [every]
    if shape == "nested":
        return [every, frozenset(names[: len(names) // 2 + 1])]
    return [every, *(frozenset(rng.sample(names, rng.randint(2, len(names)))) for _ in range(2))]


def _pool(rng, key):
    of, mode = key
    stem = of.vgpu_names[0]
    sizes = [p.vgpu_suffix.lower() for p in of.profiles if p.vgpu_suffix]
    if mode != "mig":
        sizes = [f"{t.fb_gb}c" for t in of.time_sliced]
    return [f"{stem}-{s}" for s in rng.sample(sizes, min(len(sizes), rng.randint(2, 6)))]


def _planted(rng, farm, sets, pools, names):
    """Give VMs to GPUs as these take them until they are full; what a host gives becomes VMs with one or more vGPUs."""
    demands = []
    several = rng.choice((0.0, 0.0, 0.1, 0.4))
    for host in names:
        given = defaultdict(list)
        for slot in farm.hosts[host]:
            state, pool = slot.state, list(pools[slot.board, slot.mode])
            while pool:
                name = rng.choice(pool)
                got = step(slot.kind, state, name)
                if got is None:
                    pool.remove(name)
                else:
                    state = got[0]
                    given[slot.board].append(name)
        for names_ in given.values():
            while names_:
                take = rng.randint(2, 4) if rng.random() < several else 1
                rng.shuffle(names_)
                vm, names_[:take] = tuple(names_[:take]), []
                allowed = [s for s in sets if host in s]
                demands.append((vm, rng.choice(allowed or sets)))
    return demands


def _perturbed(rng, demands, sets, pools):
    """Swap and drop a few VMs: one larger, one more, one less."""
    rng.shuffle(demands)
    every = [n for pool in pools.values() for n in pool]
    for _ in range(rng.randint(0, 3)):
        how = rng.choice(("swap", "more", "less"))
        if how != "more" and demands:
            demands.pop()
        if how != "less":
            demands.append(((rng.choice(every),), rng.choice(sets)))
    return [VmDemand(f"vm{n:03}", profiles, hosts) for n, (profiles, hosts) in enumerate(demands)]


def small(seed):
    """Return three hosts with one or two A100s in MIG mode, some in use, and up to six VMs."""
    rng = random.Random(seed)
    hosts = ["esx0", "esx1", "esx2"]
    number = [rng.choice((1, 1, 2)) for _ in hosts]
    sizes = ("1-5", "2-10", "3-20", "4-20", "7-40", "1-10")
    slots, old = [], []
    for at, host in enumerate(hosts):
        for gpu in range(number[at]):
            running = ()
            if rng.random() < 0.5:
                size = rng.choice(sizes[:3])
                running = (StayingVgpu(f"old{at}{gpu}", f"grid_a100-{size}c", 6 if size == "1-5" else 4),)
                old.append(VmDemand(f"old{at}{gpu}", (running[0].profile,), frozenset(hosts), running_on=host))
            slots.append(GpuSlot(host, f"0000:{0x3B + gpu:02x}:00.0", board("a100-40gb"), "mig", running))
    new = []
    for count in range(rng.randint(2, 6)):
        profiles = tuple(f"grid_a100-{rng.choice(sizes)}c" for _ in range(rng.choice((1, 1, 2))))
        new.append(VmDemand(f"vm{count}", profiles, rng.choice((frozenset(hosts),) * 2 + (_two(rng, hosts),))))
    return GpuHosts(tuple(slots)), [*old, *new]


def _two(rng, hosts):
    return frozenset(rng.sample(hosts, 2))
