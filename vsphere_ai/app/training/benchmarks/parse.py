"""Output of benchmarks in files: read and checked; nccl-tests compared with a baseline and published figures."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, NoReturn

from vsphere_ai.benchmarks.baseline import TOLERANCE, ExpectedBandwidth, learn
from vsphere_ai.benchmarks.baseline_file import BaselineFile, baseline_text
from vsphere_ai.benchmarks.checks import is_passed
from vsphere_ai.benchmarks.nccl.nccl_checks import warnings_of
from vsphere_ai.benchmarks.nccl.nccl_json import MAX_JSON, parse_json
from vsphere_ai.benchmarks.nccl.nccl_run import NcclRun
from vsphere_ai.benchmarks.nccl.nccl_text import MAX_LINE, parse_text, text_of_line
from vsphere_ai.benchmarks.perftest import PerftestRun, parse_perftest, parse_perftest_json, perftest_checks
from vsphere_ai.benchmarks.programs.megatron import megatron_checks, parse_megatron, throughput
from vsphere_ai.benchmarks.programs.megatron_baseline import ExpectedThroughput
from vsphere_ai.benchmarks.results import BenchmarkContext, ParsedOther, ParsedRun, ParseResult, judge_runs
from vsphere_ai.errors import Diagnostic, InputError, Mark, UsageError
from vsphere_ai.language.yaml_files.document import require
from vsphere_ai.language.yaml_files.model_files import load_model
from vsphere_ai.security.files import reading, write_output

STDIN = "-"
MAX_INPUT = 1 << 30
"""Bytes of a file that are read."""
MOST_KEPT = 100_000
WARM_UP = 2
"""Iterations of a log of training that are not measured: the first one or two are slower."""
# a row of perftest is whole numbers and figures to its end, whatever a launcher writes before it
_OTHER = re.compile(
    r"\bTest\b|#bytes|(?<!\S)\d{1,19}\s+\d{1,19}(?:\s+[-+]?(?:\d[\d.eE+-]*|inf))+\s*$|Device\s+:|Link type|Couldn't|"
    r"[Ff]ailed|Completion with error|\biteration\b|Step Time"
)


@dataclass(frozen=True)
class ParseRequest:
    """Files with output of nccl-tests or perftest, text or JSON, or a log of Megatron; ``-`` is standard input.

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
    read = [_apart(str(file), *_runs_of(file)) for file in request.files]
    own = [run for runs, _ in read for run in runs]
    judged = judge_runs(own, expected, request.tolerance, BenchmarkContext(request.ranks, request.gpu))
    others = tuple(other for _, others in read for other in others)
    return replace(judged, learned=_learned(judged.runs, request), others=others)


def _apart(
    file: str, runs: Sequence[NcclRun], lines: Sequence[str] | PerftestRun
) -> tuple[list[tuple[str, NcclRun]], list[ParsedOther]]:
    """Return the runs of nccl-tests in a file and those of others; warnings of NCCL alone belong to the others."""
    others = list(others_in(file, lines))
    if others and len(runs) == 1 and runs[0].is_log_alone:
        warned = warnings_of(runs[0], is_failed=False)
        return [], [*others[:-1], replace(others[-1], checks=(*others[-1].checks, *warned))]
    return [(file, run) for run in runs], others


def others_in(file: str, lines: Sequence[str] | PerftestRun) -> Iterator[ParsedOther]:
    """Yield what lines have of perftest and of Megatron, or the run of perftest that was read of JSON."""
    if isinstance(lines, PerftestRun):
        yield ParsedOther(file, lines, tuple(perftest_checks(lines)))
        return
    for run in parse_perftest(lines):
        yield ParsedOther(file, run, tuple(perftest_checks(run)))
    iterations = parse_megatron(lines)
    total = throughput(iterations, min(WARM_UP, len(iterations) - 1)) if iterations else None
    if total is not None:
        yield ParsedOther(file, total, tuple(megatron_checks(iterations, iterations[-1].number, WARM_UP)))


def baseline_of(file: Path | None) -> tuple[ExpectedBandwidth, ...]:
    """Return the figures of a baseline file, none without a file."""
    if file is None:
        return ()
    return load_baseline(file).nccl or _without(file, "nccl")


def load_baseline(file: Path) -> BaselineFile:
    """Load a baseline; `InputError` with the place of every fault, `UsageError` when there is no such file."""
    return load_model(BaselineFile, file, "baseline")


def _without(file: Path, section: str) -> NoReturn:
    message = f"there are no figures under '{section}'"
    raise InputError(
        [
            Diagnostic(
                Mark(str(file), 1, 1),
                message,
                f"let a benchmark write it with --learn, or add {section}: with its figures",
            )
        ]
    )


def throughput_of(file: Path) -> tuple[ExpectedThroughput, ...]:
    """Return what a baseline file expects of Megatron; `InputError` where it expects nothing."""
    return load_baseline(file).megatron or _without(file, "megatron")


def _learned(runs: Sequence[ParsedRun], request: ParseRequest) -> tuple[ExpectedBandwidth, ...]:
    """Write a baseline of the runs that passed, where one is wanted."""
    if request.learned is None:
        return ()
    require_new(request.learned)
    return write_baseline(request.learned, learn([each.run for each in runs if is_passed(each.checks)], request.ranks))


def require_new(file: Path) -> None:
    """`UsageError` where there is a file already."""
    if os.path.lexists(file):
        raise UsageError(f"{file} is there already", "name another file, or remove it")


def write_baseline(file: Path, learned: Sequence[ExpectedBandwidth]) -> tuple[ExpectedBandwidth, ...]:
    """Write a baseline and return it; `UsageError` where there is nothing in it."""
    if not learned:
        raise UsageError("there is nothing to learn: no run passed its checks", "give the output of a run that passed")
    write_output(file, baseline_text(learned))
    return tuple(learned)


Found = tuple[tuple[NcclRun, ...], Sequence[str] | PerftestRun]
"""Runs of nccl-tests, and the run of perftest in JSON, or the lines that may be another benchmark's."""


def _runs_of(file: Path) -> Found:
    if str(file) == STDIN:
        return _read(sys.stdin.buffer)
    require(file, "file")
    try:
        with reading(file, MAX_INPUT) as stream:
            return _read(stream)
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}", "give the output of nccl-tests") from None


def _read(stream: BinaryIO) -> Found:
    first, kept = stream.readline(MAX_LINE), list[str]()
    if first.lstrip()[:1] == b"{":
        text = (first + stream.read(MAX_JSON)).decode("utf-8", "replace")
        run = parse_json(text)
        if run is not None:
            return (run,), ()
        if (other := parse_perftest_json(text)) is not None:
            return (), other
        return parse_text(_keeping(text.splitlines(), kept)), kept
    return parse_text(_keeping(_lines(first, stream), kept)), kept


def _keeping(lines: Iterable[str], kept: list[str]) -> Iterator[str]:
    """Yield lines, and keep those that another benchmark than nccl-tests may have printed, as it printed them."""
    for line in lines:
        text = text_of_line(line)
        if len(kept) < MOST_KEPT and _OTHER.search(text):
            kept.append(text)
        yield line


def _lines(first: bytes, stream: BinaryIO) -> Iterator[str]:
    """Yield lines; only the beginning of a long one, and no more than is read of a file."""
    line, size, is_new = first, 0, True
    while line and size < MAX_INPUT:
        if is_new:
            yield line.decode("utf-8", "replace")
        size, is_new = size + len(line), line.endswith(b"\n")
        line = stream.readline(MAX_LINE)
