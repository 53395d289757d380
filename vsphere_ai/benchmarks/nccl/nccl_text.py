"""Reader of the text of nccl-tests: every layout of the table, prefixes of launchers, several runs in one text.

A row is two integers, the name of a type, and two groups of figures, found by the names of the header's columns where
it has one. What is kept is bounded, whatever the length of the text. Layouts: NVIDIA/nccl-tests src/util.cu, where
`#wrong` came in August 2022 for `error`, "Collective test starting" in June 2025, the version in October 2025.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from vsphere_ai.benchmarks.nccl.nccl_log import read_log
from vsphere_ai.benchmarks.nccl.nccl_run import Device, Measure, NcclRun, Row, printed

MAX_LINE = 4096
"""Characters of a line that are looked at."""
MAX_ROWS, MAX_RUNS, MAX_DEVICES, MAX_SOURCES = 16384, 256, 32768, 1024
"""What is kept of a text: rows, runs, devices, and processes whose output is kept apart."""

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_STAMP = re.compile(r"\d{4}-\d\d-\d\d[T ][\d:.,]{8,20}(?:Z|[+-]\d\d:?\d\d)? ")  # as kubectl logs --timestamps
# mpirun --tag-output, srun --label, names of hosts as pdsh writes them
_TAGGED = re.compile(r"(\[[^\]\s]{1,80}\])<std(?:out|err|diag)>:?")
_LABELLED = re.compile(r"\s*(\d{1,7}): ?(?=[\s\d#]|$)|([A-Za-z0-9][\w.-]{0,80}): (?=\s*[\d#])")
_ROW = re.compile(r"\s*(\d{1,19})\s+(\d{1,19})\s+([A-Za-z]\w{2,15})(\s+\S.*)")
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


def parse_text(lines: Iterable[str]) -> tuple[NcclRun, ...]:
    """Return the runs of a text in their order; none where it has no header, device or row of nccl-tests."""
    reader = NcclTextReader()
    for line in lines:
        reader.feed(line)
    return reader.runs


class NcclTextReader:
    """Reads a text line by line; output of different processes is kept apart by the launcher's prefix."""

    def __init__(self) -> None:
        self._runs: list[NcclRun] = []
        self._of: dict[str, NcclRun] = {}
        self._before = NcclRun()  # the log that comes before a run
        self._rows = self._devices = 0

    @property
    def runs(self) -> tuple[NcclRun, ...]:
        """The runs so far."""
        return tuple(self._runs)

    def feed(self, line: str) -> None:
        """Read the next line; longer ones are cut at `MAX_LINE`."""
        source, text = _without_prefix(line[:MAX_LINE])
        row = _ROW.match(text)
        if row:
            self._row(source, row)
        elif text.startswith("#"):
            self._comment(source, text)
        elif "NCCL" in text or "Test " in text or "NET/" in text:
            self._log(text)

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

    def _row(self, source: str, row: re.Match[str]) -> None:
        run = self._run(source)
        if self._rows >= MAX_ROWS:
            run.dropped += 1
        elif (found := _measured(run.columns, row[4].split())) is None:
            # a line of a log may begin like a row; in a table it is a row that something else wrote into
            run.unread += bool(run.columns)
        else:
            self._rows += 1
            redop, root, out, inside = found
            run.rows.append(Row(int(row[1]), int(row[2]), row[3], redop, root, out, inside))

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
        elif text.startswith("# error:") and len(text) > len("# error: "):
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
            group = int(found[2] or 0)
            device = Device(int(found[1]), found[3], int(found[4]), found[5] or "", found[6].strip(), group)
            run.devices.append(device)


def _has_ended(run: NcclRun) -> bool:
    return run.concluded or run.out_of_bounds is not None or run.average is not None


def _without_prefix(line: str) -> tuple[str, str]:
    """Return the launcher's prefix, empty without one, and the rest of a line."""
    text = _ESCAPES.sub("", line) if "\x1b" in line else line
    stamp = _STAMP.match(text)
    text = text[stamp.end() :] if stamp else text
    tagged = _TAGGED.match(text)
    if tagged:
        return tagged[1], text[tagged.end() :].strip()
    labelled = _LABELLED.match(text)
    if labelled:
        return labelled[1] or labelled[2], text[labelled.end() :].strip()
    return "", text.strip()


Measured = tuple[str, int | None, Measure | None, Measure | None]


def _measured(columns: Sequence[str], tokens: list[str]) -> Measured | None:
    """Return redop, root and the two measurements of what follows the type; None where it does not fit."""
    if "timestamp" in columns:  # a date and a time
        columns, tokens = [c for c in columns if c != "timestamp"], tokens[:-2]
    starts = [at - 3 for at, name in enumerate(columns) if name in ("time", "cputime")]
    width = starts[1] - starts[0] if len(starts) == 2 else 4
    if width < 4:
        return None
    keys = len(tokens) - 2 * width
    if len(starts) == 2 and keys != starts[0]:
        if len(tokens) != starts[0] + width:
            return None
        keys, only = starts[0], True  # replayed traces have the in-place half only
    else:
        only = False
    if not 0 <= keys <= 2:
        return None
    halves = [tokens[keys:]] if only else [tokens[keys : keys + width], tokens[keys + width :]]
    measures = [_measure(half) for half in halves]
    if None in measures:
        return None
    redop = next((t for t in tokens[:keys] if not t.lstrip("-").isdigit()), "")
    root = next((int(t) for t in tokens[:keys] if t.lstrip("-").isdigit() and len(t) < 10), None)
    return redop, root, None if only else measures[0], measures[-1]


def _measure(tokens: Sequence[str]) -> Measure | None:
    time, algbw, busbw = map(printed, tokens[:3])
    wrong = printed(tokens[3])
    if time is None or algbw is None or busbw is None or (wrong is None and tokens[3] != "N/A"):
        return None
    return Measure(time, algbw, busbw, wrong.value if wrong else None)


def _footer(run: NcclRun, found: re.Match[str]) -> None:
    verdict = None if found[3] is None else found[3] == "OK"
    value = printed(found[2])
    if found[1].startswith("Avg"):
        run.average, run.average_ok = value, verdict
    elif value is not None:
        run.out_of_bounds, run.bounds_ok = int(value.value), verdict
