"""Adoption: VMs that were not made for a set become VMs of it as they are, with the addresses that they have. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import ip_address

from vsphere_ai.addresses.choosing import candidates, listed
from vsphere_ai.addresses.holding import AddressLedger, HeldRange, Holding, NicHolding
from vsphere_ai.addresses.leasing import lease, versions_of
from vsphere_ai.addresses.pool import AddressPool
from vsphere_ai.addresses.request import AddressProblem, NicRequest, PoolSettings, SetRequest
from vsphere_ai.fabric import dvs, networks
from vsphere_ai.fabric.api_types import VirtualDevice
from vsphere_ai.fabric.trace import key_of
from vsphere_ai.guests.reported import reported
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.names.networks import AddressRange, without
from vsphere_ai.model.vm_sets import PREFIX, MemberFault, MemberMark, mark_of, settings_of
from vsphere_ai.resources.makes_vms import WantedSet
from vsphere_ai.sets.places import hosts_of, place_of

DEVICES, SETTINGS = "config.hardware.device", "config.extraConfig"
Owner = tuple[str, int]
"""A set, and the number of a VM in it."""
Reported = Mapping[Owner, Mapping[str, Sequence[str]]]
"""What the guests of VMs to be adopted report: name of the NIC in the set -> addresses, without prefix lengths."""


def faults_of(wanted: WantedSet, facts: Facts, estate: Estate) -> Iterator[MemberFault]:
    """Yield what keeps a VM from being adopted by a set; an outline shows neither its mark nor its adapters."""
    if SETTINGS in facts.properties:
        yield from _mark_faults(facts)
    if facts.get("config.template"):
        yield MemberFault("adopt-template", "it is a template, and no VM", "name it as the source of a set instead")
    state = facts.get("runtime.connectionState")
    if state != "connected":
        yield MemberFault(
            "not-connected", f"vCenter shows it as {state}; it may run elsewhere", "connect its host first"
        )
    place, missing = place_of(wanted, estate)
    hosts = hosts_of(wanted, place, estate)
    home = estate.get(facts.get("runtime.host"))
    if hosts and home is not None and home.ref not in {h.ref for h in hosts}:
        ours, theirs = (estate.datacenter_of(ref) for ref in (hosts[0].ref, facts.ref))
        where = f" of the datacenter {theirs.name}" if theirs and ours and theirs != ours else ""
        message = f"it runs on {home.name}{where}, and the set in {wanted.cluster or wanted.resource_pool}"
        yield MemberFault(
            "adopt-elsewhere", message, "migrate it there first, or adopt it into a set of its own cluster"
        )
    elif not hosts:
        yield from (fault for fault in missing if fault.rule in ("not-found", "ambiguous", "no-pool"))
    own = own_nics(wanted, facts, estate)
    for nic in wanted.nics if DEVICES in facts.properties else ():
        ambiguous, help_ = networks.for_vm(estate, facts.ref, nic.port_group).ambiguity(estate)
        if ambiguous:
            yield MemberFault("ambiguous", f"{nic.name}: {ambiguous}", help_)
        elif nic.name not in own:
            message = f"it has no adapter on {nic.port_group} that could be the NIC {nic.name} of the set"
            yield MemberFault("adopt-nic", message, "connect an adapter to that port group first, and set its guest up")


def _mark_faults(facts: Facts) -> Iterator[MemberFault]:
    settings, mark = settings_of(facts), mark_of(facts)
    if mark is not None:
        message = f"it is number {mark.index} of the set {mark.set} already"
        yield MemberFault("adopt-marked", message, "adopt a VM that is in no set")
    elif copied := MemberMark.read(settings):
        message = f"it is a clone of number {copied.index} of the set {copied.set}, and carries a copy of its mark"
        help_ = f"if it is a VM of its own: remove its settings {PREFIX}* and guestinfo.*, and change its addresses"
        yield MemberFault("adopt-copied", message, f"{help_}; then adopt it")
    elif any(key.startswith(PREFIX) and value for key, value in settings.items()):
        message = f"it has settings {PREFIX}*, which are no whole mark"
        yield MemberFault("adopt-marked", message, "remove them in the vSphere Client, if it is in no set")


def own_nics(wanted: WantedSet, facts: Facts, estate: Estate) -> dict[str, str]:
    """Return the MAC addresses that a VM has for NICs of a set: of each port group, its adapters in their order."""
    devices: Sequence[VirtualDevice] = facts.get(DEVICES) or ()
    cards = [d for d in devices if d.get("macAddress")]
    left = [(_network(card, estate), str(card["macAddress"]).lower()) for card in cards]
    found = {}
    for nic in wanted.nics:
        network = networks.for_vm(estate, facts.ref, nic.port_group).network
        name = networks.label(estate, network) if network else nic.port_group
        card = next((c for c in left if c[0] == name), None)
        if card is not None:
            left.remove(card)
            found[nic.name] = card[1]
    return found


def _network(card: VirtualDevice, estate: Estate) -> str:
    """Return the label of the network of an adapter; empty where it has none."""
    group, backing = estate.get(f"{dvs.PORT_GROUP}:{key_of(card)}"), card.get("backing") or {}
    return networks.label(estate, group) if group else str(backing.get("deviceName") or "")


def addresses_of_guest(wanted: WantedSet, facts: Facts, estate: Estate) -> dict[str, tuple[str, ...]]:
    """Return what the guest of a VM reports for NICs of a set."""
    own = own_nics(wanted, facts, estate)
    return {name: tuple(str(a.ip) for a in reported(facts.get("guest.net"), mac)) for name, mac in own.items()}


def with_own_addresses(
    ledger: AddressLedger, terms: PoolSettings, requests: Sequence[SetRequest], vms: Reported
) -> tuple[AddressLedger, dict[Owner, list[MemberFault]]]:
    """Return the ledger in which VMs hold the addresses that they report, and the problems of that."""
    every = [_single(text) for own in vms.values() for texts in own.values() for text in texts]
    terms, faults = replace(terms, seen=(*terms.seen, *every)), dict[Owner, list[MemberFault]]()
    for (name, index), own in sorted(vms.items()):
        for nic in (nic for request in requests if request.name == name for nic in request.nics):
            for version in versions_of(nic, terms.pools):
                has = tuple(text for text in own.get(nic.name, ()) if ip_address(text).version == version)
                found = _holding(ledger, terms, _Asked(NicHolding(name, nic.name, version), nic, index, has))
                if isinstance(found, AddressLedger):
                    ledger = found
                else:
                    faults.setdefault((name, index), []).append(found)
    return ledger, faults


@dataclass(frozen=True)
class _Asked:
    """A NIC of a VM in one family: what it is asked for by its set, the number of the VM, and what it `has`."""

    which: NicHolding
    nic: NicRequest
    index: int
    has: tuple[str, ...]


def _holding(ledger: AddressLedger, terms: PoolSettings, asked: _Asked) -> AddressLedger | MemberFault:
    """Return the ledger in which a VM holds one of its addresses; the VMs before it in its set get theirs first."""
    which, nic, index, has = asked.which, asked.nic, asked.index, asked.has
    words = f"{nic.name}, IPv{which.version}"
    if not has:
        return MemberFault(
            "adopt-no-address", f"{words}: its guest reports no address", "power it on, with VMware Tools"
        )
    holding = ledger.holdings.get(which, Holding())
    if index <= holding.count:
        held = holding.of(index)
        leased = _own(terms.pools.get(held.pool), held.range)
        if leased in {str(ip_address(text)) for text in has}:
            return ledger
        message = f"{words}: its guest has {', '.join(has)}, and number {index} of the set has the lease of {leased}"
        return MemberFault("adopt-address", message, f"set the address {leased} in its guest first")
    if index > holding.count + 1:
        before = SetRequest(which.set, index - 1, (replace(nic, versions=(which.version,), spare=0),))
        ledger = lease(ledger, terms, [before]).ledger
    names = candidates(terms.pools, which, nic, nic.place(index))
    if isinstance(names, AddressProblem):
        return MemberFault(names.rule, names.message, names.help)
    for name in names:
        for text in has:
            span = _free(ledger, terms, which, name, text)
            if span is not None:
                return ledger.with_held(which, [HeldRange(name, span)], terms.pools[name].block)
    message = f"{words}: its guest has {', '.join(has)}, which {listed(names)} cannot give to it"
    help_ = "free the address of another lease or reservation, add it to the ranges of the pool, or change the guest's"
    return MemberFault("adopt-address", message, help_)


def _free(ledger: AddressLedger, terms: PoolSettings, which: NicHolding, name: str, text: str) -> AddressRange | None:
    """Return what of a pool a VM holds that has an address; None where that is not the VM's to take."""
    pool, own = terms.pools[name], _single(text)
    base = int(pool.network.network_address)
    first = base + (own.first - base) // pool.block * pool.block
    span = AddressRange(own.version, first, first + pool.block - 1)
    if pool.backend is not None or not own.within(pool.network) or pool.own_address(span) != own:
        return None
    usable = any(u.first <= span.first and span.last <= u.last for u in pool.usable(terms.avoided))
    taken = list(ledger.taken(terms.pools, pool.domain, terms.now, which))
    return span if usable and without([span], taken) == [span] else None


def _own(pool: AddressPool | None, span: AddressRange) -> str:
    return str(pool.own_address(span) if pool else span)


def _single(text: str) -> AddressRange:
    found = ip_address(text)
    return AddressRange(found.version, int(found), int(found))
