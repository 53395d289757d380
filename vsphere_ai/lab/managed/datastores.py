"""Datastores and their files: what lies on each, which VMs use it, and how much space is left.

A disk that is thin takes what is written to it, any other one its capacity. A file goes when it is deleted and no VM
uses it: the base disk of linked clones stays after its own VM.
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyVmomi import VmomiSupport as Vmomi
from pyVmomi import vim

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.managed.refusals import invalid_argument, no_disk_space
from vsphere_ai.lab.scenario import Datastore, DatastoreCluster, expand
from vsphere_ai.lab.sessions import now
from vsphere_ai.lab.store import ManagedObject, fill

DISK = vim.vm.device.VirtualDisk
GIB = 1 << 30
DELTA = 16 << 20
"""Bytes of a child disk into which nothing was written yet."""
FILES, SIZES, HELD = "files", "sizes", "held"
SWAP = "swap file"
"""Among what the lab keeps of a running VM: the datastore of its swap file, and the bytes that it takes there."""
_PATH = re.compile(r"\[(.+?)\] ?(.*)")
_CHILD = re.compile(r"-\d{6}$")


@dataclass
class DatastoreFile:
    """A disk's file: bytes that it takes, and the VMs that use it."""

    size: int
    users: set[str] = field(default_factory=set)


def add(farm: Farm, folder: ManagedObject, spec: Datastore) -> ManagedObject:
    """Add a datastore to a folder or a datastore cluster."""
    url = f"ds:///vmfs/volumes/{spec.name}/"
    capacity = spec.capacity_gb * GIB
    free = capacity // 2 if spec.free_gb < 0 else spec.free_gb * GIB
    mo = farm.store.new(
        vim.Datastore,
        prefix="datastore",
        name=spec.name,
        parent=folder.ref,
        host=[],
        vm=[],
        info=vim.Datastore.Info(name=spec.name, url=url, freeSpace=free, maxFileSize=1 << 46),
        capability=fill(vim.Datastore.Capability(perFileThinProvisioningSupported=True)),
        summary=vim.Datastore.Summary(
            name=spec.name,
            url=url,
            capacity=capacity,
            freeSpace=free,
            accessible=spec.accessible,
            type=spec.type,
            multipleHostAccess=len({name for text in spec.hosts for name in expand(text)}) != 1,
            maintenanceMode="normal",
        ),
    )
    mo["summary"].datastore = mo.ref
    mo.extra[FILES] = {}
    mo.extra["hosts"] = {name for text in spec.hosts for name in expand(text)}
    farm.named[f"datastore:{spec.name}"] = mo
    farm.store.set(folder, childEntity=[*folder["childEntity"], mo.ref])
    return mo


def add_cluster(farm: Farm, folder: ManagedObject, spec: DatastoreCluster) -> ManagedObject:
    """Add a datastore cluster to a folder."""
    entry = vim.StorageResourceManager.PodStorageDrsEntry(
        storageDrsConfig=vim.storageDrs.ConfigInfo(
            podConfig=vim.storageDrs.PodConfigInfo(
                enabled=spec.drs, ioLoadBalanceEnabled=False, defaultVmBehavior="manual", defaultIntraVmAffinity=True
            )
        )
    )
    pod = farm.store.new(
        vim.StoragePod,
        prefix="group-p",
        name=spec.name,
        parent=folder.ref,
        childEntity=[],
        childType=[vim.Datastore],
        podStorageDrsEntry=fill(entry),
    )
    farm.store.set(folder, childEntity=[*folder["childEntity"], pod.ref])
    return pod


def as_described(farm: Farm) -> None:
    """Show the space that the scenario says is free while its VMs are there."""
    for spec, mo in zip(farm.scenario.all_datastores, all_of(farm), strict=True):
        free = spec.capacity_gb * GIB // 2 if spec.free_gb < 0 else spec.free_gb * GIB
        take(farm, mo, mo["summary"].freeSpace - free)


