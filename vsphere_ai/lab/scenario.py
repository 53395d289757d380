"""Scenarios of farms: the documented format, every field with its default.

A scenario is YAML. Names of hosts and VMs may hold one range such as ``[01:16]`` (``train-[001:900]``); the entry then
stands for all of them. A VM's `host` may be a range too: its VMs are spread over those hosts in turn.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

RANGE = re.compile(r"\[([0-9]{1,9}):([0-9]{1,9})\]")


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
    beside `task_seconds`.
    """

    boot_seconds: float = 2.0
    task_seconds: float = 0.02
    shutdown_seconds: float = 0.3
    guest_seconds: float = 0.5
    vmotion_seconds: float = 0.1
    clone_seconds: float = 0.0
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
class Rule:
    """A DRS rule of a cluster. A name in `vms` or `hosts` may hold a range.

    `kind` is ``affinity`` or ``anti-affinity`` between `vms`, or ``host-affinity`` or ``host-anti-affinity`` between
    them and `hosts`.
    """

    name: str
    kind: str
    vms: tuple[str, ...]
    hosts: tuple[str, ...] = ()
    mandatory: bool = False
    enabled: bool = True

    @property
    def vm_names(self) -> set[str]:
        """The names of the VMs."""
        return {name for text in self.vms for name in expand(text)}

    @property
    def host_names(self) -> list[str]:
        """The names of the hosts."""
        return [name for text in self.hosts for name in expand(text)]


@dataclass(frozen=True)
class Cluster:
    """A cluster. `drs` is ``off``, ``manual``, ``partiallyAutomated`` or ``fullyAutomated``.

    `drs_options` are advanced options of DRS, such as ``VgpuMMAutomationTimeoutSecs: "-1"``.
    `image`: it is managed with a single image; `configuration_profile`: by a vSphere Configuration Profile (8.0).
    `pools` are resource pools below its root pool, each by its path, such as ``research/llm``.
    """

    name: str
    drs: str = "fullyAutomated"
    ha: bool = False
    drs_options: dict[str, str] = field(default_factory=dict)
    image: bool = False
    configuration_profile: bool = False
    pools: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()


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
class Gpu:
    """A GPU in a slot: its PCI address and the key of its board in the board table, e.g. ``a100-40gb``.

    `bridges` are the PCI bridges above it from the root port down (a root port of its own when left out).
    `device_id` picks one PCI device of the board (hexadecimal); `graphics_type`, `mig` and `vgpu_mode` (ESXi 8.0.3 and
    later show it) are the state at the start.
    GPUs with the same `link` are joined by NVLink.
    """

    pci: str
    board: str
    device_id: str = ""
    graphics_type: str = "shared"
    mig: bool = False
    vgpu_mode: str = "sameSize"
    numa: int = 0
    bridges: tuple[str, ...] = ()
    link: str = ""


@dataclass(frozen=True)
class Nic:
    """A physical NIC. `switch` names the distributed switch it is an uplink of; `rdma` its RDMA device, if any.

    `numa` and `bridges` say where it sits, as those of a GPU. `vfs` is how many SR-IOV virtual functions it has at
    the start.
    """

    name: str
    pci: str
    model: str = "X710"
    switch: str = ""
    rdma: str = ""
    rdma_state: str = "Active"
    link_up: bool = True
    vfs: int = 0
    numa: int = 0
    bridges: tuple[str, ...] = ()


@dataclass(frozen=True)
class Vmkernel:
    """A VMkernel adapter on a port group. `mtu` 0 means that of its switch."""

    name: str
    port_group: str
    ip: str = ""
    mtu: int = 0


@dataclass(frozen=True)
class DeviceGroup:
    """A vendor device group a host offers (ESXi 8.0): `count` devices that a VM gets together or not at all.

    They are vGPUs of the type `vgpu`, each on a GPU of its own, all of them joined by NVLink where the name ends with
    ``%NVLink``; without `vgpu` they are whole devices with the id `device` (``10de:2321``) that are passed through.
    """

    name: str
    count: int = 2
    vgpu: str = ""
    device: str = ""


@dataclass(frozen=True)
class Ssh:
    """The SSH service (TSM-SSH) of a host at the start. A service that runs with policy off is gone after a boot."""

    running: bool = False
    policy: str = "off"


