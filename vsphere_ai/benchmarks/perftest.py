"""Tables of perftest (`ib_write_bw`, `ib_read_lat` …), and rails of a VM that are slower than the others.

The columns are found by their heads; MB/sec and, since March 2024, MiB/sec are 2²⁰ bytes per second, Gb/sec 10⁹ bits
(linux-rdma/perftest, src/perftest_parameters.c). The file of ``--out_json`` has no unit: it is that of the options.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from statistics import median

from vsphere_ai.benchmarks.checks import of_run
from vsphere_ai.benchmarks.nccl.nccl_run import printed
from vsphere_ai.benchmarks.nccl.nccl_text import source_of
from vsphere_ai.model.bounded import json_value
from vsphere_ai.model.finding import Finding
from vsphere_ai.model.nodes import Rail

MAX_LINE, MAX_ROWS, MAX_RUNS = 1024, 256, 256
LINE_RATE_SHARE = 0.92
"""Share of the line rate that a healthy rail reaches: 370 of 400 Gb/s are published, NVIDIA/cluster-readiness-engine
ADR-021."""
HALF = 0.75
"""A rail below this share of the median runs at half speed, or less: links lose lanes and generations by halves."""

_VERB = r"RDMA_(?:Write|Read)(?:_imm)?|Send(?:_imm)?|(?:RDMA_)?Atomic\w*|Raw Ethernet"
_MODE = "CMP_AND_SWAP|FETCH_AND_ADD|Bidirectional|Post List|forwarding|Multicast"
# releases print the words of a title in orders of their own
_TITLE = re.compile(rf"(?<!\S)((?:(?:{_VERB}|{_MODE}|BW|Latency)\s+){{2,8}})Test\b")
_VERB_WORD, _FIGURE_WORD = re.compile(rf"(?<!\S)(?:{_VERB})(?!\S)"), re.compile(r"(?<!\S)(?:BW|Latency)(?!\S)")
_TABLE = re.compile(r"#bytes\b")
_HEADS = re.compile(r"(#bytes|#sl|#iterations|(?:\d[\d.]*% percentile|[\w%]+(?: \w+)?)\[[^\]]{1,12}\]|tps average)")
_DEVICE = re.compile(r"\bDevice\s*:\s*(\S+)")
_LINK = re.compile(r"\bLink type\s*:\s*(\S+)")
_FAULT = re.compile(r"Couldn't|Failed|failed|Unable|error|Completion with error|Segmentation fault")


@dataclass
class PerftestRun:
    """A run: rows are values by column head, such as ``BW average[Gb/sec]``; `faults` are lines that report one."""

    title: str = ""
    device: str = ""
    link: str = ""
    unit: str = ""
    """Of a bandwidth without one in the heads, as in JSON: empty while it is not known."""
    columns: tuple[str, ...] = ()
    rows: list[Mapping[str, float]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    @property
    def bandwidth(self) -> float | None:
        """The best average bandwidth in Gb/s (10⁹ bits per second); None where there is none."""
        found = [value for row in self.rows if (value := _gigabits(row)) is not None and is_possible(value)]
        return max(found, default=None)

    @property
    def shown_bandwidth(self) -> float | None:
        """The best average bandwidth of a file of JSON, whose unit is that of the options of the run."""
        found = [row["BW_average"] for row in self.rows if is_possible(row.get("BW_average", -1.0))]
        return max(found, default=None)

    @property
    def latency(self) -> float | None:
        """The typical latency of the smallest message in µs, its average where no typical one is printed."""
        sized = [row for row in self.rows if "#bytes" in row]
        row = min(sized, key=lambda r: r["#bytes"]) if sized else next(iter(self.rows), {})
        names = ("t_typical[usec]", "t_typical", "t_avg[usec]", "t_avg")
        return next((row[name] for name in names if name in row), None)


def parse_perftest(lines: Iterable[str]) -> tuple[PerftestRun, ...]:
    """Return the runs of a text in their order; none where it is no output of perftest.

    What a launcher or a tool of logs writes before each line (``[0] ``, ``0: ``, ``node01: ``, a time) is its source:
    lines of one source belong together, wherever they stand among those of others.
    """
    runs: list[PerftestRun] = []
    of_source: dict[str, PerftestRun] = {}

    def begin(source: str, run: PerftestRun) -> None:
        if len(runs) < MAX_RUNS:
            runs.append(run)
            of_source[source] = run

    for line in lines:
        text = line[:MAX_LINE]
        if title := _titled(text):
            begin(*title)
        elif heads := _TABLE.search(text):
            source = source_of(text[: heads.start()])
            if source not in of_source or of_source[source].columns:
                begin(source, PerftestRun())
            if source in of_source:
                of_source[source].columns = tuple(_HEADS.findall(text[heads.start() :]))
        elif runs:
            _read(of_source, runs[-1], text)
    return tuple(runs)


def _titled(text: str) -> tuple[str, PerftestRun] | None:
    """Return the source and the new run of a line that is a title; None where it is none."""
    match = _TITLE.search(text)
    verb, figure = (word.search(match[1]) if match else None for word in (_VERB_WORD, _FIGURE_WORD))
    if not (match and verb and figure):
        return None
    return source_of(text[: match.start()]), PerftestRun(f"{verb[0]} {figure[0]}")


def _read(of_source: Mapping[str, PerftestRun], last: PerftestRun, text: str) -> None:
    """Add what a line says to the run of its source; a line of no known source belongs to the newest run."""
    tokens = text.split()
    for source, run in of_source.items():
        width = len(run.columns)
        row = [_value(token) for token in tokens[-width:]] if 0 < width <= len(tokens) else []
        # the first number of a row is a size in bytes or a service level
        if row and tokens[-width].isdecimal() and None not in row and source_of(_before(text, width)) == source:
            if len(run.rows) < MAX_ROWS:
                run.rows.append({c: v for c, v in zip(run.columns, row, strict=True) if v is not None})
            return
    own = [source for source in of_source if source and source_of(text).startswith(source)]
    run = of_source[max(own, key=len)] if own else last
    device, link = _DEVICE.search(text), _LINK.search(text)
    if device and not run.columns:
        run.device = device[1]
    elif link and not run.columns:
        run.link = link[1]
    elif _FAULT.search(text) and len(run.faults) < 20:
        run.faults.append(text.strip()[:200])


def _before(text: str, width: int) -> str:
    """Return what stands before the last words of a line."""
    words = text.rsplit(None, width)
    return words[0] if len(words) > width else ""


def _value(token: str) -> float | None:
    if token.lower().lstrip("+-") == "inf":
        return float(token)
    found = printed(token.removeprefix("-"))
    return None if found is None else -found.value if token.startswith("-") else found.value


def is_possible(bandwidth: float) -> bool:
    """Return whether a bandwidth is one: perftest prints negative and infinite ones of a run that went wrong.

    Source: linux-rdma/perftest, issue 82.
    """
    return isfinite(bandwidth) and bandwidth >= 0


_UNITS = {"Gb/sec": 1.0, "MB/sec": 2**20 * 8 / 1e9, "MiB/sec": 2**20 * 8 / 1e9}
"""Gb/s of one of each unit."""


def _gigabits(row: Mapping[str, float]) -> float | None:
    found = (row[head] * factor for unit, factor in _UNITS.items() if (head := f"BW average[{unit}]") in row)
    return next(found, None)


_RESULTS = (
    *("MsgSize", "n_iterations", "BW_peak", "BW_average", "MsgRate", "t_min", "t_max", "t_typical"),
    *("t_avg", "t_stdev", "bw_avg", "msgRate_avg"),
)


def parse_perftest_json(text: str) -> PerftestRun | None:
    """Return the run of a file of ``--out_json``; None where it is none. With a service level its key is not quoted."""
    try:
        data = json_value(re.sub(r"(?m)^(\s*)sl:", r'\1"sl":', text))
    except ValueError:
        return None
    info, results = (data.get("test_info"), data.get("results")) if isinstance(data, dict) else (None, None)
    if not isinstance(info, dict) or not isinstance(results, dict):
        return None
    values = {name: float(value) for name in _RESULTS if isinstance(value := results.get(name), int | float)}
    if "bw_avg" in values:
        values.setdefault("BW_average", values["bw_avg"])
    words = {name: info[name] for name in ("test", "Device", "Link_type") if isinstance(info.get(name), str)}
    title = words.get("test", "").replace("_Test", "").replace("_BW", " BW").replace("_Latency", " Latency")
    return PerftestRun(title, words.get("Device", ""), words.get("Link_type", ""), rows=[values] if values else [])


def perftest_checks(run: PerftestRun) -> Iterator[Finding]:
    """Yield what is wrong with a run as a file shows it."""
    for fault in run.faults[:3]:
        yield of_run(
            "rdma.failed", "fail", f"perftest: {fault}", "look at device, GID index and firewall of both sides"
        )
    impossible = [v for row in run.rows for name, v in row.items() if "BW" in name and not is_possible(v)]
    if impossible:
        text = f"a bandwidth of {impossible[0]:g} is impossible: the run went wrong"
        yield of_run("rdma.impossible", "fail", text, "run it again, longer")
    elif not run.rows and not run.faults:
        yield of_run("rdma.not-measured", "unknown", "the table has no rows: the run did not end")


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
    if rate.speed is not None and rate.measured < LINE_RATE_SHARE * rate.speed:
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
