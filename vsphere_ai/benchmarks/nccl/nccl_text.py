"""Reader of the text of nccl-tests: every layout of the table, whatever stands before it in a line, several runs.

A row is two integers, the name of a type, and four or eight figures up to the end of the line (eight or sixteen with
`-I`), counted from the right, since redop and root may be blank. What stands before a row or a header is the prefix of
a launcher: it is not looked up in a list, only the times in it are left out. What is kept is bounded, whatever the
length of the text. Layouts: NVIDIA/nccl-tests src/util.cu, where `#wrong` came in August 2022 for `error`, "Collective
test starting" in June 2025, the version in October 2025.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import chain, islice

from vsphere_ai.benchmarks.nccl.collectives import TYPES
from vsphere_ai.benchmarks.nccl.log_lines import Counters, unwrapped
from vsphere_ai.benchmarks.nccl.nccl_log import read_log
from vsphere_ai.benchmarks.nccl.nccl_run import NcclDevice, NcclMeasurement, NcclRow, NcclRun, printed

MAX_LINE = 4096
"""Characters of a line that are looked at."""
MAX_HEAD = 5000
"""Lines in which counters before the lines are looked for."""
MAX_ROWS, MAX_RUNS, MAX_DEVICES, MAX_SOURCES = 16384, 256, 32768, 1024
"""What is kept of a text: rows, runs, devices, and processes whose output is kept apart."""

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
# RFC 3339 and its like (kubectl logs --timestamps), ctime (mpirun --timestamp-output), a time of day
_TIMES = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[\d.,]{0,12}(?:Z|[+-]\d\d:?\d\d)?"
    r"|(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) [A-Z][a-z]{2} [ \d]?\d \d\d:\d\d:\d\d(?: \d{4})?"
    r"|\d\d:\d\d:\d\d[\d.,]{0,12}"
)
_ROW = re.compile(r"(?<![\w.,-])(?<!\d:)(\d{1,19})\s+(\d{1,19})\s+([A-Za-z]\w{1,15})(\s+\S.*)")
_COMMENT = re.compile(
    r"#\s*(?:size\s+count\s|nThread\s|Rank\s+\d|Out of bounds values|Avg bus bandwidth|Collective test |"
    r"nccl-tests version|error: )"
)
_HEADER = re.compile(r"nThread\s+(\d{1,9})\s+nGpus\s+(\d{1,9})\s+minBytes\s+(\d{1,19})\s+maxBytes\s+(\d{1,19})")
_SETTINGS = re.compile(r"(warmup iters|agg iters|iters|validation|graph):\s*(\d{1,9})")
_RANK = re.compile(
    r"#\s+Rank\s+(\d{1,9})(?:\s+Group\s+(\d{1,9}))?\s+Pid\s+\d+\s+on\s+(\S+)\s+device\s+(\d{1,9})"
    r"(?:\s+\[([0-9a-fA-Fx:.]+)\])?\s*(.*)"
)
_FOOTER = re.compile(r"#\s*(Out of bounds values|Avg bus bandwidth)\s*:\s*(\S+)\s*(OK|FAILED)?")
_PROGRAM = re.compile(r"#\s*Collective test (starting|concluded):\s*(\S+)")
_VERSION = re.compile(r"#\s*nccl-tests version\s+(\S+)")
_LIBRARY = re.compile(r"NCCL version\s+(\d\S*)")
_ROOT = re.compile(r"-?\d{1,9}", re.ASCII)
_REDOP = re.compile(r"[A-Za-z]\w{0,15}")
_LOGGED = ("NCCL", "Test ", "NET/")


def parse_text(lines: Iterable[str]) -> tuple[NcclRun, ...]:
    """Return the runs of a text in their order; none where it has no header, device or row of nccl-tests."""
    rest = iter(lines)
    head = list(islice(rest, MAX_HEAD))
    reader = NcclTextReader(Counters(filter(None, map(_prefix, head))))
    for line in chain(head, rest):
        reader.feed(line)
    return reader.runs


def text_of_line(line: str) -> str:
    """Return what a program wrote into a line of a log, without colours; no more than `MAX_LINE` of it."""
    text = unwrapped(line.lstrip("\ufeff").rstrip())[:MAX_LINE].rstrip()
    return _ESCAPES.sub("", text) if "\x1b" in text else text


def _prefix(line: str) -> str:
    """Return what stands before a part of a table; empty before nothing of it."""
    text = text_of_line(line)
    match = _COMMENT.search(text) or _ROW.search(text)
    return source_of(text[: match.start()]) if match else ""


class NcclTextReader:
    """Reads a text line by line; output of different processes is kept apart by the launcher's prefix."""

    def __init__(self, counters: Counters | None = None) -> None:
        self._counters = counters or Counters()
        self._runs: list[NcclRun] = []
        self._of: dict[str, NcclRun] = {}
        self._before = NcclRun()  # the log that comes before a run
        self._rows = self._devices = 0

    @property
    def runs(self) -> tuple[NcclRun, ...]:
        """The runs so far; a failure that is reported outside of any of them is a run that has nothing else."""
        is_failed = bool(self._before.failures or (self._before.warnings and not self._runs))
        return (*self._runs, self._before) if is_failed else tuple(self._runs)

    def feed(self, line: str) -> None:
        """Read the next line; longer ones are cut at `MAX_LINE`."""
        text = text_of_line(line)
        if comment := _COMMENT.search(text):
            self._comment(self._source(text[: comment.start()]), text[comment.start() :])
        elif (row := _ROW.search(text)) and self._row(self._source(text[: row.start()]), row):
            pass
        elif any(word in text for word in _LOGGED):
            self._log(text.strip())

    def _source(self, prefix: str) -> str:
        return self._counters.without(source_of(prefix))

    def _log(self, text: str) -> None:
        run = self._runs[-1] if self._runs and not _has_ended(self._runs[-1]) else self._before
        version = _LIBRARY.search(text)
        if version:
            run.nccl_version = version[1]
        read_log(run, text)

    def _run(self, source: str, *, new: bool = False) -> NcclRun:
        """Return the run that a process is writing; a new one where there is none or the last has rows."""
        key = source if source in self._of or len(self._of) < MAX_SOURCES else ""
        if key not in self._of or (new and (self._of[key].rows or _has_ended(self._of[key]))):
            run, self._before = self._before, NcclRun()
            if len(self._runs) < MAX_RUNS:
                self._runs.append(run)
            self._of[key] = run
        return self._of[key]

    def _row(self, source: str, row: re.Match[str]) -> bool:
        """Read a row; return whether it is one of a table, readable or not."""
        run = self._table(source)
        columns = run.columns if run else ()
        measured = _measured(columns, row[4].split())
        if measured is None or (row[3] not in TYPES and not columns):
            # a line of a log may begin like a row; in a table it is a row that something else wrote into
            if run is None or not columns:
                return False
            run.unread += 1
            return True
        run = run or self._run(source)
        if self._rows >= MAX_ROWS:
            run.dropped += 1
        else:
            self._rows += 1
            redop, root, out, inside = measured
            run.rows.append(NcclRow(int(row[1]), int(row[2]), row[3], redop, root, out, inside))
        return True

    def _table(self, source: str) -> NcclRun | None:
        """Return the run to which a row of a source belongs, also where a log wrote into the line before it."""
        if source in self._of:
            return self._of[source]
        others = [known for known in self._of if source.startswith(known) and "NCCL" in source]
        return self._of[max(others, key=len)] if others else None

    def _comment(self, source: str, text: str) -> None:
        names = tuple(text[1:].split())
        if names[:2] == ("size", "count"):
            self._columns(source, names)
        elif found := _HEADER.search(text):
            self._header(source, found, text)
        elif found := _RANK.match(text):
            self._device(source, found)
        elif found := _FOOTER.match(text):
            _footer(self._run(source), found)
        elif found := _PROGRAM.match(text):
            run = self._run(source, new=found[1] == "starting")
            run.program, run.concluded = found[2], found[1] == "concluded"
        elif found := _VERSION.match(text):
            self._run(source, new=True).tests_version = found[1]
        elif text.startswith("# error: ") and text[9:].strip():
            self._run(source).failures.append(text[9:].strip()[:200])

    def _columns(self, source: str, names: tuple[str, ...]) -> None:
        run = self._run(source, new=True)
        run.tables += 1
        run.columns = names

    def _header(self, source: str, found: re.Match[str], text: str) -> None:
        run = self._run(source, new=True)
        run.headers += 1
        run.header = dict(zip(("nThread", "nGpus", "minBytes", "maxBytes"), map(int, found.groups()), strict=True))
        run.header.update((name, int(value)) for name, value in _SETTINGS.findall(text))

    def _device(self, source: str, found: re.Match[str]) -> None:
        run = self._run(source, new=True)
        if self._devices < MAX_DEVICES:
            self._devices += 1
            group = int(found[2]) if found[2] else 0  # releases before groups have one
            device = NcclDevice(int(found[1]), found[3], int(found[4]), found[5] or "", found[6].strip(), group)
            run.devices.append(device)


