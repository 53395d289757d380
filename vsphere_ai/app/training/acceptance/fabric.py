"""Gates of an acceptance that measure the fabric: rails with perftest, and an all-reduce of all VMs and of pairs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from vsphere_ai.app.events import Emit
from vsphere_ai.app.training.acceptance.values import WORSE, Acceptance
from vsphere_ai.app.training.benchmarks.nccl import NcclOptions, NcclRequest, NcclResult, bench_nccl
from vsphere_ai.app.training.benchmarks.rdma import RdmaRequest, bench_rdma
from vsphere_ai.benchmarks.slow_part.pairs import EVERY, Pair, chosen_pairs
from vsphere_ai.benchmarks.slow_part.partitions import places
from vsphere_ai.health.certificate import Gate, Measurement
from vsphere_ai.model.finding import Verdict
from vsphere_ai.model.nodes import Node

ALL_REDUCE, A_PAIR, A_RAIL = "all_reduce of all VMs", "all_reduce of a pair", "ib_write_bw"
NO_BASELINE = "no baseline"


LEAST_OF_LINE = 0.5
"""Share of the line rate that an all-reduce of VMs has to reach: a healthy one reaches 0.92 (ADR-021 of
NVIDIA/cluster-readiness-engine); 0.56 is reported of VMs without a topology file (NVIDIA/nccl-tests issue 380)."""


def line_rate(nodes: Iterable[Node]) -> float | None:
    """Return what the rails of the slowest of several nodes carry, in GB/s; None where a speed is not known."""
    every = [[rail.speed for rail in node.rails if rail.rdma_device] for node in nodes]
    sums = [sum(speed or 0.0 for speed in speeds) / 8 for speeds in every if speeds and all(speeds)]
    return min(sums) if len(sums) == len(every) > 1 else None


def rdma(found: Acceptance, emit: Emit) -> Gate:
    """Measure every rail of every VM, with both neighbours in a ring; what holds is not measured again.

    A rail without a measurement is missing, and fails the gate.
    """
    old = found.passed("rdma")
    known = {
        (vm, name.removesuffix(f" of {vm}")): m.value
        for name, m in old.items()
        for vm in vms_of(m)
        if m.value is not None
    }
    result = bench_rdma(RdmaRequest(found.asked, known=known), emit)
    measured = []
    for rate, check, accused in result.rails:
        name = f"{rate.rail} of {rate.vm}"
        if rate.measured is None or name in old:
            continue
        text = check.message if check else f"{name} reaches {rate.measured:.1f} Gb/s"
        said = "; ".join([text, *((accused.message, accused.remedy) if accused else ())])
        status = (check.verdict if check.verdict in WORSE else "pass") if check else "pass"
        about = found.parts(rate.vm), rate.measured, None, "Gb/s", None, f"{A_RAIL} {rate.rail}"
        measured.append(Measurement(name, status, said, *about))
    return Gate("rdma", tuple(measured), tuple(f"{rate.rail} of {rate.vm}" for rate in result.rates))


def nccl(found: Acceptance, emit: Emit) -> Gate:
    """Run an all-reduce of all nodes, and of pairs: of every pair of a small set, in a large one of some for each VM.

    What the certificate has, and still holds, is not measured again; the run of all nodes is where a pair had failed,
    since it was measured with the same slow part.
    """
    old = found.passed("nccl")
    measured = list(_without_baseline(found))
    before = found.before["nccl"].measurements if "nccl" in found.before else ()
    if ALL_REDUCE not in old or any(m.test == A_PAIR and m.status == "fail" for m in before):
        whole = NcclOptions(baseline=found.request.baseline)
        measured += _together(bench_nccl(NcclRequest(found.asked, options=whole), emit))
    pairs = pairs_of(found)
    if len(found.nodes) > 2 and not {_pair_name(pair) for pair in pairs} <= old.keys():
        measured += _pairs(found, pairs, old, emit)
    needs = [ALL_REDUCE, *(_pair_name(pair) for pair in pairs if len(found.nodes) > 2)]
    return Gate("nccl", tuple(measured), tuple(needs))


def _without_baseline(found: Acceptance) -> Iterator[Measurement]:
    """Yield that nothing says what the set has to reach: half of the line rate is no more than a least."""
    if found.request.baseline is None:
        text = f"what these VMs have to reach is not known: only {LEAST_OF_LINE:.0%} of the line rate is required"
        remedy = "vsphere-ai bench nccl --learn FILE, then --baseline FILE"
        yield Measurement(NO_BASELINE, "warn", text, ("input:baseline",), remedy=remedy)


def pairs_of(found: Acceptance) -> tuple[Pair, ...]:
    """Return the pairs of an acceptance; those of an earlier certificate are kept where they still serve."""
    before = found.before["nccl"].measurements if "nccl" in found.before else ()
    kept = [(vms[0], vms[1]) for m in before if m.test == A_PAIR and len(vms := vms_of(m)) == 2]
    return chosen_pairs(places(found.nodes), kept)


def vms_of(found: Measurement) -> tuple[str, ...]:
    """Return the VMs that a measurement is about."""
    return tuple(part.removeprefix("vm:") for part in found.parts if part.startswith("vm:"))


def _together(result: NcclResult) -> Iterator[Measurement]:
    checks = [*(c for run in result.parsed.runs for c in run.checks), *result.parsed.missing]
    parts = ("input:baseline",)
    yield from (
        Measurement(c.rule, c.verdict, c.message, parts, test=ALL_REDUCE, remedy=c.remedy)
        for c in checks
        if c.verdict in WORSE
    )
    if result.reference is not None:
        text = f"all-reduce of {len(result.nodes)} VMs: {result.reference:.1f} GB/s bus bandwidth"
        line = line_rate(result.nodes)
        slower = result.trend.slowdown if result.trend else ""
        status: Verdict = "fail" if line and result.reference < LEAST_OF_LINE * line else "warn" if slower else "pass"
        text += f", {result.reference / line:.0%} of the line rate of its rails, {line:g} GB/s" if line else ""
        text += f"; {slower}" if slower else ""
        limit = LEAST_OF_LINE * line if line else None
        yield Measurement(ALL_REDUCE, status, text, parts, result.reference, limit, "GB/s")


def _pair_name(pair: Iterable[str]) -> str:
    return f"all_reduce of {' and '.join(sorted(pair))}"


def _pairs(
    found: Acceptance, pairs: tuple[Pair, ...], old: Mapping[str, Measurement], emit: Emit
) -> Iterator[Measurement]:
    """Yield the pairs that were measured: only those without a value that holds; all are judged together."""
    known = {p: m.value for p in pairs if (m := old.get(_pair_name(p))) and m.value is not None}
    # the circle method has the fewest rounds where every pair is measured
    chosen = pairs if len(found.nodes) > EVERY else ()
    result = bench_nccl(NcclRequest(found.asked, options=NcclOptions(pairwise=True, known=known, pairs=chosen)), emit)
    slow = {frozenset(a.ends or (a.vm,)): a for a in result.found}
    for pair, value in result.pairs.items():
        if value is None or (value == known.get(pair) and _pair_name(pair) in old):
            continue
        parts = tuple(dict.fromkeys((*found.parts(pair[0]), *found.parts(pair[1]))))
        accused = [a for ends, a in slow.items() if ends <= set(pair)]
        said = "; ".join([f"{value:.1f} GB/s", *(f"{a.message}; {a.remedy}" for a in accused)])
        status: Verdict = "fail" if accused else "pass"
        yield Measurement(_pair_name(pair), status, said, parts, value, unit="GB/s", test=A_PAIR)
