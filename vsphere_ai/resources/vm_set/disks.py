"""Disks of a member: the size of its first one, which only grows, and the space that clones take on their datastore."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.view import View
from vsphere_ai.model.vm_sets import Fault, Member, members_of
from vsphere_ai.resources.makes_vms import USAGE
from vsphere_ai.resources.vm_set.settings import VmSetFields

DEVICES = "config.hardware.device"
GB, KB_PER_GB = 1 << 30, 1 << 20


def disks(facts: Facts | None) -> tuple[Mapping[str, Any], ...]:
    """Return the virtual disks of a VM, in the order of its devices."""
    devices: tuple[Mapping[str, Any], ...] = (facts.get(DEVICES) if facts else None) or ()
    return tuple(d for d in devices if d.get("_typeName") == "VirtualDisk")


def size_gb(facts: Facts) -> int | None:
    """Return the size of a VM's first disk in whole GB; None where it has none, or does not show it."""
    first = next(iter(disks(facts)), None)
    return int(first["capacityInKB"]) // KB_PER_GB if first is not None and first.get("capacityInKB") else None


def resized(device: Mapping[str, Any], gb: int) -> dict[str, Any]:
    """Return a disk with another size, as it is sent."""
    return {**device, "capacityInKB": gb * KB_PER_GB, "capacityInBytes": gb * GB}


def disk_problems(state: VmSetFields, member: Member, view: View) -> Iterator[Fault]:
    """Yield what keeps the disks of new members from being as the play wants them."""
    source = view.estate.get(member.place.source)
    have = size_gb(source) if source else None
    if state.disk_gb is not None and source is not None:
        if have is None:
            yield Fault("no-disk", f"{source.name} has no disk whose size could be set", "leave disk_gb out")
        elif state.disk_gb < have:
            yield _shrinks(have, state.disk_gb)
        elif state.linked and state.disk_gb != have:
            yield Fault("linked", "the disks of a linked clone cannot grow", "leave disk_gb out, or linked")
    yield from _space(state, member, view)


def shrink_problems(state: VmSetFields, now: VmSetFields) -> Iterator[Fault]:
    """Yield why the first disk of a member that is there cannot have the size that the play wants."""
    if state.disk_gb is not None and now.disk_gb is not None and state.disk_gb < now.disk_gb:
        yield _shrinks(now.disk_gb, state.disk_gb)


def _shrinks(have: int, wanted: int) -> Fault:
    return Fault("disk-shrinks", f"the disk has {have} GB, and {wanted} is less", "a disk only grows: write more")


def _space(state: VmSetFields, member: Member, view: View) -> Iterator[Fault]:
    """Compare what all new members of sets take on the datastore of this one with what is free there."""
    store = _datastore(member, view.estate)
    free = (store.get("summary") or {}).get("freeSpace") if store else None
    if store is None or free is None or state.linked:
        return
    new = [m for m in members_of(view.estate) if not m.exists and not m.leaving]
    needed = count = 0
    for name, number in Counter(m.set for m in new).items():
        one = member if name == member.set else next(m for m in new if m.set == name)
        said = state if one is member else view.stated.get((one.ref, "vm_set"))
        if _datastore(one, view.estate) is store and isinstance(said, VmSetFields) and not said.linked:
            count, needed = count + number, needed + number * _bytes(said, view.estate.get(one.place.source))
    if needed > int(free):
        message = f"{count} new VMs take {needed // GB} GB on {store.name}, which has {int(free) // GB} GB free"
        yield Fault("no-space", message, "free space there, choose another datastore, or take linked clones")


def _bytes(state: VmSetFields, source: Facts | None) -> int:
    """Return what a full clone takes: its thick disks whole, and of the others as much as the source has written."""
    own = disks(source)
    thick = [d for d in own if not (d.get("backing") or {}).get("thinProvisioned")]
    sizes = [int(d.get("capacityInKB") or 0) * 1024 for d in thick]
    if state.disk_gb and thick[:1] == list(own[:1]) and sizes:
        sizes[0] = max(sizes[0], state.disk_gb * GB)
    usage: Sequence[Mapping[str, Any]] = (source.get(USAGE) if source else None) or ()
    return max(sum(sizes), sum(int(each.get("committed") or 0) for each in usage))


def _datastore(member: Member, estate: Estate) -> Facts | None:
    """Return the datastore of a new member: the chosen one, else that of its source."""
    source = estate.get(member.place.source)
    own = (source.get("datastore") or ()) if source else ()
    return estate.get(member.place.datastore or (str(own[0]) if own else ""))
