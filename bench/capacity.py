"""Time and memory of the largest capacity question: 10,000 VMs on 1,000 hosts with 8 GPUs each.

Run it with ``python bench/capacity.py``; every question is asked in a process of its own. Exits 1 when one takes more
than 2 seconds or 200 MiB; with a spare host there is no limit, the figures are shown. A spare host for 1,000 hosts of
which no two are alike is asked twice: as it is, within 3 seconds of CPU, and with the whole estate packed anew after
each loss, of which a sample is measured; their ratio is shown.
"""

from __future__ import annotations

import multiprocessing
import random
import resource
import sys
import time

HOSTS, GPUS, VMS = 1000, 8, 10_000
MOST_SECONDS, MOST_MIB = 2.0, 200
UNLIKE_VMS, MOST_UNLIKE_SECONDS, SAMPLE = 3000, 3.0, 25


def _slots(kind: str, rng: random.Random) -> tuple:
    from vsphere_ai.gpu.catalog import board
    from vsphere_ai.gpu.slot import GpuSlot, Running

    a100, h100 = board("a100-40gb"), board("h100-80gb-pcie")
    found = []
    for host in range(HOSTS):
        for gpu in range(GPUS):
            divided = kind == "mig" or gpu % 2 == 0
            chosen = h100 if kind == "several boards" and host % 2 else a100
            stem = "nvidia_h100" if chosen is h100 else "grid_a100"
            running: tuple[Running, ...] = ()
            if kind == "partly used" and divided and rng.random() < 0.5:
                starts = rng.sample(range(7), rng.randint(1, 3))
                running = tuple(Running(f"run-{host}-{gpu}-{s}", f"{stem}-1-5c", s) for s in starts)
            mode = "mig" if divided else "time_sliced"
            found.append(GpuSlot(f"esx{host:04}", f"0000:{gpu:02x}:00.0", chosen, mode, running))
    return tuple(found)


def _demands(kind: str, rng: random.Random) -> list:
    from vsphere_ai.capacity.verdict import VmDemand

    everywhere = frozenset(f"esx{h:04}" for h in range(HOSTS))
    mig = ["grid_a100-1-5c", "grid_a100-2-10c", "grid_a100-3-20c", "grid_a100-4-20c", "grid_a100-1-10c"]
    sliced = ["grid_a100-20c", "grid_a100-10c", "grid_a100-40c"]
    names = mig if kind == "mig" else mig + sliced
    if kind == "several boards":
        names = [*names, "nvidia_h100-2-20c", "nvidia_h100-40c"]
    found = []
    for number in range(VMS):
        profiles = (rng.choice(names),)
        if kind == "several vGPUs a VM" and number % 10 == 0:
            profiles *= 2
        found.append(VmDemand(f"vm-{number:05}", profiles, everywhere))
    if kind == "too much":
        found += [VmDemand(f"more-{n:05}", ("grid_a100-4-20c",), everywhere) for n in range(VMS // 2)]
    return found


def _ask(kind: str, spare: int, answers: multiprocessing.Queue) -> None:
    from vsphere_ai.capacity.solve import solve
    from vsphere_ai.capacity.verdict import GpuHosts

    rng = random.Random(7)
    farm, demands = GpuHosts(_slots(kind, rng)), _demands(kind, rng)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.perf_counter()
    answer = solve(farm, demands, spare_hosts=spare)
    seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    answers.put((type(answer).__name__, answer.exact, seconds, peak / 1024, (peak - before) / 1024))


def _unlike(rng: random.Random) -> tuple:
    """Return 1,000 hosts whose GPUs have different instances in use, and VMs."""
    from vsphere_ai.capacity.verdict import GpuHosts, VmDemand
    from vsphere_ai.gpu.catalog import board
    from vsphere_ai.gpu.slot import GpuSlot, Running

    names = [f"esx{host:04}" for host in range(HOSTS)]
    everywhere = frozenset(names)
    slots, demands = [], []
    for host in names:
        for gpu in range(GPUS):
            starts = rng.sample(range(7), rng.randint(1, 3)) if rng.random() < 0.6 else ()
            running = tuple(Running(f"run-{host}-{gpu}-{s}", "grid_a100-1-5c", s) for s in starts)
            slots.append(GpuSlot(host, f"0000:{gpu:02x}:00.0", board("a100-40gb"), "mig", running))
            demands += [VmDemand(r.vm, (r.profile,), everywhere, host) for r in running]
    sizes = ("1-5", "2-10", "3-20", "4-20", "1-10")
    new = (f"grid_a100-{rng.choice(sizes)}c" for _ in range(UNLIKE_VMS))
    demands += [VmDemand(f"vm-{n:05}", (profile,), everywhere) for n, profile in enumerate(new)]
    return GpuHosts(tuple(slots)), demands


def _ask_unlike(answers: multiprocessing.Queue) -> None:
    """Time the question, and a sample of what it would take to pack the whole estate anew after each loss."""
    from vsphere_ai.capacity.place import place
    from vsphere_ai.capacity.restart import Restarts
    from vsphere_ai.capacity.solve import solve
    from vsphere_ai.capacity.verdict import occupied

    farm, demands = _unlike(random.Random(7))
    began = time.process_time()
    answer = solve(farm, demands, spare_hosts=1)
    seconds = time.process_time() - began
    used, every = occupied(farm, answer), sorted(farm.hosts)
    restarts = Restarts(used, demands, answer)
    began = time.process_time()
    for host in every[:: HOSTS // SAMPLE]:
        lost = frozenset({host})
        place(used.without(lost), restarts.homeless(lost))
    packed = (time.process_time() - began) / len(every[:: HOSTS // SAMPLE]) * HOSTS
    answers.put((type(answer).__name__, answer.exact, seconds, packed))


def _unlike_hosts() -> bool:
    """Print the comparison; tell whether the question takes too long."""
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    process = context.Process(target=_ask_unlike, args=(answers,))
    process.start()
    verdict, exact, seconds, packed = answers.get(timeout=600)
    process.join()
    ratio = f"packed anew {packed:5.1f} s, ratio {packed / seconds:.0f}"
    print(f"  {'unlike hosts':<20} spare=1 {verdict:<6} exact={exact!s:<6} {seconds:5.2f} s of CPU; {ratio}")
    return seconds > MOST_UNLIKE_SECONDS


def main() -> int:
    """Ask every question and print a table."""
    print(f"{VMS:,} VMs, {HOSTS:,} hosts with {GPUS} GPUs each")
    slow = False
    context = multiprocessing.get_context("spawn")
    kinds = ("mig", "both modes", "partly used", "several boards", "several vGPUs a VM", "too much")
    for kind, spare in [*((k, 0) for k in kinds), ("mig", 1), ("both modes", 1), ("several vGPUs a VM", 1)]:
        answers = context.Queue()
        process = context.Process(target=_ask, args=(kind, spare, answers))
        process.start()
        verdict, exact, seconds, peak, grown = answers.get(timeout=120)
        process.join()
        slow |= not spare and (seconds > MOST_SECONDS or peak > MOST_MIB)
        told = f"{verdict:<6} exact={exact!s:<6} {seconds:5.2f} s  peak {peak:4.0f} MiB (+{grown:.0f})"
        print(f"  {kind:<20} spare={spare} {told}")
    return int(_unlike_hosts() or slow)


if __name__ == "__main__":
    sys.exit(main())
