"""Addresses of a vCenter as they are: first its ledger of leases, then what VMs, hosts and IP pools show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vsphere_ai.addresses import evidence, in_use
from vsphere_ai.addresses.evidence import Evidence, evidence_of
from vsphere_ai.addresses.holding import AddressLedger
from vsphere_ai.addresses.ledger_text import read_ledger
from vsphere_ai.addresses.request import PoolSettings
from vsphere_ai.app.estate.address_ip_pools import read_ip_pools
from vsphere_ai.connect.address_ledger import StoredText, read_text
from vsphere_ai.model.facts import Facts

if TYPE_CHECKING:
    from vsphere_ai.app.estate.connection import EstateConnection
    from vsphere_ai.app.estate.scope import EstateScope

_PATHS = {
    "VirtualMachine": (*in_use.VM_PATHS, *evidence.VM_PATHS),
    "HostSystem": (*in_use.HOST_PATHS, *evidence.HOST_PATHS),
    "DistributedVirtualPortgroup": ("name", "key"),
}


@dataclass(frozen=True)
class RecordedLeases:
    """The ledger of a vCenter, as text and as leases, and the terms under which more are given."""

    stored: StoredText
    ledger: AddressLedger
    terms: PoolSettings


def read_recorded(scope: EstateScope, connection: EstateConnection) -> RecordedLeases:
    """Return the ledger, the pools of the inventory, and vCenter's time."""
    connection.progress("reading the leases")
    stored = read_text(connection.vcenter)
    now = int(connection.vcenter.now().timestamp())
    terms = PoolSettings(
        scope.inventory.pools,
        now,
        scope.inventory.reserved,
        vcenter=connection.vcenter.about.instance,
    )
    return RecordedLeases(stored, read_ledger(stored.text), terms)


def read_evidence(scope: EstateScope, connection: EstateConnection) -> Evidence:
    """Return what VMs, hosts and IP pools show; read it after the ledger, so that it is not older."""
    connection.progress("reading the addresses in use")
    objects = connection.vcenter.read(_PATHS)
    vms, hosts = (_of(objects, kind) for kind in ("VirtualMachine", "HostSystem"))
    names = {str(f.get("key")): f.name for f in _of(objects, "DistributedVirtualPortgroup")}
    marks = in_use.of_marks(vms, scope.inventory.pools)
    used = [*in_use.of_guests(vms), *in_use.of_hosts(hosts, names), *marks]
    return evidence_of(vms, hosts, [*used, *read_ip_pools(connection.vcenter, connection.emit)])


def _of(objects: dict[str, Facts], kind: str) -> list[Facts]:
    return [facts for ref, facts in sorted(objects.items()) if ref.startswith(f"{kind}:")]
