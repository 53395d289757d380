"""Questions of capacity: so many VMs on so many hosts with 8 GPUs each, without a vCenter.

Every question is asked in a process of its own. A spare host for hosts of which no two are alike is asked twice: as it
is, and with the whole environment packed anew after each loss, of which a sample is measured.
"""

from __future__ import annotations

import json
import random
import sys
import time
from dataclasses import replace
from functools import partial

from common import Case, Row, Size, inside
from run import alone

GROWS = True
GPUS = 8
OURS, ANEW = "vsphere-ai", "the whole environment packed anew after each loss"
SAMPLE = 25
"""After the loss of so many of the unlike hosts, the whole estate is packed anew; the time of all is derived."""
ASKED = (
    ("mig", 0),
    ("both modes", 0),
    ("partly used", 0),
    ("several boards", 0),
    ("several vGPUs a VM", 0),
    ("too much", 0),
    ("mig", 1),
    ("both modes", 1),
    ("several vGPUs a VM", 1),
)
"""Which GPUs and VMs there are, and how many hosts are spare."""


def _slots(kind: str, hosts: int, rng: random.Random) -> tuple:
    from vsphere_ai.gpu.catalog import board
    from vsphere_ai.gpu.vgpus.slot import GpuSlot, StayingVgpu

    a100, h100 = board("a100-40gb"), board("h100-80gb-pcie")
    found = []
    for host in range(hosts):
        for gpu in range(GPUS):
            divided = kind == "mig" or gpu % 2 == 0
            chosen = h100 if kind == "several boards" and host % 2 else a100
            stem = "nvidia_h100" if chosen is h100 else "grid_a100"
            running: tuple[StayingVgpu, ...] = ()
            if kind == "partly used" and divided and rng.random() < 0.5:
                starts = rng.sample(range(7), rng.randint(1, 3))
                running = tuple(StayingVgpu(f"run-{host}-{gpu}-{s}", f"{stem}-1-5c", s) for s in starts)
            mode = "mig" if divided else "time_sliced"
            found.append(GpuSlot(f"esx{host:04}", f"0000:{gpu:02x}:00.0", chosen, mode, running))
    return tuple(found)