def all_of(farm: Farm) -> list[ManagedObject]:
    """Return every datastore, the one of VMs that name none first."""
    return [farm.named[f"datastore:{spec.name}"] for spec in farm.scenario.all_datastores]


def on_host(farm: Farm, name: str) -> list[ManagedObject]:
    """Return the datastores that a host of this name has mounted."""
    return [mo for mo in all_of(farm) if not mo.extra["hosts"] or name in mo.extra["hosts"]]


def reaches(host: ManagedObject, stores: Iterable[Any]) -> bool:
    """Return whether a host has each of these datastores mounted."""
    return all(ref in host["datastore"] for ref in stores)


def at(farm: Farm, path: str, argument: str) -> ManagedObject:
    """Return the datastore of a path such as ``[vsan-gpu] vm/vm.vmx``; raise where it is none, or of none."""
    found = _PATH.match(path)
    if not found:
        raise invalid_argument(argument, path)
    mo = farm.named.get(f"datastore:{found[1]}")
    if mo is None:
        raise vim.fault.InvalidDatastorePath(datastorePath=path, msg=f"Invalid datastore path '{path}'.", name=found[1])
    return mo


def home_of(farm: Farm, config: Any) -> ManagedObject:
    """Return the datastore on which a VM's own files are."""
    return at(farm, config.files.vmPathName, "files.vmPathName")


def directory(farm: Farm, store: ManagedObject, name: str) -> str:
    """Return a directory for the files of a new VM: its name, or where there is such a directory, with a number."""
    taken = {path.partition("/")[0] for path in store.extra[FILES] if path.startswith(name)}
    numbered = (f"{name}_{number}" for number in itertools.count(1))
    return name if name not in taken else next(each for each in numbered if each not in taken)


def disks_of(config: Any) -> list[Any]:
    """Return the virtual disks that are files."""
    found = (d for d in config.hardware.device if isinstance(d, DISK))
    return [d for d in found if getattr(d.backing, "fileName", None)]


def chain(backing: Any) -> Iterator[Any]:
    """Yield a disk's backing and those it is a child of, the base disk last."""
    while backing is not None:
        yield backing
        backing = getattr(backing, "parent", None)


def used_bytes(farm: Farm, disk: Any) -> int:
    """Return what a full copy of a disk would take: all that is in its files, at most its capacity."""
    total = sum(file.size for b in chain(disk.backing) if (file := _file(farm, b.fileName)) is not None)
    return min(total, int(disk.capacityInKB) << 10)


def own_bytes(farm: Farm, backing: Any) -> int:
    """Return the bytes of a backing's own file."""
    file = _file(farm, backing.fileName)
    return file.size if file is not None else 0


def others_use(farm: Farm, path: str, mo: ManagedObject) -> bool:
    """Return whether another VM uses a file."""
    file = _file(farm, path)
    return file is not None and bool(file.users - {mo.moid})


def next_child(farm: Farm, path: str) -> str:
    """Return the path of a new child beside a disk's file: ``vm-000001.vmdk`` beside ``vm.vmdk``."""
    store, name = _split(farm, path)
    stem = _CHILD.sub("", name.removesuffix(".vmdk"))
    taken = store.extra[FILES] if store is not None else {}
    numbered = (f"{stem}-{number:06d}.vmdk" for number in itertools.count(1))
    return f"{path.partition(']')[0]}] {next(each for each in numbered if each not in taken)}"


def _file(farm: Farm, path: str) -> DatastoreFile | None:
    store, name = _split(farm, path)
    return store.extra[FILES].get(name) if store is not None else None


def _split(farm: Farm, path: str) -> tuple[ManagedObject | None, str]:
    found = _PATH.match(path)
    return (farm.named.get(f"datastore:{found[1]}"), found[2]) if found else (None, path)


