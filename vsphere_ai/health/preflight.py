"""Pre-flight: what has to hold on every node before training or a benchmark starts. One message per cause.

A cause hides what follows from it: of a VM that is off nothing else is said, and of two ends of a path that does not
carry packets the one is named that is part of most such paths.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from vsphere_ai.health.answers import SMI, GuestFacts, link_of
from vsphere_ai.health.finding import Finding
from vsphere_ai.model.nodes import Node, Rail

CLOCKS_APART = 1.0
"""Seconds that clocks may differ by."""
MEMORY_IN_USE = 512
"""MiB of GPU memory from which a GPU counts as in use (nvidia-resiliency-ext waits for less before a restart)."""
IP_AND_ICMP = 28
"""Bytes of the headers of a ping in a packet of IPv4; of IPv6 48."""


@dataclass(frozen=True)
class Wanted:
    """What is to be started. `processes` is how many a node gets, each with its own GPU; 0: at least one GPU.

    `port` is the port on which rank 0 will listen, None for none. `shared` are folders that every node has to have.
    `packages` are Python packages that have to be the same everywhere, and there.
    """

    processes: int = 0
    port: int | None = None
    shared: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    gpus: bool = True


@dataclass(frozen=True)
class Path:
    """Whether packets pass from a rail to another: `large` of the whole MTU, `small` ones; None: not tried."""

    source: str
    target: str
    rail: Rail
    large: bool | None
    small: bool | None = None


@dataclass(frozen=True)
class Seen:
    """What was seen of a node: `error` of SSH, or its facts, its clock, and what it reaches.

    `offset` is how many seconds its clock is ahead of this machine's, `uncertain` by how much that may be wrong.
    `listening` are the ports of the first node; `reaches` whether the port of the first node answers; `missing` are the
    shared folders that are not there.
    """

    power: str = "poweredOn"
    error: str = ""
    remedy: str = ""
    facts: GuestFacts = field(default_factory=GuestFacts)
    leased: tuple[str, ...] = ()
    offset: float | None = None
    uncertain: float = 0.0
    listening: tuple[int, ...] = ()
    reaches: bool | None = None
    missing: tuple[str, ...] = ()


def preflight_findings(
    nodes: Sequence[Node], seen: Mapping[str, Seen], wanted: Wanted, paths: Sequence[Path] = ()
) -> tuple[Finding, ...]:
    """Return what stands against a start; nothing for nodes on which everything holds."""
    found = [f for node in nodes for f in _unreachable(node, seen[node.vm])]
    out = {f.vm for f in found}
    alive = [node for node in nodes if node.vm not in out]
    for node in alive:
        found += _of_node(node, seen[node.vm], wanted)
    found += _versions(alive, seen, wanted)
    found += _clocks(alive, seen)
    found += _mtus(alive, seen)
    named = {f.vm for f in found if f.check in ("mtu", "rdma-link", "addresses")}
    found += _paths(nodes, [p for p in paths if not {p.source, p.target} & (named | out)])
    if wanted.port is not None and nodes:
        found += _port(nodes[0], alive, seen, wanted.port)
    return tuple(found)


def _fail(check: str, node: Node, message: str, remedy: str, part: str = "") -> Finding:
    return Finding(check, "fail", node.vm, node.host, message, remedy, part)


def _unreachable(node: Node, seen: Seen) -> Iterator[Finding]:
    if seen.power != "poweredOn":
        yield _fail("power", node, "the VM is not powered on", "power it on, or take it out of the set")
    elif seen.error:
        yield _fail("ssh", node, seen.error, seen.remedy or "look at the guest")


def _of_node(node: Node, seen: Seen, wanted: Wanted) -> Iterator[Finding]:
    yield from _gpus(node, seen.facts, wanted) if wanted.gpus else ()
    yield from _links(node, seen.facts)
    have = {address for interface in seen.facts.interfaces.values() for address in interface.addresses}
    lost = [address for address in seen.leased if address not in have]
    if lost and seen.facts.interfaces:
        remedy = "look at the network of the guest: `cloud-init status --long`, `netplan get`"
        yield _fail("addresses", node, f"the guest does not have {', '.join(lost)}, which its set holds for it", remedy)
    for folder in seen.missing:
        yield _fail("shared-path", node, f"{folder} is not there", "mount the shared file system on the guest")


def _gpus(node: Node, facts: GuestFacts, wanted: Wanted) -> Iterator[Finding]:
    if SMI.name in facts.failures:
        yield _fail("gpu-driver", node, facts.failures[SMI.name], "look at the driver in the guest", _parts(node))
        return
    need = max(wanted.processes, 1)
    if len(facts.gpus) < need or len(facts.gpus) < len(node.gpus):
        have = f"{len(facts.gpus)} of {max(need, len(node.gpus))} GPUs are there"
        remedy = "look for the GPU on the host (`nvidia-smi`), and at the devices of the VM; or start fewer processes"
        yield _fail("gpu-count", node, have, remedy, _parts(node))
        return
    busy = sorted({pid for pid, _ in facts.processes})
    full = [gpu for gpu in facts.gpus[: wanted.processes or None] if (gpu.memory_used or 0) >= MEMORY_IN_USE]
    if busy:
        pids = ", ".join(map(str, busy[:5]))
        yield _fail("gpu-free", node, f"GPUs are in use by process {pids}", "end it, or wait", _parts(node))
    elif full:
        used = f"{full[0].memory_used} MiB of GPU {full[0].index} are in use"
        yield _fail(
            "gpu-free", node, used, "find the process with `nvidia-smi`, or `fuser -v /dev/nvidia*`", _parts(node)
        )


def _parts(node: Node) -> str:
    return ", ".join(dict.fromkeys(f"GPU {gpu.host_pci}" for gpu in node.gpus if gpu.host_pci))


def rail_part(rail: Rail) -> str:
    """Return the hardware behind a rail in words."""
    switch = f" ({rail.switch_port})" if rail.switch_port else ""
    return f"{rail.interface or rail.rdma_device}{f' over {rail.vmnic}' if rail.vmnic else ''}{switch}"


def _links(node: Node, facts: GuestFacts) -> Iterator[Finding]:
    why = facts.failures.get("rdma-link")
    if node.rails and why:
        yield _fail("rdma-link", node, why, "install rdma-core and iproute2 in the image")
        return
    for rail in node.rails:
        link = link_of(rail, facts)
        if link is None:
            remedy = "load the driver (vmw_pvrdma, mlx5_ib), and look whether the adapter is connected"
            yield _fail("rdma-link", node, "the guest has no RDMA device for this rail", remedy, rail_part(rail))
        elif not link.is_active:
            remedy = "look at the link of the physical NIC, its cable and the switch port"
            yield _fail("rdma-link", node, f"{link.device} is {link.state}", remedy, rail_part(rail))


def _versions(nodes: Sequence[Node], seen: Mapping[str, Seen], wanted: Wanted) -> Iterator[Finding]:
    """Yield the nodes that have another version than most; of as many, than the first one."""
    usable = [n for n in nodes if not wanted.gpus or SMI.name not in seen[n.vm].facts.failures]
    driver = {n.vm: seen[n.vm].facts.gpus[0].driver for n in usable if seen[n.vm].facts.gpus}
    by_name: dict[str, dict[str, str]] = {"driver": driver}
    # the driver decides the CUDA version that nvidia-smi prints: another driver is one cause, not two
    same = Counter(driver.values()).most_common(1)[0][0] if driver else ""
    by_name["CUDA"] = {
        n.vm: seen[n.vm].facts.cuda for n in usable if driver.get(n.vm) == same and seen[n.vm].facts.cuda
    }
    for name in sorted({p for n in nodes for p in seen[n.vm].facts.packages} | set(wanted.packages)):
        by_name[name] = {n.vm: seen[n.vm].facts.packages.get(name, "") for n in nodes}
    for name, versions in by_name.items():
        counts = Counter(versions.values())
        if not counts:
            continue
        usual = max(counts, key=lambda v: (counts[v], v == next(iter(versions.values()))))
        if name in wanted.packages and not usual:
            usual = "installed"
        for node in nodes:
            own = versions.get(node.vm)
            if own is not None and own != usual:
                has = f"has {name} {own}" if own else f"has no {name}"
                message = f"{has}, and the others have {usual}" if usual != "installed" else has
                yield _fail("versions", node, message, "use the same image for every VM of the set")


def _clocks(nodes: Sequence[Node], seen: Mapping[str, Seen]) -> Iterator[Finding]:
    offsets = {n.vm: o for n in nodes if (o := seen[n.vm].offset) is not None}
    if not offsets:
        return
    middle = median(offsets.values())
    if len(offsets) == 2:  # neither is more right than the other: the one is named that differs from this machine
        middle = min(offsets.values(), key=abs)
    for node in nodes:
        apart = abs(offsets.get(node.vm, middle) - middle)
        if apart - seen[node.vm].uncertain > CLOCKS_APART:
            message = f"its clock is {apart:.1f} s away from those of the others"
            yield _fail("clock", node, message, "synchronise the clock: `chronyc tracking`, or VMware Tools")


def _mtus(nodes: Sequence[Node], seen: Mapping[str, Seen]) -> Iterator[Finding]:
    """Yield the rails whose interface has another MTU than the playbook says, else than most of the same number."""
    own: dict[str, list[tuple[Node, Rail, int]]] = {}
    for node in nodes:
        for rail in node.rails:
            interface = seen[node.vm].facts.interfaces.get(rail.interface)
            if interface is not None:
                own.setdefault(str(rail.number), []).append((node, rail, interface.mtu))
    for each in own.values():
        counts = Counter(mtu for *_, mtu in each)
        usual = max(counts, key=lambda mtu: (counts[mtu], mtu))
        for node, rail, mtu in each:
            right = rail.mtu or usual
            if mtu != right:
                remedy = f"set it in the guest (netplan: mtu: {right}), and on the switch above it"
                yield _fail("mtu", node, f"the interface has an MTU of {mtu}, not {right}", remedy, rail_part(rail))


def _paths(nodes: Sequence[Node], paths: Sequence[Path]) -> Iterator[Finding]:
    by_vm = {node.vm: node for node in nodes}
    left = [p for p in paths if p.large is False]
    while left:
        count = Counter(vm for p in left for vm in (p.source, p.target))
        vm = max(count, key=lambda v: (count[v], -[n.vm for n in nodes].index(v)))
        own = [p for p in left if vm in (p.source, p.target)]
        left = [p for p in left if p not in own]
        node, others = by_vm[vm], sorted({p.target if p.source == vm else p.source for p in own})
        rail = own[0].rail
        to = ", ".join(others)
        if any(p.small is False for p in own):
            remedy = "look at the VLAN of the port group, the uplink, and the routes of the guests"
            yield _fail("path", node, f"no packet passes to {to}", remedy, rail_part(rail))
        else:
            message = (
                f"small packets pass to {to}, and those of the whole MTU ({rail.mtu or 'of the interface'}) do not"
            )
            remedy = "raise the MTU of the distributed switch and of the physical switches"
            yield _fail("path-mtu", node, message, remedy, rail_part(rail))


def _port(first: Node, alive: Sequence[Node], seen: Mapping[str, Seen], port: int) -> Iterator[Finding]:
    if first not in alive:
        return
    if port in seen[first.vm].listening:
        remedy = f"end the program (`ss -ltnp sport = :{port}`), or choose another port"
        yield _fail("port-free", first, f"port {port}, for rank 0, is in use", remedy)
        return
    for node in alive:
        if seen[node.vm].reaches is False:
            message = f"it does not reach {first.vm} ({first.address}), which runs rank 0, on port {port}"
            yield _fail("port-reach", node, message, "look at firewalls and routes of the two guests")