def _demands(kind: str, size: Size, rng: random.Random) -> list:
    from vsphere_ai.capacity.verdict import VmDemand

    everywhere = frozenset(f"esx{h:04}" for h in range(size.hosts))
    mig = ["grid_a100-1-5c", "grid_a100-2-10c", "grid_a100-3-20c", "grid_a100-4-20c", "grid_a100-1-10c"]
    sliced = ["grid_a100-20c", "grid_a100-10c", "grid_a100-40c"]
    names = mig if kind == "mig" else mig + sliced
    if kind == "several boards":
        names = [*names, "nvidia_h100-2-20c", "nvidia_h100-40c"]
    found = []
    for number in range(size.vms):
        profiles = (rng.choice(names),)
        if kind == "several vGPUs a VM" and number % 10 == 0:
            profiles *= 2
        found.append(VmDemand(f"vm-{number:05}", profiles, everywhere))
    if kind == "too much":
        found += [VmDemand(f"more-{n:05}", ("grid_a100-4-20c",), everywhere) for n in range(size.vms // 2)]
    return found


def ask(kind: str, spare: int, size: Size) -> dict[str, float]:
    """Ask in this process; return seconds, CPU seconds and the answer."""
    from vsphere_ai.capacity.solve import solve
    from vsphere_ai.capacity.verdict import GpuHosts

    rng = random.Random(7)
    farm, demands = GpuHosts(_slots(kind, size.hosts, rng)), _demands(kind, size, rng)
    began, cpu = time.perf_counter(), time.process_time()
    answer = solve(farm, demands, spare_hosts=spare)
    wall, cpu = time.perf_counter() - began, time.process_time() - cpu
    return {"wall": wall, "cpu": cpu, "exact": float(answer.exact)}


def _unlike(size: Size, rng: random.Random) -> tuple:
    """Return hosts whose GPUs have different instances in use, and VMs: three new ones for each host."""
    from vsphere_ai.capacity.verdict import GpuHosts, VmDemand
    from vsphere_ai.gpu.catalog import board
    from vsphere_ai.gpu.vgpus.slot import GpuSlot, StayingVgpu

    names = [f"esx{host:04}" for host in range(size.hosts)]
    everywhere = frozenset(names)
    slots, demands = [], []
    for host in names:
        for gpu in range(GPUS):
            starts = rng.sample(range(7), rng.randint(1, 3)) if rng.random() < 0.6 else ()
            running = tuple(StayingVgpu(f"run-{host}-{gpu}-{s}", "grid_a100-1-5c", s) for s in starts)
            slots.append(GpuSlot(host, f"0000:{gpu:02x}:00.0", board("a100-40gb"), "mig", running))
            demands += [VmDemand(r.vm, (r.profile,), everywhere, host) for r in running]
    sizes = ("1-5", "2-10", "3-20", "4-20", "1-10")
    new = (f"grid_a100-{rng.choice(sizes)}c" for _ in range(3 * size.hosts))
    demands += [VmDemand(f"vm-{n:05}", (profile,), everywhere) for n, profile in enumerate(new)]
    return GpuHosts(tuple(slots)), demands


def ask_unlike(size: Size) -> dict[str, float]:
    """Time the question, and a sample of what it would take to pack the whole estate anew after each loss."""
    from vsphere_ai.capacity.place import place
    from vsphere_ai.capacity.restart import Restarts
    from vsphere_ai.capacity.solve import solve
    from vsphere_ai.capacity.verdict import occupied

    farm, demands = _unlike(size, random.Random(7))
    began = time.process_time()
    answer = solve(farm, demands, spare_hosts=1)
    seconds = time.process_time() - began
    used, every = occupied(farm, answer), sorted(farm.hosts)
    restarts = Restarts(used, demands, answer)
    sample = every[:: max(1, size.hosts // SAMPLE)]
    began = time.process_time()
    for host in sample:
        lost = frozenset({host})
        place(used.without(lost), restarts.homeless(lost))
    packed = (time.process_time() - began) / len(sample) * size.hosts
    return {"cpu": seconds, "anew": packed}


def measure(size: Size, times: int) -> list[Row]:
    """Ask every question, each in a process of its own."""
    at = (str(size.hosts), str(size.vms))
    works = {
        f"{kind}{', a spare host' if spare else ''}": partial(inside, "capacity.py", "--ask", kind, str(spare), *at)
        for kind, spare in ASKED
    }
    case = Case("capacity", f"{GPUS} GPUs on each host", size, "cpu", dict.fromkeys(works, "ours"))
    rows = [_noted(row) for row in case.compare(works, times)]
    runs = [inside("capacity.py", "--unlike", "", "1", *at) for _ in range(times)]
    unlike = Case("capacity", "a spare host, no two hosts alike", size, "cpu", {OURS: "ours"})
    rows.append(unlike.row(OURS, [{"cpu": run["cpu"], "mib": run["mib"]} for run in runs]))
    rows.append(unlike.row(ANEW, [{"cpu": run["anew"]} for run in runs]))
    return rows


def _noted(row: Row) -> Row:
    """Return a row with its verdict as a note."""
    figures = {key: value for key, value in row.median.items() if key != "exact"}
    return replace(row, median=figures, note="exact" if row.median["exact"] else "a bound")


def main(how: str, kind: str, spare: str, hosts: str, vms: str) -> None:
    """Ask one question, and print what it took."""
    size = Size("", int(hosts), int(vms))
    print(json.dumps(ask(kind, int(spare), size) if how == "--ask" else ask_unlike(size)))


if __name__ == "__main__":
    if sys.argv[1:2] in (["--ask"], ["--unlike"]):
        main(*sys.argv[1:])
    else:
        alone(__doc__, measure)
