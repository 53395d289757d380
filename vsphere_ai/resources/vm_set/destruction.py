"""Destruction of a member: vCenter deletes every attached disk, also those that the clone did not make."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from vsphere_ai.model.facts import Facts
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import Destroy
from vsphere_ai.model.text import counted
from vsphere_ai.model.vm_sets import Member, MemberFault, disk_files, disks_by_file, mark_of
from vsphere_ai.resources.base import kind_names
from vsphere_ai.resources.makes_vms import USAGE
from vsphere_ai.resources.vm_set.added_disks import is_added

DETACH = "detach it first, or with: vsphere-ai destroy ... --detach-disks"


def destroy_problems(facts: Facts, detached: Sequence[str] | None) -> Iterator[MemberFault]:
    """Yield why a VM must not be destroyed; disks that are `detached` first are no obstacle."""
    state = facts.get("runtime.connectionState")
    if state != "connected":
        yield MemberFault(
            "not-connected", f"vCenter shows it as {state}; it may run elsewhere", "connect its host first"
        )
    for name, why in foreign_disks(facts).items():
        if name not in (detached or ()):
            yield MemberFault("foreign-disk", f"the disk {name} {why}", DETACH)
    if detached and facts.get("snapshot"):
        message = f"it has snapshots, which keep {', '.join(detached)}: Destroy_Task would delete that as well"
        yield MemberFault("detach-snapshot", message, "delete its snapshots first, or copy the disk")


def foreign_disks(facts: Facts) -> dict[str, str]:
    """Return the disks of a VM that its clone did not make: file -> why, in words."""
    found = {name: _why_foreign(name, disk, facts) for name, disk in disks_by_file(facts)}
    return {name: why for name, why in found.items() if why}


def _why_foreign(name: str, disk: Mapping[str, Any], facts: Facts) -> str:
    if disk.get("vDiskId"):
        return "is a First Class Disk of its own"
    if (disk.get("backing") or {}).get("sharing") == "sharingMultiWriter":
        return "is shared with other VMs"
    first, first_disk = disks_by_file(facts)[0]
    # below a snapshot, the disk that was attached is a parent; that of a linked clone is in another folder, too
    known = {_folder(first), _folder(_base(first_disk) or first)}
    is_own = _folder(name) == _folder(first) and _folder(_base(disk) or name) in known
    return "" if is_own or is_added(disk, facts, mark_of(facts)) else "is not in the VM's own folder"


def _base(disk: Mapping[str, Any]) -> str:
    """Return the file at the end of a disk's chain of parents; empty for a disk without one."""
    backing, name = disk.get("backing") or {}, ""
    while backing := backing.get("parent") or {}:
        name = str(backing.get("fileName") or "")
    return name


def _folder(file: str) -> str:
    return file.rpartition("/")[0]


def destroy_step(target: Target, member: Member, facts: Facts, detached: Sequence[str]) -> Destroy:
    """Return the end of a member, with the disks that go and those that are detached before."""
    own = tuple(name for name in disk_files(facts) if name not in detached)
    first = f"detach {counted(len(detached), 'disk')}, then " if detached else ""
    return Destroy(
        target=target,
        kinds=kind_names("vm_set"),
        needs_power_off=True,
        set=member.set,
        index=member.index,
        disks=own,
        detached=tuple(detached),
        summary=f"{first}destroy, with {counted(len(own), 'disk')}",
    )


def freed_bytes(facts: Facts | None) -> dict[str, int]:
    """Return the bytes that a VM leaves for certain when it is destroyed, by datastore: what no other VM uses.

    Its swap file is left out, of which admission takes account; where disks are not its own, nothing is certain.
    """
    if facts is None or foreign_disks(facts):
        return {}
    size, kept = facts.get("config.hardware.memoryMB"), facts.get("config.memoryAllocation.reservation")
    locked = facts.get("config.memoryReservationLockedToMax") is True
    if facts.get("runtime.powerState") != "poweredOn" or locked:
        swap = 0
    elif size is None:
        return {}
    else:
        swap = (int(size) - int(kept or 0)) << 20
    usage: Sequence[Mapping[str, Any]] = facts.get(USAGE) or ()
    return {
        str(each["datastore"]): max(int(each.get("unshared") or 0) - swap, 0) for each in usage if "datastore" in each
    }
