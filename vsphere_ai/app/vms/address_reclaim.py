"""Reclaim of leaked leases: on evidence read twice, with a grace between, never where a VM may be unseen."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from vsphere_ai.addresses.evidence import LeaseState, assess, reclaimable
from vsphere_ai.addresses.leasing import release
from vsphere_ai.app.estate.address_reading import read_evidence, read_recorded
from vsphere_ai.app.estate.connection import EstateConnection
from vsphere_ai.app.estate.scope import EstateRequest, EstateScope
from vsphere_ai.app.estate.session import open_session
from vsphere_ai.app.events import Emit, Status, Waiting, ignore
from vsphere_ai.app.runs.address_programs import release_at_programs
from vsphere_ai.app.vms.address_changes import locked, store
from vsphere_ai.errors import Denied, Refused

if TYPE_CHECKING:
    from vsphere_ai.addresses.evidence import Evidence
    from vsphere_ai.addresses.holding import AddressLedger

GRACE = 900.0
"""Seconds between the two reads."""
SIGN_OF_LIFE = 60.0
_SIGHT = ("System.View", "System.Read")


@dataclass(frozen=True)
class Reclaim:
    """Leases that are reclaimed, or would be, and how many VMs of each of their sets keep theirs.

    `left` are leases without a VM that are not reclaimed, each with the reason.
    """

    vcenter: str
    leases: tuple[LeaseState, ...] = ()
    keep: tuple[tuple[str, int], ...] = ()
    left: tuple[LeaseState, ...] = ()
    changed: bool = False


@dataclass(frozen=True)
class ReclaimRequest:
    """How to reclaim: `confirm` is called with what would be reclaimed, when there is something.

    `vms`: how many VMs this account has to see; without it at least as many as when the ledger was last written.
    """

    confirm: Callable[[Reclaim], bool]
    estate: EstateRequest = field(default_factory=EstateRequest)
    grace: float = GRACE
    vms: int | None = None


def reclaim_addresses(request: ReclaimRequest, emit: Emit = ignore) -> Reclaim:
    """Release leases whose VMs are gone. `Refused` when the account sees fewer VMs than it should.

    The lock in vCenter is held from the second read on.
    """
    with open_session(request.estate, None, emit) as session:
        first, before = _read(session.scope, session.connection, request)
        if not reclaimable(first, first):
            return Reclaim(session.connection.vcenter.name, left=_left(first, ()))
        _wait(request.grace, emit)
        with locked(session.scope, session.connection, "ipam reclaim") as hold:
            found = read_recorded(session.scope, session.connection)
            evidence = read_evidence(session.scope, session.connection)
            _require_sight(found.ledger, evidence, request.vms, before)
            second = assess(found.ledger, found.terms.pools, evidence)
            keep = reclaimable(first, second)
            going = [e for e in second if e.lease.nic.set in keep and e.lease.index > keep[e.lease.nic.set]]
            plan = Reclaim(session.connection.vcenter.name, tuple(going), tuple(keep.items()), _left(second, going))
            emit(Status(""))
            if not keep or not request.confirm(plan):
                return plan
            after = replace(found.ledger, vms=evidence.vms)
            for name, count in keep.items():
                after = release(after, found.terms, name, count)
            release_at_programs(session.scope, session.connection, found.ledger, after)
            store(hold, found, after)
            return replace(plan, changed=True)


def _read(scope: EstateScope, connection: EstateConnection, request: ReclaimRequest) -> tuple[list[LeaseState], int]:
    """Read leases, then their owners; return the leases with their states, and how many VMs were seen."""
    root = str(connection.vcenter.service("rootFolder"))
    missing = connection.vcenter.missing_privileges([root], _SIGHT).get(root, ())
    if missing:
        text = f"the account lacks {', '.join(missing)} on the root folder: VMs that it does not see look deleted"
        raise Denied(text, "give it a role with these on the root folder, for all below it", rule="addresses.no-view")
    found = read_recorded(scope, connection)
    evidence = read_evidence(scope, connection)
    states = assess(found.ledger, found.terms.pools, evidence)
    if reclaimable(states, states):
        _require_sight(found.ledger, evidence, request.vms, 0)
    return states, evidence.vms


def _require_sight(ledger: AddressLedger, evidence: Evidence, stated: int | None, before: int) -> None:
    """Refuse when fewer VMs are seen than there should be: one that is not seen looks deleted."""
    needed = max(ledger.vms if stated is None else stated, before)
    if stated is None and not ledger.vms:
        raise Refused(
            "the ledger does not say how many VMs there are",
            f"this account sees {evidence.vms}; when that is all of them, give --vms {evidence.vms}",
            rule="addresses.fewer-vms",
        )
    if evidence.vms < needed:
        raise Refused(
            f"this account sees {evidence.vms} VMs, and there were {needed}: what it does not see looks deleted",
            f"use an account that sees all VMs; when the others are gone, give --vms {evidence.vms}",
            rule="addresses.fewer-vms",
        )


def _left(states: Sequence[LeaseState], going: Sequence[LeaseState]) -> tuple[LeaseState, ...]:
    own = ("leaked", "unsafe", "conflict", "no VM")
    return tuple(each for each in states if each.state in own and each not in going)


def _wait(seconds: float, emit: Emit) -> None:
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        emit(Waiting(f"leases without a VM were found; they are read again in {left:.0f} s"))
        time.sleep(min(left, SIGN_OF_LIFE))
