"""Disks of a member: sizes, which only grow, those that the set adds, and the space that all of it takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from vsphere_ai.model.facts import Estate, Facts, grouped
from vsphere_ai.model.state import KindName
from vsphere_ai.model.view import View
from vsphere_ai.model.vm_sets import Member, MemberFault, members_of
from vsphere_ai.resources._helpers.vm_devices import device_change
from vsphere_ai.resources.makes_vms import USAGE
from vsphere_ai.resources.vm_set.added_disks import (
    DEVICES,
    GB,
    KB_PER_GB,
    NVME_HARDWARE,
    Device,
    LaidDisk,
    added_changes,
    disks,
    gb_of,
    laid,
    named_disks,
    template_disks,
)
from vsphere_ai.resources.vm_set.destruction import freed_bytes
from vsphere_ai.resources.vm_set.settings import SetDisk, VmSetFields


def size_gb(facts: Facts) -> int | None:
    """Return the size of a VM's first disk in whole GB; None where it has none, or does not show it."""
    return next((gb_of(d) for d in disks(facts)), None)


def resized(device: Device, gb: int) -> Device:
    """Return a disk with another size, as it is sent."""
    return {**device, "capacityInKB": gb * KB_PER_GB, "capacityInBytes": gb * GB}


def stated(state: VmSetFields) -> tuple[SetDisk, ...]:
    """Return all disks of which a play says something."""
    first = (SetDisk(number=1, gb=state.disk_gb),) if state.disk_gb else ()
    return (*first, *(d for d in state.disks or () if not (first and d.number == 1)))


def with_present(wanted: Sequence[SetDisk], now: Sequence[SetDisk]) -> tuple[SetDisk, ...]:
    """Return what a play wants of the disks of a VM that is there; of what it does not name, nothing changes."""
    sizes = {d.key: d.gb for d in wanted}
    there = {d.key for d in now}
    kept = (d.model_copy(update={"gb": sizes.get(d.key, d.gb)}) for d in now)
    return (*kept, *(d for d in wanted if d.key not in there))


# -- changes


def grown(source: Sequence[Device], wanted: Sequence[SetDisk]) -> Iterator[tuple[Device, int]]:
    """Yield the disks of a template that are to have another size, and the size."""
    for disk in wanted:
        if disk.number is not None and disk.number <= len(source) and gb_of(source[disk.number - 1]) != disk.gb:
            yield source[disk.number - 1], disk.gb


def laid_of(source: Facts | None, wanted: Sequence[SetDisk]) -> tuple[LaidDisk, ...]:
    """Return the disks that are added to a clone of a VM."""
    return laid((source.get(DEVICES) if source else None) or (), [d for d in wanted if d.name])


def clone_changes(source: Facts | None, state: VmSetFields) -> Iterator[Device]:
    """Yield the device changes by which a clone has the disks that a play wants."""
    for device, gb in grown(disks(source), stated(state)):
        yield device_change("edit", resized(device, gb))
    yield from added_changes(laid_of(source, stated(state)))


def missing(facts: Facts, state: VmSetFields) -> tuple[LaidDisk, ...]:
    """Return the disks that a VM of a set lacks."""
    there = named_disks(facts)
    return laid(facts.get(DEVICES) or (), [d for d in stated(state) if d.name and d.name not in there])


def growth(facts: Facts, state: VmSetFields) -> Iterator[tuple[Device, int]]:
    """Yield the disks of a VM of a set that are to grow, and to how many GB."""
    named = named_disks(facts)
    yield from grown(template_disks(facts), stated(state))
    for disk in stated(state):
        if disk.name in named and gb_of(named[disk.name]) != disk.gb:
            yield named[disk.name], disk.gb


# -- checks


def disk_problems(state: VmSetFields, member: Member, view: View) -> Iterator[MemberFault]:
    """Yield what keeps the disks of new members from being as the play wants them."""
    source = view.estate.get(member.place.source)
    if source is not None and DEVICES in source.properties:
        have = disks(source)
        for disk in stated(state):
            size = gb_of(have[disk.number - 1]) if disk.number and disk.number <= len(have) else None
            if disk.number is not None:
                yield from _size_problems(disk, size, source.name, linked=bool(state.linked))
        yield from _controller_problems(laid_of(source, stated(state)), state, source)
    own = {_datastore(member, view.estate), *(_named_store(d, view.estate) for d in stated(state))}
    yield from _space(view, {ref: size for ref, size in _of_new(state, member, view).items() if ref in own})


def present_disk_problems(state: VmSetFields, now: VmSetFields, member: Member, view: View) -> Iterator[MemberFault]:
    """Yield why the disks of a member that is there cannot be as the play wants them."""
    facts = view.facts(member.ref)
    have = {d.key: d.gb for d in now.disks or ()}
    for disk in stated(state):
        if disk.number is not None or disk.key in have:
            yield from _size_problems(disk, have.get(disk.key), facts.name)
    if any((device.get("backing") or {}).get("parent") for device, _ in growth(facts, state)):
        yield MemberFault(
            "linked", "the disks of a linked clone, or of a VM with snapshots, cannot grow", "keep their size"
        )
    yield from _controller_problems(missing(facts, state), state, facts, there=frozenset(named_disks(facts)))
    present = [m for m in members_of(view.estate) if m.set == member.set and m.exists and not m.leaving]
    if member.index == min((m.index for m in present), default=None):
        needed = _of_new(state, member, view)
        for other in present:
            needed.update(_of_present(view.facts(other.ref), state, view.estate))
        yield from _space(view, needed)


