"""Nodes of a job or of a benchmark: asked before anything starts, with what their guests know of themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from vsphere_ai.app.events import Emit
from vsphere_ai.app.training.nodes.facts import NodeState
from vsphere_ai.app.training.nodes.preflight import RDMA, ask_guest, preflight
from vsphere_ai.errors import Refused, VsphereAiError
from vsphere_ai.health import answers
from vsphere_ai.health.answers import read_guest, refined
from vsphere_ai.health.finding import sentence
from vsphere_ai.health.preflight import PreflightRequirements
from vsphere_ai.model.nodes import Node

if TYPE_CHECKING:
    from vsphere_ai.connect.secure_shell.guest_ssh import GuestSettings, GuestSsh

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
    from vsphere_ai.connect.secure_shell.guest_ssh import on_guests

    by_vm = {node.vm: node for node in nodes}

    def ask(shell: GuestSsh) -> Node:
        own = by_vm[shell.vm]
        return _with_rest(refined(_askable(own), read_guest(ask_guest(shell, (answers.ADDRESSES, *RDMA)))), own)

    found = on_guests([n for n in nodes if _askable(n).rails], settings, ask)
    errors = {vm: each for vm, each in found.items() if isinstance(each, VsphereAiError)}
    known = {vm: each for vm, each in found.items() if isinstance(each, Node)}
    return tuple(known.get(n.vm, n) for n in nodes), errors


def _askable(node: Node) -> Node:
    """Return a node without rails that cannot be asked about: their interfaces in the guest are not known."""
    return replace(node, rails=tuple(r for r in node.rails if r.interface or r.address))


def _with_rest(node: Node, given: Node) -> Node:
    return replace(node, rails=(*node.rails, *(r for r in given.rails if not (r.interface or r.address))))
