"""Pre-flight of launches and benchmarks: guests and vCenter are asked, and nothing is started or changed."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel, JsonValue, TypeAdapter, ValidationError

from vsphere_ai.app.events import Emit, Status, ignore
from vsphere_ai.app.training.nodes.facts import NodeState
from vsphere_ai.errors import VsphereAiError
from vsphere_ai.health import answers
from vsphere_ai.health.answers import CommandAnswer, GuestCommand, link_of, read_guest, refined
from vsphere_ai.health.finding import VmFinding
from vsphere_ai.health.preflight import IP_AND_ICMP, PreflightNode, PreflightRequirements, RailPath, preflight_findings
from vsphere_ai.model.nodes import Node

if TYPE_CHECKING:
    from vsphere_ai.connect.secure_shell.guest_ssh import GuestSettings, GuestSsh

T = TypeVar("T")
BASIC = (answers.SMI, answers.PROCESSES, answers.CUDA, answers.VERSIONS, answers.ADDRESSES)
GPU_QUESTIONS = (answers.SMI.name, answers.PROCESSES.name, answers.CUDA.name)
RDMA = (answers.LINKS, answers.SYSFS)
CLOCK = ("date", "+%s.%N")
NOTHING = ("true",)
"""Command that any guest ends at once."""
LOGIN = ("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5", "-o", "UpdateHostKeys=no", "-o", "LogLevel=ERROR")
"""How one guest logs in to another, as a launcher does; no question is asked, and no file changed."""
_WAIT = 5.0
"""Seconds in which a port or a ping has to answer."""
_LISTEN = 60.0
"""Seconds for which ports listen at most."""
_IP_V6_MORE = 20


@dataclass(frozen=True)
class Preflight:
    """Problems that block a start, and the nodes with what their guests know of themselves.

    `seen` is what was seen of each by the name of its VM.
    """

    findings: tuple[VmFinding, ...]
    nodes: tuple[Node, ...]
    seen: Mapping[str, PreflightNode] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether nothing blocks a start."""
        return not self.findings

    @property
    def exit_code(self) -> int:
        """Return 0, or 1 where something blocks a start."""
        return int(bool(self.findings))


def preflight(
    nodes: Sequence[Node],
    settings: GuestSettings,
    wanted: PreflightRequirements | None = None,
    *,
    states: Mapping[str, NodeState] | None = None,
    emit: Emit = ignore,
) -> Preflight:
    """Ask the guests of nodes, in the order of their ranks, whether a job can start; changes nothing.

    `states` are those that vCenter showed (`list_nodes`); without them, power and leases are not looked at. An error
    of a guest is a finding about it.
    """
    from vsphere_ai.connect.secure_shell.guest_ssh import on_each, open_guests

    wanted = wanted or PreflightRequirements()
    known = states or {}
    emit(Status(f"pre-flight: {len(nodes)} guests"))
    seen = {node.vm: _from_vcenter(known.get(node.vm)) for node in nodes}
    asked = [node for node in nodes if seen[node.vm].power == "poweredOn" and not seen[node.vm].error]
    shells, failed = open_guests(asked, settings)
    try:
        for vm, error in failed.items():
            seen[vm] = _of_error(seen[vm], error)
        by_vm = {node.vm: node for node in nodes}

        def ask(shell: GuestSsh) -> PreflightNode:
            return _asked(shell, by_vm[shell.vm], wanted, seen[shell.vm])

        for vm, found in on_each(shells.values(), ask).items():
            seen[vm] = _of_error(seen[vm], found) if isinstance(found, VsphereAiError) else found
        whole = tuple(refined(node, seen[node.vm].facts) for node in nodes)
        alive = [node for node in whole if node.vm in shells and not seen[node.vm].error]
        paths = _paths(alive, seen, shells)
        alive = [node for node in alive if not seen[node.vm].error]
        if wanted.listens:
            _try_ports(nodes, {node.vm: shells[node.vm] for node in alive}, wanted.listens, seen)
        alive = [node for node in alive if not seen[node.vm].error]
        if wanted.logins and alive[1:] and alive[0].vm == nodes[0].vm:
            port = settings.port if wanted.logins == "mesh" else 0
            for vm, failure in on_each([shells[alive[0].vm]], lambda s: _try_logins(alive, s, port, seen)).items():
                seen[vm] = _of_error(seen[vm], failure) if failure else seen[vm]
    finally:
        for shell in shells.values():
            shell.close()
    # what a playbook says of an MTU counts, not what the guest made of it
    said = {(node.vm, rail.interface): rail.mtu for node in nodes for rail in node.rails}
    judged = [
        replace(n, rails=tuple(replace(r, mtu=said.get((n.vm, r.interface), r.mtu)) for r in n.rails)) for n in whole
    ]
    emit(Status(""))
    return Preflight(preflight_findings(judged, seen, wanted, paths), whole, seen)


