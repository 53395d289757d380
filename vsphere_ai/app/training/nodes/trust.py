"""Trust of guests: the SSH keys of VMs are shown, and kept once they are confirmed. No login is made to a guest.

A guest that this tool has made writes the fingerprints of its keys into guestinfo at each boot; vCenter, which is
trusted already, shows them. Such a key needs no confirmation, and another one is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from vsphere_ai.app.estate.scope import inventory_of
from vsphere_ai.app.events import Emit, ignore
from vsphere_ai.app.project.trust import AT_ONCE, KeyTrust, ShownKey, keep_shown, shown_by
from vsphere_ai.app.training.nodes.listed import NodesRequest, list_nodes
from vsphere_ai.connect.secure_shell.hostkeys import HostKeys, fingerprint
from vsphere_ai.errors import Denied, Unreachable, UsageError
from vsphere_ai.guests.ready import READY, verdict
from vsphere_ai.model.nodes import Node


@dataclass(frozen=True)
class TrustGuestsRequest:
    """Which VMs' SSH keys to show; `fingerprints` are those that they may have, none for any."""

    confirm: Callable[[str], bool]
    nodes: NodesRequest = field(default_factory=NodesRequest)
    fingerprints: tuple[str, ...] = ()


def trust_guests(request: TrustGuestsRequest, emit: Emit = ignore) -> KeyTrust:
    """Show the SSH host keys of guests and keep those that are new once that is confirmed.

    vCenter is asked for the addresses, and for the fingerprints that guests report. `Denied` when a guest shows none of
    those, or none of the given ones.
    """
    inventory = inventory_of(request.nodes.estate)
    settings = inventory.guests
    if settings is None:
        raise UsageError("the inventory does not say how to reach guests over SSH", "add a guests: section to it")
    path = Path(settings.known_hosts)
    known = HostKeys(path, may_be_absent=True)
    ways = settings.endpoints

    def look(node: Node) -> ShownKey:
        address, port = ways.get(node.vm, (node.address, settings.port))
        if not address:
            error = Unreachable(f"the guest of {node.vm} has no address", "start it, with VMware Tools running")
            return ShownKey(node.vm, node.vm, "absent", error=error)
        return shown_by(known, node.vm, address, port)

    result = list_nodes(request.nodes, emit)
    found = result.nodes
    with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
        shown = list(pool.map(look, found))
    reported = {vm: _reported(state.settings) for vm, state in result.states.items()}
    for each in shown:
        keys = reported.get(each.host, ())
        if each.key is not None and keys and fingerprint(each.key) not in keys:
            said = f"{each.host} shows {fingerprint(each.key)}, and its guest reports {', '.join(keys)} in vCenter"
            help = "nothing was stored: the connection may be intercepted, or another machine has the address"
            raise Denied(said, help, rule="guest.host-key")
    shown = [replace(each, vouched=each.key is not None and bool(reported.get(each.host))) for each in shown]
    return keep_shown(path, shown, request.confirm, request.fingerprints, emit)


def _reported(settings: Mapping[str, str]) -> tuple[str, ...]:
    """Return the fingerprints that a guest has reported; none where it has not, or they cannot be read."""
    try:
        return verdict(settings[READY]).host_keys if settings.get(READY) else ()
    except ValueError:
        return ()
