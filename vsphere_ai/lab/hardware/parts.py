"""The parts of a simulated ESXi host that are plain data: services, VIBs, NICs with RDMA, PCI devices."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Policy = Literal["on", "off", "automatic"]

DRIVER_VIB = re.compile(r"NVIDIA-(?P<line>VMware|AIE)_ESXi_")
"""Names of NVIDIA's host driver VIBs: the vGPU (graphics) line and the AI Enterprise line."""

RULESETS = {"TSM-SSH": ("sshServer",), "ntpd": ("ntpClient",), "snmpd": ("snmp",), "slpd": ("CIMSLP",)}


@dataclass
class Service:
    """A service of the host. After a boot it runs if its policy is ``on``, or ``automatic`` and its port is open."""

    id: str
    label: str
    running: bool = False
    policy: Policy = "off"

    @property
    def rulesets(self) -> tuple[str, ...]:
        """The firewall rulesets that belong to it."""
        return RULESETS.get(self.id, ())


@dataclass
class Vib:
    """An installed software package; the driver in it is loaded at the next boot."""

    name: str
    version: str
    vendor: str = "VMware"
    acceptance: str = "VMwareCertified"
    installed: str = "2021-08-20"


@dataclass
class LabRdmaDevice:
    """The RDMA side of a NIC. `speed_gb` is in Gbit/s; `vmknic` is the VMkernel adapter bound to it, if any."""

    name: str
    driver: str = "nmlx5_rdma"
    description: str = "MT28908 Family [ConnectX-6]"
    state: Literal["Active", "Down"] = "Active"
    mtu: int = 4096
    speed_gb: int = 100
    rocev1: bool = True
    rocev2: bool = True
    vmknic: str = ""


@dataclass
class Pnic:
    """A physical NIC. `speed_mb` is in Mbit/s, `pci` the lower-case address."""

    name: str
    pci: str
    mac: str
    driver: str = "igbn"
    description: str = "Intel Corporation I350 Gigabit Network Connection"
    vendor_id: int = 0x8086
    device_id: int = 0x1521
    firmware: str = "1.63:0x800009fa"
    speed_mb: int = 1000
    mtu: int = 1500
    link_up: bool = True
    sriov_max: int = 0
    numa_node: int = 0
    bridges: tuple[str, ...] = ()
    rdma: LabRdmaDevice | None = None
    pause_rx: bool = False
    pause_tx: bool = False
    rings: tuple[int, int] = (0, 0)
    """Entries of the receive and the transmit ring; `rings_most`: the most there can be, 0 where they cannot be set."""
    rings_most: int = 0
    coalesce: dict[str, int] | None = None
    """Interrupt coalescing by option of esxcli, 0 and 1 for off and on; None where the driver has none."""
    forced_mb: int = 0
    """The forced speed; 0: it is negotiated."""
    vfs_configured: int = 0
    """Virtual functions the next boot makes; `vfs` are those there are."""
    vfs: int = 0
    passthrough: bool = False
    """Given to VMs as a whole from the next boot on; `passthrough_active`: now."""
    passthrough_active: bool = False

    @property
    def passed_through(self) -> bool:
        """Return whether VMs get the whole NIC now."""
        return self.passthrough_active

    def pass_through(self) -> None:
        """Bind the NIC to the driver that its passthrough setting asks for, without a boot."""
        self.passthrough_active = self.passthrough

    @property
    def waits(self) -> bool:
        """Return whether virtual functions or passthrough wait for a boot."""
        return self.passthrough != self.passthrough_active or self.vfs != self.vfs_at_boot

    @property
    def vfs_at_boot(self) -> int:
        """How many virtual functions the next boot makes; a NIC that is given away whole has none."""
        return 0 if self.passthrough else self.vfs_configured

    @property
    def speeds(self) -> tuple[int, ...]:
        """The speeds it can be forced to, in Mbit/s."""
        return tuple(s for s in (100, 1000, 10000, 25000, 40000, 50000, 100000, 200000) if s <= self.speed_mb)

    @property
    def vendor_name(self) -> str:
        """The vendor as pci.ids writes it."""
        return {0x15B3: "Mellanox Technologies", 0x14E4: "Broadcom Inc."}.get(self.vendor_id, "Intel Corporation")


