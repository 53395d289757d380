"""Placement of new members: the hosts of the cluster that can run them, evenly."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from vsphere_ai.model.estate.maintenance import why_out_of_service
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.vm_sets import Member, MemberFault
from vsphere_ai.sets.places import hosts_of
from vsphere_ai.sets.set_plays import MembersFound


def spread(found: MembersFound, estate: Estate) -> MembersFound:
    """Give each new member a host in service: that with the fewest VMs of the set, then the fewest VMs at all."""
    count: Counter[str] = Counter()
    for alias, ref in found.real.items():
        if any(m.ref == alias and not m.leaving for m in found.members):
            count[str(estate[ref].get("runtime.host"))] += 1
    crowd = {h.ref: len(estate.vms_on(h.ref)) for h in estate.hosts}
    members = []
    for member in found.members:
        if not member.exists and not member.faults:
            usable = in_service(hosts_of(found.play.wanted, member.place, estate), estate)
            member = _on(member, min(usable, key=lambda h: (count[h.ref], crowd[h.ref], h.name)) if usable else None)
            count[member.place.host] += 1
        members.append(member)
    return replace(found, members=tuple(members))


def in_service(hosts: tuple[Facts, ...], estate: Estate) -> tuple[Facts, ...]:
    """Return the hosts that are connected, and neither in maintenance mode nor on their way there."""
    return tuple(host for host in hosts if not why_out_of_service(host, estate))


def _on(member: Member, host: Facts | None) -> Member:
    if host is None:
        fault = MemberFault(
            "no-host", "no host of the cluster is connected and in service", "bring a host into service"
        )
        return replace(member, faults=(*member.faults, fault))
    why = f"on {host.name}: the host in service with the fewest VMs of the set"
    return replace(member, place=replace(member.place, host=host.ref), why_here=why)
