"""Trust of guests: the SSH keys of VMs are shown, and kept once they are confirmed. No login is made to a guest."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from vsphere_ai.app.events import Emit, ignore
from vsphere_ai.app.nodes import NodesRequest, list_nodes
from vsphere_ai.app.trust import AT_ONCE, Shown, keep_shown, shown_by
from vsphere_ai.connect.hostkeys import HostKeys
from vsphere_ai.errors import Unreachable, UsageError
from vsphere_ai.language.inventory import find_inventory
from vsphere_ai.model.nodes import Node


@dataclass(frozen=True)
class TrustGuestsRequest:
    """Which VMs' SSH keys to show; `fingerprints` are those that they may have, none for any."""

    confirm: Callable[[str], bool]
    nodes: NodesRequest = field(default_factory=NodesRequest)
    fingerprints: tuple[str, ...] = ()


def trust_guests(request: TrustGuestsRequest, emit: Emit = ignore) -> int:
    """Show the SSH host keys of guests and keep those that are new once that is confirmed; return the exit code.

    vCenter is asked for the addresses. `Denied` when a guest has none of the given fingerprints.
    """
    inventory = find_inventory(request.nodes.estate.inventory)
    settings = inventory.guests
    if settings is None:
        raise UsageError("the inventory does not say how to reach guests over SSH", "add a guests: section to it")
    path = Path(settings.known_hosts)
    known = HostKeys(path, may_be_absent=True)
    ways = settings.endpoints

    def look(node: Node) -> Shown:
        address, port = ways.get(node.vm, (node.address, settings.port))
        if not address:
            error = Unreachable("its guest has no address")
            return Shown(node.vm, node.vm, "absent", error=error)
        return shown_by(known, node.vm, address, port)

    found = list_nodes(request.nodes, emit).nodes
    with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
        shown = list(pool.map(look, found))
    return keep_shown(path, shown, request.confirm, request.fingerprints, emit)
