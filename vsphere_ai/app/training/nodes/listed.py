"""Nodes of training: the VMs of a set, or VMs by patterns, with how to reach their guests and what is behind them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from vsphere_ai.app.estate.read_estate import named, report_malformed
from vsphere_ai.app.estate.references import load
from vsphere_ai.app.estate.scope import EstateRequest, EstateScope
from vsphere_ai.app.estate.session import Session, open_session
from vsphere_ai.app.events import Emit, ignore
from vsphere_ai.app.training.nodes.facts import PATHS, Chosen, NodeState, node_of
from vsphere_ai.app.training.nodes.topology import HOST_PATHS
from vsphere_ai.errors import UsageError
from vsphere_ai.language.inventories.inventory import Inventory
from vsphere_ai.model.facts import Estate
from vsphere_ai.model.names.suggestion import suggest
from vsphere_ai.model.nodes import Node
from vsphere_ai.model.steps import Probe
from vsphere_ai.model.vm_sets import Member, members_of
from vsphere_ai.planning.observing import evaluate_with
from vsphere_ai.resources import kinds
from vsphere_ai.security.credentials import fetch
from vsphere_ai.sets.leaves import leaves_of
from vsphere_ai.sets.set_plays import SetPlay

if TYPE_CHECKING:
    from vsphere_ai.connect.secure_shell.guest_ssh import GuestSettings
    from vsphere_ai.language.playbooks.play import Playbook
    from vsphere_ai.reading.collector import Depth


@dataclass(frozen=True)
class NodesRequest:
    """Which VMs: those of the sets of a `playbook` (with `set`: of that one), else by patterns as in a play.

    `nic` is the name of the NIC for SSH and control traffic; without it the primary one of the set.
    """

    vms: Sequence[str] = ()
    playbook: Path | None = None
    set: str = ""
    nic: str = ""
    estate: EstateRequest = field(default_factory=EstateRequest)


def meant(text: str, estate: EstateRequest, *, set: str = "", nic: str = "") -> NodesRequest:
    """Return a request for what a command line names: the file of a playbook, else patterns of VMs."""
    path = Path(text)
    if path.suffix in (".yml", ".yaml") or path.is_file():
        return NodesRequest(playbook=path, set=set, nic=nic, estate=estate)
    return NodesRequest(vms=(text,), nic=nic, estate=estate)


@dataclass(frozen=True)
class NodesResult:
    """Nodes in the order of their indexes, or names; and the state of each by the name of its VM."""

    estate: Estate
    nodes: tuple[Node, ...]
    states: Mapping[str, NodeState]


def list_nodes(request: NodesRequest, emit: Emit = ignore, probes: tuple[Probe, ...] = ()) -> NodesResult:
    """Read the nodes of a request from vCenter; their hosts are asked the probes. Changes nothing, and asks no guest.

    `UsageError` for a set that the playbook does not make, or a set none of whose VMs is there.
    """
    playbook = load(request.playbook, request.estate, emit) if request.playbook else None
    with open_session(request.estate, playbook, emit) as session:
        found = read_nodes(session, request, playbook, probes)
    report_malformed(found.estate, emit)
    return found


def read_nodes(
    session: Session, request: NodesRequest, playbook: Playbook | None, probes: tuple[Probe, ...] = ()
) -> NodesResult:
    """Read the nodes of a request within a session, whose playbook was loaded; their hosts are asked the probes."""
    from vsphere_ai.reading.collector import Depth, collect

    plays = _plays(session.scope, request, playbook)

    def members(estate: Estate) -> list[Member]:
        own = {play.wanted.name for play in plays}
        return [m for m in members_of(estate) if m.set in own and m.exists and not m.leaving]

    def choose(estate: Estate) -> Depth:
        laid = session.laid_out(playbook, estate, addresses=False)
        refs = [m.ref for m in members(laid.estate)] if plays else _refs(session, request, laid.estate)
        hosts = {str(laid.estate[r].get("runtime.host") or "") for r in refs} - {""}
        return Depth(frozenset(hosts), laid.as_read(refs), frozenset(hosts) if probes else frozenset())

    asked = session.request(choose)
    more = {"VirtualMachine": PATHS, "HostSystem": HOST_PATHS}
    paths = {**asked.paths, **{kind: tuple(sorted({*asked.paths[kind], *own})) for kind, own in more.items()}}
    shells = session.connection.shells if probes else None
    read = collect(session.connection.vcenter, shells, replace(asked, paths=paths, probes=probes, queries=()))
    laid = session.laid_out(playbook, read, addresses=False).estate

    def made(estate: Estate) -> tuple[tuple[Node, NodeState], ...]:
        chosen = list(_chosen(session, request, plays, members(estate), estate))
        return tuple(node_of(each, estate) for each in chosen)

    found, estate = evaluate_with(kinds(), laid, made)
    if not found:
        names = ", ".join(play.wanted.name for play in plays)
        raise UsageError(f"no VM of {names} is there" if names else "no VM is meant", "apply the playbook first")
    return NodesResult(estate, tuple(n for n, _ in found), {n.vm: state for n, state in found})


def guest_settings(inventory: Inventory) -> GuestSettings:
    """Return how guests are reached; `UsageError` without `guests:`, `Denied` without the passphrase of the key."""
    from vsphere_ai.connect.secure_shell.guest_ssh import GuestSettings

    own = inventory.guests
    if own is None:
        raise UsageError("the inventory does not say how to reach guests over SSH", "add a guests: section to it")
    unlock, purpose = own.key_passphrase, f"passphrase of {own.key_file}"
    passphrase = fetch(unlock, inventory.base, purpose=purpose).reveal() if unlock else None
    return GuestSettings(
        own.username,
        Path(own.known_hosts),
        Path(own.key_file) if own.key_file else None,
        passphrase,
        own.agent,
        own.port,
        own.connect_timeout,
        own.endpoints,
    )


def _plays(scope: EstateScope, request: NodesRequest, playbook: Playbook | None) -> tuple[SetPlay, ...]:
    plays = scope.set_plays(playbook)
    if not request.set:
        return plays if not request.vms else ()
    found = tuple(play for play in plays if play.wanted.name == request.set)
    if not found:
        known = [play.wanted.name for play in plays]
        where = playbook.path if playbook else "the request"
        raise UsageError(f"{where} makes no set '{request.set}'", suggest(request.set, known, "it makes"))
    return found


def _refs(session: Session, request: NodesRequest, estate: Estate) -> list[str]:
    """Return the VMs that patterns mean, else those of the plays of a playbook that makes none."""
    if request.vms:
        return [vm.ref for vm in named(session.scope, estate, "vm", request.vms)]
    if session.scope.playbook is None:
        raise UsageError("no VMs are named", "give a playbook, or a pattern of names")
    return [t.ref for t in session.desired(session.scope.playbook, estate) if t.kind == "vm"]


def _chosen(
    session: Session, request: NodesRequest, plays: Sequence[SetPlay], members: Sequence[Member], estate: Estate
) -> Iterator[Chosen]:
    if not plays:
        yield from (Chosen(ref, control=request.nic) for ref in _refs(session, request, estate))
    leaves = leaves_of(session.scope.inventory, estate)
    for play in plays:
        nics = {nic.name: nic for nic in play.wanted.nics}
        if request.nic and request.nic not in nics:
            raise UsageError(f"the VMs of {play.wanted.name} have no NIC '{request.nic}'", suggest(request.nic, nics))
        for member in sorted((m for m in members if m.set == play.wanted.name), key=lambda m: m.index):
            host = estate.get(str(estate[member.ref].get("runtime.host")))
            rails = leaves.rails(play.wanted, member.place, [host] if host else [], estate)
            own = dict(zip(rails.names, rails.leaves.get(host.name, ()) if host else (), strict=False))
            names = {n.name: own.get(f"rail {n.rail}" if n.rail is not None else n.name, "") for n in play.wanted.nics}
            yield Chosen(member.ref, nics, request.nic, names)
