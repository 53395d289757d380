"""CPU of planning as hosts, VMs and steps grow, of writing and showing the plan, and of starting a lab.

Run it with ``python bench/planning.py``; ``--quick`` leaves out the lab. `measure` returns the rows. Exponents are
those of CPU time between two sizes; the tests hold those of counted operations. Exits 1 when 10,000 targets take more
than 10 s of CPU, 2,000 more than 5 s, or the start of a lab of 10,000 VMs more than 8 s.
"""

from __future__ import annotations

import argparse
import gc
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from math import log
from pathlib import Path
from typing import NamedTuple

from vsphere_ai.lab import process
from vsphere_ai.language.play import Rolling
from vsphere_ai.model.facts import Estate
from vsphere_ai.planning.document import digest, dumps, plan_document
from vsphere_ai.planning.planner import make_plan
from vsphere_ai.report.plan_text import Beside, plan_text
from vsphere_ai.resources import kinds
from vsphere_ai.resources.host_graphics import HostGraphics
from vsphere_ai.resources.vm_hardware import VmHardware

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))
from support import large_farm  # noqa: E402 - the tests' estates, so that both measure the same
from support.estates import vm, wants  # noqa: E402
from support.gpu_growing import HALF, gpu_estate  # noqa: E402
from support.growing import esx, of_vms, upgraded  # noqa: E402

MOST = {"plan of 2,000 VMs": 5.0, "plan of 10,000 VMs": 10.0, "lab of 10,000 VMs": 8.0}
PER_CLUSTER = 50


class Row(NamedTuple):
    """A figure: what was measured, CPU seconds, and the exponent against a smaller size, None where there is none."""

    what: str
    seconds: float
    exponent: float | None = None
    note: str = ""


def cpu(what: Callable[[], object]) -> tuple[float, object]:
    """Return the CPU seconds of one call, and what it returns."""
    gc.collect()
    began = time.process_time()
    found = what()
    return time.process_time() - began, found


def planned(of: Callable[[int], Estate], wanted: Callable[[int], Mapping], size: int) -> tuple[float, object]:
    """Plan on an estate of which nothing is known yet."""
    estate, desired = of(size), wanted(size)
    return cpu(lambda: make_plan(desired, Estate(estate.about, dict(estate.objects)), kinds(), "bench.yml"))


def exponent(small: tuple[int, float], large: tuple[int, float]) -> float:
    """Return by which power of the size a figure grows."""
    return log(large[1] / small[1]) / log(large[0] / small[0])


def in_clusters(size: int) -> Estate:
    """Return an estate of so many VMs, 20 to a host and 50 hosts to a cluster."""
    return of_vms(size, PER_CLUSTER, even=True)


SHAPES: Mapping[str, tuple[tuple[int, int], Callable[[int], Estate], Callable[[int], Mapping]]] = {
    "plan of {:,} VMs": ((2_000, 10_000), in_clusters, upgraded),
    "refusal of {:,} VMs": (
        (2_000, 10_000),
        in_clusters,
        lambda n: {vm(k): wants(VmHardware(version=11)) for k in range(1, n + 1)},
    ),
    "plan of the reboots of {:,} hosts": (
        (200, 1_000),
        lambda n: in_clusters(n * 20),
        lambda n: {esx(k): wants(HostGraphics(default_type="shared_direct")) for k in range(1, n + 1)},
    ),
    "plan of {:,} hosts whose VMs with vGPUs move": (
        (64, 320),
        lambda n: gpu_estate(n, vms=1, profile=HALF, cluster_of=16),
        lambda n: {
            esx(k): wants(HostGraphics(default_type="shared"), rolling=Rolling(evacuate="vmotion"))
            for k in range(1, n + 1)
        },
    ),
}
WRITTEN: Mapping[str, Callable] = {
    "its document": lambda plan: dumps(plan_document(plan)),
    "its text": lambda plan: plan_text(plan, digest(plan)),
    "its text in full": lambda plan: plan_text(plan, digest(plan), beside=Beside(full=True)),
}


def measure(lab: bool = True) -> list[Row]:
    """Return all figures; those of the lab start one."""
    rows = [row for name, (sizes, of, wanted) in SHAPES.items() for row in _planning(name, sizes, of, wanted)]
    return [*rows, *(_lab(vms) for vms in ((10_000,) if lab else ()))]


def _planning(name: str, sizes: tuple[int, int], of: Callable, wanted: Callable) -> Iterator[Row]:
    found = [(size, *planned(of, wanted, size)) for size in sizes]
    grown = exponent(*((size, seconds) for size, seconds, _ in found))
    for size, seconds, plan in found:
        yield Row(name.format(size), seconds, grown if size == sizes[1] else None, f"{len(plan.steps):,} steps")
    if name == "plan of {:,} VMs":
        for what, write in WRITTEN.items():
            both = [(size, *cpu(lambda p=plan, w=write: w(p))) for size, _, plan in found]
            yield Row(what, both[1][1], exponent(*(b[:2] for b in both)), f"{len(both[1][2]) >> 10:,} KiB")


def _lab(vms: int) -> Row:
    """Start a lab; its CPU seconds until it answers, and its memory."""
    with tempfile.TemporaryDirectory(prefix="vsphere-ai-bench-") as name:
        directory = Path(name)
        (directory / "farm.yml").write_text(large_farm.scenario(vms), "utf-8")
        began = time.perf_counter()
        lab = process.start(directory, directory / "farm.yml", exit_with=os.getpid(), timeout=600)
        wall = time.perf_counter() - began
        try:
            used = Path(f"/proc/{lab.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
            seconds = sum(map(int, used)) / os.sysconf("SC_CLK_TCK")
            peak = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{lab.pid}/status").read_text())[1]
        finally:
            process.stop(directory)
    return Row(f"lab of {vms:,} VMs", seconds, None, f"{wall:.1f} s until it answers, {int(peak) >> 10} MiB")


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="without the lab")
    given = parser.parse_args()
    rows = measure(lab=not given.quick)
    print(f"{'':48} {'CPU':>8}  exponent")
    for row in rows:
        grown = f"{row.exponent:8.2f}" if row.exponent is not None else f"{'':8}"
        print(f"{row.what:48} {row.seconds:6.2f} s  {grown}  {row.note}")
    return int(any(row.seconds > MOST.get(row.what, row.seconds) for row in rows))


if __name__ == "__main__":
    sys.exit(main())
