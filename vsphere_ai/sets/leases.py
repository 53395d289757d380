"""Leases of the members of sets: their addresses in the plan, and the changes of the ledger that vCenter keeps."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from vsphere_ai.addresses.conflicts import find_conflicts
from vsphere_ai.addresses.holding import AddressLedger, NicHolding
from vsphere_ai.addresses.in_use import InUse, of_guests, of_hosts, of_marks
from vsphere_ai.addresses.leasing import lease, release
from vsphere_ai.addresses.ledger_text import ledger_text, read_ledger
from vsphere_ai.addresses.pool import AUTO, AffinityPlace
from vsphere_ai.addresses.request import Lease, NicRequest, PoolSettings, SetRequest
from vsphere_ai.fabric import networks
from vsphere_ai.fabric.dvs import PORT_GROUP
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import Step, WriteLeases
from vsphere_ai.model.vm_sets import Member, MemberFault, MemberMark, MemberNic
from vsphere_ai.sets.adoption import Reported, addresses_of_guest, with_own_addresses
from vsphere_ai.sets.mac_clashes import mac_faults, planned_mac
from vsphere_ai.sets.places import place_of
from vsphere_ai.sets.set_plays import MembersFound

RELEASED_NOW = -1
"""Time of a release in a plan: the moment in which it is written."""


@dataclass(frozen=True)
class Addresses:
    """NICs of members by set, place and name of the NIC; their problems; and the texts of the ledger.

    `before` is as it was read, `taken` has the new leases, `kept` is without those of members that leave.
    """

    nics: Mapping[tuple[str, int, str], MemberNic] = field(default_factory=dict)
    faults: Mapping[tuple[str, int], tuple[MemberFault, ...]] = field(default_factory=dict)
    before: str = ""
    taken: str = ""
    kept: str = ""


GroupsOf = Callable[[Estate], Mapping[str, tuple[str, ...]]]
"""The groups that the hosts and VMs of an estate are in, by their references."""


@dataclass(frozen=True)
class LeaseLedger:
    """What addresses depend on beside the estate: the text of the ledger, the pools of the inventory, and the time.

    `in_use`: addresses that no object of the estate shows, such as those of vCenter's IP pools. `groups`: those of the
    inventory, where affinities of pools may name them.
    """

    text: str
    terms: PoolSettings
    in_use: tuple[InUse, ...] = ()
    groups: GroupsOf | None = None


def addresses_of(found: Sequence[MembersFound], estate: Estate, book: LeaseLedger) -> Addresses:
    """Return the addresses of all members, as the ledger will have them."""
    before = read_ledger(book.text)
    requests = requests_of(found, estate, book.groups)
    start, faults = with_own_addresses(before, book.terms, requests, _adopted(found, estate))
    result = lease(start, book.terms, requests)
    own = {(r.name, n.name) for r in requests for n in r.nics}
    leases = [each for each in result.leases if (each.nic.set, each.nic.name) in own]
    refused = bool(faults or result.problems)
    for problem in result.problems:
        name = problem.subject.partition("/")[0]
        for member in (m for each in found if each.play.wanted.name == name for m in each.members if not m.leaving):
            faults.setdefault((name, member.index), []).append(MemberFault(problem.rule, problem.message, problem.help))
    for problem in find_conflicts(leases, (*_in_use(found, estate, book.terms), *book.in_use), book.terms.pools):
        name, index, _nic = problem.subject.split("/")
        faults.setdefault((name, int(index)), []).append(MemberFault(problem.rule, problem.message, problem.help))
    nics = dict(_nics(found, leases, estate))
    for key, fault in mac_faults(nics, found, estate, before):
        faults.setdefault(key, []).append(fault)
    vms = len(list(estate.of_type("VirtualMachine")))
    taken = replace(before if refused else result.ledger, vms=vms)
    leaving = sum(m.leaving for each in found for m in each.members)
    kept = _without_leaving(taken, found, book.terms)
    kept = replace(kept, vms=vms - leaving) if kept.holdings != taken.holdings else taken
    return Addresses(
        nics=nics,
        faults={key: tuple(own) for key, own in faults.items()},
        before=book.text,
        taken=_text(taken, before, book.text),
        kept=_text(kept, before, book.text),
    )


def requests_of(found: Sequence[MembersFound], estate: Estate, groups_of: GroupsOf | None = None) -> list[SetRequest]:
    """Return what the sets that have addresses of pools ask for."""
    groups = groups_of(estate.with_objects(_outlines(found))) if groups_of else {}
    return [request for each in found if (request := _request(each, estate, groups)) is not None]


def _outlines(found: Sequence[MembersFound]) -> Iterator[Facts]:
    """Yield what groups of VMs ask of members that do not exist yet."""
    for member in (m for each in found for m in each.members if not m.exists and not m.faults):
        yield Facts(member.ref, {"name": member.name, "parent": member.place.folder, "runtime.host": member.place.host})


def lease_steps(addresses: Addresses, datacenter: Target) -> Iterator[Step]:
    """Yield the writes of the ledger: new leases before anything else, released ones after everything else."""
    if addresses.taken != addresses.before:
        yield WriteLeases(
            target=datacenter,
            summary="take the leases of new addresses, in one write",
            before=digest(addresses.before),
            text=addresses.taken,
        )
    if addresses.kept != addresses.taken:
        yield WriteLeases(
            target=datacenter,
            summary="release the addresses of destroyed VMs, in one write",
            before=digest(addresses.taken),
            text=addresses.kept,
            comes_last=True,
        )


def digest(text: str) -> str:
    """Return the SHA-256 of the text of a ledger."""
    return hashlib.sha256(text.encode()).hexdigest()


def _text(ledger: AddressLedger, before: AddressLedger, text: str) -> str:
    return text if ledger.holdings == before.holdings else ledger_text(ledger)


def _request(found: MembersFound, estate: Estate, groups: Mapping[str, tuple[str, ...]]) -> SetRequest | None:
    wanted, count = found.play.wanted, max((*found.play.names, 0))
    nics = [n for n in wanted.nics if n.pools]
    if not nics or not count:
        return None
    at = {m.index: m for m in found.members}
    places = [_place(found, at.get(i), estate, groups) for i in range(1, count + 1)]
    return SetRequest(
        wanted.name,
        count,
        tuple(
            NicRequest(
                n.name,
                _named(n.pools),
                spare=n.spare,
                places=tuple(replace(p, portgroups=_spellings(found, n.port_group, estate)) for p in places),
            )
            for n in nics
        ),
    )


def _named(pools: tuple[str, ...]) -> tuple[str, ...]:
    return () if pools == (AUTO,) else pools


def _place(
    found: MembersFound, member: Member | None, estate: Estate, groups: Mapping[str, tuple[str, ...]]
) -> AffinityPlace:
    """Return where a member is or will be, by names: what affinities of pools are compared with."""
    name = found.play.wanted.name
    if member is None:
        return AffinityPlace(vms=(name,))
    there = estate.get(found.real.get(member.ref, ""))
    folder = estate.get(there.get("parent") if there else member.place.folder)
    host = estate.get(there.get("runtime.host") if there else member.place.host)
    hosts = (host.name, *groups.get(host.ref, ())) if host else ()
    own = groups.get(there.ref if there else member.ref, ())
    return AffinityPlace((name, member.name, *own), hosts, _folders(folder, estate))


def _spellings(found: MembersFound, name: str, estate: Estate) -> tuple[str, ...]:
    """Return what the port group of a NIC may be called; what the play writes where that is no port group."""
    member = next((m for m in found.members if m.place.pool), None)
    place = member.place if member else place_of(found.play.wanted, estate)[0]
    network = networks.for_place(estate, place, name).network
    return networks.spellings(estate, network) if network is not None else (name,)


def _folders(folder: Facts | None, estate: Estate) -> tuple[str, ...]:
    """Return the names of a VM folder and of those above it, without the one of the datacenter, and its path."""
    path = estate.path_of(folder.ref).partition("/vm/")[2] if folder else ""
    return (*reversed(path.split("/")), path) if path else ()


def _nics(
    found: Sequence[MembersFound], leases: Sequence[Lease], estate: Estate
) -> Iterator[tuple[tuple[str, int, str], MemberNic]]:
    by_nic: dict[tuple[str, int, str], list[Lease]] = {}
    for each in leases:
        by_nic.setdefault((each.nic.set, each.index, each.nic.name), []).append(each)
    for one in found:
        for member in one.members:
            for nic in one.play.wanted.nics:
                own = by_nic.get((member.set, member.index, nic.name), [])
                yield (
                    (member.set, member.index, nic.name),
                    MemberNic(
                        nic.name,
                        planned_mac(one.play.wanted, member.index, nic.name, estate.about.instance),
                        tuple(f"{each.address}/{each.prefix}" for each in own),
                        tuple(each.gateway for each in own if each.gateway),
                        tuple(route for each in own for route in each.routes),
                    ),
                )


def _without_leaving(ledger: AddressLedger, found: Sequence[MembersFound], terms: PoolSettings) -> AddressLedger:
    """Return the ledger without what members hold that leave at the end of the range; the spare ones are kept."""
    now = PoolSettings(terms.pools, RELEASED_NOW, terms.avoided, terms.seen)
    for each in found:
        name, keep = each.play.wanted.name, max((*each.play.names, 0))
        kept = {NicHolding(name, n.name, v): keep + n.spare * bool(keep) for n in each.play.wanted.nics for v in (4, 6)}
        if any(h.count > kept.get(nic, keep) for nic, h in ledger.holdings.items() if nic.set == name):
            ledger = release(ledger, now, name, kept)
            for nic in kept.keys() & ledger.holdings.keys():
                ledger = ledger.with_spare(nic, max(0, ledger.holdings[nic].count - keep))
    return ledger


def _adopted(found: Sequence[MembersFound], estate: Estate) -> Reported:
    """Return what the VMs report that are to be adopted."""
    return {
        (m.set, m.index): addresses_of_guest(each.play.wanted, estate[each.real[m.ref]], estate)
        for each in found
        for m in each.members
        if m.adopting and m.exists
    }


def _as_members(found: Sequence[MembersFound], estate: Estate) -> Iterator[Facts]:
    """Yield all VMs; those that are to be adopted as if they had their marks."""
    own = {each.real[m.ref]: m for each in found for m in each.members if m.adopting and m.exists}
    for facts in estate.of_type("VirtualMachine"):
        member = own.get(facts.ref)
        if member is not None:
            settings = MemberMark(member.set, member.index, member.uuid).settings().items()
            options = tuple({"key": key, "value": value} for key, value in settings)
            facts = facts.having({"config.instanceUuid": member.uuid, "config.extraConfig": options})
        yield facts


def _in_use(found: Sequence[MembersFound], estate: Estate, terms: PoolSettings) -> Iterator[InUse]:
    groups = {f.ref.partition(":")[2]: networks.label(estate, f) for f in estate.of_type(PORT_GROUP)}
    yield from of_guests(_as_members(found, estate))
    yield from of_marks(estate.of_type("VirtualMachine"), terms.pools)
    yield from of_hosts(estate.of_type("HostSystem"), groups)