def _has_ended(run: NcclRun) -> bool:
    return run.concluded or run.out_of_bounds is not None or run.average is not None


def source_of(prefix: str) -> str:
    """Return the name of the process that wrote a line: its prefix without the times in it."""
    return " ".join(_TIMES.sub("", prefix).split())


Measured = tuple[str, int | None, NcclMeasurement | None, NcclMeasurement | None]


def _measured(columns: Sequence[str], tokens: list[str]) -> Measured | None:
    """Return redop, root and the two measurements of what follows the type; None where it does not fit."""
    if len(tokens) > 2 and _TIMES.fullmatch(" ".join(tokens[-2:])):
        tokens = tokens[:-2]
    starts = [at for at, name in enumerate(columns) if name in ("time", "cputime")]
    width = starts[1] - starts[0] if len(starts) == 2 else 4
    if width < 4:
        return None
    # replayed traces, and -O of old versions, have one half only; it is the one in place
    halves = next((n for n in (2, 1) if 0 <= len(tokens) - n * width <= 2), 0)
    if not halves:
        return None
    keys, figures = tokens[: len(tokens) - halves * width], tokens[len(tokens) - halves * width :]
    measures = [_measure(figures[at : at + width]) for at in range(0, len(figures), width)]
    roots = [key for key in keys if _ROOT.fullmatch(key)]
    redops = [key for key in keys if _REDOP.fullmatch(key)]
    if None in measures or len(roots) > 1 or len(redops) > 1 or len(roots) + len(redops) != len(keys):
        return None
    redop, root = "".join(redops), int(roots[0]) if roots else None
    return redop, root, measures[0] if halves == 2 else None, measures[-1]


def _measure(tokens: Sequence[str]) -> NcclMeasurement | None:
    time, algbw, busbw = map(printed, tokens[:3])
    wrong = printed(tokens[3].removesuffix("*"))  # rccl-tests marks differences beyond the largest allowed
    if time is None or algbw is None or busbw is None or (wrong is None and tokens[3] != "N/A"):
        return None
    return NcclMeasurement(time, algbw, busbw, wrong.value if wrong else None)


def _footer(run: NcclRun, found: re.Match[str]) -> None:
    verdict = None if found[3] is None else found[3] == "OK"
    value = printed(found[2])
    if found[1].startswith("Avg"):
        run.average, run.average_ok = value, verdict
    elif value is not None:
        run.out_of_bounds, run.bounds_ok = int(value.value), verdict
