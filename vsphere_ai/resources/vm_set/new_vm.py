"""Facts of a VM that does not exist yet: those of its source, with what its clone changes, as vCenter shows them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from vsphere_ai.fabric import dvs, networks
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.vm_sets import Member
from vsphere_ai.resources._helpers import ethernet
from vsphere_ai.resources.makes_vms import WantedNic, WantedSet
from vsphere_ai.resources.vm_set.added_disks import as_shown, disks
from vsphere_ai.resources.vm_set.disks import grown, laid_of, resized
from vsphere_ai.resources.vm_set.settings import IN_THE_CLONE, SetDisk

FIRST_NIC, FIRST_UNIT, FIRST_DISK = 4000, 7, 2000
"""Key and unit number of a VM's first NIC, and key of its first disk, as vSphere gives them."""


def facts_of(wanted: WantedSet, member: Member, estate: Estate, wanted_disks: Sequence[SetDisk] = ()) -> Facts:
    """Return a new VM as it is right after its clone: off, on its host, with the NICs that the clone brings."""
    source = estate.get(member.place.source)
    known: dict[str, Any] = {k: v for k, v in source.properties.items() if k.startswith("config.")} if source else {}
    known.pop("config.managedBy", None)
    place = member.place
    homes = (place.datastore,) if place.datastore else (source.get("datastore") or ()) if source else ()
    known |= {
        "name": member.name,
        "parent": member.place.folder,
        "config.template": False,
        "config.instanceUuid": member.uuid,
        "runtime.host": member.place.host,
        "runtime.powerState": "poweredOff",
        "runtime.connectionState": "connected",
        "guest.toolsRunningStatus": "guestToolsNotRunning",
        "resourcePool": member.place.pool,
        "recentTask": (),
        "disabledMethod": (),
        "network": (),
        "datastore": tuple(ref for ref in (*homes, *place.more_datastores) if ref.startswith("Datastore:")),
    }
    devices = known.get("config.hardware.device")
    if devices is not None:
        kept = [d for d in devices if d not in ethernet.cards(devices)]
        sizes = {d["key"]: gb for d, gb in grown(disks(source), wanted_disks)}
        kept = [resized(d, sizes[d["key"]]) if d["key"] in sizes else d for d in kept]
        last = max((d["key"] for d in disks(source)), default=FIRST_DISK - 1)
        added = as_shown(laid_of(source, wanted_disks), last)
        known["config.hardware.device"] = (*kept, *_nics(wanted, member, estate), *added)
    known |= {"config.hardware.numCPU": wanted.cpus} if wanted.cpus else {}
    known |= {"config.hardware.memoryMB": wanted.memory_mb} if wanted.memory_mb else {}
    known |= {"config.guestId": wanted.guest_id} if wanted.guest_id else {}
    return Facts(member.ref, known)


def _nics(wanted: WantedSet, member: Member, estate: Estate) -> Iterator[Mapping[str, Any]]:
    macs = {n.name: n.mac for n in member.nics}
    cloned: list[WantedNic] = [n for n in wanted.nics if n.type in IN_THE_CLONE]
    for number, nic in enumerate(cloned):
        yield {
            "_typeName": ethernet.TYPES[nic.type],
            "key": FIRST_NIC + number,
            "unitNumber": FIRST_UNIT + number,
            "addressType": "manual",
            "macAddress": macs[nic.name],
            "backing": _backing(nic, member, estate),
            "connectable": {
                "_typeName": "VirtualDeviceConnectInfo",
                "startConnected": True,
                "connected": False,
                "allowGuestControl": True,
            },
        }


def _backing(nic: WantedNic, member: Member, estate: Estate) -> Mapping[str, Any]:
    meant, here = networks.for_place(estate, member.place, nic.port_group), estate.datacenter_of(member.place.folder)
    group = meant.network
    switch = dvs.switch_of(estate, group)
    key = group.get("key") or group.ref.partition(":")[2] if group else ""
    if not meant.networks and here is not None:  # one that the plan itself may make, by the key that it will have
        key = dvs.planned_key(here.ref, nic.port_group.rpartition("/")[2])
    elif group is None or not group.ref.startswith(dvs.PORT_GROUP):
        name = group.name if group else nic.port_group
        return {"_typeName": "VirtualEthernetCardNetworkBackingInfo", "deviceName": name}
    port = {
        "_typeName": "DistributedVirtualSwitchPortConnection",
        "switchUuid": switch.get("uuid") if switch else "",
        "portgroupKey": key,
    }
    return {"_typeName": "VirtualEthernetCardDistributedVirtualPortBackingInfo", "port": port}
