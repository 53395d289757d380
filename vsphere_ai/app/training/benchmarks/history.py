"""History of benchmarks of sets, kept on this machine: one file per vCenter, a line per result."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from vsphere_ai.app.events import Emit, Remark
from vsphere_ai.app.training.nodes.listed import NodesResult
from vsphere_ai.benchmarks.benchmark import Measured
from vsphere_ai.benchmarks.history import Trend, trends
from vsphere_ai.documents.benchmark_history import BenchmarkResult
from vsphere_ai.model.records.assessment import LatestBenchmark
from vsphere_ai.model.vm_sets import members_of
from vsphere_ai.runs.state_files import append_state, read_state_lines
from vsphere_ai.security.state_dir import own_folder, state_dir

FOLDER = "benchmarks"


def keep_measured(read: NodesResult, measured: Iterable[Measured], emit: Emit) -> Trend | None:
    """Add figures of a whole set to its history, and report where it became slower; return the trend of the last.

    Nothing is kept where the VMs are not those of one set. `Storage` where the file cannot be written.
    """
    name, trend = set_of(read), None
    for each in measured if name else ():
        made = BenchmarkResult(
            at=time.time(),
            set=name,
            benchmark=each.benchmark,
            operation=each.operation,
            ranks=each.ranks,
            size=each.size,
            value=each.value,
            unit=each.unit,
        )
        trend = keep(read.estate.about.instance, made)
        say_slower(trend, emit)
    return trend


def require_readable(instance: str) -> None:
    """`DamagedDocument` where the history of a vCenter cannot be read: better before than after a measurement."""
    _read(_file(instance))


def keep(instance: str, result: BenchmarkResult) -> Trend | None:
    """Add a result to the history of a vCenter, and return its trend; `Storage` where the file cannot be written."""
    file = own_folder(FOLDER) / _file(instance).name
    earlier = _read(file)
    append_state(file, result, "the result was measured, and is not kept")
    return next((t for t in trends([*earlier, result]) if t.newest == result), None)


def set_of(read: NodesResult) -> str:
    """Return the set whose VMs these all are; empty where they are of several, or not all of one."""
    members = [m for m in members_of(read.estate) if m.exists and not m.leaving]
    of = {m.name: m.set for m in members}
    names = {of.get(node.vm, "") for node in read.nodes}
    name = names.pop() if len(names) == 1 else ""
    return name if len(read.nodes) == sum(m.set == name for m in members) else ""


def say_slower(trend: Trend | None, emit: Emit) -> None:
    """Say that a result is worse than the spread of the earlier ones explains."""
    if trend is not None and trend.slowdown:
        emit(Remark("bench.slower", f"{trend.newest.set}: {trend.slowdown}"))


def history(instance: str = "", name: str = "") -> tuple[Trend, ...]:
    """Return the trends of the measurements of a vCenter (of all, without an id), or of one of its sets."""
    files = sorted((state_dir() / FOLDER).glob(f"{instance or '*'}.jsonl"))
    found = (trend for file in files for trend in trends(_read(file)))
    return tuple(trend for trend in found if not name or trend.newest.set == name)


def newest(instance: str) -> Mapping[str, LatestBenchmark]:
    """Return the newest all-reduce of each set, beside the norm of its earlier results."""
    found = {}
    for trend in history(instance):
        if trend.newest.operation == "all_reduce":
            day = datetime.fromtimestamp(trend.newest.at, UTC).date()
            base = trend.norm.mean if trend.norm else None
            found[trend.newest.set] = LatestBenchmark(day, "all_reduce", trend.newest.value, base)
    return found


def _file(instance: str) -> Path:
    return state_dir() / FOLDER / f"{instance}.jsonl"


def _read(file: Path) -> tuple[BenchmarkResult, ...]:
    return tuple(read_state_lines(file, BenchmarkResult))
