"""Findings about leases: those in conflict, leaked or not certain, and addresses that no lease or pool has any more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from vsphere_ai.addresses.evidence import LeaseState, State
from vsphere_ai.addresses.in_use import InUse
from vsphere_ai.addresses.usage import OutOfRange
from vsphere_ai.model.finding import Finding, Subject, Verdict

_OF_STATE: Mapping[State, tuple[Verdict, str]] = {
    "in use": ("pass", ""),
    "spare": ("pass", ""),
    "not reported": ("warn", "compare the addresses in the guest with the lease"),
    "no VM": ("info", ""),
    "leaked": ("fail", "vsphere-ai ipam reclaim releases it"),
    "unsafe": ("unknown", ""),
    "conflict": ("fail", "take the address away from the other one, or release the lease"),
}
"""State of a lease -> its verdict, and what to do."""


def lease_findings(
    states: Sequence[LeaseState], strays: Sequence[OutOfRange], lost: Sequence[InUse]
) -> Iterator[Finding[Subject]]:
    """Yield a finding about every lease, about what its pool does not give any more, and about leases that are lost."""
    for each in states:
        verdict, remedy = _OF_STATE[each.state]
        lease, rule = each.lease, f"ipam.{each.state.lower().replace(' ', '-')}"
        name = f"{lease.nic.set}/{lease.index}/{lease.nic.name}"
        yield Finding(Subject("lease", name, part=lease.address), rule, verdict, each.why, remedy)
    for stray in strays:
        subject = Subject("lease", stray.holder, part=stray.addresses)
        remedy = f"give the addresses back to the pool {stray.pool}, or release them"
        yield Finding(subject, "ipam.out-of-range", "fail", f"not in the pool {stray.pool}: {stray.why}", remedy)
    for own in lost:
        subject = Subject("lease", f"{own.set}/{own.index}", part=str(own.range))
        message = f"the leases in vCenter do not have it, and {own.who} does"
        yield Finding(subject, "ipam.not-recorded", "fail", message, "restore the leases from a backup of vCenter")
