"""Outputs of playbooks in a session: as they are observed, and as they will be by a plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from vsphere_ai.language.playbooks.play import Playbook, PlaybookOutput
from vsphere_ai.model.facts import Estate
from vsphere_ai.model.view import View
from vsphere_ai.planning.observing import evaluate_with, observe
from vsphere_ai.resources import kinds

if TYPE_CHECKING:
    from vsphere_ai.app.estate.session import Session
    from vsphere_ai.reading.collector import Depth
    from vsphere_ai.sets.outputs import OutputValue, OutputWorld


def planned_outputs(session: Session, playbook: Playbook, estate: Estate) -> tuple[OutputValue, ...]:
    """Return the outputs of a playbook as they will be, on an estate in which its sets are laid out."""
    if not playbook.outputs:
        return ()
    from vsphere_ai.sets.outputs import evaluate

    return evaluate_with(kinds(), estate, lambda e: evaluate(playbook.outputs, _world(session, playbook, e)))[0]


def observed_outputs(
    session: Session, playbook: Playbook, chosen: Sequence[PlaybookOutput]
) -> tuple[tuple[OutputValue, ...], Estate]:
    """Return outputs as vCenter and the guests show them now, and the estate that was read for them."""
    from vsphere_ai.reading.collector import Depth, collect
    from vsphere_ai.sets.outputs import evaluate, named_vms

    def choose(estate: Estate) -> Depth:
        laid = session.laid_out(playbook, estate)
        vms = named_vms(chosen, laid.estate)
        hosts = {str(laid.estate[m.ref].get("runtime.host") or "") for m in vms} - {""}
        return Depth(frozenset(hosts), laid.as_read(m.ref for m in vms) | laid.sources)

    reading = replace(session.request(choose), probes=(), queries=())
    laid = session.laid_out(playbook, collect(session.connection.vcenter, None, reading))

    def values(estate: Estate) -> tuple[OutputValue, ...]:
        world = _world(session, playbook, estate)
        return evaluate(chosen, replace(world, now=View(estate, world.planned.states)))

    return evaluate_with(kinds(), laid.estate, values)


def _world(session: Session, playbook: Playbook, estate: Estate) -> OutputWorld:
    from vsphere_ai.sets.outputs import OutputWorld

    stated = session.desired(playbook, estate).stated
    return OutputWorld(session.scope.set_plays(playbook), View(estate, observe(estate, kinds()), stated=stated))
