"""Baselines: bus bandwidths that a set of VMs is known to reach, as a YAML file, and results compared with them.

A measurement that is missing is not passed, and ranks above a warning. Bandwidth above the baseline, or above the line
rate of the network (as in-switch reduction gives), is no fault.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import yaml

from vsphere_ai.benchmarks.checks import of_run
from vsphere_ai.benchmarks.nccl.nccl_run import NcclRun
from vsphere_ai.benchmarks.statistics import Norm, Sensitivity, norm
from vsphere_ai.errors import Diagnostic, InputError, Mark
from vsphere_ai.model.bounded import yaml_value
from vsphere_ai.model.finding import Finding

FORMAT = 1
TOLERANCE = 0.1


@dataclass(frozen=True)
class ExpectedBandwidth:
    """What a collective is expected to reach: bus bandwidth (GB/s) at a size (bytes) on this many ranks.

    `ranks` and `size` of None fit any. `sigma` is the spread in GB/s with which it was learned from `runs` runs.
    """

    operation: str
    busbw: float
    ranks: int | None = None
    size: int | None = None
    sigma: float | None = None
    runs: int = 1

    @property
    def visible(self) -> float | None:
        """Smallest slowdown (a share) that one run shows against this; None where the spread is not known."""
        return Sensitivity(self.sigma / self.busbw).smallest if self.sigma else None


def learn(runs: Sequence[NcclRun], ranks: int | None = None) -> tuple[ExpectedBandwidth, ...]:
    """Return baselines of runs by collective, ranks and largest size, outliers left out and the spread kept.

    `ranks` is the number the runs were started with, where their text does not say it.
    """
    found: dict[tuple[str, int | None, int], list[float]] = {}
    for run in runs:
        if run.collective and run.largest and run.peak:
            found.setdefault((run.collective.name, run.declared_ranks or ranks, run.largest), []).append(run.peak)
    learned: list[ExpectedBandwidth] = []
    for (operation, count, size), values in sorted(found.items(), key=str):
        each: Norm | None = norm(values)
        if each:
            sigma = round(each.sigma, 4) if each.count > 1 else None
            learned.append(ExpectedBandwidth(operation, round(each.mean, 4), count, size, sigma, each.count))
    return tuple(learned)


def baseline_text(expected: Sequence[ExpectedBandwidth], about: str = "") -> str:
    """Return baselines as the text of a file."""
    entries = [{k: v for k, v in vars(each).items() if v is not None} for each in expected]
    head = "# bus bandwidth in GB/s, size in bytes, sigma: spread of one run in GB/s\n"
    document = {"baseline": FORMAT, **({"about": about} if about else {}), "nccl": entries}
    return head + yaml.safe_dump(document, sort_keys=False)


def read_baseline(text: str, name: str) -> tuple[ExpectedBandwidth, ...]:
    """Return the baselines of a file; `InputError` where it is none."""
    try:
        document = yaml_value(text)
    except ValueError as error:
        raise _wrong(name, f"not a baseline: {error}") from None
    if not isinstance(document, dict) or document.get("baseline") != FORMAT:
        raise _wrong(name, f"not a baseline: it has to begin with 'baseline: {FORMAT}'")
    entries = document.get("nccl")
    if not isinstance(entries, list) or not entries:
        raise _wrong(name, "there are no figures under 'nccl'")
    return tuple(_expected(entry, (name, at)) for at, entry in enumerate(entries))


def _expected(entry: object, where: tuple[str, int]) -> ExpectedBandwidth:
    known = {"operation": str, "busbw": float, "ranks": int, "size": int, "sigma": float, "runs": int}
    if not isinstance(entry, Mapping):
        raise _wrong(where, "not a mapping")
    wrong = [key for key in entry if key not in known]
    if wrong:
        raise _wrong(where, f"unknown field '{wrong[0]}'", f"there are: {', '.join(known)}")
    for key, kind in known.items():
        value = entry.get(key)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        right = isinstance(value, str) if kind is str else number and (kind is float or isinstance(value, int))
        if value is None and key in ("operation", "busbw"):
            raise _wrong(where, f"'{key}' is missing")
        if value is not None and (not right or (number and not 0 <= float(str(value)) < 1e18)):
            raise _wrong(where, f"'{key}' is not a {'name' if kind is str else 'number from 0'}: {value}")
    if not entry["busbw"]:
        raise _wrong(where, "'busbw' is 0: any run would pass")
    return ExpectedBandwidth(**entry)


def _wrong(where: str | tuple[str, int], message: str, help: str = "") -> InputError:
    name, entry = (where, "") if isinstance(where, str) else (where[0], f"nccl[{where[1]}]: ")
    return InputError([Diagnostic(Mark(name), f"{entry}{message}", help)])


@dataclass(frozen=True)
class Comparison:
    """A run beside what was expected of it; `measured` is None where nothing was measured, `share` of what."""

    expected: ExpectedBandwidth
    measured: float | None

    @property
    def share(self) -> float | None:
        """Measured over expected."""
        return self.measured / self.expected.busbw if self.measured is not None else None


def compare(
    runs: Sequence[NcclRun], expected: Sequence[ExpectedBandwidth], ranks: int | None = None
) -> Iterator[tuple[Comparison, NcclRun | None]]:
    """Yield every expectation with each run that it is about, with no run where none is.

    `ranks` is the number the runs were started with, where their text does not say it.
    """
    for each in expected:
        own = [run for run in runs if _is_about(each, run, ranks)]
        for run in own:
            yield Comparison(each, _measured(each, run)), run
        if not own:
            yield Comparison(each, None), None


def _is_about(expected: ExpectedBandwidth, run: NcclRun, ranks: int | None) -> bool:
    names = {c.name for c in run.collectives}
    declared = run.declared_ranks or ranks
    return expected.operation in names and (not expected.ranks or not declared or expected.ranks == declared)


def _measured(expected: ExpectedBandwidth, run: NcclRun) -> float | None:
    if expected.size is None:
        return run.peak
    return max((row.busbw for row in run.rows if row.size == expected.size and row.measures), default=None)


def gate(comparison: Comparison, tolerance: float = TOLERANCE) -> Finding | None:
    """Return what is wrong with a result, None where it is as expected: `fail` below, `unknown` when missing."""
    expected, share = comparison.expected, comparison.share
    what = f"{expected.operation}{f' on {expected.ranks} ranks' if expected.ranks else ''}"
    at = f" at {expected.size} bytes" if expected.size else ""
    if share is None:
        return of_run("nccl.not-measured", "unknown", f"{what}{at}: not measured", "run it: what is missing is no pass")
    if share >= 1 - tolerance:
        return None
    text = f"{what}{at}: {comparison.measured:.2f} GB/s is {1 - share:.1%} below the baseline {expected.busbw:.2f}"
    return of_run("nccl.below-baseline", "fail", text)
