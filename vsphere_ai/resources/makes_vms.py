"""Mixin of a kind whose states make VMs: what planning has to know of them before the VMs exist."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Self

from vsphere_ai.guests import image
from vsphere_ai.model.cluster_rules import Strength
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.state import Effect, FieldChange, State, Target
from vsphere_ai.model.view import View
from vsphere_ai.model.vm_sets import Member


@dataclass(frozen=True)
class WantedNic:
    """A NIC of each VM: its pools by name (none: DHCP), and whether a clone brings it or the reconfigure after it."""

    name: str
    port_group: str
    type: str
    pools: tuple[str, ...] = ()
    primary: bool = False
    rail: int | None = None
    role: str | None = None
    mtu: int | None = None
    spare: int = 0
    """Addresses that are held for VMs which the set may get later."""
    protocol: str = ""
    """RoCE version of a PVRDMA adapter, ``rocev1`` or ``rocev2``; empty: the server's choice."""


@dataclass(frozen=True)
class WantedPlacement:
    """Rules for the VMs of a set: `hosts` are names with wildcards; empty where a play says nothing."""

    anti_affinity: Strength = ""
    hosts: tuple[str, ...] = ()
    vm_host_rule: Strength = ""
    drs_override: Literal["", "until_ready", "kept"] = ""
    one_leaf: Strength = ""

    @property
    def has_rules(self) -> bool:
        """Whether anything of it is kept by DRS."""
        return bool(self.anti_affinity or self.hosts or self.drs_override)


@dataclass(frozen=True)
class WantedSet:
    """What a play says of the VMs that it makes; names and inventory paths as they are written, empty if left out."""

    name: str
    source: str
    snapshot: str = ""
    linked: bool = False
    cluster: str = ""
    resource_pool: str = ""
    folder: str = ""
    datastore: str = ""
    nics: tuple[WantedNic, ...] = ()
    cpus: int | None = None
    memory_mb: int | None = None
    datastores: tuple[str, ...] = ()
    """Datastores of disks that are added."""
    mac_prefix: str = ""
    guest_id: str = ""
    placement: WantedPlacement = field(default_factory=WantedPlacement)
    reserves_memory: bool = False
    """A NIC needs all memory of its VM reserved."""
    cores_per_socket: int | None = None
    """What the same play says of it; it goes into the clone."""


OUTLINES: Mapping[str, tuple[str, ...]] = {
    "HostSystem": ("hardware.memorySize",),
    "VirtualMachine": ("config.instanceUuid", "guest.net"),
    "ResourcePool": ("name", "parent", "owner"),
    "Datastore": ("name", "parent", "summary", "host"),
    "StoragePod": ("name", "parent"),
    "ClusterComputeResource": ("configurationEx", "resourcePool"),
    "ComputeResource": ("resourcePool",),
}
"""What is read of every object where a playbook makes VMs."""
SERVICES: Mapping[str, tuple[str, ...]] = {"customFieldsManager": ("field",)}
"""What is read of services of vCenter there: the definitions of custom attributes."""
USAGE = "storage.perDatastoreUsage"
"""What a VM takes of each datastore."""
DETAILS: Mapping[str, tuple[str, ...]] = {
    "VirtualMachine": (*image.PATHS, "config.instanceUuid", "datastore", "guest.net", "resourcePool", USAGE),
}
"""What is read besides of the VMs that are looked at closely."""


class MakesVms:
    """A kind whose play makes the VMs that its pattern names, each once."""

    @classmethod
    def named(cls, name: str) -> Self:
        """Return the state of a set of which only the name is known; `ValueError` where no set has such a name."""
        raise NotImplementedError

    def wanted_set(self) -> WantedSet:
        """Return what the play says of its VMs."""
        raise NotImplementedError

    def new_vm(self, member: Member, estate: Estate) -> Facts:
        """Return a member that is to be made as vCenter will show it right after its clone."""
        raise NotImplementedError

    def space_of_new(self, view: View) -> Mapping[str, int]:
        """Return the bytes that disks of all VMs that the plan makes take, by datastore (reference)."""
        raise NotImplementedError

    def effect(self, field: FieldChange, target: Target, view: View) -> Effect:
        """Return what a change of a field takes, of a VM that is there; empty where that is not said."""
        return ""

    def leaving(self, *, detach: bool = False) -> State:
        """Return the state of a VM of the set that is to be destroyed; `detach`: foreign disks of it stay."""
        raise NotImplementedError

    def is_ready(self, member: Member, estate: Estate) -> bool:
        """Return whether nothing of the first boot of a member that is there is waited for."""
        raise NotImplementedError

    def implied(self, member: Member) -> Sequence[State]:
        """Return the states of other kinds that follow for a member."""
        raise NotImplementedError
