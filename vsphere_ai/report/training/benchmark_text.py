"""Results of benchmarks as text and as documents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

from vsphere_ai.benchmarks.baseline import ExpectedBandwidth
from vsphere_ai.benchmarks.history import Trend
from vsphere_ai.benchmarks.nccl.nccl_benchmark import NcclResult
from vsphere_ai.benchmarks.nccl.nccl_checks import inferred_ranks
from vsphere_ai.benchmarks.nccl.nccl_run import NcclMeasurement, NcclRow, NcclRun
from vsphere_ai.benchmarks.perftest import RailRate
from vsphere_ai.benchmarks.programs.megatron import Throughput
from vsphere_ai.benchmarks.published import Figure
from vsphere_ai.benchmarks.result_documents import (
    CellDocument,
    MegatronFileDocument,
    NcclDocument,
    NcclRunDocument,
    PairBandwidthDocument,
    ParsedDocument,
    PerftestFileDocument,
    RailsDocument,
    RanksDocument,
    SizeDocument,
    TrendDocument,
    TrendsDocument,
    VersionsDocument,
    WayDocument,
)
from vsphere_ai.benchmarks.results import ParsedOther, ParsedRun, ParseResult
from vsphere_ai.benchmarks.slow_part.layers import EVERYTHING
from vsphere_ai.benchmarks.slow_part.trials import Trial
from vsphere_ai.model.finding import Finding
from vsphere_ai.model.text import counted, safe
from vsphere_ai.report.layout import grouped, table

MOST_ROWS = 64
"""Rows of a table that text shows: the largest sizes."""
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def size_text(size: float) -> str:
    """Return bytes in binary units: ``8 GiB``, ``1.5 MiB``."""
    unit = 0
    while size >= 1024 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{size:.4g} {_UNITS[unit]}"


def parsed_text(result: ParseResult, *, rows: bool = True) -> str:
    """Return every run with its table and published figures, then what was learned."""
    blocks = ["\n".join(_run_lines(each, rows=rows)) for each in result.runs]
    blocks += ["\n".join(_other_lines(each)) for each in result.others]
    learned = ["\n".join(learned_lines(result.learned))] if result.learned else []
    return "\n\n".join([*blocks, *learned])


def _run_lines(parsed: ParsedRun, *, rows: bool) -> Iterator[str]:
    run = parsed.run
    yield safe(f"{parsed.file}: {_about(run)}" if parsed.file else _about(run))
    if rows and run.rows:
        shown = run.rows[-MOST_ROWS:]
        heads = ("size", "time", "algbw", "busbw", "in-place", "algbw", "busbw")
        lines = table(heads, [(size_text(r.size), *_cells(r.out_of_place), *_cells(r.in_place)) for r in shown])
        yield from (f"  {line}" for line in lines.splitlines())
        yield "  times in µs, bandwidths in GB/s"
    if run.peak is not None and run.largest is not None:
        average = f"; average over all sizes {run.average.value:g}" if run.average else ""
        yield f"  bus bandwidth at {size_text(run.largest)}: {run.peak:.2f} GB/s{average}"
    for figure in parsed.published:
        yield f"  {_compared(figure, run.peak)}"


def _about(run: NcclRun) -> str:
    name = " or ".join(c.name for c in run.collectives) or run.program or "unknown collective"
    found = inferred_ranks(run)
    ranks = (
        counted(run.declared_ranks, "rank")
        if run.declared_ranks
        else f"{found} ranks by its bandwidths"
        if found and not found.contradict
        else ""
    )
    hosts = len({d.host for d in run.devices})
    gpus = ", ".join(sorted({d.name for d in run.devices if d.name})[:2])
    versions = {"nccl-tests": run.tests_version, "NCCL": run.nccl_version}
    made = [f"{program} {version}" for program, version in versions.items() if version]
    return ", ".join(p for p in (name, ranks, counted(hosts, "node") if hosts else "", gpus, *made) if p)


def _cells(measure: NcclMeasurement | None) -> tuple[str, str, str]:
    return (
        (f"{measure.time.value:g}", f"{measure.algbw.value:.2f}", f"{measure.busbw.value:.2f}")
        if measure
        else ("-", "-", "-")
    )


def _compared(figure: Figure, peak: float | None) -> str:
    of = f", {peak / figure.busbw:.0%} of it" if peak else ""
    kind = "limit" if figure.kind == "limit" else "measured"
    return f"published ({kind}): {figure.busbw:g} GB/s, {figure.network}{of} ({figure.source})"


def live_line(size: int, time: float, algbw: float, busbw: float, *, is_first: bool) -> str:
    """Return a row of a run that goes on: the better half of it; the first one below the heads."""
    head = f"  {'SIZE':>9} {'TIME':>10} {'ALGBW':>8} {'BUSBW':>8}\n" if is_first else ""
    return f"{head}  {size_text(size):>9} {time:>10.1f} {algbw:>8.2f} {busbw:>8.2f}"


def learned_lines(learned: Sequence[ExpectedBandwidth]) -> Iterator[str]:
    """Yield what was learned, each with the smallest slowdown that it shows."""
    for each in learned:
        about = f"{each.operation}, {counted(each.ranks, 'rank')}" if each.ranks else each.operation
        spread = f", spread {each.sigma / each.busbw:.1%}" if each.sigma else ""
        visible = each.visible
        seen = f"; one run shows a slowdown of {visible:.0%} and more" if visible else "; one run shows no spread"
        yield f"learned: {about}: {each.busbw:.2f} GB/s of {counted(each.runs, 'run')}{spread}{seen}"


def parsed_document(result: ParseResult, findings: Iterable[Finding]) -> ParsedDocument:
    """Return the runs of files as they are printed, with these findings."""
    others = tuple(map(_other_document, result.others))
    return ParsedDocument.of(findings, runs=_runs(result), others=others, learned=result.learned)


def _runs(result: ParseResult) -> tuple[NcclRunDocument, ...]:
    return tuple(map(_run_document, result.runs))


def _other_document(parsed: ParsedOther) -> MegatronFileDocument | PerftestFileDocument:
    run = parsed.run
    if isinstance(run, Throughput):
        return MegatronFileDocument(
            file=parsed.file,
            benchmark="megatron",
            iterations=run.iterations,
            ms=run.time,
            tflops=run.tflops,
            samples_per_second=run.samples,
        )
    return PerftestFileDocument(
        file=parsed.file,
        benchmark="perftest",
        title=run.title,
        device=run.device,
        link=run.link,
        gbits=run.bandwidth,
        latency_us=run.latency,
        bandwidth_without_unit=run.shown_bandwidth,
    )


def _other_lines(parsed: ParsedOther) -> Iterator[str]:
    run, where = parsed.run, f"{parsed.file}: " if parsed.file else ""
    if isinstance(run, Throughput):
        rates = [f"{run.tflops:.1f} TFLOP/s per GPU" if run.tflops is not None else "TFLOP/s not logged"]
        rates += [f"{run.samples:.1f} samples/s"] if run.samples is not None else []
        yield safe(f"{where}Megatron, {counted(run.iterations, 'iteration')} after the warm-up")
        yield f"  {run.time:.1f} ms per iteration (spread {run.spread:.1%}), {', '.join(rates)}"
    else:
        about = ", ".join(filter(None, (run.title or "perftest", run.device, run.link)))
        yield safe(f"{where}{about}")
        if run.bandwidth is not None:
            yield f"  bandwidth: {run.bandwidth:.2f} Gb/s"
        elif run.shown_bandwidth is not None:
            yield f"  bandwidth: {run.shown_bandwidth:g} in the unit of the run's options (Gb/s with --report_gbits)"
        if run.latency is not None:
            yield f"  latency: {run.latency:g} µs"


def _run_document(parsed: ParsedRun) -> NcclRunDocument:
    run = parsed.run
    found = inferred_ranks(run)
    inferred = str(found) if found and not found.contradict else None
    return NcclRunDocument(
        file=parsed.file,
        collectives=tuple(c.name for c in run.collectives),
        ranks=RanksDocument(declared=run.declared_ranks, inferred=inferred),
        busbw=run.peak,
        size=run.largest,
        average=run.average.value if run.average else None,
        out_of_bounds=run.out_of_bounds,
        versions=VersionsDocument(nccl_tests=run.tests_version, nccl=run.nccl_version),
        devices=tuple(run.devices),
        rows=tuple(map(_size_document, run.rows)),
        channels=dict(run.transport.channels),
        published=parsed.published,
    )


def _size_document(row: NcclRow) -> SizeDocument:
    return SizeDocument(
        size=row.size,
        count=row.count,
        type=row.type,
        redop=row.redop,
        root=row.root,
        out_of_place=_cell_document(row.out_of_place),
        in_place=_cell_document(row.in_place),
    )


def _cell_document(measure: NcclMeasurement | None) -> CellDocument | None:
    if measure is None:
        return None
    time, algbw, busbw = measure.time.value, measure.algbw.value, measure.busbw.value
    return CellDocument(time_us=time, algbw=algbw, busbw=busbw, wrong=measure.wrong)


def nccl_text(result: NcclResult) -> str:
    """Return what nccl-tests reached: on each way, how much a search ran, every pair, or the run of all VMs."""
    about = f"{counted(result.trials, 'trial')} in {counted(result.rounds, 'round')}"
    about += f", reference {result.reference:.2f} GB/s" if result.reference else ""
    if result.layers:
        text = layers_text(result.layers)
    elif result.outcome is not None:
        text = about
    elif result.pairs:
        text = f"{pairs_text(result.pairs, result.reference)}\n{about}"
    else:
        text = parsed_text(result.parsed, rows=False)
    return "\n".join(filter(None, (text, *learned_lines(result.learned))))


def nccl_document(result: NcclResult, findings: Iterable[Finding]) -> NcclDocument:
    """Return what nccl-tests reached as it is printed, with these findings."""
    return NcclDocument.of(
        findings,
        trials=result.trials,
        rounds=result.rounds,
        learned=result.learned,
        runs=_runs(result.parsed),
        pairs=tuple(PairBandwidthDocument(vms=pair, busbw=value) for pair, value in result.pairs.items()),
        layers=tuple(_way_document(trial, value, result.slow) for trial, value in result.layers.items()),
        outcome=result.outcome,
        reference=result.reference,
    )


def pairs_text(pairs: Mapping[tuple[str, str], float | None], reference: float | None) -> str:
    """Return every pair as a line, the slowest first."""
    rows = []
    slowest = sorted((value, pair) for pair, value in pairs.items() if value is not None)
    unknown = sorted(pair for pair, value in pairs.items() if value is None)
    for value, (one, other) in (*((None, pair) for pair in unknown), *slowest):
        share = f"{value / reference:.0%}" if value is not None and reference else "-"
        rows.append((one, other, f"{value:.2f}" if value is not None else "not measured", share))
    return table(("vm", "vm", "busbw GB/s", "of reference"), rows)


def layers_text(found: Mapping[Trial, float | None]) -> str:
    """Return a line per pair of VMs, or VM, with what it reached on each way."""
    ways = list(dict.fromkeys(trial.layer for trial in found))
    of = {(trial.vms, trial.layer): value for trial, value in found.items()}
    rows = []
    for vms in dict.fromkeys(trial.vms for trial in found):
        values = [of.get((vms, way), -1.0) for way in ways]
        rows.append((", ".join(vms), *("-" if v == -1.0 else "none" if v is None else f"{v:.2f}" for v in values)))
    return table(("vms, in GB/s", *(way or EVERYTHING for way in ways)), rows)


def _way_document(trial: Trial, busbw: float | None, slow: Mapping[Trial, float]) -> WayDocument:
    way = trial.layer or EVERYTHING
    return WayDocument(vms=trial.vms, way=way, busbw=busbw, share=slow.get(trial), slow=trial in slow)


def history_text(found: Sequence[Trend]) -> str:
    """Return a table per set and benchmark: a line per measurement, the newest result, and its change."""
    if not found:
        return "no benchmark of a set is recorded on this machine"
    of = grouped((f"{trend.newest.set}, {trend.newest.benchmark}", trend) for trend in found)
    return "\n\n".join(f"{safe(name)}\n{_history_table(own)}" for name, own in of.items())


def _history_table(found: Sequence[Trend]) -> str:
    rows = []
    for trend in found:
        own = trend.newest
        day = datetime.fromtimestamp(own.at, UTC).strftime("%Y-%m-%d")
        verdict = "slower" if trend.is_worse else "faster" if trend.is_significant else "as before"
        change = f"{trend.change:+.1%} {verdict}" if trend.norm else "-"
        size, value = size_text(own.size) if own.size else "-", f"{own.value:.2f} {own.unit}"
        rows.append((own.operation, own.ranks, size, value, day, trend.count, change))
    return table(("what", "ranks", "size", "result", "newest", "runs", "change"), rows)


def history_document(found: Sequence[Trend], findings: Iterable[Finding]) -> TrendsDocument:
    """Return the measurements as they are printed, with these findings."""
    return TrendsDocument.of(findings, measurements=tuple(map(_trend_document, found)))


def _trend_document(trend: Trend) -> TrendDocument:
    return TrendDocument(
        newest=trend.newest,
        results=trend.count,
        norm=trend.norm,
        change=trend.change,
        slope=trend.slope,
        significant=trend.is_significant,
        worse=trend.is_worse,
    )


def rails_document(rates: Sequence[RailRate], findings: Iterable[Finding]) -> RailsDocument:
    """Return what each rail reached as it is printed, with these findings."""
    return RailsDocument.of(findings, rails=tuple(rates))


def rails_text(rates: Sequence[RailRate]) -> str:
    """Return what each rail reached."""
    rows = [
        (r.vm, r.rail, f"{r.measured:.1f}" if r.measured is not None else "not measured", r.speed or "-") for r in rates
    ]
    return table(("vm", "rail", "gigabit/s", "link"), rows)
