"""Nodes of a job or of a benchmark: asked before anything starts, with what their guests know of themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from vsphere_ai.app.events import Emit
from vsphere_ai.app.training.nodes.facts import NodeState
from vsphere_ai.app.training.nodes.preflight import preflight
from vsphere_ai.errors import Refused, VsphereAiError
from vsphere_ai.health.answers import GuestFacts, refined
from vsphere_ai.health.finding import sentence
from vsphere_ai.health.guest_probes import RAILS
from vsphere_ai.health.preflight import PreflightRequirements
from vsphere_ai.model.nodes import Node

if TYPE_CHECKING:
    from vsphere_ai.connect.secure_shell.guest_ssh import GuestSettings

Nodes = tuple[tuple[Node, ...], Mapping[str, NodeState]]
"""Nodes in the order of their ranks, and their states as vCenter shows them; empty: not looked at."""


def checked(
    nodes: Nodes, settings: GuestSettings, wanted: PreflightRequirements, emit: Emit, *, rule: str
) -> tuple[Node, ...]:
    """Return the nodes with what their guests know of themselves; `Refused` where something blocks a start.

    `rule` is the id of the refusal.
    """
    given, states = nodes
    found = preflight(list(map(_askable, given)), settings, wanted, states=states or None, emit=emit)
    if not found.ok:
        raise Refused("\n".join(sentence(each) for each in found.findings), "correct it and start again", rule=rule)
    return tuple(_with_rest(n, own) for n, own in zip(found.nodes, given, strict=True))


def with_rails(nodes: Sequence[Node], settings: GuestSettings) -> tuple[tuple[Node, ...], Mapping[str, VsphereAiError]]:
    """Return nodes with the rails as their guests know them, and errors of guests that cannot be asked, by VM.

    What `checked` learns of rails, without a pre-flight.
    """
    from vsphere_ai.connect.secure_shell.guest_survey import survey

    answers = survey([n for n in nodes if _askable(n).rails], settings, RAILS)
    errors = {vm: each for vm, each in answers.items() if isinstance(each, VsphereAiError)}

    def known(node: Node) -> Node:
        facts = answers.get(node.vm)
        return _with_rest(refined(_askable(node), facts), node) if isinstance(facts, GuestFacts) else node

    return tuple(map(known, nodes)), errors


def _askable(node: Node) -> Node:
    """Return a node without rails that cannot be asked about: their interfaces in the guest are not known."""
    return replace(node, rails=tuple(r for r in node.rails if r.interface or r.address))


def _with_rest(node: Node, given: Node) -> Node:
    return replace(node, rails=(*node.rails, *(r for r in given.rails if not (r.interface or r.address))))
