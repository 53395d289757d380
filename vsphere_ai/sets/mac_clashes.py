"""MAC addresses of new members that something else has: 4 million are shared by all VMs whose addresses are given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from vsphere_ai.addresses.holding import RESERVED, AddressLedger
from vsphere_ai.model.facts import Estate
from vsphere_ai.model.plain import objects
from vsphere_ai.model.vm_sets import MemberFault, MemberNic, mac_address, mac_of
from vsphere_ai.resources.makes_vms import WantedSet
from vsphere_ai.sets.set_plays import MembersFound

OTHERWISE = "give the NIC another name, or the set another mac_prefix: the address follows from them"
Key = tuple[str, int, str]
"""Set, number of the VM, name of the NIC: what a MAC address follows from."""


def planned_mac(wanted: WantedSet, index: int, nic: str, vcenter: str) -> str:
    """Return the MAC address that a NIC of a new member gets: behind the prefix of its play, else computed."""
    if wanted.mac_prefix:
        return mac_of(wanted.mac_prefix, index, [n.name for n in wanted.nics].index(nic))
    return mac_address(vcenter, wanted.name, index, nic)


def mac_faults(
    nics: Mapping[Key, MemberNic], found: Sequence[MembersFound], estate: Estate, ledger: AddressLedger
) -> Iterator[tuple[tuple[str, int], MemberFault]]:
    """Yield the new members, by set and number, with a MAC address that is taken, and who has it.

    Looked at is what costs no further read: the NICs of this plan, those of all sets that hold addresses, the NICs that
    VMware Tools report of every VM, and the devices of VMs that were read closely. A VM of none of these that is off is
    not seen: vCenter refuses neither, and raises an alarm when both run.
    """
    new = {(m.set, m.index) for each in found for m in each.members if not (m.exists or m.leaving or m.faults)}
    wanted = {nic.mac: key for key, nic in nics.items() if key[:2] in new}
    if not wanted:
        return
    own = {each.real[m.ref]: (m.set, m.index) for each in found for m in each.members if m.ref in each.real}
    others = (*_of_sets(nics, ledger, estate.about.instance), *_of_vms(own, estate))
    for mac, who, number in dict.fromkeys(others):
        key = wanted.get(mac)
        if key is not None and key[:2] != number[:2]:
            message = f"{key[2]}: its MAC address {mac} is that of {who}"
            yield key[:2], MemberFault("mac-taken", message, OTHERWISE)


def _of_sets(
    nics: Mapping[Key, MemberNic], ledger: AddressLedger, vcenter: str
) -> Iterator[tuple[str, str, tuple[str, int]]]:
    for (name, index, nic), each in nics.items():
        yield each.mac, f"{nic} of number {index} of the set {name}", (name, index)
    for holder, holding in ledger.holdings.items():
        for index in range(1, holding.count + 1) if holder.set != RESERVED else ():
            mac = mac_address(vcenter, holder.set, index, holder.name)
            yield mac, f"{holder.name} of number {index} of the set {holder.set}", (holder.set, index)


def _of_vms(own: Mapping[str, tuple[str, int]], estate: Estate) -> Iterator[tuple[str, str, tuple[str, int]]]:
    for facts in estate.of_type("VirtualMachine"):
        nics = (*objects(facts.get("guest.net")), *objects(facts.get("config.hardware.device")))
        for nic in nics:
            if nic.get("macAddress"):
                yield str(nic["macAddress"]).lower(), f"the VM {facts.name}", own.get(facts.ref, ("", 0))
