"""Time and memory of `plan` for 64 VMs in a vCenter of 10,000, and of commands that read all of it, against the lab.

Run it with ``python bench/large.py``. Exits 1 when the median of the plans is over 10 seconds, or the memory of any
of them more than 200 MiB. Most of the time the lab and the tool take turns, so a second core helps little.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from vsphere_ai.lab import process

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))
from support import large_farm  # noqa: E402 - the tests' farm, so that both measure the same

MOST_SECONDS, MOST_MIB = 10.0, 200
PLAN = """
import re, sys, time
from pathlib import Path
from vsphere_ai.cli.main import main
code = main(sys.argv[1:])
sys.stdout.flush()
peak = re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]
print("peak", time.process_time(), peak, file=sys.stderr)
sys.exit(code)
"""


WHOLE = ("capacity", "show", "check")
"""Commands that read every host and VM."""
LAB = ROOT / "inventories" / "lab.yml"


def planned(directory: Path, playbook: Path, inventory: Path = LAB) -> tuple[float, float, float]:
    """Plan once as a command; return seconds, CPU seconds and MiB."""
    return measured(directory, "plan", str(playbook), inventory=inventory)


def measured(directory: Path, name: str, *rest: str, inventory: Path = LAB) -> tuple[float, float, float]:
    """Carry out a command; return seconds, CPU seconds and MiB."""
    state = str(directory / "state")
    environment = {**os.environ, "VSPHERE_AI_LAB_DIR": str(directory), "VSPHERE_AI_STATE_DIR": state}
    argv = [sys.executable, "-c", PLAN, name, "-i", str(inventory), *rest]
    began = time.perf_counter()
    done = subprocess.run(argv, env=environment, capture_output=True, text=True)
    seconds = time.perf_counter() - began
    if done.returncode not in (0, 1):
        raise SystemExit(f"{name} ended with {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    cpu, kib = re.search(r"peak (\S+) (\d+)", done.stderr).groups()
    return seconds, float(cpu), int(kib) / 1024


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vms", type=int, default=10_000, help="VMs of the vCenter")
    parser.add_argument("--times", type=int, default=3, help="runs; the median is judged")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="vsphere-ai-bench-") as name:
        directory = Path(name)
        scenario, playbook = directory / "farm.yml", directory / "play.yml"
        scenario.write_text(large_farm.scenario(given.vms), "utf-8")
        playbook.write_text(large_farm.PLAYBOOK, "utf-8")
        began = time.perf_counter()
        lab = process.start(directory, scenario, exit_with=os.getpid(), timeout=600)
        print(f"{'start of the lab':34} {time.perf_counter() - began:6.1f} s")
        try:
            figures = [measured(directory, "plan", str(playbook)) for _ in range(given.times)]
            calls = sum(lab.get("/lab/traffic")["calls"].values()) // given.times
            whole = {name: measured(directory, name) for name in WHOLE}
        finally:
            process.stop(directory)
    seconds, peak = statistics.median(s for s, _, _ in figures), max(m for _, _, m in figures)
    every = ", ".join(f"{s:.1f}" for s, _, _ in figures)
    cpu = statistics.median(c for _, c, _ in figures)
    print(f"{f'plan for 64 of {given.vms:,} VMs':34} {seconds:6.1f} s ({every})")
    print(f"{'':34} {cpu:6.1f} s of CPU, {peak:.0f} MiB, {calls} API calls")
    for name, (took, used, most) in whole.items():
        print(f"{f'{name} of {given.vms:,} VMs':34} {took:6.1f} s, {used:.1f} s of CPU, {most:.0f} MiB")
    return int(seconds > MOST_SECONDS or peak > MOST_MIB)


if __name__ == "__main__":
    sys.exit(main())
