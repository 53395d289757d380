"""Runs the benchmarks one after another, and prints their ratios: `make bench SIZE=S ONLY=reading,writes`.

What grows with the estate is measured at each size up to the one that is given. Results go to build/bench/results.json,
drawings of the growth beside it; subjects that are left out keep the results that the file has from the same machine.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from common import BUILD, SIZES, machine

from tools.docgen.measured import Results, Row, Size, read, table
from tools.docgen.performance import QUIET, drawings
from tools.docgen.targets import judged

SUBJECTS = {
    "startup": "startup",
    "reading": "reading",
    "peers": "peers",
    "requests": "request_counts",
    "commands": "commands",
    "growth": "growth",
    "planning": "planning",
    "capacity": "capacity",
    "sets": "vm_sets",
    "ipam": "ipam",
    "writes": "writes",
    "ssh": "ssh",
    "rollout": "rollout",
    "fleet": "fleet",
}
"""Modules with ``measure(size, times)``; those with ``GROWS`` are measured at each size."""
RESULTS = BUILD / "results.json"


def alone(about: str, measure: Callable[[Size, int], list[Row]]) -> None:
    """Run one benchmark as its file is run, and print its table."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    _options(parser)
    given = parser.parse_args()
    print(table(measure(SIZES[given.size], given.times)))


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--size", choices=SIZES, default="S", help="of the estate")
    parser.add_argument("--times", type=int, default=3, help="runs of each; the median is shown")


def up_to(size: Size) -> list[Size]:
    """Return the sizes up to one, the smallest first."""
    return [each for each in SIZES.values() if each.vms <= size.vms]


def measured(subject: str, size: Size, times: int) -> list[Row]:
    """Run one subject, at each size if it grows."""
    module = importlib.import_module(SUBJECTS[subject])
    rows = []
    for each in up_to(size) if getattr(module, "GROWS", False) else [size]:
        began = time.perf_counter()
        print(f"{subject}, {each} ...", file=sys.stderr, end=" ", flush=True)
        rows += module.measure(each, times)
        print(f"{time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
    return rows


def others(seconds: float = 2.0) -> float:
    """Return the share of the cores that other programs take now; the load average still has what ran a minute ago."""

    def times() -> list[int]:
        return [int(n) for n in Path("/proc/stat").read_text("utf-8").split("\n", 1)[0].split()[1:9]]

    before = times()
    time.sleep(seconds)
    spent = [now - then for now, then in zip(times(), before, strict=True)]
    return 1 - (spent[3] + spent[4]) / max(1, sum(spent))  # idle, and waiting for a disk


def kept(file: Path, only: set[str]) -> tuple[dict[str, list[Row]], float]:
    """Return the results of the subjects that are not measured now, and the load; nothing of another machine."""
    try:
        old = read(file)
    except (OSError, ValueError, KeyError, TypeError):  # there is none, or one of another version
        return {}, 0.0
    if old.machine != machine():
        return {}, 0.0
    subjects = dict.fromkeys(row.subject for row in old.rows if row.subject not in only)
    return {subject: [row for row in old.rows if row.subject == subject] for subject in subjects}, old.load


def write(results: Results, folder: Path) -> None:
    """Write the results and the drawings of their growth into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / RESULTS.name).write_text(results.to_json(), "utf-8")
    for name, text in drawings(results).items():
        (folder / name).write_text(text, "utf-8")


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    _options(parser)
    parser.add_argument("--only", default="", metavar="SUBJECTS", help=f"some of {', '.join(SUBJECTS)}, with commas")
    parser.add_argument("--into", type=Path, default=BUILD, metavar="FOLDER", help="where results.json goes")
    given = parser.parse_args(arguments)
    only = set(filter(None, given.only.split(","))) or set(SUBJECTS)
    if unknown := only - set(SUBJECTS):
        parser.error(f"no such subject: {', '.join(sorted(unknown))}; there are {', '.join(SUBJECTS)}")
    load = others()
    found, before = kept(given.into / RESULTS.name, only)
    load = max(load, before if found else 0.0)
    failed = []
    for subject in (each for each in SUBJECTS if each in only):
        try:
            found[subject] = measured(subject, SIZES[given.size], given.times)
        except (Exception, SystemExit) as error:  # the others are measured all the same
            print(f"{subject} failed: {error}", file=sys.stderr, flush=True)
            failed.append(subject)
    rows = [row for subject in SUBJECTS for row in found.get(subject, ())]
    results = Results(machine(), datetime.now(UTC).date().isoformat(), load, rows)
    write(results, given.into)
    print(", ".join(f"{key} {value}" for key, value in results.machine.items()), end="\n\n")
    print(table([row for row in rows if row.subject in only]))
    print("\ntargets")
    for text, most, value, met in judged(rows, busy=load >= QUIET):
        print(f"  {text:60} at most {most:>9}  {value:>9}  {dict(yes='met', no='NOT MET').get(met, met)}")
    print(f"\nresults and drawings of the growth: {given.into}")
    if failed:
        print(f"not measured, because it failed: {', '.join(failed)}", file=sys.stderr)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