def size_of(disk: Any, sizes: Mapping[str, int]) -> int:
    """Return the bytes of a disk's own file; `sizes` are those of files that are copies."""
    backing = disk.backing
    if getattr(backing, "parent", None) is not None:
        return sizes.get(backing.fileName, DELTA)
    written = sizes.get(backing.fileName, 0)
    return written if getattr(backing, "thinProvisioned", False) else max(written, int(disk.capacityInKB) << 10)


def check_space(farm: Farm, config: Any, sizes: Mapping[str, int]) -> None:
    """Raise NoDiskSpace when the files that a configuration would make or let grow find no room."""
    wanted: dict[str, int] = {}
    for disk in disks_of(config):
        store, _ = _split(farm, disk.backing.fileName)
        if store is None:
            continue
        file = _file(farm, disk.backing.fileName)
        more = size_of(disk, sizes) - (file.size if file is not None else 0)
        wanted[store.moid] = wanted.get(store.moid, 0) + max(0, more)
        if more > 0 and wanted[store.moid] > store["summary"].freeSpace:
            raise no_disk_space(str(store["name"]), disk.backing.fileName)


def hold(farm: Farm, mo: ManagedObject) -> None:
    """Note which files a VM uses, its snapshots' with them; those that are not there yet are made."""
    held = _paths(farm, mo)
    sizes = mo.extra.pop(SIZES, {})
    for disk in disks_of(mo["config"]):
        store, name = _split(farm, disk.backing.fileName)
        if store is None:
            continue
        files, size = store.extra[FILES], size_of(disk, sizes)
        if name not in files:
            files[name] = DatastoreFile(0)
        if files[name].size < size:
            take(farm, store, size - files[name].size)
            files[name].size = size
    for path in mo.extra.get(HELD, set()) ^ held:
        file = _file(farm, path)
        if file is not None:
            (file.users.add if path in held else file.users.discard)(mo.moid)
    if mo.extra.get(HELD) != held:
        mo.extra[HELD] = held
        _show(farm, mo)


def _paths(farm: Farm, mo: ManagedObject) -> set[str]:
    configs, level = [mo["config"]], list(getattr(mo["snapshot"], "rootSnapshotList", None) or ())
    while level:
        node = level.pop()
        level += node.childSnapshotList or ()
        configs.append(farm.store.get(node.snapshot)["config"])
    return {b.fileName for config in configs for disk in disks_of(config) for b in chain(disk.backing)}


def _images(config: Any) -> list[str]:
    """Return the paths of the images in a VM's drives."""
    drives = (vim.vm.device.VirtualCdrom, vim.vm.device.VirtualFloppy)
    paths = (getattr(d.backing, "fileName", None) for d in config.hardware.device if isinstance(d, drives))
    return [path for path in paths if path]


def _show(farm: Farm, mo: ManagedObject) -> None:
    """Show the datastores of a VM, and the VM at them."""
    texts = [mo["config"].files.vmPathName, *sorted(mo.extra[HELD]), *_images(mo["config"])]
    stores = {store.moid: store for text in texts if (store := _split(farm, text)[0]) is not None}
    before = {ref._moId for ref in mo["datastore"] or ()}
    farm.store.set(mo, datastore=[store.ref for store in stores.values()])
    if not mo.extra.get("published"):
        return
    for moid in before ^ stores.keys():
        store = farm.store.objects[moid]
        others = [ref for ref in store["vm"] if ref != mo.ref]
        farm.store.set(store, vm=[*others, mo.ref] if moid in stores else others)


def publish(farm: Farm, mo: ManagedObject) -> None:
    """Show a new VM at its datastores."""
    mo.extra["published"] = True
    farm.store.set(mo, storage=lambda _session: _usage(farm, mo))
    for ref in mo["datastore"]:
        store = farm.store.get(ref)
        store["vm"].append(mo.ref)
        farm.store.touch(store, "vm")


