"""Outputs of a playbook: values of the VMs that it makes, computed anew from what vCenter and the guests show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from vsphere_ai.app.events import Emit, ignore
from vsphere_ai.app.read_estate import report_malformed
from vsphere_ai.app.session import EstateRequest, load, open_session
from vsphere_ai.errors import UsageError
from vsphere_ai.language.play import Output, Playbook
from vsphere_ai.language.validation import suggest
from vsphere_ai.model.facts import About, Estate
from vsphere_ai.model.view import View
from vsphere_ai.planning.observing import evaluate_with, observe
from vsphere_ai.resources import kinds
from vsphere_ai.sets.outputs import OutputValue, World, evaluate, named_vms

if TYPE_CHECKING:
    from vsphere_ai.app.session import Session
    from vsphere_ai.reading.collector import Depth


@dataclass(frozen=True)
class OutputRequest:
    """A playbook, and the name of one of its outputs; without it all of them."""

    playbook: Path
    name: str = ""
    estate: EstateRequest = field(default_factory=EstateRequest)


@dataclass(frozen=True)
class OutputResult:
    """The vCenter that was read, and the outputs as they are now."""

    about: About
    playbook: str
    outputs: tuple[OutputValue, ...]

    @property
    def exit_code(self) -> int:
        """Return 1 where something stands against an output, which then has no value; else 0."""
        return int(any(each.problems for each in self.outputs))


def output(request: OutputRequest, emit: Emit = ignore) -> OutputResult:
    """Return the outputs of a playbook as they are observed. Changes nothing; no file of an earlier run is read.

    An output is refused where a VM is missing, off or not ready, where its guest reports another address, or where the
    playbook says something else now. `UsageError` for an output that the playbook does not have.
    """
    playbook = load(request.playbook)
    chosen = _chosen(playbook, request.name)
    with open_session(request.estate, playbook, emit) as session:
        found, estate = _observed(session, playbook, chosen)
        about = session.vcenter.about
    report_malformed(estate, emit)
    return OutputResult(about, playbook.path, found)


def planned_outputs(session: Session, playbook: Playbook, estate: Estate) -> tuple[OutputValue, ...]:
    """Return the outputs of a playbook as they will be, on an estate in which its sets are laid out."""
    if not playbook.outputs:
        return ()
    return evaluate_with(kinds(), estate, lambda e: evaluate(playbook.outputs, _world(session, playbook, e)))[0]


def _chosen(playbook: Playbook, name: str) -> tuple[Output, ...]:
    known = [each.name for each in playbook.outputs]
    if not known:
        raise UsageError(f"{playbook.path} has no outputs", "add an item '- outputs: {NAME: \"${...}\"}'")
    if name and name not in known:
        raise UsageError(f"{playbook.path} has no output '{name}'", suggest(name, known, "it has"))
    return tuple(each for each in playbook.outputs if name in ("", each.name))


def _observed(session: Session, playbook: Playbook, chosen: Sequence[Output]) -> tuple[tuple[OutputValue, ...], Estate]:
    from vsphere_ai.reading.collector import Depth, collect

    def choose(estate: Estate) -> Depth:
        laid = session.laid_out(playbook, estate)
        vms = named_vms(chosen, laid.estate)
        hosts = {str(laid.estate[m.ref].get("runtime.host") or "") for m in vms} - {""}
        return Depth(frozenset(hosts), laid.as_read(m.ref for m in vms) | laid.sources)

    reading = replace(session.request(choose), probes=(), queries=())
    laid = session.laid_out(playbook, collect(session.vcenter, None, reading))

    def values(estate: Estate) -> tuple[OutputValue, ...]:
        world = _world(session, playbook, estate)
        return evaluate(chosen, replace(world, now=View(estate, world.planned.states)))

    return evaluate_with(kinds(), laid.estate, values)


def _world(session: Session, playbook: Playbook, estate: Estate) -> World:
    stated = session.desired(playbook, estate).stated
    return World(session.set_plays(playbook), View(estate, observe(estate, kinds()), stated=stated))
