"""Clone of a member: the one CloneSpec that carries its identity, mark, NICs, and guest data or customization.

Sources: vSphere Web Services API reference, CloneVM_Task and VirtualMachineCloneSpec.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from vsphere_ai.guests import cloud_init, ready
from vsphere_ai.guests.image import cleared_settings
from vsphere_ai.guests.netplan import GuestNic, NetplanRoute, summary
from vsphere_ai.guests.reported import what_is_missing
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import Clone
from vsphere_ai.model.view import View
from vsphere_ai.model.vm_sets import Member, MemberMark, mark_of, options_of, settings_of
from vsphere_ai.resources._helpers import ethernet
from vsphere_ai.resources._helpers.network_adapter import NetworkAdapter, device_of
from vsphere_ai.resources._helpers.vm_devices import device_change
from vsphere_ai.resources.base import kind_names
from vsphere_ai.resources.vm_set.details import config_of, drive_changes
from vsphere_ai.resources.vm_set.disks import clone_changes, laid_of, stated
from vsphere_ai.resources.vm_set.image import canary_of
from vsphere_ai.resources.vm_set.linux_prep import slots_of, specification
from vsphere_ai.resources.vm_set.settings import IN_THE_CLONE, VmSetFields

CORES = "config.hardware.numCoresPerSocket"


def guest_of(state: VmSetFields, member: Member) -> cloud_init.Guest:
    """Return what the guest of a member is to be."""
    own = {n.name: n for n in member.nics}
    nics = tuple(
        GuestNic(
            name=nic.name,
            mac=own[nic.name].mac,
            addresses=own[nic.name].addresses,
            mtu=nic.mtu,
            gateways=own[nic.name].gateways,
            routes=tuple(NetplanRoute(to, via) for to, via in own[nic.name].routes),
            primary=bool(nic.primary) or len(state.nics or ()) == 1,
            nameservers=nic.nameservers or (),
            search=nic.search or (),
            dhcp=not nic.pools,
        )
        for nic in state.nics or ()
        if nic.name in own
    )
    users = tuple(cloud_init.User(u.name, u.ssh_authorized_keys, u.sudo, bool(u.password)) for u in state.users or ())
    more = state.user_data.text if state.user_data else ""
    return cloud_init.Guest(member.name.lower(), member.uuid, nics, users, member.generation, more)


def guest_words(state: VmSetFields, member: Member) -> str:
    """Return what the guest is given, in words and as a checksum of all of it."""
    guest, users = guest_of(state, member), ", ".join(map(str, state.users or ())) or "no users"
    given = "by LinuxPrep" if state.by_vcenter else users
    given += f", user data {state.user_data}" if state.user_data else ""
    return f"hostname {guest.hostname}, {given} ({cloud_init.guest_checksum(guest)})"


def network_words(state: VmSetFields, member: Member) -> dict[str, str]:
    """Return what the guest of a new member is given for each NIC, in a line, by the names of the NICs."""
    nics = guest_of(state, member).nics
    lines = summary(nics, routed=not state.by_vcenter)
    return {n.name: line.removeprefix(n.name).strip() for n, line in zip(nics, lines, strict=True)}


def clone_step(state: VmSetFields, target: Target, member: Member, view: View) -> Clone:
    """Return the clone that makes a member."""
    place, host = member.place, view.estate.get(member.place.host)
    on = f" on {host.name}" if host else ""
    return Clone(
        target=target,
        kinds=kind_names("vm_set"),
        source=place.source,
        folder=place.folder,
        name=member.name,
        spec=_clone_spec(state, member, view),
        canary=canary_of(state, member, view),
        passwords=tuple((u.name, u.password) for u in state.users or () if u.password and state.nics),
        summary=f"clone {state.made_of}{on}",
    )


def _clone_spec(state: VmSetFields, member: Member, view: View) -> dict[str, object]:
    place = member.place
    location: dict[str, object] = {"_typeName": "VirtualMachineRelocateSpec"}
    location |= {k: v for k, v in (("pool", place.pool), ("host", place.host), ("datastore", place.datastore)) if v}
    if state.linked:
        linked = "createNewChildDiskBacking" if place.snapshot else "moveAllDiskBackingsAndAllowSharing"
        location["diskMoveType"] = linked
    mark = MemberMark(
        set=member.set,
        index=member.index,
        uuid=member.uuid,
        playbook=member.playbook,
        generation=member.generation,
        nics=member.nics,
        source=state.made_of,
        guest=guest_words(state, member),
        customize=state.customize or "" if state.by_vcenter else "",
        disks=tuple(each.marked for each in laid_of(view.estate.get(place.source), stated(state))),
    )
    guest = guest_of(state, member)
    given = mark.settings() | (cloud_init.extra_config(guest) if state.nics and not state.by_vcenter else {})
    source = view.estate.get(place.source)
    settings = given | cleared_settings(settings_of(source) if source else {}, given)
    config: dict[str, object] = {
        "_typeName": "VirtualMachineConfigSpec",
        "instanceUuid": member.uuid,
        "vAppConfigRemoved": True,
        "extraConfig": options_of(settings),
        "deviceChange": tuple(_nic_changes(state, member, view)),
    }
    config |= {"numCPUs": state.cpus} if state.cpus else {}
    cores = view.facts(member.ref).get(CORES)
    config |= {"numCoresPerSocket": cores} if cores and source and cores != source.get(CORES) else {}
    config |= {"memoryMB": state.memory_gb * 1024} if state.memory_gb else {}
    config |= {"guestId": state.guest_id} if state.guest_id else {}
    config |= config_of(state)
    spec: dict[str, object] = {
        "_typeName": "VirtualMachineCloneSpec",
        "location": location,
        "template": False,
        "powerOn": False,
        "config": config,
    }
    if state.by_vcenter:
        spec["customization"] = specification(state, guest, member, view)
    return spec | ({"snapshot": place.snapshot} if place.snapshot else {})


def _nic_changes(state: VmSetFields, member: Member, view: View) -> Iterator[Mapping[str, Any]]:
    """Remove the NICs of the source, add those of the member, known by their MAC addresses, and make its disks."""
    source = view.estate.get(member.place.source)
    for device in ethernet.cards(source.get("config.hardware.device", ()) if source else ()):
        yield device_change("remove", device)
    yield from clone_changes(source, state)
    yield from drive_changes(state, source)
    macs, slots = {n.name: n.mac for n in member.nics}, slots_of(state, member, view)
    for number, nic in enumerate(n for n in state.nics or () if n.type in IN_THE_CLONE):
        group = ethernet.found(member.ref, nic.port_group, view)
        added = NetworkAdapter(type=nic.type, port_group=group, mac=macs[nic.name], shares=nic.shares, limit=nic.limit)
        slot = slots.get(macs[nic.name])
        place = {"_typeName": "VirtualDevicePciBusSlotInfo", "pciSlotNumber": slot}
        more = {"slotInfo": place} if slot is not None else {}
        yield device_change("add", {"key": -2001 - number, **device_of(added, view), **more})


def nics_of(member: Member) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return what the guest has to report: each MAC address with its addresses, without their prefix lengths."""
    return tuple((n.mac, tuple(a.partition("/")[0] for a in n.addresses)) for n in member.nics)


def is_ready(facts: Facts, generation: int) -> bool:
    """Return whether the guest of a VM has said that it is ready, in this generation; no password is left in its VM.

    One that vCenter has customized says nothing: it has to report every address.
    """
    mark, settings = mark_of(facts), settings_of(facts)
    if mark is not None and mark.customize:
        return not what_is_missing([(n.mac, n.addresses) for n in mark.nics], facts.get("guest.net"))
    return ready.is_ready(settings, generation) and not cloud_init.holds_password(settings)
