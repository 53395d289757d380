"""Evidence about leases: whether the VM of each is there, and whether it may be taken for gone.

A lease is known by its set and index, and its VM by a mark that names the VM's own instance UUID; never by a name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from vsphere_ai.addresses.conflicts import find_conflicts, subject
from vsphere_ai.addresses.holding import AddressLedger, Pools
from vsphere_ai.addresses.in_use import InUse, owner_of
from vsphere_ai.addresses.leasing import all_leases
from vsphere_ai.addresses.request import Lease
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.names.networks import AddressRange

VM_PATHS = ("runtime.connectionState", "guest.toolsRunningStatus")
HOST_PATHS = ("runtime.connectionState",)
State = Literal["in use", "spare", "not reported", "no VM", "leaked", "unsafe", "conflict"]


@dataclass(frozen=True)
class Owner:
    """The VM of a lease, as vCenter reports it."""

    name: str
    connected: bool
    tools: bool


@dataclass(frozen=True)
class Evidence:
    """What an account saw of VMs and hosts: owners by set and index, and what hides others from it.

    `unread`: VMs whose marks cannot be read. `away`: hosts that are not connected. `vms`: how many VMs it saw.
    """

    owners: Mapping[tuple[str, int], Owner]
    vms: int
    unread: tuple[str, ...] = ()
    away: tuple[str, ...] = ()
    in_use: tuple[InUse, ...] = field(default=())


@dataclass(frozen=True)
class LeaseState:
    """A lease, what the evidence says of it, and that in words."""

    lease: Lease
    state: State
    why: str


def evidence_of(vms: Sequence[Facts], hosts: Iterable[Facts], in_use: Iterable[InUse]) -> Evidence:
    """Return what VMs and hosts, as they were read, say about leases."""
    owners, unread = {}, []
    for facts in vms:
        if facts.get("config.instanceUuid") is None or "config.extraConfig" in facts.unreadable:
            unread.append(facts.name)
        elif (key := owner_of(facts)) is not None:
            running = facts.get("guest.toolsRunningStatus") == "guestToolsRunning"
            owners[key] = Owner(facts.name, facts.get("runtime.connectionState") == "connected", running)
    away = sorted(f.name for f in hosts if f.get("runtime.connectionState") != "connected")
    return Evidence(owners, len(vms), tuple(sorted(unread)), tuple(away), tuple(in_use))


def assess(ledger: AddressLedger, pools: Pools, evidence: Evidence) -> list[LeaseState]:
    """Return every lease with its state, in order.

    ``leaked``: there is no VM, and nothing hides one; ``unsafe``: there may be one that is not seen. ``no VM``: the
    same as ``leaked``, of a VM below others of its set that are there: the next plan makes it again.
    """
    leases = all_leases(ledger, pools)
    conflicts = {p.subject: p.message for p in find_conflicts(leases, evidence.in_use, pools)}
    reported = {(u.set, u.index, u.range) for u in evidence.in_use if u.set and u.domain is None}
    last: dict[str, int] = {}
    for name, index in evidence.owners:
        last[name] = max(index, last.get(name, index))
    found = []
    for lease in leases:
        if (message := conflicts.get(subject(lease))) is not None:
            found.append(LeaseState(lease, "conflict", message))
        else:
            holding = ledger.holdings[lease.nic]
            owner = evidence.owners.get((lease.nic.set, lease.index))
            if owner is not None:
                found.append(_of_owner(lease, owner, reported))
            elif lease.index > holding.count - holding.spare:
                found.append(LeaseState(lease, "spare", "for a VM that the set may get later"))
            else:
                found.append(_without_owner(lease, evidence, last.get(lease.nic.set)))
    return found


def _of_owner(lease: Lease, owner: Owner, reported: set[tuple[str, int, AddressRange]]) -> LeaseState:
    own = [span for name, index, span in reported if (name, index) == (lease.nic.set, lease.index)]
    if not owner.connected:
        return LeaseState(lease, "unsafe", f"VM {owner.name} is not connected, and may run")
    if owner.tools and not any(str(span) == lease.address for span in own):
        return LeaseState(lease, "not reported", f"VMware Tools of VM {owner.name} do not report it")
    return LeaseState(lease, "in use", f"VM {owner.name}")


def _without_owner(lease: Lease, evidence: Evidence, last: int | None) -> LeaseState:
    if evidence.unread:
        return LeaseState(lease, "unsafe", f"it may be that of VM {evidence.unread[0]}, whose settings cannot be read")
    if evidence.away:
        return LeaseState(lease, "unsafe", f"its VM may run on host {evidence.away[0]}, which is not connected")
    if last is not None and lease.index < last:
        return LeaseState(lease, "no VM", "VMs behind it are there; the next plan of the set makes it again")
    return LeaseState(lease, "leaked", "no VM has its mark")


def unrecorded(ledger: AddressLedger, pools: Pools, evidence: Evidence) -> list[InUse]:
    """Return the addresses that VMs of sets were given and the ledger does not have: it was lost, or is an old copy."""
    held = {(e.nic.set, e.index, e.address) for e in all_leases(ledger, pools)}
    given = (each for each in evidence.in_use if each.set and each.domain is not None)
    return [each for each in given if (each.set, each.index, str(each.range)) not in held]


def reclaimable(first: Sequence[LeaseState], second: Sequence[LeaseState]) -> dict[str, int]:
    """Return the sets with leases that were leaked both times: how many VMs of each keep theirs.

    Whatever has a lease that is not leaked keeps all those before it: addresses go by the index.
    """
    before = {each.lease for each in first if each.state == "leaked"}
    keep: Counter[str] = Counter()
    leaked: set[str] = set()
    for each in second:
        name = each.lease.nic.set
        if each.state == "leaked" and each.lease in before:
            leaked.add(name)
        elif each.state != "spare":
            keep[name] = max(each.lease.index, keep[name])
    return {name: keep[name] for name in sorted(leaked) if _goes(second, name, keep[name])}


def _goes(states: Sequence[LeaseState], name: str, keep: int) -> bool:
    return any(s.lease.nic.set == name and s.state == "leaked" and s.lease.index > keep for s in states)
