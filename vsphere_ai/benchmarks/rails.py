"""Rails of VMs as a benchmark with perftest: which rails are measured, how each is judged, and its history."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from vsphere_ai.benchmarks.benchmark import Benchmark, Measured
from vsphere_ai.benchmarks.checks import of_run, or_passed
from vsphere_ai.benchmarks.perftest import RailRate, judged_rails
from vsphere_ai.benchmarks.slow_part.verdict import Culprit, uplink
from vsphere_ai.errors import UsageError
from vsphere_ai.health.preflight import PreflightRequirements
from vsphere_ai.model.finding import Finding, Subject
from vsphere_ai.model.nodes import Node, Rail


@dataclass(frozen=True)
class RdmaResult:
    """What each rail reached with its better neighbour, what is to say of it, and the uplinks that are slow.

    `left` says what of the run is still on a VM.
    """

    rails: tuple[tuple[RailRate, Finding | None, Culprit | None], ...]
    left: tuple[Finding, ...] = ()

    @property
    def rates(self) -> tuple[RailRate, ...]:
        """What each rail reached."""
        return tuple(rate for rate, _, _ in self.rails)

    @property
    def checks(self) -> tuple[Finding, ...]:
        """What is to say of the rails, and of what is left."""
        return (*(check for _, check, _ in self.rails if check), *self.left)

    @property
    def found(self) -> tuple[Culprit, ...]:
        """The uplinks behind slow rails."""
        return tuple(accused for _, _, accused in self.rails if accused)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is to say of each rail, with the names of its uplink as evidence, and of what is left."""
        if not self.rails:
            return of_run("rdma.not-measured", "unknown", "no rail was measured"), *self.left
        judged = ((rate, check, accused) for rate, check, accused in self.rails if check)
        of_rails = (_of_rail(rate, check, accused) for rate, check, accused in judged)
        return or_passed((*of_rails, *self.left), "every rail was measured, and none is slow")


@dataclass(frozen=True)
class RailBenchmark(Benchmark[RdmaResult]):
    """Every rail of VMs, `size` bytes at a time; `known` are rails that need no measurement, in Gb/s by VM and rail."""

    size: int
    known: Mapping[tuple[str, str], float] = field(default_factory=dict)

    def requirements(self, nodes: Sequence[Node]) -> PreflightRequirements | None:
        """Return that nodes need no GPU."""
        return PreflightRequirements(gpus=False)

    def check_nodes(self, nodes: Sequence[Node]) -> None:
        """`UsageError` for fewer than two VMs, or without a known RDMA device."""
        names = rail_names(nodes)
        if len(nodes) < 2 or not names:
            raise UsageError(
                f"{len(nodes)} VMs and {len(names)} RDMA devices are too few",
                "name two VMs or more that have adapters for RDMA",
            )

    def result(self, nodes: Sequence[Node], reached: Mapping[str, Mapping[str, float]]) -> RdmaResult:
        """Return the verdict of each rail; `reached` has Gb/s by rail and VM, without what was not measured."""
        rates = tuple(
            RailRate(node.vm, rail, reached[rail].get(node.vm), own.speed if (own := rail_of(node, rail)) else None)
            for node in nodes
            for rail in reached
        )
        of, judged = {node.vm: node for node in nodes}, judged_rails(rates)
        return RdmaResult(tuple((rate, check, _accused(rate, check, of[rate.vm])) for rate, check in judged))

    def measured(self, result: RdmaResult) -> Iterator[Measured]:
        """Yield what the slowest VM of each rail reached, where all were measured now."""
        for rail in dict.fromkeys(rate.rail for rate in result.rates) if not self.known else ():
            own = [rate.measured for rate in result.rates if rate.rail == rail]
            reached = [value for value in own if value is not None]
            if len(reached) == len(own):
                yield Measured("rdma", f"{rail}, slowest VM", len(own), self.size, min(reached), "Gb/s")


def _accused(rate: RailRate, check: Finding | None, node: Node) -> Culprit | None:
    rail = rail_of(node, rate.rail)
    return uplink(rail, node) if rail and check and check.verdict == "fail" else None


def _of_rail(rate: RailRate, check: Finding, accused: Culprit | None) -> Finding:
    if accused is None:
        return replace(check, target=Subject("vm", rate.vm, part=rate.rail))
    on = Subject("vm", rate.vm, host=accused.host, part=rate.rail)
    return replace(check, target=on, evidence=accused.evidence, remedy=f"{check.remedy}; {accused.remedy}")


def rail_names(nodes: Sequence[Node]) -> list[str]:
    """Return the names of the rails with RDMA devices, each once."""
    return list(dict.fromkeys(_name(rail) for node in nodes for rail in node.rails if rail.rdma_device))


def rail_of(node: Node, name: str) -> Rail | None:
    """Return the rail of a node with a name, where it has an RDMA device."""
    return next((rail for rail in node.rails if _name(rail) == name and rail.rdma_device), None)


def _name(rail: Rail) -> str:
    return f"rail {rail.number}" if rail.number is not None else rail.interface or rail.rdma_device
