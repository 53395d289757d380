"""Burns: reports of the burn program on each GPU, compared with each other bit for bit, and what nvidia-smi showed.

A GPU that computes wrongly without an error (silent corruption) shows in two ways: its cycles, all from one seed, do
not give the same losses each time, or these differ from those of other GPUs with exactly the same configuration. From:
microsoft/superbenchmark docs/user-tutorial/benchmarks/model-benchmarks.md (deterministic losses, compared exactly);
CoreWeave, HPC verification (20 to 30 minutes with all processors busy).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from vsphere_ai.benchmarks.checks import of_run
from vsphere_ai.model.finding import Finding
from vsphere_ai.model.names.pci_address import read_pci

MARK, MAX_LINE = "burn: ", 16_384
SLOW, FADING = 0.9, 0.95
"""Pace as a part of the median of GPUs alike, and of its own beginning, below which it is named."""
BAD_THROTTLES = {0x8: "hardware slowdown", 0x40: "thermal slowdown", 0x80: "power brake"}
CAPPED = 0x4
"""Throttle reasons of nvml.h (nvmlClocksThrottleReason*)."""


class Differs(BaseModel):
    """Where a cycle gave another loss than the first one, and the bits of both."""

    model_config = ConfigDict(defer_build=True, frozen=True)

    cycle: int
    step: int
    expected: str = Field(max_length=64)
    found: str = Field(max_length=64)


class BurnReport(BaseModel):
    """What the program has seen on one GPU until now: `first` is the digest of its first cycle, `pace` steps/s."""

    model_config = ConfigDict(defer_build=True, frozen=True)

    configuration: dict[str, JsonValue] = {}
    refused: str = Field("", max_length=1024)
    at: float = 0.0
    cycles: int = 0
    steps: int = 0
    finite: bool = True
    first: str = Field("", max_length=128)
    digests: dict[str, int] = {}
    differs: Differs | None = None
    pace: tuple[float, ...] = ()
    end: bool = False

    @property
    def key(self) -> str:
        """The configuration as a text: only results of equal ones are compared."""
        return json.dumps(self.configuration, sort_keys=True)

    @property
    def is_comparable(self) -> bool:
        """Whether it says what was computed, and with what."""
        return bool(self.first and self.configuration)

    @property
    def speed(self) -> float | None:
        """Steps per second; None before the first report."""
        return self.steps / self.at if self.at > 0 and self.steps else None


@dataclass(frozen=True)
class Sample:
    """What nvidia-smi showed of a GPU at a moment: MHz now and at most, W, °C, throttle reasons; None: not shown."""

    clock: float | None = None
    most: float | None = None
    power: float | None = None
    temperature: float | None = None
    throttle: int | None = None


@dataclass(frozen=True)
class Burned:
    """A GPU after a burn: its `report` (None: none came), `samples` and the side that they are from.

    `index` is that in the guest, `pci` its address on the host; `why` says why there are no samples.
    """

    vm: str
    index: int
    host: str = ""
    pci: str = ""
    report: BurnReport | None = None
    samples: tuple[Sample, ...] = ()
    side: str = ""
    why: str = ""

    @property
    def name(self) -> str:
        """The GPU as an operator names it."""
        where = ", ".join(part for part in (self.host, self.pci) if part)
        return f"GPU {self.index} of {self.vm}{f' ({where})' if where else ''}"


@dataclass(frozen=True)
class GpuVerdict:
    """A GPU with what is to say of it."""

    gpu: Burned
    checks: tuple[Finding, ...] = field(default=())


def read_report(lines: Iterable[str]) -> BurnReport | None:
    """Return the last report of a log; None where there is none that can be read."""
    found = None
    for line in lines:
        start = line.find(MARK)
        if 0 <= start <= 64 and len(line) <= MAX_LINE:
            try:
                found = BurnReport.model_validate_json(line[start + len(MARK) :])
            except ValidationError:
                continue
    return found


def samples_in(text: str) -> dict[str, Sample]:
    """Return what a query of nvidia-smi (`FIELDS`) shows, by PCI address as vSphere writes it (`0000:3b:00.0`)."""
    found = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) == len(FIELDS):
            clock, most, power, heat = map(_number, cells[1:5])
            found[read_pci(cells[0])] = Sample(clock, most, power, heat, _bits(cells[5]))
    return found


FIELDS = (
    "pci.bus_id", "clocks.sm", "clocks.max.sm", "power.draw", "temperature.gpu", "clocks_throttle_reasons.active",
)  # fmt: skip
"""Fields that nvidia-smi is asked for (nvidia-smi --help-query-gpu)."""


def judge(burned: Sequence[Burned], earlier: Mapping[str, Mapping[str, int]]) -> tuple[GpuVerdict, ...]:
    """Return the verdict of each GPU; `earlier` are digests of configurations, with the GPUs that agreed on them."""
    groups: dict[str, list[Burned]] = {}
    for gpu in burned:
        if gpu.report is not None and gpu.report.is_comparable:
            groups.setdefault(gpu.report.key, []).append(gpu)
    largest = max(groups.values(), key=len, default=[])
    found = []
    for gpu in burned:
        alike = groups.get(gpu.report.key, []) if gpu.report is not None and gpu.report.is_comparable else []
        known = earlier.get(gpu.report.key, {}) if gpu.report is not None else {}
        checks = [*_measured(gpu)]
        if alike:
            checks += [*_losses(gpu, alike, known), *_configuration(gpu, alike, largest), *_pace(gpu, alike)]
        found.append(GpuVerdict(gpu, (*checks, *_conditions(gpu))))
    return tuple(found)


def agreed(burned: Sequence[Burned]) -> dict[str, tuple[str, int]]:
    """Return, by configuration, the digest that most GPUs without a wrong cycle agree on, where two or more do."""
    votes: dict[str, Counter[str]] = {}
    for gpu in burned:
        if gpu.report is not None and gpu.report.is_comparable and gpu.report.end and len(gpu.report.digests) == 1:
            votes.setdefault(gpu.report.key, Counter())[gpu.report.first] += 1
    found = {}
    for key, count in votes.items():
        (digest, number), *rest = count.most_common()
        if number > 1 and all(number > other for _, other in rest):
            found[key] = (digest, number)
    return found


def _measured(gpu: Burned) -> Iterator[Finding]:
    report = gpu.report
    if report is None:
        yield of_run("burn.not-measured", "unknown", "no report came", "look at the log of the run")
    elif report.refused:
        remedy = "install PyTorch with CUDA in the guest, or give its Python with --python"
        yield of_run("burn.refused", "unknown", f"the burn program cannot run: {report.refused}", remedy)
    elif not report.end:
        yield of_run("burn.not-measured", "unknown", f"it ended after {report.at:.0f} s, before its time was over")
    elif not report.is_comparable:
        yield of_run("burn.not-measured", "unknown", "its report has no configuration, or no losses")
    elif not report.finite:
        yield of_run("burn.not-finite", "fail", "a loss is no number", "replace the GPU, or take it out of use")


def _losses(gpu: Burned, alike: Sequence[Burned], known: Mapping[str, int]) -> Iterator[Finding]:
    report = gpu.report
    if report is None or not report.cycles:
        return
    if len(report.digests) > 1:
        wrong = report.cycles - sum(times for digest, times in report.digests.items() if digest == report.first)
        at = report.differs
        where = f", first in cycle {at.cycle} at step {at.step} ({at.found}, not {at.expected})" if at else ""
        text = f"{wrong} of {report.cycles} cycles gave other losses than the first one{where}"
        yield of_run("burn.corrupt", "fail", text, "take the GPU out of use: it computes wrongly without an error")
        return
    votes = Counter(known)
    votes.update(each.report.first for each in alike if each.report is not None and len(each.report.digests) == 1)
    (most, number), *rest = votes.most_common()
    if rest and rest[0][1] == number:
        others = ", ".join(each.name for each in alike if each is not gpu) or "an earlier burn"
        text = f"its losses differ from those of {others}; which are right is not known"
        yield of_run("burn.no-majority", "fail", text, "burn a third GPU of this kind with them")
    elif report.first != most:
        text = f"its losses differ, bit for bit, from those of {number} GPUs with the same configuration"
        yield of_run("burn.differs", "fail", text, "take the GPU out of use: it computes wrongly without an error")
    elif number == 1:
        text = "no other GPU has this configuration: its cycles agree with each other only"
        yield of_run("burn.alone", "warn", text, "burn two GPUs of this kind with the same software")


def _configuration(gpu: Burned, alike: Sequence[Burned], largest: Sequence[Burned]) -> Iterator[Finding]:
    if alike is largest or gpu.report is None or len(alike) == len(largest):
        return
    other = largest[0].report
    own, theirs = gpu.report.configuration, other.configuration if other is not None else {}
    keys = [key for key in {**theirs, **own} if own.get(key) != theirs.get(key)]
    text = "; ".join(f"{key} {own.get(key)}, elsewhere {theirs.get(key)}" for key in keys)
    yield of_run("burn.configuration", "warn", f"it is not compared with others: {text}", "install the same software")


def _pace(gpu: Burned, alike: Sequence[Burned]) -> Iterator[Finding]:
    own = gpu.report.speed if gpu.report is not None else None
    speeds = [s for each in alike if each.report is not None and (s := each.report.speed)]
    if own is not None and len(speeds) > 2 and own < SLOW * (middle := median(speeds)):
        text = f"{own:.1f} steps/s are {1 - own / middle:.0%} below the median of {len(speeds)} GPUs, {middle:.1f}"
        yield of_run("burn.slow", "fail", text, "look at its clocks, its PCIe link and its cooling")
    pace = gpu.report.pace if gpu.report is not None else ()
    part = len(pace) // 4
    if part and fmean(pace[-part:]) < FADING * fmean(pace[:part]):
        text = f"it became slower: {fmean(pace[:part]):.1f} steps/s at first, {fmean(pace[-part:]):.1f} at last"
        yield of_run("burn.fading", "warn", text, "look at its cooling")


def _conditions(gpu: Burned) -> Iterator[Finding]:
    shown = [(s, s.throttle) for s in gpu.samples if s.throttle is not None]
    if not shown:
        why = gpu.why or "nvidia-smi does not show them"
        text = f"clocks, power and throttling were not seen: {why}"
        yield of_run("burn.no-samples", "unknown", text, "allow SSH to the host, which shows them of a vGPU")
        return
    lowered = [(s, throttle) for s, throttle in shown if any(throttle & bit for bit in BAD_THROTTLES)]
    if lowered:
        reasons = {word for _, throttle in lowered for bit, word in BAD_THROTTLES.items() if throttle & bit}
        heat = max((s.temperature for s, _ in lowered if s.temperature is not None), default=None)
        clocks = [s.clock for s, _ in lowered if s.clock is not None]
        detail = [f"{heat:g} °C" if heat is not None else "", f"{median(clocks):g} MHz" if clocks else ""]
        more = f" ({', '.join(d for d in detail if d)})" if any(detail) else ""
        text = f"{', '.join(sorted(reasons))} in {len(lowered)} of {len(shown)} samples{more}"
        yield of_run("burn.throttled", "fail", text, "look at its cooling and its power supply")
    elif capped := [s for s, throttle in shown if throttle & CAPPED]:
        text = f"the power cap lowered the clocks in {len(capped)} of {len(shown)} samples"
        yield of_run("burn.power-cap", "info", text)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _bits(text: str) -> int | None:
    try:
        return int(text, 16)
    except ValueError:
        return None
