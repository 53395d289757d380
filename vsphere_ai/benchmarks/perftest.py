"""Tables of perftest (`ib_write_bw`, `ib_read_lat` …), and rails of a VM that are slower than the others.

The columns are found by their heads; MB/sec are 2²⁰ bytes per second, Gb/sec 10⁹ bits (linux-rdma/perftest,
src/perftest_resources.c). The table is read and not the JSON, which was no JSON in several releases.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from vsphere_ai.benchmarks.checks import of_run
from vsphere_ai.benchmarks.nccl.nccl_run import printed
from vsphere_ai.model.finding import Finding
from vsphere_ai.model.nodes import Rail

MAX_LINE, MAX_ROWS, MAX_RUNS = 1024, 256, 256
LINE_RATE_SHARE = 0.92
"""Share of the line rate that a healthy rail reaches: 370 of 400 Gb/s are published, NVIDIA/cluster-readiness-engine
ADR-021."""
HALF = 0.75
"""A rail below this share of the median runs at half speed, or less: links lose lanes and generations by halves."""

_TITLE = re.compile(
    r"^\s*(RDMA_(?:Write|Read)|Send|Atomic\w*|RDMA_Atomic\w*) (?:Bidirectional )?(?:Post List )?(BW|Latency) Test"
)
_HEADS = re.compile(r"(#bytes|#sl|#iterations|(?:\d[\d.]*% percentile|[\w%]+(?: \w+)?)\[[^\]]{1,12}\])")
_DEVICE = re.compile(r"\bDevice\s*:\s*(\S+)")
_LINK = re.compile(r"\bLink type\s*:\s*(\S+)")
_FAULT = re.compile(r"Couldn't|Failed|failed|Unable|error|Completion with error|Segmentation fault")


@dataclass
class PerftestRun:
    """A run: rows are values by column head, such as ``BW average[Gb/sec]``; `faults` are lines that report one."""

    title: str = ""
    device: str = ""
    link: str = ""
    columns: tuple[str, ...] = ()
    rows: list[Mapping[str, float]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    @property
    def bandwidth(self) -> float | None:
        """The best average bandwidth in Gb/s (10⁹ bits per second); None where there is none."""
        found = [value for row in self.rows if (value := _gigabits(row)) is not None]
        return max(found, default=None)

    @property
    def latency(self) -> float | None:
        """The typical latency of the smallest message in µs, its average where no typical one is printed."""
        row = min(self.rows, key=lambda r: r.get("#bytes", 0), default={})
        return row.get("t_typical[usec]", row.get("t_avg[usec]"))


def parse_perftest(lines: Iterable[str]) -> tuple[PerftestRun, ...]:
    """Return the runs of a text in their order; none where it is no output of perftest."""
    runs: list[PerftestRun] = []
    for line in lines:
        text = line[:MAX_LINE]
        title = _TITLE.match(text)
        if title and len(runs) < MAX_RUNS:
            runs.append(PerftestRun(f"{title[1]} {title[2]}"))
        elif "#bytes" in text:
            if not runs or runs[-1].columns:
                runs += [PerftestRun()] * (len(runs) < MAX_RUNS)
            runs[-1].columns = tuple(_HEADS.findall(text))
        elif runs:
            _read(runs[-1], text)
    return tuple(runs)


def _read(run: PerftestRun, text: str) -> None:
    device, link = _DEVICE.search(text), _LINK.search(text)
    if device and not run.columns:
        run.device = device[1]
    elif link and not run.columns:
        run.link = link[1]
    elif run.columns and text.strip()[:1].isdigit():
        values = [printed(token) for token in text.split()]
        if len(values) == len(run.columns) and len(run.rows) < MAX_ROWS:
            run.rows.append({c: v.value for c, v in zip(run.columns, values, strict=True) if v})
    elif _FAULT.search(text) and len(run.faults) < 20:
        run.faults.append(text.strip()[:200])


def _gigabits(row: Mapping[str, float]) -> float | None:
    if "BW average[Gb/sec]" in row:
        return row["BW average[Gb/sec]"]
    return row["BW average[MB/sec]"] * 2**20 * 8 / 1e9 if "BW average[MB/sec]" in row else None


@dataclass(frozen=True)
class RailRate:
    """What a rail reached, in Gb/s; `measured` None: there is no measurement. `speed` is its link's, None: unknown.

    `rail` names it, such as ``rail 3`` or an interface.
    """

    vm: str
    rail: str
    measured: float | None
    speed: float | None = None


def judged_rails(rates: Sequence[RailRate]) -> Iterator[tuple[RailRate, Finding | None]]:
    """Yield every rail with what is to say of it; None where it is as fast as the others and its link."""
    known = [r.measured for r in rates if r.measured is not None]
    middle = median(known) if known else 0.0
    return ((rate, _judged(rate, middle)) for rate in rates)


def _judged(rate: RailRate, middle: float) -> Finding | None:
    name = f"{rate.rail} of {rate.vm}"
    if rate.measured is None:
        return of_run("rdma.not-measured", "unknown", f"{name}: not measured")
    if rate.measured < HALF * middle:
        text = f"{name} reaches {rate.measured:.1f} Gb/s, {rate.measured / middle:.0%} of the other rails"
        return of_run("rdma.half-speed", "fail", text, "check its link speed, PCIe width, and the switch port")
    if rate.measured < LINE_RATE_SHARE * (rate.speed or 0):
        text = f"{name} reaches {rate.measured:.1f} of {rate.speed:g} Gb/s"
        return of_run("rdma.below-line-rate", "warn", text, "check MTU, flow control and NUMA nodes")
    return None


def rounds_of_neighbours(count: int) -> tuple[tuple[tuple[int, int], ...], ...]:
    """Return pairs of neighbours in a ring of `count`, in rounds in which no one is twice.

    Each is with two others, so that a slow one does not make both of its neighbours slow.
    """
    if count < 2:
        return ()
    pairs = [(at, (at + 1) % count) for at in range(count if count > 2 else 1)]
    even = [p for p in pairs[: count - count % 2] if p[0] % 2 == 0]
    odd = [p for p in pairs if p[0] % 2 == 1 and p not in even]
    last = [p for p in pairs if p not in even and p not in odd]
    return tuple(tuple(each) for each in (even, odd, last) if each)


def perftest_command(rail: Rail, server: str, iterations: int, size: int) -> tuple[str, ...]:
    """Return the argv of `ib_write_bw` on a rail, of the client where `server` is the address of one."""
    gid = ("-x", str(rail.gid_index)) if rail.gid_index is not None else ()
    peer = (server,) if server else ()
    port = ("-i", str(rail.port)) if rail.port != 1 else ()
    how = ("-n", str(iterations), "-s", str(size), "-F", "--report_gbits")
    return ("ib_write_bw", "-d", rail.rdma_device, *port, *gid, *how, *peer)
