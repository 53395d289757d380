"""Explanations as text of at most 80 columns, and as documents; the topics that belong to no rule, key or board."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from vsphere_ai.benchmarks.nccl.collectives import COLLECTIVES
from vsphere_ai.documents.reference.explanations import (
    BusBandwidthDocument,
    CollectiveFactor,
    PodRdmaMode,
    RdmaDeviceOption,
    RdmaOptionsDocument,
    RdmaTransport,
    RdmaTransportsDocument,
)
from vsphere_ai.kubernetes.rdma_options import DEVICES, MODES
from vsphere_ai.report.network.rdma_transports import TRANSPORTS

WIDTH = 80
LABEL = 14


@dataclass(frozen=True)
class Topic:
    """A topic: its title, and the makers of its text and of its document."""

    title: str
    lines: Callable[[], Iterator[str]]
    document: Callable[[], RdmaOptionsDocument | RdmaTransportsDocument | BusBandwidthDocument]


def explain_text(found: Topic) -> str:
    """Return a topic as text."""
    return "\n".join((found.title, "=" * len(found.title), *found.lines()))


def _rdma_lines() -> Iterator[str]:
    yield from ("", "Modes of pods on a node", "")
    for mode in MODES:
        yield mode.name
        pairs = {
            "runs on": mode.runs_on,
            "RDMA verbs": mode.verbs,
            "namespaces": mode.namespaces,
            "GPUDirect": mode.gpudirect,
            "VM has": mode.in_a_vm,
            "vMotion": mode.vmotion,
            "objects": mode.objects,
        }
        yield from _pairs(pairs, mode)
    yield from ("Devices of a VM", "")
    for device in DEVICES:
        yield device.name
        pairs = {"kind": device.kind, "RDMA": device.rdma, "vMotion": device.vmotion, "GPUDirect": device.gpudirect}
        yield from _pairs(pairs, device)


_TRANSPORTS = (
    "All three read and write memory of another machine without its processor, by the same verbs. "
    "NCCL takes InfiniBand and RoCE through the same plug-in.",
    "On vSphere the choice is mostly made: PVRDMA, which keeps vMotion and distributed switches, is RoCE. InfiniBand "
    "gives VMs a device each, which stays on its host. This tool sets up RoCE from end to end, attaches an InfiniBand "
    "adapter as a whole device, and does not configure InfiniBand switches or subnet managers.",
)


def _transport_lines() -> Iterator[str]:
    for text in _TRANSPORTS:
        yield ""
        yield from textwrap.wrap(text, WIDTH)
    yield ""
    for each in TRANSPORTS:
        yield each.name
        pairs = {
            "network": each.network,
            "on vSphere": each.vsphere,
            "performance": each.performance,
            "scale": each.scale,
            "upkeep": each.upkeep,
            "cost": each.cost,
            "vendors": each.vendors,
        }
        yield from _pairs(pairs, each)


def _transport_document() -> RdmaTransportsDocument:
    return RdmaTransportsDocument(topic="infiniband", text=_TRANSPORTS, transports=TRANSPORTS)


def _pairs(pairs: Mapping[str, str], of: PodRdmaMode | RdmaDeviceOption | RdmaTransport) -> Iterator[str]:
    more = [*(("unverified", text) for text in of.unverified), *(("source", text) for text in of.sources)]
    for label, text in (*pairs.items(), *more):
        head = f"  {label:<{LABEL}}"
        yield from textwrap.wrap(text, WIDTH, initial_indent=head, subsequent_indent=" " * len(head))
    yield ""


def _rdma_document() -> RdmaOptionsDocument:
    return RdmaOptionsDocument(topic="rdma-options", modes=MODES, devices=DEVICES)


_BUSBW = (
    "Algorithm bandwidth is size / time. It falls with the number of ranks although every link is as fast as before, "
    "so it cannot be compared with a link, nor between sets of different sizes.",
    "Bus bandwidth is algorithm bandwidth × the factor of the collective (n: ranks). It is what the slowest link has "
    "carried, so it is compared with the line rate, and stays the same when VMs are added.",
    "Compare it at the largest size. nccl-tests' average is over all sizes: small ones pull it down, and a slow large "
    "size hides in it. With reduction in the switches (NVLink SHARP) it may exceed the line rate.",
    "The factor shows the ranks: busbw / algbw = f gives n = 2/(2-f) for all_reduce, 1/(1-f) for the (n-1)/n family.",
)
_BUSBW_SOURCE = "NVIDIA/nccl-tests 2.19.6, doc/PERFORMANCE.md and src/*.cu"


def _busbw_lines() -> Iterator[str]:
    for text in _BUSBW:
        yield ""
        yield from textwrap.wrap(text, WIDTH)
    yield from ("", f"{'collective':<16}{'factor':<12}size in the table")
    for each in COLLECTIVES.values():
        yield f"{each.name:<16}{each.family.formula:<12}{each.size}"
    yield from ("", "Times are in µs, bandwidths in GB/s (10⁹ bytes per second).", f"source: {_BUSBW_SOURCE}")


def _busbw_document() -> BusBandwidthDocument:
    rows = tuple(
        CollectiveFactor(collective=c.name, factor=c.family.formula, size=c.size) for c in COLLECTIVES.values()
    )
    return BusBandwidthDocument(topic="busbw", text=_BUSBW, collectives=rows, source=_BUSBW_SOURCE)


TOPICS: Mapping[str, Topic] = {
    "busbw": Topic("Bus bandwidth of collectives", _busbw_lines, _busbw_document),
    "infiniband": Topic("InfiniBand, RoCE and iWARP", _transport_lines, _transport_document),
    "rdma-options": Topic("RDMA for pods on VMs", _rdma_lines, _rdma_document),
}
"""Name on the command line -> what is explained."""
