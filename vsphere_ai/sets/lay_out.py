"""Estate with sets: VMs that do not exist yet as vCenter will show them right after their clones."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from vsphere_ai.model.facts import Estate, Facts, grouped
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import Step
from vsphere_ai.model.vm_sets import (
    LEAVING,
    MEMBERS,
    MOID,
    SET,
    Member,
    MemberNic,
    is_planned_ref,
    mark_of,
    members_of,
    with_members_on_gpus,
)
from vsphere_ai.sets.adoption import own_nics
from vsphere_ai.sets.datastores import with_datastores
from vsphere_ai.sets.leases import Addresses, LeaseLedger, addresses_of, lease_steps
from vsphere_ai.sets.mac_clashes import planned_mac
from vsphere_ai.sets.members import find
from vsphere_ai.sets.placement import spread
from vsphere_ai.sets.places import place_of
from vsphere_ai.sets.set_plays import LaidOut, MembersFound, SetPlay

LEDGER = "AddressLedger:vcenter"
"""Reference under which an estate has the addresses of its sets."""
ADDRESSES = "addresses"
CPUS, CORES = "config.hardware.numCPU", "config.hardware.numCoresPerSocket"


def expand_sets(plays: Sequence[SetPlay], estate: Estate, book: LeaseLedger | None = None) -> LaidOut:
    """Lay the members of sets over an estate; one that was laid out before comes back as it is."""
    if not plays or any(ref.startswith(f"{SET}:") for ref in estate.objects):
        return LaidOut(estate)
    return _addressed(placed_in(plays, estate), estate, book)


def addressed_again(plays: Sequence[SetPlay], estate: Estate, book: LeaseLedger) -> Estate:
    """Return an estate that was laid out, and whose new members have changed hosts, with the addresses that follow."""
    of_set = grouped(members_of(estate), lambda m: m.set)
    found = [
        MembersFound(play, members, {m.ref: m.ref for m in members if m.exists})
        for play in plays
        if (members := of_set.get(play.wanted.name, ()))
    ]
    new = {m.ref for each in found for m in each.members if not m.exists and is_planned_ref(m.ref)}
    there = {ref: facts for ref, facts in estate.objects.items() if ref not in new}
    return _addressed(found, Estate(estate.about, there), book).estate


def _addressed(placed: Sequence[MembersFound], estate: Estate, book: LeaseLedger | None) -> LaidOut:
    addresses = addresses_of(placed, estate, book) if book is not None else Addresses()
    found = tuple(
        replace(each, members=tuple(_with_nics(each, m, addresses, estate) for m in each.members)) for each in placed
    )
    done = laid(estate, found)
    if book is None:
        return done
    ledger = Facts(LEDGER, {"name": LEDGER, ADDRESSES: addresses})
    return replace(done, estate=Estate(estate.about, {**done.estate.objects, LEDGER: ledger}))


def placed_in(plays: Sequence[SetPlay], estate: Estate) -> list[MembersFound]:
    """Return the members of sets with their places, which the addresses may depend on."""
    return [spread(_placed(each, estate), estate) for each in find(plays, estate)]


def ledger_steps(estate: Estate, wanted: Collection[Target]) -> Mapping[Target, Sequence[Step]]:
    """Return the writes of the ledger that an estate with sets needs, by the datacenter of the VMs.

    Nothing is released while a member that leaves is no part of what is wanted: a limit leaves it out.
    """
    facts = estate.get(LEDGER)
    addresses = facts.get(ADDRESSES) if facts else None
    if not isinstance(addresses, Addresses):
        return {}
    members = [m for m in members_of(estate) if m.ref in estate.objects]
    home = next((d for m in members if (d := estate.datacenter_of(m.ref)) is not None), None)
    home = home or next(iter(estate.datacenters), None)  # addresses of VMs that are gone are released, too
    refs = {target.ref for target in wanted}
    if any(m.leaving and m.ref not in refs for m in members):
        addresses = replace(addresses, kept=addresses.taken)
    steps = tuple(lease_steps(addresses, home)) if home is not None else ()
    return {home: steps} if home is not None and steps else {}


def laid(estate: Estate, found: Sequence[MembersFound]) -> LaidOut:
    """Return an estate with members, whose places are decided, as objects of it."""
    real = {alias: ref for each in found for alias, ref in each.real.items()}
    objects = dict(estate.objects)
    names = {m.ref: m.name for each in reversed(found) for m in reversed(each.members)}  # of two, the first one
    for alias, ref in real.items():
        facts = objects.pop(ref)
        own = {"name": names[alias], MOID: facts.get(MOID, ref.partition(":")[2])}
        objects[alias] = replace(facts, ref=alias).having(own)
    sources = set()
    for each in found:
        for member in each.members:
            new = not member.exists and not member.faults
            if not member.exists and member.place.source:
                sources.add(member.place.source)
            if new or (not member.exists and member.ref not in objects):
                made = each.play.kind.new_vm(member, estate)
                objects[member.ref] = _with_sockets(made, each.play.wanted.cores_per_socket)
        name = each.play.wanted.name
        known = {m.ref: m for m in each.members}
        objects[f"{SET}:{name}"] = Facts(
            f"{SET}:{name}", {"name": name, MEMBERS: known, LEAVING: tuple(m.ref for m in each.members if m.leaving)}
        )
    whole = with_members_on_gpus(Estate(estate.about, objects))
    return LaidOut(whole, tuple(found), real, frozenset(sources))


def _with_sockets(facts: Facts, cores: int | None) -> Facts:
    """Return a new VM with sockets of so many cores, where its CPUs can be in such: its clone brings them."""
    divides = cores is not None and not int(facts.get(CPUS) or 1) % cores
    return facts.having({CORES: cores}) if divides else facts


def _placed(found: MembersFound, estate: Estate) -> MembersFound:
    place, faults = place_of(found.play.wanted, estate)
    ready = (m.exists or bool(m.faults) for m in found.members)
    members = [
        m if settled else replace(m, place=place, faults=faults)
        for m, settled in zip(found.members, ready, strict=True)
    ]
    return replace(found, members=tuple(with_datastores(members, found.play.wanted, estate)))


def _with_nics(found: MembersFound, member: Member, addresses: Addresses, estate: Estate) -> Member:
    own, macs = [], _macs(found, member, estate)
    for nic in found.play.wanted.nics:
        mac = macs.get(nic.name) or planned_mac(found.play.wanted, member.index, nic.name, estate.about.instance)
        known = addresses.nics.get((member.set, member.index, nic.name)) or MemberNic(nic.name, mac)
        own.append(replace(known, mac=mac))
    faults = addresses.faults.get((member.set, member.index), ()) if not member.leaving else ()
    return replace(member, nics=tuple(own), faults=(*member.faults, *faults))


def _macs(found: MembersFound, member: Member, estate: Estate) -> Mapping[str, str]:
    """Return the MAC addresses of a member that is there: it keeps those of its mark, or those that it has."""
    facts = estate.get(found.real.get(member.ref, ""))
    mark = mark_of(facts) if facts is not None else None
    if mark is not None:
        return {n.name: n.mac for n in mark.nics}
    return own_nics(found.play.wanted, facts, estate) if facts is not None and member.adopting else {}
