"""Nodes of a benchmark: asked before anything starts, with what their guests know of themselves."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from vsphere_ai.app.events import Emit
from vsphere_ai.app.nodes import NodesResult
from vsphere_ai.app.preflight import preflight
from vsphere_ai.errors import Refused
from vsphere_ai.health.preflight import Wanted
from vsphere_ai.model.nodes import Node

if TYPE_CHECKING:
    from vsphere_ai.connect.guest_ssh import GuestSettings


def checked(read: NodesResult, settings: GuestSettings, wanted: Wanted, emit: Emit) -> tuple[Node, ...]:
    """Return the nodes with what their guests know of themselves; `Refused` where something stands against a start."""
    # a rail whose interface in the guest is not known cannot be asked about there
    asked = [replace(n, rails=tuple(r for r in n.rails if r.interface or r.address)) for n in read.nodes]
    found = preflight(asked, settings, wanted, states=read.states, emit=emit)
    if not found.ok:
        raise Refused("\n".join(each.text for each in found.findings), rule="bench.preflight")
    rest = [tuple(r for r in n.rails if not (r.interface or r.address)) for n in read.nodes]
    return tuple(replace(n, rails=(*n.rails, *more)) for n, more in zip(found.nodes, rest, strict=True))
