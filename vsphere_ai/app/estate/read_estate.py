"""Reading an estate: as deeply as a playbook, a limit or patterns of names ask for, in one bulk read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from vsphere_ai.app.estate.references import load
from vsphere_ai.app.estate.scope import EstateRequest, EstateScope
from vsphere_ai.app.estate.session import open_session
from vsphere_ai.app.events import Emit, Remark, ignore
from vsphere_ai.errors import InputError, Mark, UsageError
from vsphere_ai.fabric import devices, dvs, vmk
from vsphere_ai.language.inventories.selection import select
from vsphere_ai.language.playbooks.play import Playbook, TargetPlan
from vsphere_ai.model.facts import Estate
from vsphere_ai.model.state import Target, TargetKind
from vsphere_ai.model.steps import Probe, Query
from vsphere_ai.planning.needed_facts import left_out
from vsphere_ai.reading import requirements
from vsphere_ai.reading.scope import depth_for, with_gpus
from vsphere_ai.reading.vm_tags import with_tags
from vsphere_ai.security import known_names

if TYPE_CHECKING:
    from vsphere_ai.app.estate.session import Session
    from vsphere_ai.reading.collector import Depth


Calls = frozenset[str] | None
OF_PATHS = frozenset({vmk.OPTION_FACT})
"""What is asked of hosts by calls of their own to follow RDMA paths."""


@dataclass(frozen=True)
class ReadRequest:
    """What to read: what planning a playbook needs, or everything within the limit of the estate request."""

    estate: EstateRequest = field(default_factory=EstateRequest)
    playbook: Path | None = None


def read(request: ReadRequest, emit: Emit = ignore) -> Estate:
    """Read an estate: facts of datacenters, hosts and VMs by reference. Changes nothing."""
    playbook = load(request.playbook, request.estate, emit) if request.playbook else None
    with open_session(request.estate, playbook, emit) as session:
        return read_for(session, playbook) if playbook else read_everything(session)


def read_with(
    session: Session,
    choose: Callable[[Estate], Depth],
    ask: Callable[[Estate], tuple[Query, ...]] = lambda _: (),
    probes: tuple[Probe, ...] | None = None,
    outlines: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
) -> Estate:
    """Read the estate as deeply as `choose` says, then ask what `ask` wants to know beyond it.

    `probes` are run instead of those of all kinds; `outlines` are read of every object of a type, before `choose`.
    """
    from vsphere_ai.reading.collector import collect

    request = session.request(choose)
    wanted = request.probes if probes is None else probes
    estate = collect(
        session.connection.vcenter,
        session.connection.shells,
        replace(request, ask=ask, probes=wanted, outlines={**request.outlines, **outlines}),
    )
    _remember_names(estate)
    return estate


def _remember_names(estate: Estate) -> None:
    """Keep the names of all targets, for a shell that completes them."""
    names: dict[TargetKind, list[str]] = {}
    for target in (*estate.datacenters, *estate.hosts, *estate.vms):
        names.setdefault(target.kind, []).append(target.name)
    known_names.remember(estate.about.instance, names)


def read_for(session: Session, playbook: Playbook, more: Callable[[Estate], Depth] | None = None) -> Estate:
    """Read what planning a playbook needs, and as deeply as `more` says besides, of an estate with its sets."""

    def ask(estate: Estate) -> tuple[Query, ...]:
        laid = session.laid_out(playbook, estate, addresses=False).estate
        return requirements.questions(session.desired(playbook, laid), laid)

    def choose(estate: Estate) -> Depth:
        laid = session.laid_out(playbook, estate, addresses=False)
        depth = depth_for(laid.estate, session.desired(playbook, laid.estate))
        depth = depth | more(laid.estate) if more else depth
        return replace(depth, vms=laid.as_read(depth.vms) | laid.sources)

    laid = session.laid_out(playbook, read_with(session, choose, ask))
    vcenter = session.connection.vcenter
    vcenter.knows(laid.real)
    return with_tags(vcenter, laid.estate, session.desired(playbook, laid.estate))


def read_everything(
    session: Session, *, around: bool = False, probes: tuple[Probe, ...] | None = None, calls: Calls = None
) -> Estate:
    """Read all hosts and VMs that `--limit` names deeply; `around` them, too, what planning for them looks at.

    `probes` are run instead of those of all kinds, and of hosts' own calls only these `calls` are made.
    """
    from vsphere_ai.reading.collector import Depth

    def choose(estate: Estate) -> Depth:
        chosen = session.scope.limited(estate, (*estate.datacenters, *estate.hosts, *estate.vms))
        hosts = frozenset(t.ref for t in chosen if t.kind == "host")
        vms = frozenset(t.ref for t in chosen if t.kind == "vm")
        depth = Depth(hosts, vms, hosts & with_gpus(estate), calls=calls)
        narrowed = around and session.scope.options.limit
        return depth | depth_for(estate, dict.fromkeys(chosen, TargetPlan(()))) if narrowed else depth

    return read_with(session, choose, probes=probes)


def read_vms(session: Session, patterns: Sequence[str]) -> tuple[Estate, tuple[Target, ...]]:
    """Read VMs, the hosts they can run on and those on the same switches; no command is run on a host."""
    from vsphere_ai.reading.collector import Depth

    def choose(estate: Estate) -> Depth:
        vms = named(session.scope, estate, "vm", patterns)
        hosts = estate.hosts_around(v.ref for v in vms)
        around = frozenset(hosts | dvs.beside(estate, hosts))
        return Depth(around, frozenset(v.ref for v in vms), asked=frozenset(hosts), calls=OF_PATHS)

    estate = read_with(session, choose)
    return estate, named(session.scope, estate, "vm", patterns)


def read_hosts(session: Session, patterns: Sequence[str]) -> tuple[Estate, tuple[Target, ...]]:
    """Read hosts, all of them without a pattern; asked over SSH is what their vSphere release does not report."""
    from vsphere_ai.reading.collector import Depth

    def listed(estate: Estate) -> tuple[Target, ...]:
        return (
            named(session.scope, estate, "host", patterns) if patterns else session.scope.limited(estate, estate.hosts)
        )

    def choose(estate: Estate) -> Depth:
        hosts = frozenset(t.ref for t in listed(estate))
        return Depth(hosts, probe=frozenset(h for h in hosts if devices.needs_shell(estate[h])), calls=frozenset())

    estate = read_with(session, choose, probes=(devices.NIC_INFO,))
    return estate, listed(estate)


def report_malformed(estate: Estate, emit: Emit) -> None:
    """Emit a remark per value that is not as vSphere defines it, and was left out."""
    for line in left_out(estate):
        emit(Remark("vcenter.malformed", f"note: {line}"))


def named(scope: EstateScope, estate: Estate, kind: TargetKind, patterns: Sequence[str]) -> tuple[Target, ...]:
    """Return the targets of a kind that patterns mean, within the limit; `UsageError` where one matches no object."""
    try:
        found = [t for p in patterns for t in select(p, kind, scope.inventory, estate, mark=Mark(p))]
    except InputError as error:
        if any(d.mark.file not in patterns for d in error.diagnostics):
            raise  # a group that the inventory describes wrongly
        text, hint = "\n".join(d.message for d in error.diagnostics), error.diagnostics[0].help
        raise UsageError(text, hint, rule="usage.limit") from None
    return scope.limited(estate, tuple(dict.fromkeys(found)))
