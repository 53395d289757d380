"""Addresses of GPUs and NICs in guests: asked over SSH, because vCenter's slot numbers are no promise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from vsphere_ai.app.training.nodes.facts import NodeState
from vsphere_ai.app.training.nodes.topology import with_vgpu_sites
from vsphere_ai.errors import Refused, VsphereAiError
from vsphere_ai.health.guest_probes import TOPOLOGY, SurveyedGuest
from vsphere_ai.model.nodes import Node
from vsphere_ai.training.topology import gaps, with_addresses

if TYPE_CHECKING:
    from vsphere_ai.connect.secure_shell.guest_ssh import GuestSettings


def asked_nodes(
    nodes: Sequence[Node], settings: GuestSettings
) -> tuple[tuple[Node, ...], Mapping[str, VsphereAiError]]:
    """Return nodes as their guests show them, and the errors of guests that cannot be asked, by the names of VMs."""
    from vsphere_ai.connect.secure_shell.guest_survey import survey

    answers = survey(nodes, settings, TOPOLOGY)

    def known(node: Node) -> Node:
        guest = answers[node.vm]
        if not isinstance(guest, SurveyedGuest):
            return node
        return with_addresses(guest.node(node), (gpu.bus for gpu in guest.facts.gpus), guest.cards)

    return tuple(map(known, nodes)), {vm: e for vm, e in answers.items() if isinstance(e, VsphereAiError)}


def placed_nodes(nodes: Sequence[Node], settings: GuestSettings, states: Mapping[str, NodeState]) -> tuple[Node, ...]:
    """Return nodes whose topology files can be written; `Refused` with everything that is missing for one."""
    asked, errors = asked_nodes(nodes, settings)
    found = tuple(with_vgpu_sites(n, states[n.vm].vgpus) if n.vm in states else n for n in asked)
    wrong = [error.message for error in errors.values()]
    wrong += [f"{node.vm}: {gap}" for node in found if node.vm not in errors for gap in gaps(node)]
    if wrong:
        help = "leave `topology: host` out of the job, or see what is missing with: render nccl-topo"
        raise Refused("\n".join(wrong), help, rule="launch.topology")
    return found
