"""Network files of guests: what existing VMs carry for cloud-init, decoded and checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from vsphere_ai.app.estate.read_estate import named, report_malformed
from vsphere_ai.app.estate.scope import EstateRequest
from vsphere_ai.app.estate.session import open_session
from vsphere_ai.app.events import Emit, ignore
from vsphere_ai.guests.observed import PATHS, ObservedNetwork, observed_network
from vsphere_ai.model.estate.malformed import evaluate
from vsphere_ai.model.facts import Estate

if TYPE_CHECKING:
    from vsphere_ai.reading.collector import Depth


@dataclass(frozen=True)
class GuestNetworkRequest:
    """VMs by names or patterns as in a play."""

    vms: Sequence[str]
    estate: EstateRequest = field(default_factory=EstateRequest)


@dataclass(frozen=True)
class GuestNetworkResult:
    """The estate that was read, and the network file of each VM."""

    estate: Estate
    networks: tuple[ObservedNetwork, ...]

    @property
    def exit_code(self) -> int:
        """Return 1 where a VM has no network file, or a wrong one; else 0."""
        return int(not all(each.is_valid for each in self.networks))


def guest_networks(request: GuestNetworkRequest, emit: Emit = ignore) -> GuestNetworkResult:
    """Return the network files that VMs carry in their metadata for cloud-init. Changes nothing."""
    from vsphere_ai.reading.collector import Depth, collect

    with open_session(request.estate, None, emit) as session:

        def choose(estate: Estate) -> Depth:
            vms = named(session.scope, estate, "vm", request.vms)
            return Depth(frozenset(), frozenset(vm.ref for vm in vms))

        reading = replace(session.request(choose), paths={"VirtualMachine": PATHS}, probes=(), queries=())
        estate = collect(session.connection.vcenter, None, reading)
        chosen = named(session.scope, estate, "vm", request.vms)
    found, estate = evaluate(estate, lambda e: tuple(observed_network(vm, e[vm.ref]) for vm in chosen))
    report_malformed(estate, emit)
    return GuestNetworkResult(estate, found)
