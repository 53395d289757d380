"""Trace: RDMA traffic from VMs to the wire, link by link; and the RDMA devices of hosts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from vsphere_ai.app.estate.read_estate import read_hosts, read_vms, report_malformed
from vsphere_ai.app.estate.scope import EstateRequest
from vsphere_ai.app.estate.session import open_session
from vsphere_ai.app.events import Emit, ignore
from vsphere_ai.fabric.devices import RdmaDevice, rdma_devices
from vsphere_ai.fabric.pairs import Pair, pairs
from vsphere_ai.fabric.trace import Trace
from vsphere_ai.fabric.trace import trace as links_of
from vsphere_ai.model.estate.malformed import evaluate
from vsphere_ai.model.facts import Estate
from vsphere_ai.model.finding import Finding, Subject
from vsphere_ai.model.state import Target
from vsphere_ai.model.view import View
from vsphere_ai.planning.observing import evaluate_with, observe
from vsphere_ai.resources import kinds


@dataclass(frozen=True)
class TraceRequest:
    """Which VMs to follow, by names or patterns as in a play."""

    vms: Sequence[str]
    estate: EstateRequest = field(default_factory=EstateRequest)


@dataclass(frozen=True)
class TraceResult:
    """A trace per PVRDMA adapter, and what the traffic between each two VMs uses."""

    estate: Estate
    traces: tuple[Trace, ...]
    pairs: tuple[Pair, ...]

    @property
    def findings(self) -> tuple[Finding[Subject], ...]:
        """The findings about all links."""
        return tuple(link.finding for trace in self.traces for link in trace.links)


@dataclass(frozen=True)
class DevicesRequest:
    """Which hosts' RDMA devices to list, by names or patterns; all within the limit without one."""

    hosts: Sequence[str] = ()
    estate: EstateRequest = field(default_factory=EstateRequest)


@dataclass(frozen=True)
class DevicesResult:
    """The RDMA devices per host; None for a host that could not be read."""

    estate: Estate
    hosts: tuple[tuple[Target, tuple[RdmaDevice, ...] | None], ...]


def trace(request: TraceRequest, emit: Emit = ignore) -> TraceResult:
    """Follow the PVRDMA adapters of VMs link by link. Changes nothing."""
    with open_session(request.estate, None, emit) as session:
        estate, chosen = read_vms(session, request.vms)

    def followed(estate: Estate) -> tuple[Trace, ...]:
        view = View(estate, observe(estate, kinds()))
        return tuple(t for vm in chosen for t in links_of(estate, vm, view.candidates(vm.ref)))

    traces, estate = evaluate_with(kinds(), estate, followed)
    report_malformed(estate, emit)
    return TraceResult(estate, traces, tuple(pairs(traces)))


def devices(request: DevicesRequest, emit: Emit = ignore) -> DevicesResult:
    """List the RDMA devices of hosts. Changes nothing.

    Before vSphere 8.0 driver and firmware versions are read over SSH, where that runs or may be started.
    """
    with open_session(request.estate, None, emit) as session:
        estate, chosen = read_hosts(session, request.hosts)
    found, estate = evaluate(estate, lambda e: tuple(rdma_devices(e, chosen)))
    report_malformed(estate, emit)
    return DevicesResult(estate, found)
