"""Advice for the virtual NUMA nodes of a training VM, from where its GPUs and NICs are on the host.

Sources: vSphere Resource Management 7.0, "Using NUMA Systems with ESXi" and "Associate Virtual Machines with Specified
NUMA Nodes"; Performance Best Practices for VMware vSphere 7.0, "Virtual NUMA (vNUMA)".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from vsphere_ai.model.estate.vm_corrections import CpuSettings
from vsphere_ai.model.nodes import Node
from vsphere_ai.resources.corrections import text_of
from vsphere_ai.training.topology import rail_name


@dataclass(frozen=True)
class Advice:
    """A change of a VM and its reason. `snippet` is for a playbook; empty: it is no setting of a VM."""

    snippet: str
    reason: str


def numa_advice(node: Node) -> tuple[Advice, ...]:
    """Return what would bring CPUs, GPUs and NICs of a VM together; nothing where a part is not known."""
    placed = _advice(node) if node.numa.nodes > 1 and node.cpus.count else ()
    return (*placed, *_shown(node))


def _advice(node: Node) -> Iterator[Advice]:
    gpus = sorted({g.site.numa for g in node.gpus if g.site is not None and g.site.numa is not None})
    needed, tied = node.numa.needed(node.cpus), node.cpus.affinity
    if not gpus or not needed:
        return
    where = f"node{'s' if len(gpus) > 1 else ''} {' and '.join(map(str, gpus))}"
    have = f"{node.cpus.count} vCPUs and {node.cpus.memory_mb // 1024} GB"
    if len(gpus) == 1 and needed == 1 and tied != tuple(gpus):
        now = f"it is tied to {', '.join(map(str, tied))}" if tied else "the scheduler may run it on another one"
        reason = f"its GPUs are on NUMA {where}, its {have} fit into it, and {now}"
        yield Advice(text_of(CpuSettings(node.target, nodes="gpu")), reason)
    if len(gpus) > 1 and tied and not set(gpus) <= set(tied):
        reason = f"its GPUs are on NUMA {where}, and it is tied to {', '.join(map(str, tied))}"
        yield Advice(text_of(CpuSettings(node.target, nodes=tuple(gpus))), reason)
    spans = max(needed, len(gpus))
    if spans > 1 and spans <= node.numa.nodes:
        yield from _spanning(node, spans, have)
    for rail in node.rails:
        if rail.site is not None and rail.site.numa is not None and rail.site.numa not in gpus:
            out = f"{rail_name(rail)} goes out by {rail.vmnic or rail.site.address} on NUMA node {rail.site.numa}"
            yield Advice("", f"{out}, the GPUs are on {where}: its traffic crosses the link between the sockets")


def _spanning(node: Node, spans: int, have: str) -> Iterator[Advice]:
    cpus = node.cpus
    if cpus.hot_add:
        yield Advice("", "CPU hot add is on, and the guest sees one NUMA node: switch it off while the VM is off")
    if cpus.count % spans:
        more = -(-cpus.count // spans) * spans
        reason = f"its {have} do not divide among the {spans} NUMA nodes that it needs"
        yield Advice(text_of(CpuSettings(node.target, cpus=more)), reason)
    elif cpus.per_socket != cpus.count // spans:
        reason = f"it spans {spans} NUMA nodes: as many sockets, of {cpus.count // spans} cores each"
        yield Advice(text_of(CpuSettings(node.target, cores_per_socket=cpus.count // spans)), reason)


def _shown(node: Node) -> Iterator[Advice]:
    """Yield advice about what the guest shows: GPUs away from their NICs, and NUMA nodes that it does not show."""
    sites = {g.index: g.site.numa for g in node.gpus if g.site is not None and g.site.numa is not None}
    gpus = node.shown.gpus if node.shown is not None else ()
    for gpu in (gpu for gpu in gpus if gpu.is_across and gpu.index not in sites):
        names = ", ".join(nic.device for nic in gpu.nics)
        yield Advice("", f"the guest shows {names} on another NUMA node than GPU {gpu.index} (SYS)")
    real, inside = sorted(set(sites.values())), {gpu.numa for gpu in gpus}
    if len(real) > 1 and gpus and len(inside) == 1:
        where = " and ".join(map(str, real))
        yield Advice("", f"the guest does not show that its GPUs are on NUMA nodes {where}: give jobs `topology: host`")
