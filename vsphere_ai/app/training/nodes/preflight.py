"""Pre-flight of launches and benchmarks: guests and vCenter are asked, and nothing is started or changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel, ConfigDict, JsonValue, TypeAdapter, ValidationError

from vsphere_ai.app.events import Emit, Status, guests_done, ignore
from vsphere_ai.app.training.nodes.facts import NodeState
from vsphere_ai.errors import VsphereAiError
from vsphere_ai.health.answers import GuestFacts, link_of, read_guest, refined
from vsphere_ai.health.finding import VmFinding
from vsphere_ai.health.guest_probes import before_a_start
from vsphere_ai.health.preflight import IP_AND_ICMP, PreflightNode, PreflightRequirements, RailPath, preflight_findings
from vsphere_ai.model.guest_probes import Answers, CommandAnswer, GuestCommand, GuestProbe
from vsphere_ai.model.nodes import Node, Rail

if TYPE_CHECKING:
    from vsphere_ai.connect.secure_shell.guest_ssh import GuestSettings
    from vsphere_ai.connect.secure_shell.guest_survey import GuestSurvey

T = TypeVar("T")
_WAIT = 5.0
"""Seconds in which a port or a ping has to answer."""
CLOCK = GuestCommand("clock", ("date", "+%s.%N"), _WAIT)
LOGIN = ("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5", "-o", "UpdateHostKeys=no", "-o", "LogLevel=ERROR")
"""How one guest logs in to another, as a launcher does; no question is asked, and no file changed."""
_LISTEN = 60.0
"""Seconds for which ports listen at most."""
_IP_V6_MORE = 20
SMALL = 576
"""Bytes of a packet that every path of IPv4 carries (RFC 791)."""


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
    from vsphere_ai.connect.secure_shell.guest_survey import GuestConnections, GuestSurvey

    wanted = wanted or PreflightRequirements()
    known = states or {}
    emit(Status(f"pre-flight: {len(nodes)} guests"))
    seen = {node.vm: _from_vcenter(known.get(node.vm)) for node in nodes}
    asked = [node for node in nodes if seen[node.vm].power == "poweredOn"]
    with GuestConnections.to(asked, settings) as guests:
        work = _Preflight(nodes, wanted, seen, GuestSurvey(guests))
        work.look(guests_done("pre-flight", emit))
        whole = tuple(refined(node, seen[node.vm].facts) for node in nodes)
        paths = work.paths(whole)
        work.ports()
        work.logins(settings.port)
    # what a playbook says of an MTU counts, not what the guest made of it
    said = {(node.vm, rail.interface): rail.mtu for node in nodes for rail in node.rails}
    judged = [
        replace(n, rails=tuple(replace(r, mtu=said.get((n.vm, r.interface), r.mtu)) for r in n.rails)) for n in whole
    ]
    emit(Status(""))
    return Preflight(preflight_findings(judged, seen, wanted, paths), whole, seen)


def _from_vcenter(state: NodeState | None) -> PreflightNode:
    return PreflightNode(power=state.power, leased=state.leased) if state else PreflightNode()


class _There(BaseModel):
    model_config = ConfigDict(defer_build=True)

    scripts: dict[str, str] = {}
    folders: list[str] = []
    programs: list[str] = []


class _Faults(BaseModel):
    model_config = ConfigDict(defer_build=True)

    faults: dict[int, str] = {}


@dataclass(frozen=True)
class _Preflight:
    """Rounds of questions; what is seen of a node is noted, and a guest with an error is asked no more."""

    nodes: Sequence[Node]
    wanted: PreflightRequirements
    seen: dict[str, PreflightNode]
    survey: GuestSurvey

    def _alive(self) -> list[Node]:
        return [n for n in self.nodes if n.vm in self.survey.guests.shells and not self.seen[n.vm].error]

    def _answers(self, answers: Mapping[str, T | VsphereAiError]) -> dict[str, T]:
        """Return what guests answered; the error of one that did not is noted."""
        good: dict[str, T] = {}
        for vm, answer in answers.items():
            if isinstance(answer, VsphereAiError):
                error = answer.message.partition(": ")[2] or answer.message
                self.seen[vm] = replace(self.seen[vm], error=error, remedy=answer.remedy)
            else:
                good[vm] = answer
        return good

    def _ask(self, probes: Mapping[str, GuestProbe[T]]) -> dict[str, T]:
        answers: dict[str, T | VsphereAiError] = self.survey.ask(probes)
        return self._answers(answers)

    def look(self, done: Callable[[int, int], None]) -> None:
        """Ask every guest for itself: its facts, its clock, and what of the job is there."""
        guests, survey = self.survey.guests, replace(self.survey, done=done)
        probes = {n.vm: self._probe(n) for n in self.nodes if n.vm in {*guests.shells, *guests.failed}}
        found: dict[str, PreflightNode | VsphereAiError] = survey.ask(probes)
        self.seen.update(self._answers(found))

    def _probe(self, node: Node) -> GuestProbe[PreflightNode]:
        wanted, seen = self.wanted, self.seen[node.vm]
        programs = list(wanted.programs.get(node.vm, ()))
        spec: dict[str, JsonValue] = {
            "scripts": list(wanted.scripts),
            "folders": list(wanted.shared),
            "programs": [*programs],
        }
        asked = before_a_start(gpus=wanted.gpus, rails=bool(node.rails), python=wanted.python)
        files = (_program("look", spec),) if any(spec.values()) else ()

        def read(answers: Answers) -> PreflightNode:
            clock = answers[CLOCK.name]
            there = _read(answers["look"], TypeAdapter(_There)) if files else _There()
            if not isinstance(there, _There):
                there = _There(programs=["python3"] if programs else [])
            time = _number(clock.out) if clock.is_good else None
            return replace(
                seen,
                facts=read_guest(answers),
                offset=time - (clock.asked + clock.ended) / 2 if time is not None else None,
                uncertain=(clock.ended - clock.asked) / 2,
                missing=tuple(there.folders),
                lacks=tuple(there.programs),
                scripts=there.scripts,
            )

        return GuestProbe((*asked, CLOCK, *files), read)

    def paths(self, whole: Sequence[Node]) -> list[RailPath]:
        """Return whether packets pass from each node to the next one of the ring, on every rail that both have.

        Where a packet of the whole MTU does not, a small one is tried.
        """
        by_vm = {node.vm: node for node in whole}
        ring = [by_vm[node.vm] for node in self._alive()]
        if len(ring) < 2:
            return []
        peers = {node.vm: ring[(at + 1) % len(ring)] for at, node in enumerate(ring)}
        rails = {node.vm: _tried(node, peers[node.vm], self.seen[node.vm].facts) for node in ring}
        large = self._ask({n.vm: _pings([(r, a, r.mtu or 0) for r, a in rails[n.vm]]) for n in ring if rails[n.vm]})
        lost = {vm: [pair for pair, way in zip(rails[vm], own, strict=True) if not way] for vm, own in large.items()}
        small = self._ask({vm: _pings([(r, a, SMALL) for r, a in own]) for vm, own in lost.items() if own})
        again = {(vm, r): way for vm, own in small.items() for (r, _), way in zip(lost[vm], own, strict=True)}
        return [
            RailPath(vm, peers[vm].vm, rail, way, again.get((vm, rail)))
            for vm, own in large.items()
            if not self.seen[vm].error
            for (rail, _), way in zip(rails[vm], own, strict=True)
        ]

    def ports(self) -> None:
        """Let the ports of the job listen, connect to them from every node, and end them; notes what was seen of each.

        A port that nothing listens on is refused like one that a firewall rejects: so something has to listen.
        """
        ports: dict[str, list[int]] = {}
        for number, port in self.wanted.listens:
            ports.setdefault(self.nodes[number].vm, []).append(port)
        address = {node.vm: node.address for node in self.nodes}
        heads = [node for node in self._alive() if node.vm in ports]
        listening = self._ask({n.vm: _listening(n.address, ports[n.vm]) for n in heads})
        for vm, taken in listening.items():
            self.seen[vm] = replace(self.seen[vm], taken=taken)
        to = [(address[vm], port) for vm in listening for port in ports[vm] if port not in self.seen[vm].taken]
        if not to:
            return
        for vm, reached in self._ask({n.vm: _connecting(to) for n in self._alive()}).items():
            self.seen[vm] = replace(self.seen[vm], reaches=reached)
        own = {n.vm: [each for each in to if each[0] == n.address][:1] for n in self._alive() if n.vm in listening}
        ends = {vm: _connecting(each, end=True) for vm, each in own.items() if each}
        self.survey.ask(ends)  # what is not ended ends by itself

    def logins(self, port: int) -> None:
        """Log in from rank 0's node to the others, and to itself where the launcher does.

        For a key that comes with the run, only connect to the port.
        """
        alive = self._alive()
        if not self.wanted.logins or not alive[1:] or alive[0].vm != self.nodes[0].vm:
            return
        to = alive if self.wanted.logins == "all" else alive[1:]
        others, head = [node.address for node in to], alive[0].vm
        if self.wanted.logins == "mesh":
            answers = self._ask({head: _connecting([(address, port) for address in others])})
            found = {
                vm: {address: f"port {port}: {why}" if why else "" for (address, _), why in own.items()}
                for vm, own in answers.items()
            }
        else:
            found = self._ask({head: _logging_in(others)})
        for vm, logins in found.items():
            self.seen[vm] = replace(self.seen[vm], logins=logins)


def _program(function: str, spec: Mapping[str, JsonValue]) -> GuestCommand:
    from vsphere_ai.app.training.node_program import ARGV, program

    return GuestCommand(function, ARGV, 30.0, program("probing", function, spec))


def _read(answer: CommandAnswer, form: TypeAdapter[T]) -> T | str:
    """Return what a program on a guest answered, or why there is no answer."""
    if not answer.is_good:
        return answer.failure or "failed"
    try:
        return form.validate_json(answer.out)
    except ValidationError:
        return "its answer cannot be read"


def _listening(address: str, ports: Sequence[int]) -> GuestProbe[dict[int, str]]:
    """Ask for ports to listen; the answer is why one cannot be had."""
    spec: dict[str, JsonValue] = {"address": address, "ports": [*ports], "seconds": _LISTEN}

    def read(answers: Answers) -> dict[int, str]:
        found = _read(answers["listen"], TypeAdapter(_Faults))
        return found.faults if isinstance(found, _Faults) else dict.fromkeys(ports, found)

    return GuestProbe((_program("listen", spec),), read)


def _connecting(to: Sequence[tuple[str, int]], *, end: bool = False) -> GuestProbe[dict[tuple[str, int], str]]:
    """Ask for connections; the answer is empty for one that is made, else why not. `end` ends what listens there."""
    spec: dict[str, JsonValue] = {"to": [list(each) for each in to], "timeout": _WAIT, "end": end}

    def read(answers: Answers) -> dict[tuple[str, int], str]:
        found = _read(answers["connect"], TypeAdapter(dict[str, str]))
        if isinstance(found, str):
            return dict.fromkeys(to, found)
        return {(address, port): found.get(json.dumps([address, port]), "no answer") for address, port in to}

    return GuestProbe((_program("connect", spec),), read)


def _logging_in(to: Sequence[str]) -> GuestProbe[dict[str, str]]:
    """Ask for logins as a launcher makes them; the answer is empty for one that works, else why not."""
    spec: dict[str, JsonValue] = {"to": [*to], "command": list(LOGIN), "timeout": _WAIT + 1}

    def read(answers: Answers) -> dict[str, str]:
        found = _read(answers["logins"], TypeAdapter(dict[str, str]))
        return dict.fromkeys(to, found) if isinstance(found, str) else found

    return GuestProbe((_program("logins", spec),), read)


def _tried(node: Node, peer: Node, facts: GuestFacts) -> list[tuple[Rail, str]]:
    """Return the rails of a node that are tried, each with the address of the peer on it."""
    found = []
    for rail in node.rails:
        other = next((r for r in peer.rails if r.number == rail.number and r.address), None)
        link = link_of(rail, facts)
        if other is not None and rail.address and rail.mtu and (link is None or link.is_active):
            found.append((rail, other.address))
    return found


def _pings(ways: Sequence[tuple[Rail, str, int]]) -> GuestProbe[list[bool]]:
    """Ask for one packet on each rail to an address, of so many bytes with its headers; the answer: which passed."""
    commands: list[GuestCommand] = []
    for rail, address, mtu in ways:
        size = mtu - IP_AND_ICMP - (_IP_V6_MORE if ip_address(address).version == 6 else 0)
        argv = ("ping", "-M", "do", "-c", "1", "-W", "2", "-I", rail.interface, "-s", str(size), address)
        commands.append(GuestCommand(f"{len(commands)}", argv, _WAIT))
    return GuestProbe(tuple(commands), lambda answers: [answers[each.name].is_good for each in commands])


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
