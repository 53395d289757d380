"""Hosts of a scenario, and their parts."""

from __future__ import annotations

from dataclasses import dataclass, field


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


NIC_TYPES = (
    "management",
    "vmotion",
    "vSphereProvisioning",
    "faultToleranceLogging",
    "vSphereReplication",
    "vSphereReplicationNFC",
    "vsan",
)
"""Kinds of traffic of a host that its VMkernel adapters are selected for (HostVirtualNicManagerNicType)."""


@dataclass(frozen=True)
class Vmkernel:
    """A VMkernel adapter on a port group. `mtu` 0 means that of its switch.

    It carries what `services` name of the traffic of the host, such as ``management`` and ``vmotion``; the first
    adapter of a host carries both where none names any.
    """

    name: str
    port_group: str
    ip: str = ""
    mtu: int = 0
    services: tuple[str, ...] = ()


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
    N/A instead of the GPU instances and placement IDs of vGPUs.
    `clock_ahead` is by how many seconds the clock of the host is ahead of vCenter's (negative: behind). With
    `boot_time_jitter` the boot time that vCenter shows is so many seconds too early or too late, in turn, whenever
    something changes on the host.
    `threads` are its logical processors: two per core with `hyperthreading`, one without, when left out (0). `cpu` is
    the generation of its processors, `cpu_features_off` are features that its firmware has switched off, such as
    ``AVX512F``. `system_memory_mb` and `system_cpu_mhz` are what ESXi keeps for itself (-1: 1 GB and a 64th of the
    memory, and 500 MHz), which vCenter shows with `shows_system_resources` only.
    `swap_datastore` is where the swap files of VMs are that are to be local to the host. `licensed_vms` is how many VMs
    its licence lets run on it (0: any number). `encryption` is its encryption mode: ``safe`` takes keys of encrypted
    VMs. With `vsan` it is a member of vSAN. `partial_maintenance` is a partial maintenance mode that it is in (8.0.3
    and later), empty for none.
    `tags` are vSphere tags, each ``Category/name``, `attributes` values of custom attributes by their names.
    """

    name: str
    cluster: str = ""
    version: str = "7.0.2"
    build: str = "17867351"
    vendor: str = "Supermicro"
    model: str = "SYS-420GP-TNR"
    cpu_cores: int = 64
    threads: int = 0
    hyperthreading: bool = True
    cpu_mhz: int = 2600
    cpu: str = "icelake"
    cpu_features_off: tuple[str, ...] = ()
    memory_gb: int = 1024
    licensed_vms: int = 0
    system_memory_mb: int = -1
    system_cpu_mhz: int = -1
    shows_system_resources: bool = True
    swap_datastore: str = ""
    encryption: str = "safe"
    partial_maintenance: str = ""
    vsan: bool = False
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