def ask_guest(shell: GuestSsh, asked: Sequence[GuestCommand]) -> dict[str, CommandAnswer]:
    """Return what a guest answers; a command that fails on the way has its reason as answer.

    Where the GPUs cannot be listed, other calls of the driver are left out. `VsphereAiError` where the guest itself
    cannot be reached any more, `GuestTimedOut` where it runs no command any more.
    """
    found: dict[str, CommandAnswer] = {}
    for each in asked:
        if each.argv[0] != answers.SMI.argv[0] or not found.get(answers.SMI.name, CommandAnswer()).failure:
            found[each.name] = _answer(shell, each.argv, each.timeout)
    return found


def _answer(shell: GuestSsh, argv: Sequence[str], timeout: float, stdin: bytes = b"") -> CommandAnswer:
    """Return what a command brings; `GuestTimedOut` where neither it ends, nor one that does nothing."""
    from vsphere_ai.connect.secure_shell.guest_ssh import GuestTimedOut

    try:
        done = shell.run(argv, stdin=stdin, timeout=timeout)
    except GuestTimedOut as error:
        try:
            shell.run(NOTHING, timeout=_WAIT)
        except GuestTimedOut:
            message = f"{shell.vm}: the guest runs no command: neither `{argv[0]}` nor `{NOTHING[0]}` ended in time"
            raise GuestTimedOut(message, "look at the console of the VM, then restart the guest") from error
        return CommandAnswer(failure=error.message.partition(": ")[2])
    if done.truncated:
        return CommandAnswer(failure="it wrote more than is read, and was ended")
    return CommandAnswer(done.code, done.out + (done.err if done.code else ""))


def _from_vcenter(state: NodeState | None) -> PreflightNode:
    return PreflightNode(power=state.power, leased=state.leased) if state else PreflightNode()


def _of_error(seen: PreflightNode, error: VsphereAiError) -> PreflightNode:
    return replace(seen, error=error.message.partition(": ")[2] or error.message, remedy=error.remedy)


def _asked(shell: GuestSsh, node: Node, wanted: PreflightRequirements, seen: PreflightNode) -> PreflightNode:
    versions = replace(answers.VERSIONS, argv=(wanted.python, *answers.VERSIONS.argv[1:]))
    basic = [versions if each.name == versions.name else each for each in BASIC]
    asked = [each for each in basic if wanted.gpus or each.name not in GPU_QUESTIONS]
    facts = read_guest(ask_guest(shell, [*asked, *(RDMA if node.rails else ())]))
    before = time.time()
    clock = _answer(shell, CLOCK, _WAIT)
    after = time.time()
    offset = _number(clock.out) if not clock.failure and clock.code == 0 else None
    there = _looked(shell, wanted)
    return replace(
        seen,
        facts=facts,
        offset=offset - (before + after) / 2 if offset is not None else None,
        uncertain=(after - before) / 2,
        missing=tuple(there.folders),
        lacks=tuple(there.programs),
        scripts=there.scripts,
    )


class _There(BaseModel):
    scripts: dict[str, str] = {}
    folders: list[str] = []
    programs: list[str] = []


class _Faults(BaseModel):
    faults: dict[int, str] = {}


def _looked(shell: GuestSsh, wanted: PreflightRequirements) -> _There:
    """Return what of the job's files and programs a guest has; what it does not answer is not known."""
    programs = wanted.programs.get(shell.vm, ())
    if not (wanted.scripts or wanted.shared or programs):
        return _There()
    spec: dict[str, JsonValue] = {
        "scripts": list(wanted.scripts),
        "folders": list(wanted.shared),
        "programs": list(programs),
    }
    found = _probe(shell, "look", spec, TypeAdapter(_There))
    return found if isinstance(found, _There) else _There(programs=["python3"] if programs else [])


def _probe(shell: GuestSsh, function: str, spec: Mapping[str, JsonValue], form: TypeAdapter[T]) -> T | str:
    """Run a program on a guest and return its answer, or why there is none."""
    from vsphere_ai.app.training.node_program import ARGV, program

    answer = _answer(shell, ARGV, 30.0, program("probing", function, spec))
    try:
        return form.validate_json(answer.out) if not answer.failure and answer.code == 0 else answer.failure or "failed"
    except ValidationError:
        return "its answer cannot be read"


