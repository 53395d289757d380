"""Members of sets of VMs: their identity before they exist, and the mark by which they are known afterwards."""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Self

from vsphere_ai.model.bounded import json_value
from vsphere_ai.model.estate.indexes import Index
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.plain import PlainObject

SET = "VmSet"
"""Begins the reference of a set in an estate: ``VmSet:train``. vCenter knows no such object."""
MEMBERS = "members"
"""What an estate has of a set: reference of the VM -> its `Member`."""
LEAVING = "leaving"
MOID = "moid"
"""What the facts of a member that is there have beside those read: the managed object id of the VM."""
PREFIX = "vsphere-ai."
"""Begins the advanced settings of a mark; not ``guestinfo.``, so that no guest can write them (unverified)."""
DISKS = f"{PREFIX}disks"
"""The advanced setting that names the disks that a set added."""
GRAPHICS = "config.graphicsInfo"
"""The property of a host with its GPUs, and the VMs on each."""
GENERATIONS = 4
"""Instance UUIDs of one member: another one each time that it is replaced, then the first one again."""
_NAMESPACE = uuid.UUID("6f1c0d5a-3b0e-5d53-9a3f-6d1f7f1a2c11")
_MAC_NUMBERS = 1 << 22
_PLANNED = re.compile(r"VirtualMachine:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True)
class MemberNic:
    """A NIC of a member: MAC address in lower case, addresses with their prefix length, ``10.0.0.5/24``.

    `gateways` are at most one per family; `routes` are pairs of a network and a gateway.
    """

    name: str
    mac: str
    addresses: tuple[str, ...] = ()
    gateways: tuple[str, ...] = ()
    routes: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return " ".join((self.mac, *(self.addresses or ("DHCP",))))


@dataclass(frozen=True)
class MemberPlace:
    """Where a member is made: references of objects; empty where that is vCenter's choice, or not known."""

    source: str = ""
    snapshot: str = ""
    folder: str = ""
    pool: str = ""
    datastore: str = ""
    host: str = ""
    more_datastores: tuple[str, ...] = ()


@dataclass(frozen=True)
class MemberFault:
    """Problem of a member: the rule without its kind, a sentence, and what would work."""

    rule: str
    message: str
    help: str = ""


@dataclass(frozen=True)
class Member:
    """A VM of a set: what is decided about it before it exists, beside what the playbook itself says.

    `index` counts from 1. `exists`: a VM with its mark is there; `leaving`: it is to be destroyed.
    """

    set: str
    index: int
    ref: str
    name: str
    uuid: str
    generation: int = 1
    exists: bool = False
    leaving: bool = False
    adopting: bool = False
    """A run is to write its mark, and to change nothing else: it was made by someone else."""
    place: MemberPlace = field(default_factory=MemberPlace)
    nics: tuple[MemberNic, ...] = ()
    playbook: str = ""
    """The playbook that makes it."""
    why_here: str = ""
    """Why it is placed on its host, in words."""
    why_store: str = ""
    """Why it is placed on its datastore; empty where the play names that."""
    faults: tuple[MemberFault, ...] = ()


@dataclass(frozen=True)
class MarkedDisk:
    """A disk that a set added: its place in the VM, such as ``scsi1:0``, and its datastore; empty: that of the VM."""

    name: str
    at: str
    datastore: str = ""


@dataclass(frozen=True)
class MemberMark:
    """What a member's advanced settings say of it. Only a mark with the VM's own `uuid` counts: clones carry copies."""

    set: str
    index: int
    uuid: str
    playbook: str = ""
    generation: int = 1
    nics: tuple[MemberNic, ...] = ()
    source: str = ""
    """What it was cloned of, as the playbook writes it."""
    guest: str = ""
    """What its guest was given, in words and as a checksum: the texts themselves are redacted."""
    customize: str = ""
    """``linux_prep`` where vCenter has customized the guest; empty for cloud-init."""
    adopted: str = ""
    """The instanceUuid that a VM had before it was adopted; empty for one that was cloned for the set."""
    disks: tuple[MarkedDisk, ...] = ()
    """Disks that were added to it."""

    def settings(self) -> dict[str, str]:
        """Return the advanced settings."""
        nics = [{"name": n.name, "mac": n.mac, "addresses": list(n.addresses)} for n in self.nics]
        settings = {
            f"{PREFIX}set": self.set,
            f"{PREFIX}index": str(self.index),
            f"{PREFIX}instance-uuid": self.uuid,
            f"{PREFIX}playbook": self.playbook,
            f"{PREFIX}generation": str(self.generation),
            f"{PREFIX}nics": json.dumps(nics, separators=(",", ":")),
            f"{PREFIX}source": self.source,
            f"{PREFIX}guest": self.guest,
            f"{PREFIX}customize": self.customize,
            f"{PREFIX}adopted": self.adopted,
            DISKS: disks_text(self.disks),
        }
        return {key: value for key, value in settings.items() if value}  # an empty value removes a key

    @classmethod
    def read(cls, settings: Mapping[str, str]) -> Self | None:
        """Return the mark in advanced settings; None where there is none, or one that was damaged."""
        own = {k.removeprefix(PREFIX): v for k, v in settings.items() if k.startswith(PREFIX)}
        try:
            nics = tuple(
                MemberNic(str(n["name"]), str(n["mac"]), tuple(map(str, n["addresses"])))
                for n in json_value(own["nics"])
            )
            return cls(
                own["set"],
                int(own["index"]),
                own["instance-uuid"],
                own.get("playbook", ""),
                int(own["generation"]),
                nics,
                own.get("source", ""),
                own.get("guest", ""),
                own.get("customize", ""),
                own.get("adopted", ""),
                tuple(
                    MarkedDisk(str(d["name"]), str(d["at"]), str(d["datastore"]))
                    for d in json_value(own.get("disks", "[]"))
                ),
            )
        except (KeyError, TypeError, ValueError):
            return None


def disks_text(disks: Iterable[MarkedDisk]) -> str:
    """Return what a mark says of disks; empty where there are none."""
    found = [{"name": d.name, "at": d.at, "datastore": d.datastore} for d in disks]
    return json.dumps(found, separators=(",", ":")) if found else ""


def settings_of(facts: Facts) -> dict[str, str]:
    """Return the advanced settings of a VM by their keys."""
    return {str(o["key"]): str(o.get("value", "")) for o in facts.get("config.extraConfig") or ()}


def options_of(settings: Mapping[str, str]) -> tuple[PlainObject, ...]:
    """Return advanced settings as the API takes them; an empty value removes a key."""
    return tuple({"_typeName": "OptionValue", "key": key, "value": value} for key, value in settings.items())


def disks_by_file(facts: Facts) -> tuple[tuple[str, Mapping[str, Any]], ...]:
    """Return the files of a VM's disks, each with its device, in the order of the devices."""
    devices = [d for d in facts.get("config.hardware.device") or () if d.get("_typeName") == "VirtualDisk"]
    backings = (d.get("backing") or {} for d in devices)
    files = (str(b.get("fileName") or b.get("deviceName") or "a raw device") for b in backings)
    return tuple(zip(files, devices, strict=True))


def disk_files(facts: Facts) -> tuple[str, ...]:
    """Return the files of a VM's disks, in the order of its devices."""
    return tuple(name for name, _ in disks_by_file(facts))


def mark_of(facts: Facts) -> MemberMark | None:
    """Return the mark of a VM; None where it has none, or that of another VM, of which it is a clone."""
    mark = MemberMark.read(settings_of(facts))
    return mark if mark is not None and mark.uuid == facts.get("config.instanceUuid") else None


def has_copied_mark(facts: Facts) -> bool:
    """Return whether a VM is a clone of a member: it carries a mark that names another VM."""
    mark = MemberMark.read(settings_of(facts))
    return mark is not None and mark.uuid != facts.get("config.instanceUuid")


def members_of(estate: Estate) -> Iterable[Member]:
    """Yield the members of all sets of an estate, those that leave included."""
    for facts in estate.of_type(SET):
        found: Mapping[str, Any] = facts.get(MEMBERS) or {}
        yield from found.values()


def member_of(estate: Estate, ref: str) -> Member | None:
    """Return the member whose reference is given; None for any other VM."""
    for facts in estate.of_type(SET):
        found = (facts.get(MEMBERS) or {}).get(ref)
        if isinstance(found, Member):
            return found
    return None


def replaced_by(estate: Estate, ref: str) -> Member | None:
    """Return the member that leaves, and whose name and number a new one gets; None where there is none."""
    new = member_of(estate, ref)
    if new is None or new.leaving:
        return None
    return next((m for m in members_of(estate) if m.leaving and (m.set, m.index) == (new.set, new.index)), None)


def is_new(estate: Estate, ref: str) -> bool:
    """Return whether a VM of an estate is one that a plan has to make first."""
    member = member_of(estate, ref) if is_planned_ref(ref) else None
    return member is not None and not member.exists


def real_ref(estate: Estate, ref: str) -> str:
    """Return the reference that vCenter has for a VM of an estate in which members have their own."""
    facts = estate.get(ref)
    return (_real_ref_of(facts) if facts else None) or ref


def _real_ref_of(facts: Facts) -> str | None:
    """Return the reference that vCenter has for a member, where that is not the one it has in the estate."""
    moid = facts.get(MOID)
    return f"VirtualMachine:{moid}" if moid else None


def estate_ref(estate: Estate, real: str) -> str:
    """Return the reference by which a VM that vCenter knows as `real` is in an estate: the reverse of `real_ref`."""
    own = estate.by_key(BY_MOID, real)
    return own[0].ref if own else real


BY_MOID = Index(("VirtualMachine",), lambda vm: (_real_ref_of(vm),))
"""Members that have a reference of their own, by that of vCenter."""


def with_members_on_gpus(estate: Estate) -> Estate:
    """Return an estate in which the GPUs of hosts show members by the references that these have in it.

    vCenter shows them by its own ones, by which the VMs of a GPU are not found in the estate.
    """
    known = {real: vm.ref for vm in estate.vms if (real := real_ref(estate, vm.ref)) != vm.ref}
    changed = []
    for host in estate.of_type("HostSystem") if known else ():
        infos = host.get(GRAPHICS) or ()
        if any(ref in known for gpu in infos for ref in gpu.get("vm") or ()):
            shown = tuple({**gpu, "vm": tuple(known.get(ref, ref) for ref in gpu.get("vm") or ())} for gpu in infos)
            changed.append(host.having({GRAPHICS: shown}))
    return estate.with_objects(changed) if changed else estate


@lru_cache(maxsize=1 << 14)
def instance_uuid(vcenter: str, name: str, index: int, generation: int) -> str:
    """Return the instanceUuid of a member: the same in every plan, on every machine."""
    return str(uuid.uuid5(_NAMESPACE, f"{vcenter}/{name}/{index}/{generation}"))


def planned_ref(instance: str) -> str:
    """Return the reference of a VM that does not exist yet: its instanceUuid in the place of its number."""
    return f"VirtualMachine:{instance}"


def is_planned_ref(ref: str) -> bool:
    """Return whether a reference is one of `planned_ref`."""
    return bool(_PLANNED.fullmatch(ref))


def mac_address(vcenter: str, name: str, index: int, nic: str) -> str:
    """Return the MAC address of a member's NIC, in VMware's range for addresses given by hand.

    00:50:56:00:00:00 to 00:50:56:3f:ff:ff (vSphere Networking, MAC Address Assignment). It stays over a rebuild.
    """
    digest = hashlib.sha256(f"{vcenter}/{name}/{index}/{nic}".encode()).digest()
    number = int.from_bytes(digest[:8], "big") % _MAC_NUMBERS
    return ":".join(f"{byte:02x}" for byte in (0x00, 0x50, 0x56, number >> 16, number >> 8 & 0xFF, number & 0xFF))


def mac_of(prefix: str, index: int, position: int) -> str:
    """Return the MAC address of a NIC behind four bytes that a play gives: ``00:50:56:12`` and two more.

    The last two bytes are twelve bits of the member's index (1 to 4096) and four of the NIC's position (0 to 15), so
    that no two NICs of a set have one address. ValueError beyond that.
    """
    if not 1 <= index <= 4096 or not 0 <= position <= 15:
        raise ValueError(f"no address behind {prefix} for NIC {position} of number {index}")
    number = (index - 1) << 4 | position
    return f"{prefix.lower()}:{number >> 8:02x}:{number & 0xFF:02x}"
