"""Customization of a member by vCenter (LinuxPrep): the specification in its clone, and what cannot be made so.

vSphere 7.0 gives addresses to the adapters in the order of their PCI slots (KB 87648), so the clone names the slots.
Which slots a virtual machine has is an observation of virtual hardware as ESXi makes it, and of no document.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vsphere_ai.guests.cloud_init import Guest
from vsphere_ai.guests.customization import ANY_ORDER, HELP, Card, customization_problems, linux_prep
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.finding import Finding, Problem
from vsphere_ai.model.plain import PlainObject, objects
from vsphere_ai.model.state import Target
from vsphere_ai.model.view import View
from vsphere_ai.model.vm_sets import Member
from vsphere_ai.resources._helpers import ethernet
from vsphere_ai.resources.vm_set.settings import IN_THE_CLONE, VmSetFields

SLOTS = tuple(function << 10 | bridge << 5 for function in range(8) for bridge in range(5, 9))
"""PCI slot numbers that adapters can have, in their order: 160, 192, 224, 256, 1184 and so on (unverified)."""
NOT_PROBED = (
    "LinuxPrep: the guest probes no address and no gateway; it is ready when VMware Tools report every planned address"
)


def slots_of(state: VmSetFields, member: Member, view: View) -> Mapping[str, int]:
    """Return the PCI slot of each NIC by its MAC address; nothing where vCenter goes by the MAC address itself."""
    if not state.by_vcenter or view.estate.about.api_numbers >= ANY_ORDER or len(member.nics) < 2:
        return {}
    free = (slot for slot in SLOTS if slot not in set(_taken(view.estate.get(member.place.source))))
    return dict(zip((n.mac for n in member.nics), free, strict=False))


def specification(state: VmSetFields, guest: Guest, member: Member, view: View) -> PlainObject:
    """Return the CustomizationSpec of a member's clone."""
    return linux_prep(guest, _cards(guest, slots_of(state, member, view)))


def preparation_problems(
    state: VmSetFields, guest: Guest, member: Member, settings: Mapping[str, str], view: View
) -> Iterator[Problem]:
    """Yield what vCenter cannot customize, each with a rule id ``customization.*`` or ``guest.*``."""
    target = Target("vm", member.name, member.ref)
    for nic in state.nics or ():
        if nic.type not in IN_THE_CLONE:
            words = f"NIC {nic.name}: a {nic.type} adapter is added after the clone, which LinuxPrep does not configure"
            yield Finding.problem(target, "customization.nics", words, HELP)
    cards = _cards(guest, slots_of(state, member, view))
    yield from customization_problems(target, guest, cards, settings, view.estate.about.api_numbers)


def _cards(guest: Guest, slots: Mapping[str, int]) -> tuple[Card, ...]:
    return tuple(Card(nic.mac, number, slots.get(nic.mac)) for number, nic in enumerate(guest.nics))


def _taken(source: Facts | None) -> Iterator[int]:
    """Yield the PCI slots of the devices of a source that its clones keep."""
    devices = objects(source.get("config.hardware.device")) if source else ()
    cards = ethernet.cards(devices)
    for device in devices:
        info = device.get("slotInfo")
        number = info.get("pciSlotNumber") if isinstance(info, Mapping) and device not in cards else None
        if isinstance(number, int):
            yield number
