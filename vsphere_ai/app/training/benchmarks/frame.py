"""Frame of benchmarks: read, pre-flight, logins, measurement, history and baseline are the same for every one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic

from vsphere_ai.app.estate.references import load
from vsphere_ai.app.estate.session import open_session
from vsphere_ai.app.events import Emit
from vsphere_ai.app.training.benchmarks.history import keep_measured, require_readable
from vsphere_ai.app.training.nodes.checked import checked
from vsphere_ai.app.training.nodes.listed import NodesRequest, NodesResult, guest_settings, read_nodes
from vsphere_ai.benchmarks.benchmark import Benchmark, R
from vsphere_ai.connect.secure_shell.guest_ssh import GuestSettings
from vsphere_ai.connect.secure_shell.guest_survey import GuestConnections
from vsphere_ai.model.nodes import Node
from vsphere_ai.model.state import Target

if TYPE_CHECKING:
    from vsphere_ai.connect.secure_shell.esxi import EsxiSsh


@dataclass(frozen=True)
class BenchmarkPlace:
    """Where a benchmark runs: the VMs as `read` has them, with what their guests showed, and connections to all guests.

    `hosts` opens a connection to the shell of a host; None where the inventory does not say how.
    """

    read: NodesResult
    settings: GuestSettings
    guests: GuestConnections
    hosts: Callable[[Target], EsxiSsh] | None
    emit: Emit

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The VMs in their order."""
        return self.read.nodes


class VmBenchmark(ABC, Generic[R]):
    """A benchmark that can be carried out: its description, and how it runs on guests that are logged in to."""

    def __init__(self, about: Benchmark[R]) -> None:
        self.about = about

    @abstractmethod
    def measure(self, place: BenchmarkPlace) -> R:
        """Start it, follow it to its end, and judge what it brought; nothing of it runs any more afterwards."""

    def learn(self, result: R) -> R:
        """Write a baseline of a result where one is wanted; return the result with it."""
        return result


def carry_out_benchmark(benchmark: VmBenchmark[R], nodes: NodesRequest, emit: Emit) -> R:
    """Carry out a benchmark on VMs, and keep what it measured of a whole set in its history.

    `UsageError` where no VM is meant, these cannot be measured, or guests cannot be reached by the inventory; `Refused`
    where something blocks a start; a guest that is out of reach is an error before anything runs.
    """
    about, playbook = benchmark.about, load(nodes.playbook, nodes.estate, emit) if nodes.playbook else None
    with open_session(nodes.estate, playbook, emit) as session:
        read = read_nodes(session, nodes, playbook)
        settings, hosts = guest_settings(session.scope.inventory), session.connection.shells
    about.check_count(read.nodes)
    require_readable(read.estate.about.instance)
    wanted = about.requirements(read.nodes)
    if wanted is not None:
        known = checked((read.nodes, read.states), settings, wanted, emit, rule="bench.preflight")
        read = replace(read, nodes=known)
    about.check_nodes(read.nodes)
    with GuestConnections.to_all(read.nodes, settings) as guests:
        result = benchmark.measure(BenchmarkPlace(read, settings, guests, hosts, emit))
    trend = keep_measured(read, about.measured(result), emit)
    return benchmark.learn(about.with_trend(result, trend))
