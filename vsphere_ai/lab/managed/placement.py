"""Hardware versions of releases, the automation level of DRS for a VM, and registering it on another host."""

from __future__ import annotations

from pyVmomi import vim

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.managed.vms.encryption import take_key
from vsphere_ai.lab.store import ManagedObject

# the highest hardware version of each release: VMware KB 315655
HARDWARE = (
    ((9, 0, 0), 22),
    ((8, 0, 2), 21),
    ((8, 0, 0), 20),
    ((7, 0, 2), 19),
    ((7, 0, 1), 18),
    ((7, 0, 0), 17),
    ((6, 7, 0), 14),
    ((6, 5, 0), 13),
)


def release(version: str) -> tuple[int, ...]:
    """Return a product version as numbers, e.g. (7, 0, 2)."""
    return tuple(int(part) for part in version.split(".")[:3])


def newest_hardware(version: str) -> int:
    """Return the highest VM hardware version an ESXi release runs."""
    return next((hw for least, hw in HARDWARE if release(version) >= least), 11)


def hardware_of(vm: ManagedObject) -> int:
    """Return the number after ``vmx-``."""
    return int(vm["config"].version.removeprefix("vmx-"))


def drs_level(farm: Farm, vm: ManagedObject) -> str:
    """Return the automation level of DRS for a VM, its own or its cluster's; empty where DRS lets it be."""
    parent = farm.store.get(farm.host_of(vm)["parent"])
    if not isinstance(parent.ref, vim.ClusterComputeResource):
        return ""
    config = parent["configurationEx"]
    drs, level = config.drsConfig, config.drsConfig.defaultVmBehavior
    if drs.enableVmBehaviorOverrides is not False:
        own = next((c for c in config.drsVmConfig or () if c.key == vm.ref), None)
        if own is not None and own.enabled is False:
            return ""
        level = (own.behavior if own is not None else None) or level
    return str(level) if drs.enabled else ""


def move(farm: Farm, vm: ManagedObject, host: ManagedObject) -> None:
    """Register a VM on another host of its cluster."""
    old = farm.host_of(vm)
    farm.store.set(old, vm=[r for r in old["vm"] if r != vm.ref])
    farm.store.set(host, vm=[*host["vm"], vm.ref])
    vm["runtime"].host = host.ref
    farm.store.touch(vm, "runtime", "summary")
    take_key(farm, vm, host)


def hosts_of_cluster(farm: Farm, vm: ManagedObject) -> list[ManagedObject]:
    """Return the hosts a VM could be on, its own first."""
    own = farm.host_of(vm)
    parent = farm.store.get(own["parent"])
    others = [farm.store.get(r) for r in parent["host"] if r != own.ref]
    drs = isinstance(parent.ref, vim.ClusterComputeResource) and parent["configurationEx"].drsConfig.enabled
    return [own, *(others if drs else [])]
