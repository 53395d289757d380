"""Output of nccl-tests in files: read, checked, compared with a baseline and with published figures."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from vsphere_ai.benchmarks.baseline import TOLERANCE, Expected, baseline_text, learn, read_baseline
from vsphere_ai.benchmarks.checks import is_passed
from vsphere_ai.benchmarks.nccl.nccl_json import MAX_JSON, parse_json
from vsphere_ai.benchmarks.nccl.nccl_run import NcclRun
from vsphere_ai.benchmarks.nccl.nccl_text import MAX_LINE, parse_text
from vsphere_ai.benchmarks.results import ParsedRun, ParseResult, Started, judge_runs
from vsphere_ai.errors import UsageError
from vsphere_ai.language.yaml_files.document import require, text_of
from vsphere_ai.security.files import reading, write_output

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


def parse_nccl(request: ParseRequest) -> ParseResult:
    """Read files and judge their runs; `InputError` when the baseline is none, `UsageError` when a file is missing."""
    expected = baseline_of(request.baseline)
    found = [(str(file), run) for file in request.files for run in _runs_of(file)]
    judged = judge_runs(found, expected, request.tolerance, Started(request.ranks, request.gpu))
    return replace(judged, learned=_learned(judged.runs, request))


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
    require_new(request.learned)
    return write_baseline(request.learned, learn([each.run for each in runs if is_passed(each.checks)], request.ranks))


def require_new(file: Path) -> None:
    """`UsageError` where there is a file already."""
    if os.path.lexists(file):
        raise UsageError(f"{file} is there already", "name another file, or remove it")


def write_baseline(file: Path, learned: Sequence[Expected]) -> tuple[Expected, ...]:
    """Write a baseline and return it; `UsageError` where there is nothing in it."""
    if not learned:
        raise UsageError("there is nothing to learn: no run passed its checks", "give the output of a run that passed")
    write_output(file, baseline_text(learned))
    return tuple(learned)


def _runs_of(file: Path) -> tuple[NcclRun, ...]:
    if str(file) == STDIN:
        return _read(sys.stdin.buffer)
    require(file, "file")
    try:
        with reading(file, MAX_INPUT) as stream:
            return _read(stream)
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}", "give the output of nccl-tests") from None


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