@dataclass(frozen=True)
class LabDeviceGroup:
    """A vendor device group: `count` vGPUs of one type, or as many whole devices with one (vendor, device) id."""

    name: str
    count: int
    vgpu: str = ""
    device: tuple[int, int] = (0, 0)

    @property
    def linked(self) -> bool:
        """Return whether its GPUs have to be joined by NVLink."""
        return self.name.endswith("%NVLink")


@dataclass(frozen=True)
class LabPciDevice:
    """A PCI function as ESXi lists it. `parent` names the physical function of an SR-IOV virtual function."""

    address: str
    vendor_id: int
    device_id: int
    sub_vendor_id: int
    sub_device_id: int
    class_id: int
    class_name: str
    vendor_name: str
    device_name: str
    vmkernel_name: str
    module: str = ""
    numa_node: int = 0
    slot_number: int = -1
    parent: str = ""


@dataclass
class KernelModule:
    """A loaded VMkernel module. `options` is what is configured, `running` what it was loaded with at the last boot."""

    name: str
    used_by: int = 0
    size_kb: int = 0
    options: str = ""
    running: str = ""

    @property
    def parameters(self) -> dict[str, str]:
        """The configured parameters by name."""
        return dict(word.partition("=")[::2] for word in self.options.split())


def default_services() -> dict[str, Service]:
    """Return the services of a stock ESXi 7.0 host, by key."""
    stock = (
        Service("DCUI", "Direct Console UI", running=True, policy="on"),
        Service("TSM", "ESXi Shell"),
        Service("TSM-SSH", "SSH"),
        Service("lbtd", "Load-Based Teaming Daemon", running=True, policy="on"),
        Service("lwsmd", "Active Directory Service"),
        Service("ntpd", "NTP Daemon"),
        Service("pcscd", "PC/SC Smart Card Daemon"),
        Service("sfcbd-watchdog", "CIM Server", policy="on"),
        Service("slpd", "slpd"),
        Service("snmpd", "SNMP Server", policy="on"),
        Service("vmsyslogd", "Syslog Server", running=True, policy="on"),
        Service("vpxa", "VMware vCenter Agent", running=True, policy="on"),
        Service("xorg", "X.Org Server", policy="on"),
    )
    return {service.id: service for service in stock}


def default_vibs(version: str, build: str) -> list[Vib]:
    """Return a few packages of the ESXi image itself."""
    major = "".join(version.split("."))
    base = f"{version}-0.0.{build}"
    return [
        Vib("esx-base", base),
        Vib("igbn", f"1.4.11.2-1vmw.{major}.0.0.{build}", "VMW"),
        Vib("nmlx5-core", f"4.19.16.10-1vmw.{major}.0.0.{build}", "VMW"),
        Vib("nmlx5-rdma", f"4.19.16.10-1vmw.{major}.0.0.{build}", "VMW"),
        Vib("nvme-pcie", f"1.2.3.11-1vmw.{major}.0.0.{build}", "VMW"),
        Vib("nvmxnet3", f"2.0.0.30-1vmw.{major}.0.0.{build}", "VMW"),
        Vib("tools-light", f"11.2.5.17337674-{build}"),
    ]


def driver_vib(driver: str, *, line: Literal["AIE", "VMware"] = "AIE", esxi: str = "7.0.2") -> Vib:
    """Return NVIDIA's host driver package for a driver version such as ``470.256.02``."""
    oem = {"7.0.2": "1OEM.702.0.0.17630552", "8.0.0": "1OEM.800.1.0.20613240"}.get(esxi, "1OEM.670.0.0.8169922")
    return Vib(f"NVIDIA-{line}_ESXi_{esxi}_Driver", f"{driver}-{oem}", "NVIDIA", "VMwareAccepted")
