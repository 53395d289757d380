"""What the benchmarks share: sizes of estates, rows of figures, processes that are measured, runs in turn.

A benchmark is a module with ``measure(size, times) -> list[Row]``; `run.py` calls them one after another. Each figure
is measured in a process of its own, so that memory and CPU time are those of one subject alone; subjects that are
compared run in turn, forwards and backwards, so that what slows the machine down for a while meets all of them.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
from tools.docgen.measured import Figures, Row, Size

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build" / "bench"
TESTS = str(ROOT / "tests")


SIZES = {
    each.name: each
    for each in (Size("XS", 10, 100), Size("S", 50, 500), Size("M", 200, 2_000), Size("L", 1_000, 10_000))
}
"""XS is only the first point of the growth."""


@dataclass(frozen=True)
class Case:
    """What several subjects do at one size, and the figure that they are compared by."""

    subject: str
    name: str
    size: Size
    by: str = "wall"
    roles: Mapping[str, str] = field(default_factory=dict)
    """Role of each subject that is not one of the peers."""

    def row(self, who: str, runs: Sequence[Figures], note: str = "") -> Row:
        """Return the row of a subject's runs, at least one."""
        keys = [key for key in runs[0] if all(key in run for run in runs)]
        columns = {key: [run[key] for run in runs] for key in keys}
        median = {key: statistics.median(column) for key, column in columns.items()}
        least = {key: min(column) for key, column in columns.items()}
        role = self.roles.get(who, "peer")
        return Row(self.subject, self.name, who, role, self.size, median, least, len(runs), self.by, note)

    def compare(self, works: Mapping[str, Callable[[], Figures]], times: int, once: Iterable[str] = ()) -> list[Row]:
        """Run the subjects in turn, so many times each; those of `once`, which are slow, only in the first round.

        A peer that fails is named and left out; `Failed` where it is no peer.
        """
        found: dict[str, list[Figures]] = {who: [] for who in works}
        left_out: set[str] = set()
        for number in range(times):
            for who in list(works) if number % 2 == 0 else list(reversed(works)):
                if who in left_out or (number and who in once):
                    continue
                try:
                    found[who].append(works[who]())
                except Failed as failed:
                    if who in self.roles:
                        raise
                    left_out.add(who)
                    print(f"  {who} is not measured: {self.name}: {failed.short}", file=sys.stderr, flush=True)
        return [self.row(who, runs) for who, runs in found.items() if who not in left_out]


# -- processes

_LAUNCHER = """
import json, os, sys, time
began = time.perf_counter()
pid = os.fork()
if not pid:
    try:
        os.execvp(sys.argv[2], sys.argv[2:])
    finally:
        os._exit(127)
_, status, used = os.wait4(pid, 0)
wall = time.perf_counter() - began
found = [os.waitstatus_to_exitcode(status), wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024]
with open(int(sys.argv[1]), "w") as out:
    json.dump(found, out)
"""
"""A process starts with the memory of its parent as its peak: the parent of what is measured is as small as can be."""


class Failed(Exception):
    """A process that is measured ended with an exit code that is not expected."""

    def __init__(self, argv: Sequence[str | Path], code: int, printed: str) -> None:
        self.short = f"it ended with {code}"
        super().__init__(f"{' '.join(map(str, argv))} ended with {code}\n{printed}")


def process(
    argv: Sequence[str | Path], env: Mapping[str, str] | None = None, ok: Iterable[int] = (0,)
) -> tuple[dict[str, float], str]:
    """Run a command; return its figures, with those of the processes that it has waited for, and what it printed."""
    with tempfile.TemporaryFile("w+") as figures, tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile() as err:
        launcher = [sys.executable, "-S", "-E", "-c", _LAUNCHER, str(figures.fileno())]
        subprocess.run(
            [*launcher, *map(str, argv)],
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            pass_fds=(figures.fileno(),),
            check=True,
        )
        for each in (figures, out, err):
            each.seek(0)
        code, wall, cpu, mib = json.load(figures)
        printed = out.read()
        if code not in ok:
            end = err.read().decode(errors="replace")
            raise Failed(argv, code, f"{printed[-2000:]}\n{end[-3000:]}")
    return {"wall": wall, "cpu": cpu, "mib": mib}, printed


def tool(*arguments: str | Path, env: Mapping[str, str] | None = None, ok: Iterable[int] = (0,)) -> dict[str, float]:
    """Run a command of the product; return its figures."""
    return process([sys.executable, "-m", "vsphere_ai", *arguments], env, ok)[0]


def inside(script: str, *arguments: str | Path, env: Mapping[str, str] | None = None) -> dict[str, float]:
    """Run a script of this folder that prints its figures as JSON in its last line; return them, with its memory.

    So a script leaves out of the time what it takes to import.
    """
    outer, printed = process([sys.executable, ROOT / "bench" / script, *arguments], env)
    return {"mib": outer["mib"], **json.loads(printed.splitlines()[-1])}


# -- the machine


def machine() -> dict[str, str]:
    """Return what the machine is, as far as figures depend on it."""
    model = "unknown"
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line.partition(":")[2].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        model = names[0] if names else model
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "processor": model,
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": f"{memory:.0f} GiB",
        "kernel": platform.release(),
        "Python": platform.python_version(),
    }
