"""VMs of a scenario, and their guests."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Image:
    """The guest on a VM's disks, as it was installed. A clone has the same one.

    `distribution` is its name as VMware Tools write it into the VM's settings (``guestInfo.detailed.data``), such as
    ``Ubuntu 22.04.4 LTS``; `tools` their version. `cloud_init` is a version, or ``none``; before 21.3 it reads no
    guestinfo. Of the renderers only netplan makes routing rules. With `ovf_properties` a VM has vApp options, and
    cloud-init takes its data from there. With a `machine_id` that is ``copied`` every clone has that of the image.
    `customization` false is a guest that vSphere cannot customize. It boots with the firmware that it was installed
    with, which is that of its VM; with a `firmware` that is ``any`` with both.
    """

    distribution: str = ""
    tools: str = "11.2.5"
    cloud_init: str = "23.4.4"
    renderer: str = "netplan"
    machine_id: str = "clean"
    ovf_properties: dict[str, str] = field(default_factory=dict)
    customization: bool = True
    firmware: str = "installed"


@dataclass(frozen=True)
class Vm:
    """One virtual machine, or with a range in its name several alike.

    `folder` is the path below the datacenter's VM folder, `pool` the path of a resource pool of the host's cluster;
    `network` is the port group of its NIC (none if it is empty), `more_networks` are those of others; `tools` is
    ``running``, ``unmanaged`` (open-vm-tools) or ``none``. A disk of `disk_gb` and one for each of `more_disks_gb` are
    on `datastore`, thin; `disk_used_gb` of each are written. `vgpu` and `pvrdma` (port groups) are
    devices it has from the start.
    `latency` is its latency sensitivity, `cpu_affinity` the logical processors that it is bound to, `overhead_mb` the
    memory that a host needs for it beside its own (-1: as its size demands). `swap` is where its swap file is.
    `iso` is in its CD drive: a file such as ``[isos] tools/linux.iso``, or ``client`` or ``host``, whose drive it is.
    `drs` is its own automation level in the cluster, ``off`` if DRS lets it be; empty: that of the cluster.
    `snapshots` are names, each snapshot a child of the one before. `vapp` is the vApp it is in. `ft` is the primary VM
    of a fault tolerance pair, `tpm` an encrypted VM with a virtual TPM, locked with `key_missing`. `question` is
    the text of a pending question.
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
    cores_per_socket: int = 1
    simultaneous_threads: int = 1
    cpu_reservation_mhz: int = 0
    cpu_affinity: tuple[int, ...] = ()
    latency: str = "normal"
    memory_gb: int = 64
    memory_reservation_mb: int = 0
    overhead_mb: int = -1
    swap: str = "inherit"
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
    iso: str = ""
    iso_connected: bool = True
    drs: str = ""
    vgpu: tuple[str, ...] = ()
    pvrdma: tuple[str, ...] = ()
    template: bool = False
    connection: str = "connected"
    snapshots: tuple[str, ...] = ()
    vapp: str = ""
    ft: bool = False
    tpm: bool = False
    key_missing: bool = False
    question: str = ""
    disabled_methods: tuple[str, ...] = ()
    agent: str = ""
    extra_config: dict[str, str] = field(default_factory=dict)
    guest_driver: str = ""
    licence: str = "licensed"
    tags: tuple[str, ...] = ()
    attributes: dict[str, str] = field(default_factory=dict)