@dataclass(frozen=True)
class Host:
    """One ESXi host, or with a range in its name several alike.

    `cluster` empty means a standalone host. `nvidia_driver` is the version of NVIDIA's host driver VIB, empty for
    none; `driver_line` is ``AIE`` or ``VMware``. `iommu` false hides passthrough, as with VT-d off in the BIOS;
    with `rebind` a device is passed through, or taken back, without a reboot.
    `lockdown_exceptions` are the users whom lockdown mode lets in. `log_host` is where the host sends its logs, such as
    ``tcp://10.20.0.5:514``; empty for nowhere.
    `vgpu_migration` false is a driver that migrates no vGPUs. With `vgpu_instances` false ``nvidia-smi vgpu -q`` prints
    N/A instead of the GPU instances of vGPUs.
    `clock_ahead` is by how many seconds the clock of the host is ahead of vCenter's (negative: behind). With
    `boot_time_jitter` the boot time that vCenter shows is so many seconds too early or too late, in turn, whenever
    something changes on the host.
    `tags` are vSphere tags, each ``Category/name``, `attributes` values of custom attributes by their names.
    """

    name: str
    cluster: str = ""
    version: str = "7.0.2"
    build: str = "17867351"
    vendor: str = "Supermicro"
    model: str = "SYS-420GP-TNR"
    cpu_cores: int = 64
    memory_gb: int = 1024
    gpus: tuple[Gpu, ...] = ()
    nics: tuple[Nic, ...] = ()
    vmkernel: tuple[Vmkernel, ...] = ()
    device_groups: tuple[DeviceGroup, ...] = ()
    ssh: Ssh = field(default_factory=Ssh)
    lockdown: str = "disabled"
    lockdown_exceptions: tuple[str, ...] = ()
    log_host: str = ""
    nvidia_driver: str = ""
    driver_line: str = "AIE"
    vgpu_migration: bool = True
    vgpu_instances: bool = True
    pvrdma_vmknic: str = ""
    pvrdma_firewall: bool = False
    graphics_default: str = "shared"
    assignment_policy: str = "performance"
    iommu: bool = True
    rebind: bool = False
    boot_seconds: float = -1.0
    clock_ahead: float = 0.0
    boot_time_jitter: float = 0.0
    never_returns: bool = False
    tags: tuple[str, ...] = ()
    attributes: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Image:
    """The guest on a VM's disks, as it was installed. A clone has the same one.

    `distribution` is its name as VMware Tools write it into the VM's settings (``guestInfo.detailed.data``), such as
    ``Ubuntu 22.04.4 LTS``; `tools` their version. `cloud_init` is a version, or ``none``; before 21.3 it reads no
    guestinfo. Of the renderers only netplan makes routing rules. With `ovf_properties` a VM has vApp options, and
    cloud-init takes its data from there. With a `machine_id` that is ``copied`` every clone has that of the image.
    `customization` false is a guest that vSphere cannot customize.
    """

    distribution: str = ""
    tools: str = "11.2.5"
    cloud_init: str = "23.4.4"
    renderer: str = "netplan"
    machine_id: str = "clean"
    ovf_properties: dict[str, str] = field(default_factory=dict)
    customization: bool = True


@dataclass(frozen=True)
class Vm:
    """One virtual machine, or with a range in its name several alike.

    `folder` is the path below the datacenter's VM folder, `pool` the path of a resource pool of the host's cluster;
    `network` is the port group of its NIC (none if it is empty), `more_networks` are those of others; `tools` is
    ``running``, ``unmanaged`` (open-vm-tools) or ``none``. A disk of `disk_gb` and one for each of `more_disks_gb` are
    on `datastore`, thin; `disk_used_gb` of each are written. `vgpu` and `pvrdma` (port groups) are
    devices it has from the start.
    `snapshots` are names, each snapshot a child of the one before. `vapp` is the vApp it is in. `ft` is the primary VM
    of a fault tolerance pair, `tpm` an encrypted VM with a virtual TPM. `question` is the text of a pending question.
    `disabled_methods` are methods that another product has disabled, e.g. ``ReconfigVM_Task``. `agent` is ``vcls`` or
    the key of the extension that manages the VM, e.g. ``com.vmware.vim.eam``.
    `guest_driver` is the version of NVIDIA's driver in the guest (the host's when left out, ``none`` for none),
    `licence` is ``licensed``, ``unlicensed`` or ``unknown``. `tags` and `attributes` are as those of a host.
    """

    name: str
    host: str
    folder: str = ""
    power: str = "off"
    guest: str = "ubuntu64Guest"
    hardware: int = 17
    firmware: str = "efi"
    cpus: int = 16
    memory_gb: int = 64
    disk_gb: int = 200
    more_disks_gb: tuple[int, ...] = ()
    disk_used_gb: int = 10
    datastore: str = ""
    pool: str = ""
    network: str = "VM Network"
    more_networks: tuple[str, ...] = ()
    tools: str = "unmanaged"
    image: Image = field(default_factory=Image)
    memory_reservation_locked: bool = False
    vgpu: tuple[str, ...] = ()
    pvrdma: tuple[str, ...] = ()
    template: bool = False
    connection: str = "connected"
    snapshots: tuple[str, ...] = ()
    vapp: str = ""
    ft: bool = False
    tpm: bool = False
    question: str = ""
    disabled_methods: tuple[str, ...] = ()
    agent: str = ""
    extra_config: dict[str, str] = field(default_factory=dict)
    guest_driver: str = ""
    licence: str = "licensed"
    tags: tuple[str, ...] = ()
    attributes: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Scenario:
    """A whole farm.

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

    @property
    def all_datastores(self) -> tuple[Datastore, ...]:
        """Every datastore, that of VMs that name none among them."""
        known = any(each.name == self.datastore for each in self.datastores)
        return self.datastores if known else (Datastore(self.datastore), *self.datastores)


def expand(name: str) -> Iterator[str]:
    """Yield the names a name with a ``[01:16]`` range stands for; leading zeros set the width."""
    found = RANGE.search(name)
    if found is None:
        yield name
        return
    first, last = found.groups()
    for number in range(int(first), int(last) + 1):
        yield f"{name[: found.start()]}{number:0{len(first)}d}{name[found.end() :]}"
