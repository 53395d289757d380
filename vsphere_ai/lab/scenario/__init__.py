"""Scenarios of environments: the documented format, every field with its default.

A scenario is YAML. Names of hosts and VMs may hold one range such as ``[01:16]`` (``train-[001:900]``); the entry then
stands for all of them. A VM's `host` may be a range too: its VMs are spread over those hosts in turn.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from vsphere_ai.lab.scenario.clusters import Cluster, Ha, Pool, Rule
from vsphere_ai.lab.scenario.guests import Guests
from vsphere_ai.lab.scenario.hosts import DeviceGroup, Gpu, Host, Nic, Ssh, Vmkernel
from vsphere_ai.lab.scenario.names import RANGE, expand
from vsphere_ai.lab.scenario.vms import Image, Vm

__all__ = [
    "RANGE",
    "Cluster",
    "Datastore",
    "DatastoreCluster",
    "DeviceGroup",
    "Gpu",
    "Guests",
    "Ha",
    "Host",
    "Image",
    "Nic",
    "Pool",
    "PortGroup",
    "Rule",
    "Scenario",
    "Ssh",
    "Switch",
    "Timing",
    "VCenter",
    "Vm",
    "Vmkernel",
    "expand",
]


@dataclass(frozen=True)
class VCenter:
    """The vCenter server: product version and build as `about` shows them.

    `api` is the newest API it serves, without it that of the version (8.0.3.0 for 8.0.3): fields and methods of later
    ones are not there, as on a real vCenter.

    `vgpu_vmotion` is the advanced setting ``vgpu.hotmigrate.enabled`` at the start.
    """

    version: str = "7.0.2"
    build: str = "17958471"
    api: str = ""
    username: str = "administrator@vsphere.local"
    vgpu_vmotion: bool = False

    def __post_init__(self) -> None:
        if not self.api:
            object.__setattr__(self, "api", f"{self.version}.0")

    @property
    def api_version(self) -> str:
        """The API version as pyVmomi names it, e.g. ``vim.version.v7_0_2_0``."""
        return "vim.version.v" + self.api.replace(".", "_")

    @property
    def compresses(self) -> bool:
        """Whether answers are packed for clients that accept that; earlier ones than 8.0.3 do not heed it."""
        return tuple(int(part) for part in self.version.split(".")) >= (8, 0, 3)


@dataclass(frozen=True)
class Timing:
    """How long things take, in seconds (`session_minutes`: a login left idle that long is gone).

    `guest_seconds` pass from power-on until a guest with cloud-init shows its addresses. A clone takes `clone_seconds`
    beside `task_seconds`. `failover_seconds` pass from the failure of a host until HA restarts its VMs.
    """

    boot_seconds: float = 2.0
    task_seconds: float = 0.02
    shutdown_seconds: float = 0.3
    guest_seconds: float = 0.5
    vmotion_seconds: float = 0.1
    clone_seconds: float = 0.0
    failover_seconds: float = 0.5
    session_minutes: float = 30.0


@dataclass(frozen=True)
class PortGroup:
    """A distributed port group. `vlan` 0 means untagged; without `active_uplinks` it has those of its switch.

    A VM or a VMkernel adapter names it, or as `SWITCH/NAME` where several have the name.

    `dhcp` is the IPv4 subnet of which a DHCP server gives addresses there; none without it.
    """

    name: str
    vlan: int = 0
    active_uplinks: tuple[str, ...] = ()
    dhcp: str = ""


@dataclass(frozen=True)
class Switch:
    """A distributed switch; its uplink port group (``NAME-DVUplinks``) comes by itself."""

    name: str
    port_groups: tuple[PortGroup, ...]
    mtu: int = 1500
    uplinks: int = 2
    version: str = "7.0.2"
    nioc: bool = True


@dataclass(frozen=True)
class Datastore:
    """A datastore. `free_gb` is the space that is left while every VM of the scenario is there; half of it without.

    `hosts` have it mounted, each a name that may hold a range; all hosts without it. `cluster` is the datastore cluster
    it is in.
    """

    name: str
    capacity_gb: int = 16384
    free_gb: int = -1
    type: str = "vsan"
    hosts: tuple[str, ...] = ()
    cluster: str = ""
    accessible: bool = True


@dataclass(frozen=True)
class DatastoreCluster:
    """A datastore cluster. Without `drs` Storage DRS is off, and recommends no datastore."""

    name: str
    drs: bool = True


@dataclass(frozen=True)
class TagCategory:
    """A category of vSphere tags, where it is not as usual: an object has one tag of it at most (`single`).

    `types` are the managed types that its tags are for, such as `HostSystem`; all of them where it is empty.
    """

    name: str
    single: bool = False
    types: tuple[str, ...] = ()


@dataclass(frozen=True)
class Scenario:
    """A whole environment.

    `datastore` is that of VMs that name none; where `datastores` do not describe it, it has their default values.
    `privileges_denied` are privileges that the lab's user does not have, e.g. ``Host.Config.Image``, or
    ``Resource.AssignVMToPool on research``: not on the object of that name and what is below it.
    `tags` are vSphere tags, each ``Category/name``, that exist whether or not a host or VM has them.
    """

    name: str
    hosts: tuple[Host, ...]
    vms: tuple[Vm, ...] = ()
    clusters: tuple[Cluster, ...] = ()
    switches: tuple[Switch, ...] = ()
    vcenter: VCenter = field(default_factory=VCenter)
    timing: Timing = field(default_factory=Timing)
    datacenter: str = "DC0"
    datastore: str = "vsan-gpu"
    datastores: tuple[Datastore, ...] = ()
    datastore_clusters: tuple[DatastoreCluster, ...] = ()
    privileges_denied: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    tag_categories: tuple[TagCategory, ...] = ()
    guests: Guests = field(default_factory=Guests)

    @property
    def all_datastores(self) -> tuple[Datastore, ...]:
        """Every datastore, that of VMs that name none among them."""
        known = any(each.name == self.datastore for each in self.datastores)
        return self.datastores if known else (Datastore(self.datastore), *self.datastores)
