"""Gates of an acceptance: each carries out one check of the tool, and returns its measurements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Literal

from vsphere_ai.app.assess_farm import AssessRequest, assess
from vsphere_ai.app.benchmark_nccl import NcclOptions, NcclRequest, NcclResult, bench_nccl
from vsphere_ai.app.events import Emit
from vsphere_ai.app.health import HealthRequest, check_health
from vsphere_ai.app.nodes import NodesRequest
from vsphere_ai.app.session import EstateRequest
from vsphere_ai.compat import assessment
from vsphere_ai.compat.certified_facts import parts_of
from vsphere_ai.health.certificate import Gate, Measurement, Status
from vsphere_ai.model.assessment import Assessed, PillarVerdict
from vsphere_ai.model.nodes import Node

GateName = Literal["assess", "health", "nccl"]
ORDER: tuple[GateName, ...] = ("assess", "health", "nccl")
"""Gates in the order in which they are carried out: the cheapest first."""
ALL_REDUCE, SEARCH, HEALTHY = "all_reduce of all VMs", "search for a slow part", "every check"
BY_NCCL = ("operations.benchmark-recent", "performance.bus-bandwidth")
"""Rules of the assessment that are about benchmarks."""
MOST_IN_PAIRS = 16
"""VMs of which every pair is measured; in larger sets the slow part is searched for."""
_WORSE: Mapping[str, Status] = {"warn": "warn", "unknown": "unknown", "fail": "fail"}
_STATUS: Mapping[PillarVerdict, Status] = {"pass": "pass", "warn": "warn", "unknown": "unknown", "fail": "fail"}


@dataclass(frozen=True)
class AcceptRequest:
    """The set of a playbook, the gates to carry out, and the file of the certificate, from which it also goes on.

    `attestations` are for the assessment, `profile` for health, `baseline` for benchmarks; `again`: nothing of an
    earlier certificate counts.
    """

    playbook: Path
    certificate: Path
    set: str = ""
    gates: tuple[GateName, ...] = ORDER
    attestations: Path | None = None
    profile: Path | None = None
    baseline: Path | None = None
    again: bool = False
    estate: EstateRequest = field(default_factory=EstateRequest)


@dataclass(frozen=True)
class Acceptance:
    """What gates work on: the request, the vCenter, the set with its nodes, and the facts that are certified."""

    request: AcceptRequest
    vcenter: str
    set: str
    nodes: tuple[Node, ...]
    facts: Mapping[str, Mapping[str, str]]
    valid: Mapping[str, Gate] = field(default_factory=dict)
    """What an earlier certificate has, and still holds, by gate."""

    def parts(self, vm: str) -> tuple[str, ...]:
        """Return the parts that a measurement on a VM rests on."""
        return next((parts_of(node) for node in self.nodes if node.vm == vm), (f"vm:{vm}",))


def _assess(found: Acceptance, emit: Emit) -> Gate:
    """Judge the farm by the five pillars: a measurement per rule and object; what does not apply is none.

    What the gate `nccl` measures is left to it.
    """
    asked = found.request
    result = assess(AssessRequest(asked.playbook, asked.attestations, asked.estate), emit)
    about = {rule.id: rule.about for rule in assessment.rules()}
    return Gate(
        "assess",
        tuple(_measured(a, about[a.rule]) for a in result.found if a.verdict in _STATUS and a.rule not in BY_NCCL),
    )


def _measured(found: Assessed, about: str) -> Measurement:
    parts = (f"{about}:{found.subject}",) if found.subject else ()
    return Measurement(found.rule, _STATUS[found.verdict], found.message, parts)


def _health(found: Acceptance, emit: Emit) -> Gate:
    """Check every node: a measurement per VM for each check that found something, and one that all were checked."""
    asked = NodesRequest(playbook=found.request.playbook, set=found.set, estate=found.request.estate)
    result = check_health(HealthRequest(asked, found.request.profile), emit)
    measured = []
    for vm in result.vms:
        parts = found.parts(vm.node.vm)
        bad = [f for f in vm.findings if f.verdict in _WORSE]
        measured += [Measurement(f.check, _WORSE[f.verdict], f.text, parts) for f in bad]
        if not bad:
            measured.append(Measurement(HEALTHY, "pass", f"{vm.node.vm}: every check passed", parts))
    return Gate("health", tuple(measured))


def _nccl(found: Acceptance, emit: Emit) -> Gate:
    """Run an all-reduce of all nodes, and of every pair; in large sets a search for the slow part instead of pairs.

    What the certificate has, and still holds, is not measured again.
    """
    asked = NodesRequest(playbook=found.request.playbook, set=found.set, estate=found.request.estate)
    old = {m.name: m for m in found.valid["nccl"].measurements} if "nccl" in found.valid else {}
    measured: list[Measurement] = []
    needs, whole = [ALL_REDUCE], NcclOptions(baseline=found.request.baseline)
    if ALL_REDUCE not in old:
        measured += _together(bench_nccl(NcclRequest(asked, options=whole), emit))
    names = [node.vm for node in found.nodes]
    if 2 < len(names) <= MOST_IN_PAIRS:
        pairs = [_pair_name(pair) for pair in combinations(names, 2)]
        needs += pairs
        if not set(pairs) <= set(old):
            measured += _pairs(found, asked, old, emit)
    elif len(names) > MOST_IN_PAIRS:
        needs.append(SEARCH)
        measured += _searched(bench_nccl(NcclRequest(asked, options=NcclOptions(bisect=True)), emit), old)
    return Gate("nccl", tuple(measured), tuple(needs))


def _together(result: NcclResult) -> Iterator[Measurement]:
    checks = [*(c for run in result.parsed.runs for c in run.checks), *result.parsed.missing]
    yield from (Measurement(c.rule, _WORSE[c.level], c.message) for c in checks if c.level in _WORSE)
    if result.reference is not None:
        text = f"all-reduce of {len(result.nodes)} VMs: {result.reference:.1f} GB/s bus bandwidth"
        yield Measurement(ALL_REDUCE, "pass", text, (), result.reference, unit="GB/s")


def _searched(result: NcclResult, old: Mapping[str, Measurement]) -> Iterator[Measurement]:
    for each in result.found:
        yield Measurement(SEARCH, "fail", f"{each.message}; {each.remedy}")
    if not result.found:
        clean = result.outcome is not None and result.outcome.is_clean
        text = f"{result.trials} trials: no part is slow" if clean else "not every trial was measured"
        yield Measurement(SEARCH, "pass" if clean else "unknown", text)


def _pair_name(pair: Iterable[str]) -> str:
    return f"all_reduce of {' and '.join(sorted(pair))}"


def _pairs(found: Acceptance, asked: NodesRequest, old: Mapping[str, Measurement], emit: Emit) -> Iterator[Measurement]:
    """Yield every pair: judged together, and measured only where the certificate has no value that holds."""
    every = combinations([node.vm for node in found.nodes], 2)
    known = {p: m.value for p in every if (m := old.get(_pair_name(p))) and m.value is not None}
    result = bench_nccl(NcclRequest(asked, options=NcclOptions(pairwise=True, known=known)), emit)
    slow = {frozenset(a.ends) for a in result.found if a.ends} | {frozenset((a.vm,)) for a in result.found if a.vm}
    for pair, value in result.pairs.items():
        parts = tuple(dict.fromkeys((*found.parts(pair[0]), *found.parts(pair[1]))))
        accused = any(each <= set(pair) for each in slow)
        status: Status = "unknown" if value is None else "fail" if accused else "pass"
        said = "not measured" if value is None else f"{value:.1f} GB/s" + (", which is slow" if accused else "")
        yield Measurement(_pair_name(pair), status, said, parts, value, unit="GB/s")


GATES: Mapping[GateName, Callable[[Acceptance, Emit], Gate]] = {"assess": _assess, "health": _health, "nccl": _nccl}
ALWAYS: frozenset[GateName] = frozenset(("assess",))
"""Gates that cost little, and judge more than the certified facts: they are carried out each time."""