def _try_ports(
    nodes: Sequence[Node],
    shells: Mapping[str, GuestSsh],
    listens: Sequence[tuple[int, int]],
    seen: dict[str, PreflightNode],
) -> None:
    """Let the ports of the job listen, connect to them from every node, and end them; notes what was seen of each.

    A port that nothing listens on is refused like one that a firewall rejects: so something has to listen.
    """
    from vsphere_ai.connect.secure_shell.guest_ssh import on_each

    ports: dict[str, list[int]] = {}
    for number, port in listens:
        ports.setdefault(nodes[number].vm, []).append(port)
    address = {node.vm: node.address for node in nodes}

    def listen(shell: GuestSsh) -> _Faults:
        wanted: list[JsonValue] = [*ports[shell.vm]]
        spec: dict[str, JsonValue] = {"address": address[shell.vm], "ports": wanted, "seconds": _LISTEN}
        found = _probe(shell, "listen", spec, TypeAdapter(_Faults))
        return found if isinstance(found, _Faults) else _Faults(faults=dict.fromkeys(ports[shell.vm], found))

    there = [shells[vm] for vm in ports if vm in shells]
    for vm, found in on_each(there, listen).items():
        own = seen[vm]
        seen[vm] = replace(own, taken=found.faults) if isinstance(found, _Faults) else _of_error(own, found)
    there = [shell for shell in there if not seen[shell.vm].error]
    to = [(address[s.vm], port) for s in there for port in ports[s.vm] if port not in seen[s.vm].taken]

    def connect(shell: GuestSsh) -> dict[tuple[str, int], str]:
        return _connected(shell, to)

    for vm, reached in on_each([s for s in shells.values() if not seen[s.vm].error], connect).items():
        own = seen[vm]
        seen[vm] = _of_error(own, reached) if isinstance(reached, VsphereAiError) else replace(own, reaches=reached)
    there = [shell for shell in there if not seen[shell.vm].error]
    on_each(there, lambda shell: _connected(shell, [each for each in to if each[0] == address[shell.vm]], end=True))


def _connected(shell: GuestSsh, to: Sequence[tuple[str, int]], *, end: bool = False) -> dict[tuple[str, int], str]:
    spec: dict[str, JsonValue] = {"to": [list(each) for each in (to[:1] if end else to)], "timeout": _WAIT, "end": end}
    found = _probe(shell, "connect", spec, TypeAdapter(dict[str, str])) if to else {}
    if isinstance(found, str):
        return {(address, port): found for address, port in to}
    return {(address, port): found.get(json.dumps([address, port]), "no answer") for address, port in to}


def _try_logins(nodes: Sequence[Node], head: GuestSsh, port: int, seen: dict[str, PreflightNode]) -> None:
    """Log in from rank 0's node to the others; with a port, for a key that comes with the run, only connect to it."""
    others = [node.address for node in nodes[1:]]
    if port:
        reached = _connected(head, [(address, port) for address in others])
        found = {address: f"port {port}: {why}" if why else "" for (address, _), why in reached.items()}
    else:
        spec: dict[str, JsonValue] = {"to": [*others], "command": list(LOGIN), "timeout": _WAIT + 1}
        answer = _probe(head, "logins", spec, TypeAdapter(dict[str, str]))
        found = dict.fromkeys(others, answer) if isinstance(answer, str) else answer
    seen[head.vm] = replace(seen[head.vm], logins=found)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _paths(nodes: Sequence[Node], seen: dict[str, PreflightNode], shells: Mapping[str, GuestSsh]) -> list[RailPath]:
    """Return whether packets pass from each node to the next one of the ring, on every rail that both have.

    What goes wrong with a guest is noted.
    """
    from vsphere_ai.connect.secure_shell.guest_ssh import on_each

    after = {node.vm: nodes[(at + 1) % len(nodes)] for at, node in enumerate(nodes)} if len(nodes) > 1 else {}
    by_vm = {node.vm: node for node in nodes}

    def ping(shell: GuestSsh) -> list[RailPath]:
        node, peer = by_vm[shell.vm], after[shell.vm]
        found = []
        for rail in node.rails:
            other = next((r for r in peer.rails if r.number == rail.number and r.address), None)
            link = link_of(rail, seen[node.vm].facts)
            if other is None or not rail.address or not rail.mtu or (link is not None and not link.is_active):
                continue
            large = _passes(shell, rail.interface, other.address, rail.mtu)
            small = None if large else _passes(shell, rail.interface, other.address, 576)
            found.append(RailPath(node.vm, peer.vm, rail, large, small))
        return found

    results = on_each((shells[vm] for vm in after), ping)
    seen.update({vm: _of_error(seen[vm], each) for vm, each in results.items() if isinstance(each, VsphereAiError)})
    return [path for each in results.values() if not isinstance(each, VsphereAiError) for path in each]


def _passes(shell: GuestSsh, interface: str, address: str, mtu: int) -> bool:
    size = mtu - IP_AND_ICMP - (_IP_V6_MORE if ip_address(address).version == 6 else 0)
    argv = ("ping", "-M", "do", "-c", "1", "-W", "2", "-I", interface, "-s", str(size), address)
    answer = _answer(shell, argv, _WAIT)
    return not answer.failure and answer.code == 0
