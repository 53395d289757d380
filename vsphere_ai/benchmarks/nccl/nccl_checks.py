"""Checks of a run of nccl-tests: whether its figures agree with each other and with its header, and the transports.

Figures are compared within the rounding in which they are printed. Ranks follow from bus bandwidth over algorithm
bandwidth: 2/(2-f) for all_reduce, 1/(1-f) for the collectives whose size counts all ranks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, floor, inf, isinf

from vsphere_ai.benchmarks.checks import of_run
from vsphere_ai.benchmarks.nccl.collectives import Collective
from vsphere_ai.benchmarks.nccl.nccl_run import NcclMeasurement, NcclRow, NcclRun, RoundedNumber
from vsphere_ai.model.finding import Finding, seriousness

SLACK = 1e-9
"""Relative error of our own arithmetic."""
EXAMPLES = 3
_COMPLETION = re.compile(r"status=(\d{1,4})\b")
COMPLETIONS = {
    5: "the queue pair was in error before: look for the first warning of another status",
    12: "no answer from the peer's NIC: check cables, switch port, MTU, PFC and the GID index on both ends",
    13: "the peer's NIC had no receive posted: look for the rank that failed first",
}
"""Remedy by the status of a completion: ibv_wc_status, linux-rdma/rdma-core libibverbs/verbs.h."""


@dataclass(frozen=True)
class Ranks:
    """Numbers of ranks that agree with every row, from `low` to `high`; `high` is infinite where rounding hides it."""

    low: float
    high: float

    @property
    def contradict(self) -> bool:
        """Whether no number of ranks gives every row."""
        return self.low > self.high

    @property
    def only(self) -> int | None:
        """The number, where it is the only one."""
        return int(self.low) if self.low == self.high else None

    def __contains__(self, ranks: int) -> bool:
        return self.low <= ranks <= self.high

    def __str__(self) -> str:
        if self.only is not None:
            return str(self.only)
        return f"{self.low:g} or more" if isinf(self.high) else f"{self.low:g} to {self.high:g}"


def inferred_ranks(run: NcclRun) -> Ranks | None:
    """Return the ranks that follow from the rows; None where no row shows them. `low` > `high`: rows contradict."""
    collective = run.collective
    if collective is None or collective.family.ranks is None:
        return None
    inverse, low, high, seen = collective.family.ranks, 1.0, inf, False
    for _, measure in _measures(run):
        factor = _ratio(measure.busbw, measure.algbw)
        if factor is None:
            continue
        seen = True
        low = max(low, inverse(factor.low * (1 - SLACK)) if factor.low < 2 else inf)
        high = min(high, inverse(factor.high * (1 + SLACK)))
    if not seen or (isinf(high) and low <= 1):
        return None
    if isinf(low):
        return Ranks(inf, 1)  # more than any number of ranks gives
    return Ranks(ceil(low - 1e-6), high if isinf(high) else floor(high + 1e-6))


def nccl_checks(run: NcclRun, ranks: int | None = None) -> tuple[Finding, ...]:
    """Return what is to say of a run, the worst first; `ranks` is the number it was started with, where known."""
    found = [*_as_run(run), *_rank_checks(run, ranks), *_arithmetic(run), *_validation(run), *_transports(run)]
    return tuple(sorted(found, key=lambda c: -seriousness(c)))


def _as_run(run: NcclRun) -> Iterator[Finding]:
    first = [d.host for d in run.devices if d.rank == 0]
    times = max(run.headers, run.tables, len(first))
    if times > 1:
        hosts = f", on {', '.join(sorted(set(first))[:EXAMPLES])}" if first else ""
        text = f"each process ran alone: headers or rank 0 are listed {times} times{hosts}"
        yield of_run("nccl.no-mpi", "fail", text, "build nccl-tests with MPI=1, and start it with the same MPI")
    for failure in run.failures:
        yield of_run("nccl.error", "fail", failure)
    yield from warnings_of(run, is_failed=bool(run.failures) or run.peak is None)
    if run.peak is None:
        yield of_run("nccl.no-rows", "unknown", "nothing was measured: the table has no rows")
    elif run.out_of_bounds is None and run.average is None:
        yield of_run("nccl.no-end", "warn", "the footer is missing: the run was cut off, or its text was")
    if run.unread:
        text = f"{run.unread} lines of the table cannot be read: other output was written into them, or not a number"
        yield of_run("nccl.unread", "warn", text)
    if run.dropped:
        yield of_run("nccl.dropped", "warn", f"{run.dropped} rows beyond the first {len(run.rows)} were not kept")


def warnings_of(run: NcclRun, *, is_failed: bool) -> Iterator[Finding]:
    """Yield what NCCL warns of: the cause where a run failed, a warning where it went on."""
    for warning in run.warnings:
        text, remedy = f"NCCL reports: {warning}", _remedy(warning)
        yield of_run("nccl.cause", "fail", text, remedy) if is_failed else of_run("nccl.warning", "warn", text, remedy)


def _rank_checks(run: NcclRun, ranks: int | None) -> Iterator[Finding]:
    found = inferred_ranks(run)
    name = run.collective.name if run.collective else ""
    if found and found.contradict:
        text = f"bus and algorithm bandwidth do not belong together: no number of ranks of {name} gives every row"
        yield of_run("nccl.ratio", "fail", text)
        return
    for count, of in ((ranks, "it was started with"), (run.declared_ranks, "its Rank lines list")):
        if found and count and count not in found:
            text = f"the bandwidths are those of {found} ranks, but {of} {count}"
            yield of_run("nccl.ranks", "fail", text, "the table is of another run, or not all ranks took part")
        elif count and (wrong := _scale(run, count)) is not None:
            text = f"sizes are those of {wrong:g} ranks (size / (count × bytes of an element)), but {of} {count}"
            yield of_run("nccl.ranks", "fail", text)
    if ranks and run.declared_ranks and ranks != run.declared_ranks * run.groups:
        text = f"{run.declared_ranks * run.groups} ranks took part, started with {ranks}"
        yield of_run("nccl.ranks", "fail", text)
    if run.collective is None and run.rows:
        names = ", ".join(c.name for c in run.collectives) or "none that is known"
        yield of_run("nccl.collective", "info", f"the text does not name the collective; its columns fit: {names}")


def _scale(run: NcclRun, count: int) -> float | None:
    """Return the ranks by which sizes count, where they are another number than the given."""
    scales = [r.scale for r in run.rows if r.scale and run.collective and run.collective.whole]
    wrong = [s for s in scales if abs(s - count) > 1e-6 * count]
    return wrong[-1] if wrong and run.collective and run.collective.timed else None


def _arithmetic(run: NcclRun) -> Iterator[Finding]:
    low, high = run.header.get("minBytes"), run.header.get("maxBytes")
    outside = [r.size for r in run.rows if r.size > (high or inf) or (low and 0 < r.size < low // 2)]
    if outside:
        text = f"{len(outside)} rows are outside of the header's {low} to {high} bytes: {_some(outside)}"
        yield of_run("nccl.sizes", "fail", text, "header and rows are of different runs")
    collective = run.collective
    if collective and _is_timed(run, collective):
        wrong = [row.size for row, m in _measures(run) if not _is_size_over_time(row, m)]
        if wrong:
            text = f"algorithm bandwidth is not size / time in {len(wrong)} measurements: sizes {_some(wrong)}"
            yield of_run("nccl.time", "fail", text, "figures were edited, or put together from different runs")
    if run.average is not None and run.rows and not run.dropped:
        every = [m.busbw for _, m in _measures(run)]
        mean = RoundedNumber(sum(b.value for b in every) / len(every), sum(b.half for b in every) / len(every))
        if not _meet(mean, run.average):
            text = f"the average bus bandwidth {run.average.value:g} GB/s is not that of the rows ({mean.value:.4f})"
            yield of_run("nccl.average", "warn", f"{text}: rows are missing")
    if run.average_ok is False:
        yield of_run("nccl.min-bandwidth", "fail", "the average is below 0.9 × NCCL_TESTS_MIN_BW")
    # -o all, -d all and -r all measure every size once for each operation, type and root
    if any(a.size > b.size and _key(a) == _key(b) for a, b in pairwise(run.rows)):
        yield of_run("nccl.order", "warn", "sizes do not ascend: rows of several runs or processes may be mixed")


def _key(row: NcclRow) -> tuple[str, str, int | None]:
    return row.type, row.redop, row.root


def _validation(run: NcclRun) -> Iterator[Finding]:
    bad = [row.size for row, m in _measures(run) if m.wrong and not run.has_differences]
    if bad or run.bounds_ok is False or run.out_of_bounds:
        values = f"{run.out_of_bounds} values out of bounds" if run.out_of_bounds else "wrong values"
        where = f": sizes {_some(bad)}" if bad else ""
        yield of_run("nccl.wrong", "fail", f"results are wrong: {values}{where}", "data is corrupted on its way")
    elif run.rows and all(m.wrong is None for _, m in _measures(run)):
        yield of_run("nccl.not-validated", "info", "results were not validated (-c 0)")


def _remedy(warning: str) -> str:
    status = _COMPLETION.search(warning)
    return COMPLETIONS.get(int(status[1]), "") if status else ""


def _transports(run: NcclRun) -> Iterator[Finding]:
    seen = run.transport
    if not seen.is_seen:
        text = "the text does not show whether RDMA was used"
        yield of_run("nccl.transport", "info", text, "run with NCCL_DEBUG=INFO")
        return
    rdma = seen.between_nodes
    if seen.tcp and (rdma or not run.is_of_one_node):
        none = seen.no_rdma_device and seen.tcp == "Socket"
        why = "NCCL found no RDMA device" if none else f"NCCL used TCP (NET/{seen.tcp})"
        remedy = "check the RDMA device in the guest, NCCL_IB_HCA and NCCL_IB_DISABLE"
        yield of_run("nccl.socket", "fail", f"{why} between nodes", remedy)
    elif rdma:
        direct = sum(count for n, count in rdma.items() if n.endswith("/GDRDMA"))
        rest = sum(rdma.values()) - direct
        yield of_run("nccl.rdma", "info", f"{sum(rdma.values())} channels over {', '.join(sorted(rdma))}")
        if rest:
            text = f"{rest} of {direct + rest} channels go through the memory of the guest: no GPUDirect RDMA"
            yield of_run("nccl.no-gpudirect", "warn", text, "see NCCL_NET_GDR_LEVEL and the resource type gpudirect")
    elif not seen.channels and seen.gpudirect["Disabled"]:
        yield of_run("nccl.no-gpudirect", "warn", "GPU Direct RDMA is disabled for its RDMA devices")


def _is_timed(run: NcclRun, collective: Collective) -> bool:
    return collective.timed and not run.is_cpu_time


def _measures(run: NcclRun) -> Iterator[tuple[NcclRow, NcclMeasurement]]:
    return ((row, measure) for row in run.rows for measure in row.measures)


def _ratio(over: RoundedNumber, under: RoundedNumber) -> RoundedNumber | None:
    """Return the quotient with its bounds; None where it says nothing because the figures are too small."""
    if under.low <= 0 or over.low <= 0 or under.half > 0.2 * under.value:
        return None
    low, high = over.low / under.high, over.high / under.low
    return RoundedNumber((low + high) / 2, (high - low) / 2)


def _is_size_over_time(row: NcclRow, measure: NcclMeasurement) -> bool:
    if measure.time.low <= 0:
        return True
    low, high = row.size / 1e3 / measure.time.high, row.size / 1e3 / measure.time.low
    return low * (1 - SLACK) <= measure.algbw.high and measure.algbw.low <= high * (1 + SLACK)


def _meet(one: RoundedNumber, other: RoundedNumber) -> bool:
    return one.low * (1 - SLACK) <= other.high and other.low * (1 - SLACK) <= one.high


def _some(values: list[int]) -> str:
    more = ", …" if len(values) > EXAMPLES else ""
    return ", ".join(map(str, values[:EXAMPLES])) + more
