"""Output of nccl-tests in files: read, checked, compared with a baseline and with published figures."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from vsphere_ai.benchmarks.baseline import TOLERANCE, Expected, baseline_text, compare, gate, learn, read_baseline
from vsphere_ai.benchmarks.checks import Check, is_passed
from vsphere_ai.benchmarks.nccl_checks import nccl_checks
from vsphere_ai.benchmarks.nccl_json import MAX_JSON, parse_json
from vsphere_ai.benchmarks.nccl_run import NcclRun
from vsphere_ai.benchmarks.nccl_text import MAX_LINE, parse_text
from vsphere_ai.benchmarks.published import Figure, alike
from vsphere_ai.errors import UsageError
from vsphere_ai.language.document import require, text_of

STDIN = "-"
MAX_INPUT = 1 << 30
"""Bytes of a file that are read."""


@dataclass(frozen=True)
class ParseRequest:
    """Files with output of nccl-tests, text or JSON, ``-`` being standard input.

    `ranks` is the number of ranks the runs were started with, `gpu` their GPU (such as A100), where the text does not
    say it. `tolerance` is the share by which a result may be below the `baseline`; `learned` is a file to write.
    """

    files: Sequence[Path]
    ranks: int | None = None
    gpu: str = ""
    baseline: Path | None = None
    tolerance: float = TOLERANCE
    learned: Path | None = None


@dataclass(frozen=True)
class ParsedRun:
    """A run of a file with what is to say of it; `published` are figures of the same operation, GPU and ranks."""

    file: str
    run: NcclRun
    checks: tuple[Check, ...]
    published: tuple[Figure, ...] = ()


@dataclass(frozen=True)
class ParseResult:
    """The runs of all files; `missing` are measurements of the baseline that none of them has, `learned` a new one."""

    runs: tuple[ParsedRun, ...]
    missing: tuple[Check, ...] = ()
    learned: tuple[Expected, ...] = ()

    @property
    def exit_code(self) -> int:
        """Return 0 when every run passed and nothing is missing, else 1; also where there is no run."""
        return 0 if self.runs and all(is_passed(r.checks) for r in self.runs) and is_passed(self.missing) else 1


def parse_nccl(request: ParseRequest) -> ParseResult:
    """Read files and judge their runs; `InputError` when the baseline is none, `UsageError` when a file is missing."""
    expected = baseline_of(request.baseline)
    found = [(str(file), run) for file in request.files for run in _runs_of(file)]
    runs = [run for _, run in found]
    below: dict[int, list[Check]] = {}
    missing = []
    for comparison, run in compare(runs, expected, request.ranks):
        check = gate(comparison, request.tolerance)
        if check and run is None:
            missing.append(check)
        elif check:
            below.setdefault(id(run), []).append(check)
    parsed = tuple(
        ParsedRun(file, run, (*below.get(id(run), ()), *nccl_checks(run, request.ranks)), _published(run, request))
        for file, run in found
    )
    return ParseResult(parsed, tuple(missing), _learned(parsed, request))


def baseline_of(file: Path | None) -> tuple[Expected, ...]:
    """Return the figures of a baseline file, none without a file."""
    if file is None:
        return ()
    require(file, "baseline")
    return read_baseline(text_of(file), str(file))


def _learned(runs: Sequence[ParsedRun], request: ParseRequest) -> tuple[Expected, ...]:
    """Write a baseline of the runs that passed, where one is wanted."""
    if request.learned is None:
        return ()
    if request.learned.exists():
        raise UsageError(f"{request.learned} is there already", "name another file, or remove it")
    learned = learn([each.run for each in runs if is_passed(each.checks)], request.ranks)
    if not learned:
        raise UsageError("there is nothing to learn", "no run passed its checks")
    request.learned.write_text(baseline_text(learned), "utf-8")
    return learned


def _published(run: NcclRun, request: ParseRequest) -> tuple[Figure, ...]:
    names = {d.name for d in run.devices}
    gpu = request.gpu or (names.pop() if len(names) == 1 else "")
    ranks = run.declared_ranks or request.ranks
    return tuple(alike(run.collective.name, gpu, ranks)) if run.collective and ranks and gpu else ()


def _runs_of(file: Path) -> tuple[NcclRun, ...]:
    if str(file) == STDIN:
        return _read(sys.stdin.buffer)
    require(file, "file")
    with file.open("rb") as stream:
        return _read(stream)


def _read(stream: BinaryIO) -> tuple[NcclRun, ...]:
    first = stream.readline(MAX_LINE)
    if first.lstrip()[:1] == b"{":
        text = (first + stream.read(MAX_JSON)).decode("utf-8", "replace")
        run = parse_json(text)
        return (run,) if run else parse_text(text.splitlines())
    return parse_text(_lines(first, stream))


def _lines(first: bytes, stream: BinaryIO) -> Iterator[str]:
    """Yield lines; only the beginning of a long one, and no more than is read of a file."""
    line, size, is_new = first, 0, True
    while line and size < MAX_INPUT:
        if is_new:
            yield line.decode("utf-8", "replace")
        size, is_new = size + len(line), line.endswith(b"\n")
        line = stream.readline(MAX_LINE)
