"""Check of leases: conflicts with addresses in use, leaks, and leases that an edit of a pool has left behind."""

from __future__ import annotations

from dataclasses import dataclass, field

from vsphere_ai.addresses.evidence import LeaseState, assess, unrecorded
from vsphere_ai.addresses.in_use import InUse
from vsphere_ai.addresses.lease_findings import lease_findings
from vsphere_ai.addresses.usage import OutOfRange, strays
from vsphere_ai.app.estate.address_reading import read_evidence, read_recorded
from vsphere_ai.app.estate.scope import EstateRequest
from vsphere_ai.app.estate.session import open_session
from vsphere_ai.app.events import Emit, ignore
from vsphere_ai.model.finding import Finding, Subject


@dataclass(frozen=True)
class VerifyLeasesRequest:
    """Which vCenter's leases to check."""

    estate: EstateRequest = field(default_factory=EstateRequest)


@dataclass(frozen=True)
class VerifyLeasesResult:
    """Every lease with its state, leases that are not in their pools any more, and how many VMs were seen.

    `unrecorded`: addresses that VMs of sets were given and the ledger does not have.
    """

    vcenter: str
    leases: tuple[LeaseState, ...]
    out_of_range: tuple[OutOfRange, ...]
    vms: int
    unrecorded: tuple[InUse, ...] = ()

    @property
    def findings(self) -> tuple[Finding[Subject], ...]:
        """A failure for a conflict, a leak, a lease out of its pool's range or lost; unknown for an unsafe lease."""
        return tuple(lease_findings(self.leases, self.out_of_range, self.unrecorded))


def verify_leases(request: VerifyLeasesRequest, emit: Emit = ignore) -> VerifyLeasesResult:
    """Compare the leases of a vCenter with what VMs, hosts and IP pools show. Changes nothing."""
    with open_session(request.estate, None, emit) as session:
        found = read_recorded(session.scope, session.connection)
        evidence = read_evidence(session.scope, session.connection)
        states = assess(found.ledger, found.terms.pools, evidence)
        lost = unrecorded(found.ledger, found.terms.pools, evidence)
        gone = tuple(strays(found.ledger, found.terms))
        return VerifyLeasesResult(session.connection.vcenter.name, tuple(states), gone, evidence.vms, tuple(lost))
