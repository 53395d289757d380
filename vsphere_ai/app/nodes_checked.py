"""Nodes of a job or of a benchmark: asked before anything starts, with what their guests know of themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from vsphere_ai.app.events import Emit
from vsphere_ai.app.nodes_facts import NodeState
from vsphere_ai.app.preflight import preflight
from vsphere_ai.errors import Refused
from vsphere_ai.health.preflight import Wanted
from vsphere_ai.model.nodes import Node

if TYPE_CHECKING:
    from vsphere_ai.connect.guest_ssh import GuestSettings

Nodes = tuple[tuple[Node, ...], Mapping[str, NodeState]]
"""Nodes in the order of their ranks, and their states as vCenter shows them; empty: not looked at."""


def checked(nodes: Nodes, settings: GuestSettings, wanted: Wanted, emit: Emit, *, rule: str) -> tuple[Node, ...]:
    """Return the nodes with what their guests know of themselves; `Refused` where something stands against a start.

    `rule` is the id of the refusal.
    """
    given, states = nodes
    # a rail whose interface in the guest is not known cannot be asked about there
    asked = [replace(n, rails=tuple(r for r in n.rails if r.interface or r.address)) for n in given]
    found = preflight(asked, settings, wanted, states=states or None, emit=emit)
    if not found.ok:
        raise Refused("\n".join(each.text for each in found.findings), rule=rule)
    rest = [tuple(r for r in n.rails if not (r.interface or r.address)) for n in given]
    return tuple(replace(n, rails=(*n.rails, *more)) for n, more in zip(found.nodes, rest, strict=True))
