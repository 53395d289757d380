"""Vendor device groups of a VM: what it has, what a name means, and their members."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from vsphere_ai.fabric.api_types import ApiDeviceGroup, GroupMember, VirtualDevice
from vsphere_ai.gpu.vgpus import window
from vsphere_ai.model.facts import Facts

GROUPS, GROUP = "VirtualMachineVirtualDeviceGroups", "VirtualMachineVirtualDeviceGroupsVendorDeviceGroup"
MEMBERSHIP = "VirtualDeviceDeviceGroupInfo"
OFFER = "vendor-device-groups"
# how NVIDIA's groups are called in examples of VMware and BOSH: Nvidia:2@nvidia_h100l-94c%NVLink (unverified)
_NAME = re.compile(r"(?P<vendor>[^:@%]+):(?P<count>\d+)@(?P<device>[^@%]+)(?:%(?P<link>.+))?")


class VmDeviceGroup(NamedTuple):
    """A group a VM has, with its members."""

    key: int
    name: str
    devices: tuple[VirtualDevice, ...]

    def named(self) -> str:
        """Return what it is in a list of groups."""
        return self.name


def meaning(name: str) -> str:
    """Say in words what a group's name means; empty where it follows no known pattern."""
    found = _NAME.fullmatch(name)
    if found is None:
        return ""
    count, link = int(found["count"]), found["link"]
    joined = f", joined by {link}" if link else ""
    return (
        f"{name}: {count} × {found['device']}{joined}; the VM powers on only where {count} such GPUs are free together"
    )


def groups_listed(facts: Facts) -> tuple[ApiDeviceGroup, ...]:
    """Return the groups of a VM as it has them, also those no playbook can state."""
    return tuple((facts.get("config.deviceGroups") or {}).get("deviceGroup", ()))


def present_groups(facts: Facts) -> tuple[VmDeviceGroup, ...]:
    """Return the vendor groups of a VM that have members, in the order of their keys."""
    members: dict[int, list[VirtualDevice]] = {}
    for device in facts.get("config.hardware.device", ()):
        if info := device.get("deviceGroupInfo"):
            members.setdefault(info["groupInstanceKey"], []).append(device)
    return tuple(
        VmDeviceGroup(g["groupInstanceKey"], g["deviceGroupName"], tuple(members[g["groupInstanceKey"]]))
        for g in sorted(groups_listed(facts), key=lambda g: int(g["groupInstanceKey"]))
        if g["_typeName"] == GROUP and g["groupInstanceKey"] in members
    )


def groups_after(facts: Facts, removed: Iterable[VmDeviceGroup], new: Mapping[int, str]) -> dict[str, object]:
    """Return the groups of a VM without some, and with new ones by their keys, as they are sent."""
    gone = {g.key for g in removed}
    # the whole list, which is right whether vCenter takes it for all groups or for those it names (unverified)
    listed = [g for g in groups_listed(facts) if g["groupInstanceKey"] not in gone]
    listed += [{"_typeName": GROUP, "groupInstanceKey": k, "deviceGroupName": name} for k, name in new.items()]
    return {"_typeName": GROUPS, "deviceGroup": tuple(listed)}


def lost_members(facts: Facts) -> list[VirtualDevice]:
    """Return the devices that carry the mark of a group no playbook can state."""
    known = {g.key for g in present_groups(facts)}
    devices: tuple[VirtualDevice, ...] = facts.get("config.hardware.device", ())
    return [d for d in devices if (info := d.get("deviceGroupInfo")) and info["groupInstanceKey"] not in known]


def stray_members(facts: Facts) -> list[str]:
    """Say in words what is marked as a group's and belongs to none this kind could state."""
    known = {g.key for g in present_groups(facts)}
    others = {g["groupInstanceKey"]: g for g in groups_listed(facts) if g["groupInstanceKey"] not in known}
    lost = lost_members(facts)
    words = [
        f"device {d['key']} ({name_of(d)}) of "
        + ("another kind of group" if (k := d["deviceGroupInfo"]["groupInstanceKey"]) in others else f"no group ({k})")
        for d in lost
    ]
    used = {d["deviceGroupInfo"]["groupInstanceKey"] for d in lost}
    words += [f"group {g.get('deviceGroupName', k)} without members" for k, g in others.items() if k not in used]
    return words


def offer_of(host: Facts) -> dict[str, tuple[GroupMember, ...]]:
    """Return the groups a host offers by name, with the descriptions of their members."""
    return {g["deviceGroupName"]: tuple(g.get("componentDeviceInfo", ())) for g in host.get(f"query:{OFFER}") or ()}


def name_of(device: VirtualDevice) -> str:
    """Return what a device is: a vGPU profile, the vendor and device id of a whole one, else its type."""
    backing = device.get("backing") or {}
    if backing.get("vgpu"):
        return str(backing["vgpu"]).lower()
    if backing.get("allowedDevice"):
        first = backing["allowedDevice"][0]
        return f"{first['vendorId'] & 0xFFFF:04x}:{first['deviceId'] & 0xFFFF:04x}"
    if backing.get("vendorId") is not None and backing.get("deviceId"):
        return f"{backing['vendorId'] & 0xFFFF:04x}:{str(backing['deviceId']).lower().removeprefix('0x').zfill(4)}"
    return str(device.get("_typeName"))


def is_vgpu_name(called: str) -> bool:
    """Return whether what `called` gives is a vGPU profile."""
    return "-" in called


def memory_gb(device: VirtualDevice, host: Facts | None) -> int:
    """Return the GB that a member adds to the MMIO window."""
    called = name_of(device)
    vendor, colon, model = called.partition(":")
    return window.of_device(int(vendor, 16), int(model, 16)) if colon else window.of_vgpu(called, host)


def new_member(template: VirtualDevice, key: int) -> dict[str, object]:
    """Return a new member as its template has it; the sequence id is the template's (VirtualDeviceDeviceGroupInfo)."""
    info = template.get("deviceGroupInfo")
    sequence = info.get("sequenceId", 0) if info else 0
    membership = {"_typeName": MEMBERSHIP, "groupInstanceKey": key, "sequenceId": sequence}
    return {"_typeName": template["_typeName"], "backing": template.get("backing"), "deviceGroupInfo": membership}
