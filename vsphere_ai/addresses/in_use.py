"""Addresses in use: what guests and hosts report, and what vCenter's own IP pools may give to others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address

from vsphere_ai.addresses.pool import AddressPool
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.names.networks import AddressRange, address_range
from vsphere_ai.model.plain import Plain, PlainObject, inside, objects
from vsphere_ai.model.vm_sets import mark_of

VM_PATHS = ("name", "guest.net", "config.instanceUuid", "config.extraConfig")
HOST_PATHS = ("name", "config.network.vnic")


@dataclass(frozen=True)
class InUse:
    """Addresses that are in use, and who has them, in words; `network` is the name of the network, where it is known.

    `set` and `index` are those of the VM's mark, empty and 0 for whatever has none. `state` is what the guest's kernel
    says of the address: ``duplicate`` after a conflict that it noticed itself. `domain`: that of the address, where it
    is known otherwise than by the network.
    """

    range: AddressRange
    who: str
    network: str = ""
    set: str = ""
    index: int = 0
    state: str = ""
    domain: str | None = None


def owner_of(facts: Facts) -> tuple[str, int] | None:
    """Return the set and index in a VM's mark; None for a VM without one, or with that of the VM it is a clone of."""
    mark = mark_of(facts)
    return (mark.set, mark.index) if mark is not None else None


def of_marks(vms: Iterable[Facts], pools: Mapping[str, AddressPool]) -> Iterator[InUse]:
    """Yield the addresses that the VMs of sets were given, by their marks: also those of VMs that are off.

    An address that pools of several domains have is left out: the mark does not say which of them it is of.
    """
    for facts in vms:
        mark = mark_of(facts)
        for nic in mark.nics if mark is not None else ():
            for text in nic.addresses:
                span = _single(text)
                domains = {p.domain for p in pools.values() if span is not None and span.within(p.network)}
                if mark is not None and span is not None and len(domains) == 1:
                    who = f"VM {facts.name}, which was given it as {nic.name}"
                    yield InUse(span, who, set=mark.set, index=mark.index, domain=domains.pop())


def of_guests(vms: Iterable[Facts]) -> Iterator[InUse]:
    """Yield what VMware Tools report of every NIC of every VM, without link-local and loopback addresses."""
    for facts in vms:
        name, index = owner_of(facts) or ("", 0)
        for nic in objects(facts.get("guest.net")):
            who = f"VM {facts.name}, NIC {nic.get('macAddress') or nic.get('deviceConfigId', '?')}"
            network = str(nic.get("network") or "")
            for text, state in _of_nic(nic):
                if (span := _single(text)) is not None:
                    yield InUse(span, who, network, name, index, state)


def of_hosts(hosts: Iterable[Facts], port_groups: Mapping[str, str]) -> Iterator[InUse]:
    """Yield the addresses of every vmkernel adapter, without link-local ones.

    `port_groups`: distributed port groups, with their switch where others have the name, by keys as ``dvportgroup-12``.
    """
    for facts in hosts:
        for nic in objects(facts.get("config.network.vnic")):
            who = f"host {facts.name}, {nic.get('device', 'vmkernel adapter')}"
            key = str(inside(nic, "spec.distributedVirtualPort.portgroupKey") or "")
            network = port_groups.get(key, str(nic.get("portgroup") or ""))
            listed = objects(inside(nic, "spec.ip.ipV6Config.ipV6Address"))
            for text in (inside(nic, "spec.ip.ipAddress"), *(each.get("ipAddress") for each in listed)):
                if (span := _single(str(text or ""))) is not None:
                    yield InUse(span, who, network)


def of_ip_pools(pools: Plain, datacenter: str) -> Iterator[InUse]:
    """Yield the ranges of a datacenter's IP pools that are enabled: vCenter gives their addresses to vApps.

    A range is ``10.0.0.10#20``: a first address and a number of them; several are separated by commas.
    """
    for pool in objects(pools):
        who = f"vCenter IP pool {pool.get('name', pool.get('id', '?'))} of {datacenter}"
        networks = [str(each.get("networkName") or "") for each in objects(pool.get("networkAssociation"))] or [""]
        for part in ("ipv4Config", "ipv6Config"):
            if inside(pool, f"{part}.ipPoolEnabled") is True:
                for span in _pool_ranges(str(inside(pool, f"{part}.range") or "")):
                    yield from (InUse(span, who, network) for network in networks)


def _of_nic(nic: PlainObject) -> Iterator[tuple[str, str]]:
    """Yield addresses of a guest's NIC with their states; the plain list is all that old Tools report."""
    detailed = objects(inside(nic, "ipConfig.ipAddress"))
    if detailed:
        yield from ((str(each.get("ipAddress", "")), str(each.get("state") or "")) for each in detailed)
        return
    plain = nic.get("ipAddress")
    yield from ((str(each), "") for each in (plain if isinstance(plain, list | tuple) else ()))


def _single(text: str) -> AddressRange | None:
    """Return an address as a range; None for a text that is none, or an address that every network may have."""
    try:
        found: IPv4Address | IPv6Address = ip_address(text.partition("%")[0].partition("/")[0])
    except ValueError:
        return None
    if found.is_link_local or found.is_loopback or found.is_unspecified or found.is_multicast:
        return None
    return AddressRange(found.version, int(found), int(found))


def _pool_ranges(text: str) -> Iterator[AddressRange]:
    for part in text.split(","):
        first, _, count = part.strip().partition("#")
        try:
            start = address_range(first.strip())
            size = int(count or 1)
        except ValueError:
            continue
        if size > 0:
            yield AddressRange(start.version, start.first, start.first + size - 1)
