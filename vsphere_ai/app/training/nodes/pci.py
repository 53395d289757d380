"""Addresses of GPUs and NICs in guests: asked over SSH, because vCenter's slot numbers are no promise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from vsphere_ai.app.training.nodes.facts import NodeState
from vsphere_ai.app.training.nodes.preflight import ask_guest
from vsphere_ai.app.training.nodes.topology import with_vgpu_sites
from vsphere_ai.errors import Refused, VsphereAiError
from vsphere_ai.health import answers
from vsphere_ai.health.answers import read_guest, refined
from vsphere_ai.health.guest_pci import DEVICES, rdma_addresses, with_interfaces
from vsphere_ai.model.nodes import Node
from vsphere_ai.training.topology import gaps, with_addresses

if TYPE_CHECKING:
    from vsphere_ai.connect.secure_shell.guest_ssh import GuestSettings, GuestSsh

ASKED = (answers.SMI, answers.LINKS, answers.ADDRESSES, answers.SYSFS, DEVICES)


def asked_nodes(
    nodes: Sequence[Node], settings: GuestSettings
) -> tuple[tuple[Node, ...], Mapping[str, VsphereAiError]]:
    """Return nodes as their guests show them, and the errors of guests that cannot be asked, by the names of VMs."""
    from vsphere_ai.connect.secure_shell.guest_ssh import on_each, open_guests

    by_vm = {node.vm: node for node in nodes}
    shells, failed = open_guests(nodes, settings)

    def ask(shell: GuestSsh) -> Node:
        found = ask_guest(shell, ASKED)
        facts = read_guest(found)
        devices = found.get(DEVICES.name)
        node = refined(with_interfaces(by_vm[shell.vm], devices), facts)
        return with_addresses(node, (gpu.bus for gpu in facts.gpus), rdma_addresses(devices))

    try:
        known = on_each(shells.values(), ask)
    finally:
        for shell in shells.values():
            shell.close()
    errors = {**failed, **{vm: each for vm, each in known.items() if isinstance(each, VsphereAiError)}}
    answered = {vm: each for vm, each in known.items() if isinstance(each, Node)}
    return tuple(answered.get(node.vm, node) for node in nodes), errors


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