def _size_problems(disk: SetDisk, have: int | None, name: str, *, linked: bool = False) -> Iterator[MemberFault]:
    if have is None:
        yield MemberFault("no-disk", f"{name} has no disk {disk.number} whose size could be set", "leave its size out")
    elif disk.gb < have:
        message = f"{disk.words} has {have} GB, and {disk.gb} is less"
        yield MemberFault("disk-shrinks", message, "a disk only grows: write more")
    elif linked and disk.gb != have:
        yield MemberFault("linked", "the disks of a linked clone cannot grow", "leave the size out, or linked")


def _controller_problems(
    found: Sequence[LaidDisk], state: VmSetFields, facts: Facts, *, there: frozenset[str] = frozenset()
) -> Iterator[MemberFault]:
    for disk in (d for d in stated(state) if d.name and d.name not in there):
        if disk.name not in {each.disk.name for each in found}:
            yield MemberFault(
                "disk-limit", f"{disk.words}: no controller has a unit free, and 4 is the most", "add fewer"
            )
        version = str(facts.get("config.version") or "").removeprefix("vmx-")
        if disk.controller == "nvme" and version.isdecimal() and int(version) < NVME_HARDWARE:
            message = f"{disk.words}: {facts.name} has virtual hardware {version}, and NVMe needs {NVME_HARDWARE}"
            yield MemberFault("disk-controller", message, "write controller: pvscsi, or upgrade the template")


# -- space


def _of_new(state: VmSetFields, member: Member, view: View) -> Counter[str]:
    return _new_space(view, {member.set: state})


def disks_of_new(_state: VmSetFields, view: View) -> Mapping[str, int]:
    """Return the bytes that disks of all VMs that the plan makes take, by datastore (reference)."""
    return _new_space(view, {})


def _new_space(view: View, states: Mapping[str, VmSetFields]) -> Counter[str]:
    """Return the bytes that all new members of sets take, by datastore; of sets without a state that of their play."""
    needed: Counter[str] = Counter()
    new = [m for m in members_of(view.estate) if not m.exists and not m.leaving]
    old = {(m.set, m.index): m.ref for m in members_of(view.estate) if m.leaving} if new else {}
    for name, own in grouped(new, lambda m: m.set).items():
        state = states.get(name) or view.stated.get((own[0].ref, KindName("vm_set")))
        if not isinstance(state, VmSetFields):
            continue
        size = 0 if state.linked else _bytes(state, view.estate.get(own[0].place.source))
        for each in own:
            home, takes = _datastore(each, view.estate), Counter[str]()
            takes[home] += size
            for disk in _thick(state):
                takes[_named_store(disk, view.estate) or home] += disk.gb * GB
            # the VM whose place it takes is destroyed before it is made
            takes.subtract(freed_bytes(view.estate.get(old.get((each.set, each.index)))))
            needed.update(+takes)  # what more it leaves is not for others, which may be made before
    return needed


def _bytes(state: VmSetFields, source: Facts | None) -> int:
    """Return what a full clone takes: its thick disks whole, and of the others as much as the source has written."""
    sizes = {d["key"]: gb * GB for d, gb in grown(disks(source), stated(state))}
    thick = [d for d in disks(source) if not (d.get("backing") or {}).get("thinProvisioned")]
    whole = sum(max(int(d.get("capacityInKB") or 0) * 1024, sizes.get(d["key"], 0)) for d in thick)
    usage: Sequence[Device] = (source.get(USAGE) if source else None) or ()
    return max(whole, sum(int(each.get("committed") or 0) for each in usage))


def _thick(state: VmSetFields) -> Iterator[SetDisk]:
    return (d for d in stated(state) if d.name and d.provisioning in ("thick", "eager"))


def _of_present(facts: Facts, state: VmSetFields, estate: Estate) -> Counter[str]:
    """Return the bytes that thick disks of a VM that is there take besides, by datastore."""
    needed: Counter[str] = Counter()
    for device, gb in growth(facts, state):
        backing = device.get("backing") or {}
        if not backing.get("thinProvisioned"):
            needed[str(backing.get("datastore") or "")] += gb * GB - int(device.get("capacityInKB") or 0) * 1024
    home = next((str((d.get("backing") or {}).get("datastore") or "") for d in disks(facts)), "")
    for each in missing(facts, state):
        if each.disk.provisioning in ("thick", "eager"):
            needed[_named_store(each.disk, estate) or home] += each.disk.gb * GB
    return needed


def _space(view: View, needed: Mapping[str, int]) -> Iterator[MemberFault]:
    """Compare what is needed with what is free."""
    for ref, size in needed.items():
        store = view.estate.get(ref)
        free = (store.get("summary") or {}).get("freeSpace") if store else None
        if store is not None and free is not None and size > int(free):
            message = f"VMs of this plan take {size // GB} GB more on {store.name}, which has {int(free) // GB} GB free"
            yield MemberFault("no-space", message, "free space there, choose another datastore, or take linked clones")


def _named_store(disk: SetDisk, estate: Estate) -> str:
    found = [f.ref for f in estate.of_type("Datastore") if f.name == disk.datastore] if disk.datastore else []
    return found[0] if found else ""


def _datastore(member: Member, estate: Estate) -> str:
    """Return the datastore of a new member: the chosen one, else that of its source."""
    source = estate.get(member.place.source)
    own = (source.get("datastore") or ()) if source else ()
    return member.place.datastore or (str(own[0]) if own else "")