def _usage(farm: Farm, mo: ManagedObject) -> Any:
    """Return what a VM takes of each datastore, with and without shared files, and what its thin disks may grow by.

    The swap file of a running VM is among its files (vSphere API, VirtualMachineUsageOnDatastore).
    """
    swap_on, swap = mo.extra.get(SWAP, ("", 0))
    committed: dict[str, int] = {ref._moId: 0 for ref in mo["datastore"]}
    growth = dict(committed)
    committed |= {swap_on: swap} if swap_on in committed else {}
    unshared = dict(committed)
    for path in mo.extra[HELD]:
        store, file = _split(farm, path)[0], _file(farm, path)
        if store is not None and file is not None:
            committed[store.moid] += file.size
            unshared[store.moid] += file.size if file.users == {mo.moid} else 0
    for disk in disks_of(mo["config"]):
        store = _split(farm, disk.backing.fileName)[0]
        if store is not None:
            growth[store.moid] += (disk.capacityInKB << 10) - own_bytes(farm, disk.backing)
    return vim.vm.StorageInfo(
        perDatastoreUsage=[
            vim.vm.StorageInfo.UsageOnDatastore(
                datastore=farm.store.objects[moid].ref,
                committed=committed[moid],
                uncommitted=growth[moid],
                unshared=unshared[moid],
            )
            for moid in committed
        ],
        timestamp=now(),
    )


def lease(store: ManagedObject, seconds: float, size: int) -> None:
    """Keep space of a datastore for a while, for a placement that was recommended."""
    store.extra.setdefault("leases", []).append((time.monotonic() + seconds, size))


def free_of_leases(store: ManagedObject) -> int:
    """Return the space of a datastore that is free, and not kept for a placement that was recommended."""
    left = [(until, size) for until, size in store.extra.get("leases", ()) if until > time.monotonic()]
    store.extra["leases"] = left
    return int(store["summary"].freeSpace - sum(size for _, size in left))


def let_go(farm: Farm, mo: ManagedObject) -> set[str]:
    """Note that a VM uses its files no more; return them."""
    held: set[str] = mo.extra.pop(HELD, set())
    for path in held:
        file = _file(farm, path)
        if file is not None:
            file.users.discard(mo.moid)
    return held


def delete(farm: Farm, paths: Iterable[str]) -> tuple[list[str], list[str]]:
    """Delete files that no VM uses; return those that are gone, and those that another VM keeps."""
    gone, kept = [], []
    for path in sorted(paths):
        store, name = _split(farm, path)
        file = store.extra[FILES].get(name) if store is not None else None
        if store is None or file is None:
            continue
        if file.users:
            kept.append(path)
            continue
        del store.extra[FILES][name]
        take(farm, store, -file.size)
        gone.append(path)
    return gone, kept


def grow(farm: Farm, path: str, by: int) -> None:
    """Let a file take more."""
    store, name = _split(farm, path)
    if store is not None and name in store.extra[FILES]:
        store.extra[FILES][name].size += by
        take(farm, store, by)


def take(farm: Farm, store: ManagedObject, size: int) -> None:
    """Take space of a datastore, or with a negative size give it back."""
    summary, info = store["summary"], store["info"]
    free = Vmomi.vmodlTypes["long"](summary.freeSpace - size)
    summary.freeSpace = info.freeSpace = free
    farm.store.touch(store, "summary", "info")
    pod = farm.store.get(store["parent"])
    if isinstance(pod.ref, vim.StoragePod):
        summarise_pod(farm, pod)


def summarise_pod(farm: Farm, pod: ManagedObject) -> None:
    """Show the capacity and the free space of a datastore cluster."""
    members = [farm.store.get(ref)["summary"] for ref in pod["childEntity"]]
    farm.store.set(
        pod,
        summary=vim.StoragePod.Summary(
            name=str(pod["name"]),
            capacity=sum(m.capacity for m in members),
            freeSpace=sum(m.freeSpace for m in members),
        ),
    )
