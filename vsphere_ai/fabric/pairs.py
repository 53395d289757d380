"""RDMA traffic between two VMs, from the traces of their adapters: RoCE, memory copy or TCP.

Memory copy on one host, RoCE between hosts with RDMA NICs, TCP where one of them has none.
Source: vSphere Networking 7.0, "Remote Direct Memory Access for Virtual Machines".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from vsphere_ai.fabric.host import MTU_LINK
from vsphere_ai.fabric.links import PATH_PART, VM_PART, Link
from vsphere_ai.fabric.trace import ENDPOINTS, Trace
from vsphere_ai.model.state import Target

Use = Literal["roce", "memory-copy", "tcp", "none", "unknown"]
BEST: tuple[Use, ...] = ("roce", "memory-copy", "tcp", "unknown", "none")


@dataclass(frozen=True)
class PairCause:
    """A link that keeps a pair of VMs from RDMA; `owner` is a VM, or the host a VM is on."""

    owner: Target
    link: Link


@dataclass(frozen=True)
class Pair:
    """Two VMs, and what carries the RDMA traffic between them."""

    one: Target
    other: Target
    use: Use
    why: str
    causes: tuple[PairCause, ...] = ()


def pairs(traces: Sequence[Trace]) -> Iterator[Pair]:
    """Yield every two VMs once; of several adapters the two that go together best count."""
    by_vm: dict[Target, list[Trace]] = {}
    for each in traces:
        by_vm.setdefault(each.vm, []).append(each)
    for one, other in combinations(by_vm, 2):
        found = [_pair(a, b) for a in by_vm[one] for b in by_vm[other]]
        yield min(found, key=lambda p: BEST.index(p.use))


def _pair(a: Trace, b: Trace) -> Pair:
    vm_causes = tuple(g for t in (a, b) for g in _causes(t, vm_only=True))
    unknown = [h for t in (a, b) for h in t.having("unknown") if h.part in (VM_PART, PATH_PART)]
    if vm_causes:
        return Pair(a.vm, b.vm, "none", "no RDMA", vm_causes)
    if unknown:
        return Pair(a.vm, b.vm, "unknown", "; ".join(f"{h.name}: {h.seen}" for h in unknown))
    if a.switch != b.switch:
        why = f"{a.port_group} and {b.port_group} are on different switches; that takes hardware version {ENDPOINTS}"
        versions = (a.version, b.version)
        if any(version is not None and version < ENDPOINTS for version in versions):
            return Pair(a.vm, b.vm, "none", why)
        if None in versions:
            return Pair(a.vm, b.vm, "unknown", f"{why}, and the version of one is not known")
    if a.protocol and b.protocol and a.protocol != b.protocol:
        return Pair(a.vm, b.vm, "none", f"they speak different RoCE versions: {a.protocol}, {b.protocol}")
    if a.host == b.host:
        return Pair(a.vm, b.vm, "memory-copy", f"memory copy on {a.host}")
    causes = tuple(g for t in (a, b) for g in _causes(t))
    if any(g.link.name != MTU_LINK for g in causes):
        return Pair(a.vm, b.vm, "tcp", "TCP fall-back", causes)
    unsure = [f"{t.host}: {h.name}: {h.seen}" for t in (a, b) for h in t.having("unknown") if h.name != MTU_LINK]
    if unsure:
        return Pair(a.vm, b.vm, "unknown", f"RoCE or TCP, not certain: {'; '.join(unsure)}", causes)
    mtus = sorted(m for m in (a.rdma_mtu, b.rdma_mtu) if m)
    size = f", RDMA MTU {mtus[0]}" if mtus else ""
    return Pair(a.vm, b.vm, "roce", f"RoCE{size}", causes)


def _causes(trace: Trace, *, vm_only: bool = False) -> Iterator[PairCause]:
    """Yield the broken links of a trace: those of the VM itself, or those of its path."""
    for link in trace.having("fail"):
        if (link.part == VM_PART) == vm_only:
            yield PairCause(trace.vm if link.part == VM_PART or trace.host is None else trace.host, link)
