"""Disks of clones and snapshots: full copies, children of another VM's disks, and what merges again.

Source: vSphere Web Services API, VirtualMachineRelocateDiskMoveOptions; Web Services SDK Programming Guide, "Linked
Virtual Machines".
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.managed import datastores
from vsphere_ai.lab.managed.datastores import chain, disks_of
from vsphere_ai.lab.managed.refusals import invalid_argument
from vsphere_ai.lab.store import ManagedObject

FLAT = vim.vm.device.VirtualDisk.FlatVer2BackingInfo
CHILD = "createNewChildDiskBacking"
SHARING = ("moveAllDiskBackingsAndAllowSharing", "moveChildMostDiskBacking")
MOVES = tuple(vim.vm.RelocateSpec.DiskMoveOptions.values)


def check_moves(spec: Any) -> None:
    """Refuse what a clone cannot do with disks: unknown ways, and children of anything but a snapshot."""
    where = spec.location
    for name, kind in (("", where.diskMoveType), *((f"disk[{n}].", d.diskMoveType) for n, d in enumerate(where.disk))):
        if kind and kind not in MOVES:
            raise invalid_argument(f"spec.location.{name}diskMoveType", kind)
        if kind == CHILD and spec.snapshot is None:
            raise invalid_argument(f"spec.location.{name}diskMoveType", "child disks are made of a snapshot only")


def copy_disks(farm: Farm, config: Any, location: Any, folder: str) -> dict[str, int]:
    """Give a copy of a configuration disks of its own; return the bytes of their files.

    `folder` is the directory of the VM's files on each datastore.
    """
    own = {locator.diskId: locator for locator in location.disk}
    unknown = own.keys() - {disk.key for disk in disks_of(config)}
    if unknown:
        raise invalid_argument("spec.location.disk", f"there is no disk {min(unknown)}")
    sizes: dict[str, int] = {}
    for number, disk in enumerate(disks_of(config)):
        locator = own.get(disk.key)
        ref = (locator.datastore if locator else None) or location.datastore or disk.backing.datastore
        path = f"[{farm.store.get(ref)['name']}] {folder}/{folder}{f'_{number}' if number else ''}.vmdk"
        kind = (locator.diskMoveType if locator else None) or location.diskMoveType
        sizes[path] = _copied(farm, disk, path, ref, kind)
        asked = locator.diskBackingInfo if locator else None
        if isinstance(asked, FLAT) and disk.backing.parent is None:
            for name in ("thinProvisioned", "eagerlyScrub", "diskMode"):
                if getattr(asked, name) not in (None, ""):
                    setattr(disk.backing, name, getattr(asked, name))
    return sizes


def _copied(farm: Farm, disk: Any, path: str, ref: Any, kind: str | None) -> int:
    """Give a disk its backing in the clone; return the bytes of its file."""
    old = disk.backing
    disk.backing = copy.copy(old)
    disk.backing.fileName, disk.backing.datastore, disk.backing.uuid = path, ref, None
    if kind == CHILD:
        disk.backing.parent = copy.deepcopy(old)
        return datastores.DELTA
    parent = getattr(old, "parent", None)
    if kind in SHARING and parent is not None and all(each.datastore == ref for each in chain(parent)):
        return datastores.own_bytes(farm, old)
    disk.backing.parent = None
    return datastores.used_bytes(farm, disk_of(disk, old))


def disk_of(disk: Any, backing: Any) -> Any:
    """Return a disk with another backing."""
    found = copy.copy(disk)
    found.backing = backing
    return found


def branch(farm: Farm, config: Any) -> None:
    """Let a configuration go on in children of its disks, which stay as they are for a snapshot."""
    for disk in disks_of(config):
        old = disk.backing
        disk.backing = copy.copy(old)
        disk.backing.parent = copy.deepcopy(old)
        disk.backing.fileName = datastores.next_child(farm, old.fileName)


def merge(farm: Farm, mo: ManagedObject, frozen: Any, others: Sequence[Any]) -> None:
    """Take the disks of a snapshot that is gone out of the chains above them.

    `others` are the configurations that stay: the VM's own and those of its other snapshots. A disk that one of them
    has itself, of which two go on, or that another VM uses, stays.
    """
    for disk in disks_of(frozen):
        path = disk.backing.fileName
        heads = [d for config in others for d in disks_of(config)]
        if any(d.backing.fileName == path for d in heads) or datastores.others_use(farm, path, mo):
            continue
        links = [b for d in heads for b in chain(d.backing) if b.parent is not None and b.parent.fileName == path]
        children = {b.fileName for b in links}
        if len(children) != 1 or datastores.others_use(farm, min(children), mo):
            continue
        datastores.grow(farm, path, datastores.own_bytes(farm, links[0]))
        for link in links:
            link.fileName, link.parent = path, link.parent.parent
