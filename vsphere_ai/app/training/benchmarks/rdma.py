"""Runs of perftest between the guests of VMs: every rail, with both neighbours in a ring."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field

from vsphere_ai.app.estate.references import load
from vsphere_ai.app.estate.session import open_session
from vsphere_ai.app.events import Emit, OutputLine, Remark, Status, ignore
from vsphere_ai.app.training.benchmarks.guests import BenchmarkGuests, benchmark_guests
from vsphere_ai.app.training.benchmarks.history import keep, say_slower, set_of
from vsphere_ai.app.training.nodes.checked import checked
from vsphere_ai.app.training.nodes.listed import NodesRequest, NodesResult, guest_settings, read_nodes
from vsphere_ai.benchmarks.checks import is_passed
from vsphere_ai.benchmarks.history import BenchmarkResult
from vsphere_ai.benchmarks.perftest import (
    RailRate,
    judged_rails,
    parse_perftest,
    perftest_command,
    rounds_of_neighbours,
)
from vsphere_ai.benchmarks.slow_part.verdict import Culprit, uplink
from vsphere_ai.connect.secure_shell.guest_ssh import Done
from vsphere_ai.connect.secure_shell.ssh import LARGEST_OUTPUT
from vsphere_ai.errors import UsageError, VsphereAiError
from vsphere_ai.health.preflight import PreflightRequirements
from vsphere_ai.model.finding import Finding
from vsphere_ai.model.nodes import Node, Rail
from vsphere_ai.model.text import plain

TRIES, PAUSE = 10, 0.5
"""How often a client tries to reach its server, which may not listen yet, and the seconds in between."""


@dataclass(frozen=True)
class RdmaRequest:
    """Which VMs; `iterations` of `size` bytes on each rail, `timeout` in seconds for a run.

    `known` is what rails of VMs reach, in Gb/s by VM and rail: two VMs of which both are known are not measured again.
    """

    nodes: NodesRequest
    iterations: int = 5000
    size: int = 1 << 20
    timeout: float = 60.0
    known: Mapping[tuple[str, str], float] = field(default_factory=dict)


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
    def exit_code(self) -> int:
        """Return 0 when every rail was measured and none is slow, else 1."""
        return 0 if self.rates and is_passed(self.checks) else 1


def bench_rdma(request: RdmaRequest, emit: Emit = ignore) -> RdmaResult:
    """Measure every rail of VMs with perftest, one rail after the other, pairs side by side.

    `UsageError` for fewer than two VMs, or without a known RDMA device. Needs perftest in the guests.
    """
    playbook = load(request.nodes.playbook, request.nodes.estate, emit) if request.nodes.playbook else None
    with open_session(request.nodes.estate, playbook, emit) as session:
        read = read_nodes(session, request.nodes, playbook)
        settings = guest_settings(session.inventory)
    nodes = checked(
        (read.nodes, read.states), settings, PreflightRequirements(gpus=False), emit, rule="bench.preflight"
    )
    names = list(dict.fromkeys(_name(rail) for node in nodes for rail in node.rails if rail.rdma_device))
    if len(nodes) < 2 or not names:
        raise UsageError(
            f"{len(nodes)} VMs and {len(names)} RDMA devices are too few",
            "name two VMs or more that have adapters for RDMA",
        )
    with benchmark_guests("rdma", nodes, settings, emit) as guests:
        measured = {rail: _measure(rail, nodes, guests, request) for rail in names}
    rates = tuple(
        RailRate(node.vm, rail, measured[rail].get(node.vm), own.speed if (own := _rail(node, rail)) else None)
        for node in nodes
        for rail in names
    )
    of = {node.vm: node for node in nodes}
    rails = tuple((rate, check, _accused(rate, check, of[rate.vm])) for rate, check in judged_rails(rates))
    if not request.known:
        _record(read, rates, request, emit)
    return RdmaResult(rails, guests.left)


def _record(read: NodesResult, rates: Sequence[RailRate], request: RdmaRequest, emit: Emit) -> None:
    """Add what the slowest VM of each rail of a set reached to its history, and say where that became less."""
    name = set_of(read)
    for rail in dict.fromkeys(rate.rail for rate in rates) if name else ():
        own = [rate.measured for rate in rates if rate.rail == rail]
        reached = [value for value in own if value is not None]
        if len(reached) == len(own):
            what = f"{rail}, slowest VM"
            made = BenchmarkResult(time.time(), name, "rdma", what, len(own), request.size, min(reached), "Gb/s")
            say_slower(keep(read.estate.about.instance, made), emit)


def _accused(rate: RailRate, check: Finding | None, node: Node) -> Culprit | None:
    rail = _rail(node, rate.rail)
    return uplink(rail, node) if rail and check and check.verdict == "fail" else None


def _name(rail: Rail) -> str:
    return f"rail {rail.number}" if rail.number is not None else rail.interface or rail.rdma_device


def _rail(node: Node, name: str) -> Rail | None:
    return next((rail for rail in node.rails if _name(rail) == name and rail.rdma_device), None)


def _measure(name: str, nodes: Sequence[Node], guests: BenchmarkGuests, request: RdmaRequest) -> dict[str, float]:
    """Return what a rail of each VM reached, in Gb/s, with its better neighbour; without those not measured."""
    known = {vm: value for (vm, rail), value in request.known.items() if rail == name}
    found = {node.vm: known[node.vm] for node in nodes if node.vm in known}
    for pairs in rounds_of_neighbours(len(nodes)):
        ends = [(nodes[a], nodes[b]) for a, b in pairs if not {nodes[a].vm, nodes[b].vm} <= known.keys()]
        if not ends:
            continue
        guests.emit(Status(f"{name}: {len(ends)} pairs"))
        of = {server.vm: (server, client) for server, client in ends}
        values = guests.on_each(of, lambda shell: _pair(name, of[shell.vm], guests, request))  # noqa: B023 - used at once
        guests.emit(Status(""))
        for vm, (one, other) in of.items():
            value = values[vm]
            if isinstance(value, VsphereAiError):
                value = value.message
            if isinstance(value, str):
                guests.emit(Remark("rdma.run-failed", f"{name}, {one.vm} and {other.vm}: {value}"))
                continue
            guests.emit(OutputLine(f"{name}  {value:8.1f} Gb/s  {one.vm}, {other.vm}"))
            for vm in {one.vm, other.vm} - known.keys():
                found[vm] = max(found.get(vm, 0.0), value)
    return found


def _pair(name: str, pair: tuple[Node, Node], guests: BenchmarkGuests, request: RdmaRequest) -> float | str:
    """Return what a pair reached in Gb/s, or why it was not measured."""
    server, client = pair
    one, other = _rail(server, name), _rail(client, name)
    if one is None or other is None:
        return "a VM has no RDMA device on this rail"

    def serve() -> None:
        with suppress(VsphereAiError):  # the client says what is wrong
            argv = perftest_command(one, "", request.iterations, request.size)
            guests.run([server.vm], argv, timeout=request.timeout, most=LARGEST_OUTPUT)

    argv = perftest_command(other, server.address, request.iterations, request.size)
    with ThreadPoolExecutor(1) as pool:
        serving = pool.submit(serve)
        found = _asked(lambda: guests.run([client.vm], argv, timeout=request.timeout, most=LARGEST_OUTPUT), serving)
        if isinstance(found, str) and not serving.done():
            guests.end([server.vm])  # it would wait for its client until its time is over
    return found


def _asked(client: Callable[[], Done], serving: Future[None]) -> float | str:
    """Run a client until its server listens; return what it reached in Gb/s, or why it was not measured."""
    text = ""
    for _ in range(TRIES):
        try:
            done = client()
        except VsphereAiError as error:
            return error.message
        runs = parse_perftest(plain(done.out).splitlines())
        value = runs[-1].bandwidth if runs else None
        if not done.code and value is not None:
            return value
        text = done.shown or f"ib_write_bw ended with {done.code}"
        if "connect" not in plain(done.err + done.out).lower() or serving.done():
            return text
        time.sleep(PAUSE)
    return text
