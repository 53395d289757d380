"""Swap files of running VMs: where each is, how large, and the space that it takes.

Source: vSphere Resource Management 7.0, Swap File Location. A host-local place that is not set, or has no room, is the
VM's own directory; vSAN is no host-local place.
"""

from __future__ import annotations

from typing import Any

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.managed import datastores
from vsphere_ai.lab.store import ManagedObject

IN_FULL = ("VMFS",)
"""Types of datastores on which a swap file takes its size."""
NOT_LOCAL = ("vsan", "VVOL")


def size_bytes(store: ManagedObject, config: Any) -> int:
    """Return the bytes that a swap file takes of a datastore: the memory that is not reserved, or none."""
    if store["summary"].type not in IN_FULL:
        return 0
    return max(0, int(config.hardware.memoryMB) - int(config.memoryAllocation.reservation or 0)) << 20


def datastore(farm: Farm, vm: ManagedObject, host: ManagedObject, config: Any) -> ManagedObject:
    """Return the datastore on which a VM's swap file is while it runs on a host."""
    keys = {o.key.lower(): str(o.value) for o in config.extraConfig or ()}
    if keys.get("sched.swap.dir"):
        return datastores.at(farm, keys["sched.swap.dir"], "sched.swap.dir")
    compute = farm.store.get(host["parent"])
    wanted = config.swapPlacement or "inherit"
    if wanted == "inherit":
        wanted = compute["configurationEx"].vmSwapPlacement or "vmDirectory"
    local = getattr(host["config"], "localSwapDatastore", None)
    if wanted == "hostLocal" and local is not None:
        store = farm.store.get(local)
        room = size_bytes(store, config) <= store["summary"].freeSpace or held_on(vm) == store.moid
        if store["summary"].type not in NOT_LOCAL and room:
            return store
    return datastores.home_of(farm, config)


def held_on(vm: ManagedObject) -> str:
    """Return the reference of the datastore that has the swap file of a running VM; empty without one."""
    return str(vm.extra.get(datastores.SWAP, ("", 0))[0])


def hold(farm: Farm, vm: ManagedObject) -> None:
    """Make the swap file of a VM that runs, where it is not there yet; one that is elsewhere goes."""
    store = datastore(farm, vm, farm.host_of(vm), vm["config"])
    if held_on(vm) == store.moid:
        return
    drop(farm, vm)
    size = size_bytes(store, vm["config"])
    vm.extra[datastores.SWAP] = store.moid, size
    datastores.take(farm, store, size)


def drop(farm: Farm, vm: ManagedObject) -> None:
    """Delete the swap file of a VM that does not run any more."""
    moid, size = vm.extra.pop(datastores.SWAP, ("", 0))
    if moid:
        datastores.take(farm, farm.store.objects[moid], -size)
