"""Pre-flight: what has to hold on every node before training or a benchmark starts. One message per cause.

A cause hides what follows from it: of a VM that is off nothing else is said, and of two ends of a path that does not
carry packets the one is named that is part of most such paths.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Literal

from vsphere_ai.health.answers import SMI, GuestFacts, link_of
from vsphere_ai.health.finding import VmFinding, VmJudge, names_of
from vsphere_ai.model.nodes import Node, Rail

CLOCKS_APART = 1.0
"""Seconds that clocks may differ by."""
MEMORY_IN_USE = 512
"""MiB of GPU memory from which a GPU counts as in use (nvidia-resiliency-ext waits for less before a restart)."""
IP_AND_ICMP = 28
"""Bytes of the headers of a ping in a packet of IPv4; of IPv6 48."""


_SHA256 = re.compile(r"[0-9a-f]{64}")


Logins = Literal["", "own", "mesh", "all"]


@dataclass(frozen=True)
class PreflightRequirements:
    """What is to be started. `processes` is how many a node gets, each with its own GPU; 0: at least one GPU.

    `listens` are numbers of nodes, each with a port on which the job will listen there. `shared` are folders that
    every node has to have, `scripts` files that have to be the same on all. `programs` are those that a VM has to
    have, by its name; `python` is the job's. `packages` are Python packages that have to be the same everywhere, and
    there. `logins`: rank 0's node logs in to the others, with `own` keys or with those of the run, `mesh`; `all`: with
    own keys to itself as well.
    """

    processes: int = 0
    listens: tuple[tuple[int, int], ...] = ()
    shared: tuple[str, ...] = ()
    scripts: tuple[str, ...] = ()
    programs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    python: str = "python3"
    packages: tuple[str, ...] = ()
    gpus: bool = True
    logins: Logins = ""


@dataclass(frozen=True)
class RailPath:
    """Whether packets pass from a rail to another: `large` of the whole MTU, `small` ones; None: not tried."""

    source: str
    target: str
    rail: Rail
    large: bool | None
    small: bool | None = None


@dataclass(frozen=True)
class PreflightNode:
    """What was seen of a node: `error` of SSH, or its facts, its clock, and what it reaches.

    `offset` is how many seconds its clock is ahead of this machine's, `uncertain` by how much that may be wrong.
    `taken` are ports of this node that cannot be had, and why; `reaches` says of addresses and ports of nodes whether
    they answer: empty, or why not. `missing` are shared folders that are not there, `lacks` programs; `scripts` are
    the SHA-256 of files, or why there is none. `logins` says of addresses of nodes whether
    it can log in there: empty, or why not.
    """

    power: str = "poweredOn"
    error: str = ""
    remedy: str = ""
    facts: GuestFacts = field(default_factory=GuestFacts)
    leased: tuple[str, ...] = ()
    offset: float | None = None
    uncertain: float = 0.0
    taken: Mapping[int, str] = field(default_factory=dict)
    reaches: Mapping[tuple[str, int], str] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    scripts: Mapping[str, str] = field(default_factory=dict)
    logins: Mapping[str, str] = field(default_factory=dict)


def preflight_findings(
    nodes: Sequence[Node],
    seen: Mapping[str, PreflightNode],
    wanted: PreflightRequirements,
    paths: Sequence[RailPath] = (),
) -> tuple[VmFinding, ...]:
    """Return what blocks a start; nothing for nodes on which everything holds."""
    found = [f for node in nodes for f in _unreachable(node, seen[node.vm])]
    out = names_of(found)
    alive = [node for node in nodes if node.vm not in out]
    for node in alive:
        found += _of_node(node, seen[node.vm], wanted)
    found += _scripts(alive, seen, wanted)
    found += _versions([n for n in alive if wanted.python not in seen[n.vm].lacks], seen, wanted)
    found += _clocks(alive, seen)
    found += _mtus(alive, seen)
    named = names_of(f for f in found if f.rule in ("mtu", "rdma-link", "addresses"))
    cut = names_of(f for f in found if f.rule == "addresses") | out
    paths = [p for p in paths if not {p.source, p.target} & (named | out)]
    ports = list(_ports(nodes, [n for n in alive if n.vm not in cut], seen, wanted.listens))
    cut_off = names_of(f for f in ports if f.rule == "port-reach")
    both = {vm: [p for p in paths if p.small is False and vm in (p.source, p.target)] for vm in cut_off}
    found += _paths(nodes, [p for p in paths if not any(p in own for own in both.values())])
    found += [_with_paths(f, both.get(f.target.name, [])) for f in ports]
    cut |= names_of(f for f in found if f.rule == "port-reach")
    if nodes and nodes[0].vm not in cut and not seen[nodes[0].vm].lacks:
        to = alive if wanted.logins == "all" else alive[1:]
        found += _logins(nodes[0], [n for n in to if n.vm not in cut], seen, wanted)
    return tuple(found)


def _fail(check: str, node: Node, message: str, remedy: str, part: str = "") -> VmFinding:
    return VmJudge(node, part)(check, "fail", message, remedy)


def _unreachable(node: Node, seen: PreflightNode) -> Iterator[VmFinding]:
    if seen.power != "poweredOn":
        yield _fail("power", node, "the VM is not powered on", "power it on, or take it out of the set")
    elif seen.error:
        yield _fail("ssh", node, seen.error, seen.remedy or "look at the guest")


def _of_node(node: Node, seen: PreflightNode, wanted: PreflightRequirements) -> Iterator[VmFinding]:
    yield from _gpus(node, seen.facts, wanted) if wanted.gpus else ()
    yield from _links(node, seen.facts)
    have = {address for interface in seen.facts.interfaces.values() for address in interface.addresses}
    lost = [address for address in seen.leased if address not in have]
    if lost and seen.facts.interfaces:
        remedy = "look at the network of the guest: `cloud-init status --long`, `netplan get`"
        yield _fail("addresses", node, f"the guest does not have {', '.join(lost)}, which its set holds for it", remedy)
    for program in seen.lacks[:1]:  # what starts the others, such as Python, comes first
        remedy = "install it in the image, or correct `python` of the job"
        yield _fail("program", node, f"there is no {program}", remedy)
    for folder in seen.missing:
        yield _fail("shared-path", node, f"{folder} is not there", "mount the shared file system on the guest")


def _gpus(node: Node, facts: GuestFacts, wanted: PreflightRequirements) -> Iterator[VmFinding]:
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
    full = [
        gpu
        for gpu in facts.gpus[: wanted.processes or None]
        if gpu.memory_used is not None and gpu.memory_used >= MEMORY_IN_USE
    ]
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


def _links(node: Node, facts: GuestFacts) -> Iterator[VmFinding]:
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


def _versions(
    nodes: Sequence[Node], seen: Mapping[str, PreflightNode], wanted: PreflightRequirements
) -> Iterator[VmFinding]:
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


def _clocks(nodes: Sequence[Node], seen: Mapping[str, PreflightNode]) -> Iterator[VmFinding]:
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


def _mtus(nodes: Sequence[Node], seen: Mapping[str, PreflightNode]) -> Iterator[VmFinding]:
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


def _paths(nodes: Sequence[Node], paths: Sequence[RailPath]) -> Iterator[VmFinding]:
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


def _with_paths(found: VmFinding, paths: Sequence[RailPath]) -> VmFinding:
    """Return a finding about a node that is not reached, or reaches none, with what its rails do not reach either."""
    more = [f"no packet passes from {p.source} to {p.target} on {rail_part(p.rail)}" for p in paths]
    return replace(found, message="; ".join((found.message, *more)))


def _scripts(
    nodes: Sequence[Node], seen: Mapping[str, PreflightNode], wanted: PreflightRequirements
) -> Iterator[VmFinding]:
    """Yield the nodes without a script, and those that have another one than most; of as many, than the first one."""
    for path in wanted.scripts:
        own = {n: seen[n.vm].scripts[path] for n in nodes if path in seen[n.vm].scripts}
        sums = Counter(text for text in own.values() if _SHA256.fullmatch(text))
        usual = max(sums, key=lambda text: sums[text], default="")
        for node, text in own.items():
            if not _SHA256.fullmatch(text):
                yield _fail("script", node, f"{path}: {text}", "copy it there, or mount the shared file system")
            elif text != usual:
                message = f"{path} is another file than on the others (SHA-256 {text[:12]}, not {usual[:12]})"
                yield _fail("script", node, message, "copy the same file to all nodes")


def _ports(
    nodes: Sequence[Node], alive: Sequence[Node], seen: Mapping[str, PreflightNode], listens: Sequence[tuple[int, int]]
) -> Iterator[VmFinding]:
    """Yield ports that are in use, and nodes that do not reach one: where no other node does, the one that has it."""
    wrong: dict[tuple[str, str], list[int]] = {}
    for number, port in listens:
        target = nodes[number]
        if target not in alive:
            continue
        if why := seen[target.vm].taken.get(port, ""):
            message = f"port {port}, on which the job listens, cannot be had: {why}"
            yield _fail(
                "port-free", target, message, f"end the program (`ss -ltnp sport = :{port}`), or choose another"
            )
            continue
        for node in alive:
            if seen[node.vm].reaches.get((target.address, port), ""):
                wrong.setdefault((node.vm, target.vm), []).append(port)
    yield from _unreached(nodes, alive, seen, wrong)


def _unreached(
    nodes: Sequence[Node],
    alive: Sequence[Node],
    seen: Mapping[str, PreflightNode],
    wrong: Mapping[tuple[str, str], list[int]],
) -> Iterator[VmFinding]:
    by_vm = {node.vm: node for node in nodes}
    left = dict(wrong)
    while left:
        # the end of most connections that fail is the cause; of two nodes the one that connects
        count = Counter(vm for source, target in left for vm in {source, target})
        vm = max(count, key=lambda v: (count[v], any(s == v for s, _ in left)))
        own = {pair: ports for pair, ports in left.items() if vm in pair}
        left = {pair: ports for pair, ports in left.items() if vm not in pair}
        node, ports = by_vm[vm], ", ".join(map(str, sorted({p for each in own.values() for p in each})))
        source, target = next(iter(own))
        why = next(seen[s].reaches[by_vm[t].address, p] for (s, t), each in own.items() for p in each)
        if len(own) > 1 and all(t == vm for _, t in own):
            message = f"the others do not reach it ({node.address}) on port {ports}: {why}"
        else:
            other = by_vm[target]
            message = f"it does not reach {target} ({other.address}) on port {ports}: {why}"
            node = by_vm[source] if source == vm else node
        yield _fail("port-reach", node, message, "look at firewalls and routes of the two guests")


def _logins(
    head: Node, others: Sequence[Node], seen: Mapping[str, PreflightNode], wanted: PreflightRequirements
) -> Iterator[VmFinding]:
    """Yield nodes to which rank 0's node cannot log in; where it is none of several, rank 0's node."""
    wrong = {n.vm: (n, why) for n in others if (why := seen[head.vm].logins.get(n.address, ""))}
    remedy = (
        f"add the key of {head.vm} to authorized_keys and its host key to known_hosts, or set mpi: {{ssh_mesh: true}}"
    )
    if wanted.logins == "all":
        remedy = (
            f"add the key of {head.vm} to authorized_keys there, on {head.vm} too, and the host keys to known_hosts, "
            "or set deepspeed: {via: no_ssh}"
        )
    if wanted.logins == "mesh":
        remedy = "look at sshd and the firewalls of the two guests"
    if len(wrong) == len(others) > 1:
        yield _fail("ssh-between", head, f"it cannot log in to any other node: {next(iter(wrong.values()))[1]}", remedy)
        return
    for node, why in wrong.values():
        yield _fail("ssh-between", node, f"{head.vm}, which starts the processes, cannot log in: {why}", remedy)
