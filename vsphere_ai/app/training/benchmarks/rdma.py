"""Runs of perftest between the guests of VMs: every rail, with both neighbours in a ring."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace

from vsphere_ai.app.events import Emit, OutputLine, Remark, Status, ignore
from vsphere_ai.app.training.benchmarks.frame import BenchmarkPlace, VmBenchmark, carry_out_benchmark
from vsphere_ai.app.training.benchmarks.guests import BenchmarkGuests, prepared
from vsphere_ai.app.training.nodes.listed import NodesRequest
from vsphere_ai.benchmarks.perftest import parse_perftest, perftest_command, rounds_of_neighbours
from vsphere_ai.benchmarks.rails import RailBenchmark, RdmaResult, rail_names, rail_of
from vsphere_ai.connect.secure_shell.guest_ssh import Done
from vsphere_ai.connect.secure_shell.ssh import LARGEST_OUTPUT
from vsphere_ai.errors import VsphereAiError
from vsphere_ai.model.nodes import Node
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


def bench_rdma(request: RdmaRequest, emit: Emit = ignore) -> RdmaResult:
    """Measure every rail of VMs with perftest, one rail after the other, pairs side by side.

    `UsageError` for fewer than two VMs, or without a known RDMA device. Needs perftest in the guests.
    """
    return carry_out_benchmark(_Rails(request), request.nodes, emit)


class _Rails(VmBenchmark[RdmaResult]):
    """Runs of perftest, rail by rail."""

    def __init__(self, request: RdmaRequest) -> None:
        self._rails = RailBenchmark(request.size, request.known)
        super().__init__(self._rails)
        self._request = request

    def measure(self, place: BenchmarkPlace) -> RdmaResult:
        nodes, request = place.nodes, self._request
        with prepared("rdma", nodes, place.guests, None, place.emit) as guests:
            reached = {rail: _measure(rail, nodes, guests, request) for rail in rail_names(nodes)}
        return replace(self._rails.result(nodes, reached), left=guests.left)


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
    one, other = rail_of(server, name), rail_of(client, name)
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
