"""Needs of a VM on its host: read from its facts, with the changes of the steps of a plan.

A figure that was not read is None, never 0. Sources: vSphere Web Services API reference, VirtualMachineConfigInfo and
VirtualMachineConfigSpec; vSphere Resource Management 6.5, "Memory Overhead in Virtual Machines" (table of overheads).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from vsphere_ai.fabric import drives, pci
from vsphere_ai.fabric.host_cpus import AUTO_CORES, VM_CORES, cores_of_socket
from vsphere_ai.fabric.virtual_functions import Demand
from vsphere_ai.gpu.devices import is_vgpu
from vsphere_ai.gpu.vgpus.window import size_of
from vsphere_ai.model.estate.host_version import hardware_number
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.names.pci_address import read_pci
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import DeviceChange, Invoke, Reconfigure, Step
from vsphere_ai.model.vm_sets import settings_of

CPUS = "config.hardware.numCPU"
MEMORY, LOCKED = "config.hardware.memoryMB", "config.memoryReservationLockedToMax"
RESERVED, MHZ_RESERVED = "config.memoryAllocation.reservation", "config.cpuAllocation.reservation"
LATENCY, THREADS_PER_CORE = "config.latencySensitivity", "config.hardware.simultaneousThreads"
OVERHEAD = "config.initialOverhead.initialMemoryReservation"
FIRMWARE, VERSION, DEVICES = "config.firmware", "config.version", "config.hardware.device"
POOL, NETWORKS, STORES = "resourcePool", "network", "datastore"
SWAP_PLACE, AFFINITY = "config.swapPlacement", "config.cpuAffinity"
SETTINGS = "config.extraConfig"
KEY = "config.keyId"
PATHS = (
    *(CPUS, VM_CORES, AUTO_CORES, MEMORY, LOCKED, RESERVED, MHZ_RESERVED, LATENCY, THREADS_PER_CORE, AFFINITY),
    *(OVERHEAD, FIRMWARE, VERSION, DEVICES, POOL, NETWORKS, STORES, SWAP_PLACE, SETTINGS, KEY),
)
"""Property paths of a VM that its figures are read from; those of newer releases are read where they exist."""
SRIOV, PVRDMA, TPM = "VirtualSriovEthernetCard", "VirtualVmxnet3Vrdma", "VirtualTPM"
RAW = ("VirtualDiskRawDiskMappingVer1BackingInfo", "VirtualDiskRawDiskVer2BackingInfo")
"""Backings of disks that are a LUN."""
_SPEC: Mapping[str, str] = {
    "numCPUs": CPUS,
    "numCoresPerSocket": VM_CORES,
    "memoryMB": MEMORY,
    "memoryReservationLockedToMax": LOCKED,
    "latencySensitivity": LATENCY,
    "firmware": FIRMWARE,
}
"""Field of a VirtualMachineConfigSpec -> the property that shows it."""
_MIB = 1 << 20
VirtualObject = DeviceChange
"""A virtual device, its backing, or a change of one, in VMware's spelling."""
OVERHEAD_BASE, OVERHEAD_PER_CPU, OVERHEAD_PER_GB, OVERHEAD_SPREAD = 14.3, 4.1, 7.58, 2.2
"""MB of overhead: a fit of VMware's table; recorded VMs had up to 2.2 times as much (unverified for large VMs)."""


class Bounds(NamedTuple):
    """A figure that is known between two bounds, both included; equal where it is known exactly."""

    low: float
    high: float

    def __add__(self, other: Bounds) -> Bounds:  # type: ignore[override] # two spans add, they are not joined
        return Bounds(self.low + other.low, self.high + other.high)

    def __sub__(self, other: Bounds) -> Bounds:
        """Return the difference of two figures that are known apart from each other."""
        return Bounds(self.low - other.high, self.high - other.low)


NOTHING = Bounds(0, 0)


@dataclass(frozen=True)
class Machine:
    """A VM as its host has to carry it. MB are 2^20 bytes; None: not known.

    `reserved_mb` is the memory that is guaranteed to the guest, `overhead_mb` what the host adds. `claims` are whole
    PCI devices, `functions` the virtual functions of SR-IOV adapters. `demands_all_memory` names the devices for which
    all memory has to be reserved.
    """

    ref: str
    name: str
    cpus: int | None = None
    cores_per_socket: int | None = None
    memory_mb: int | None = None
    reserved_mb: int | None = None
    overhead_mb: Bounds = NOTHING
    reserved_mhz: int = 0
    latency_high: bool = False
    threads_per_core: int = 1
    version: int | None = None
    firmware: str = ""
    window_gb: int | None = None
    """Size of its 64-bit MMIO window, 0 where it is off."""
    vgpus: tuple[str, ...] = ()
    claims: tuple[pci.Claim, ...] = ()
    functions: tuple[Demand, ...] = ()
    demands_all_memory: tuple[str, ...] = ()
    networks: tuple[str, ...] = ()
    datastores: tuple[str, ...] = ()
    home: str = ""
    """Reference of the datastore with its configuration, where its swap file lies."""
    swap_place: str = ""
    """Where its swap file is to be: ``vmDirectory``, ``hostLocal``, or empty for where its cluster has it."""
    pool: str = ""
    remote: tuple[tuple[str, str], ...] = ()
    """Connected drives and ports: pairs of a label and what is in it: the path of a file, ``a device of the host``."""
    usb: tuple[str, ...] = ()
    """Labels of connected USB devices of its host, or of a client."""
    raw_disks: tuple[str, ...] = ()
    """Labels of disks that are LUNs (raw device mapping)."""
    tied_to: str = ""
    """Reference of the host of which it has a device by its address; empty where it has none."""
    affinity: bool = False
    """Whether its vCPUs are bound to processors of its host, which vMotion refuses."""
    encrypted: str = ""
    """What it needs a key for: ``a virtual TPM``, ``encrypted files``; empty where it needs none."""
    bandwidth: tuple[tuple[str, int], ...] = ()
    """What its network adapters reserve: references of port groups, and Mbit/s."""

    @property
    def target(self) -> Target:
        """The VM as a target of plays."""
        return Target("vm", self.name, self.ref)

    @property
    def memory_need_mb(self) -> Bounds | None:
        """What a host has to guarantee: reservation and overhead."""
        return None if self.reserved_mb is None else Bounds(self.reserved_mb, self.reserved_mb) + self.overhead_mb

    @property
    def swap_mb(self) -> int | None:
        """The size of its swap file: memory that is not reserved (vSphere Resource Management 7.0, swap files)."""
        if self.memory_mb is None or self.reserved_mb is None:
            return None
        return max(self.memory_mb - self.reserved_mb, 0)

    @property
    def exclusive_cores(self) -> int:
        """Cores that it has for itself: of one with high latency sensitivity one per vCPU, or per pair with vHT."""
        return -(-(self.cpus or 0) // self.threads_per_core) if self.latency_high else 0

    @property
    def alike(self) -> Machine:
        """The same figures without reference and name: what it needs of a host does not depend on them."""
        return Machine(**{**self.__dict__, "ref": "", "name": ""})


def facts_after(facts: Facts, steps: Iterable[Step]) -> Facts:
    """Return a VM as vCenter will show it once the reconfigures and upgrades of these steps are done."""
    changed: dict[str, object] = {}
    devices: Sequence[VirtualObject] = facts.get(DEVICES) or ()
    settings: Sequence[VirtualObject] = facts.get(SETTINGS) or ()
    for step in steps:
        if isinstance(step, Invoke) and step.method == "UpgradeVM_Task":
            changed[VERSION] = str(step.args.get("version") or changed.get(VERSION, facts.get(VERSION)))
        elif isinstance(step, Reconfigure):
            changed |= {_SPEC[name]: value for name, value in step.spec.items() if name in _SPEC}
            for name, path in (("memoryAllocation", RESERVED), ("cpuAllocation", MHZ_RESERVED)):
                if name in step.spec:
                    changed[path] = step.spec[name].get("reservation")
            if step.extra_config:
                settings = changed[SETTINGS] = _set(settings, step.extra_config)
            if step.device_changes:
                devices = changed[DEVICES] = tuple(_changed(devices, step.device_changes))
    return facts.having(changed) if changed else facts


def _set(options: Iterable[VirtualObject], keys: Iterable[tuple[str, str]]) -> tuple[VirtualObject, ...]:
    """Return advanced settings with some set; an empty value removes a key."""
    values: dict[str, object] = {str(o["key"]): o.get("value") for o in options} | dict(keys)
    return tuple({"key": key, "value": value} for key, value in values.items() if value != "")


def _changed(devices: Iterable[VirtualObject], changes: Sequence[VirtualObject]) -> list[VirtualObject]:
    found = list(devices)
    for change in changes:
        device, operation = change["device"], change.get("operation")
        at = next((n for n, d in enumerate(found) if d.get("key") == device.get("key")), None)
        if operation == "add":
            found.append(device)
        elif operation == "remove" and at is not None:
            del found[at]
        elif operation == "edit" and at is not None:
            found[at] = {**found[at], **device}
    return found


def machine_of(
    facts: Facts,
    vgpus: tuple[str, ...] | None = None,
    claims: tuple[pci.Claim, ...] | None = None,
    functions: tuple[Demand, ...] | None = None,
) -> Machine:
    """Return what a VM takes. The others are what a plan gives it; None: those of its devices."""
    devices = tuple(facts.get(DEVICES) or ())
    backings = [d.get("backing") or {} for d in devices]
    own = tuple(str(b["vgpu"]).lower() for d, b in zip(devices, backings, strict=True) if is_vgpu(d) and b.get("vgpu"))
    whole = tuple(c for d in devices if not is_vgpu(d) and (c := pci.claim_of(d)) is not None)
    vgpus, claims = (own if vgpus is None else vgpus), (whole if claims is None else claims)
    if functions is None:
        functions = tuple(_function(d) for d in devices if d.get("_typeName") == SRIOV)
    memory, cpus = facts.get(MEMORY), facts.get(CPUS)
    reserved = memory if facts.get(LOCKED) else facts.get(RESERVED, 0 if memory is not None else None)
    pvrdma = any(d.get("_typeName") == PVRDMA for d in devices)
    named = {
        "a vGPU": vgpus,
        "a passthrough device": claims,
        "an SR-IOV adapter": functions,
        "a PVRDMA adapter": pvrdma,
    }
    return Machine(
        ref=facts.ref,
        name=facts.name,
        cpus=cpus,
        cores_per_socket=cores_of_socket(facts),
        memory_mb=memory,
        reserved_mb=None if reserved is None else int(reserved),
        overhead_mb=overhead_of(facts, memory, cpus),
        reserved_mhz=int(facts.get(MHZ_RESERVED) or 0),
        latency_high=(facts.get(LATENCY) or {}).get("level") == "high",
        threads_per_core=int(facts.get(THREADS_PER_CORE) or 1),
        version=hardware_number(facts.get(VERSION)),
        firmware=str(facts.get(FIRMWARE) or ""),
        window_gb=None if facts.get(SETTINGS) is None else size_of(settings_of(facts)),
        vgpus=vgpus,
        claims=claims,
        functions=functions,
        demands_all_memory=tuple(name for name, there in named.items() if there),
        networks=tuple(dict.fromkeys((*(facts.get(NETWORKS) or ()), *_networks(backings)))),
        datastores=tuple(dict.fromkeys((*(facts.get(STORES) or ()), *_stores(backings)))),
        home=str(next(iter(facts.get(STORES) or ()), "")),
        swap_place=str(facts.get(SWAP_PLACE) or "").replace("inherit", ""),
        pool=str(facts.get(POOL) or ""),
        remote=tuple(_drives(devices)),
        usb=tuple(drives.label(d) for d in devices if drives.is_usb(d)),
        raw_disks=tuple(drives.label(d) for d, b in zip(devices, backings, strict=True) if b.get("_typeName") in RAW),
        affinity=bool((facts.get(AFFINITY) or {}).get("affinitySet")),
        encrypted=_needs_key(facts, devices),
        bandwidth=tuple(_bandwidth(devices)),
    )


def _needs_key(facts: Facts, devices: Iterable[VirtualObject]) -> str:
    """Return what a VM needs a key for; "" where it is not encrypted."""
    if any(d.get("_typeName") == TPM for d in devices):
        return "a virtual TPM"
    return "encrypted files" if (facts.get(KEY) or {}).get("keyId") else ""


def has_fixed(devices: Iterable[VirtualObject]) -> bool:
    """Return whether some of these devices is the one at an address of one host."""
    return any((d.get("backing") or {}).get("_typeName") == pci.FIXED for d in devices)


def overhead_of(facts: Facts, memory: int | None, cpus: int | None) -> Bounds:
    """Return the MB that a host adds to a VM's memory: as vCenter reckons it for a VM that is there, else an estimate.

    `config.memoryAllocation.overheadLimit` and the deprecated `runtime.memoryOverhead` are no such figure.
    """
    known = facts.get(OVERHEAD)
    if known:
        return Bounds(int(known) / _MIB, int(known) / _MIB)
    if memory is None or cpus is None:
        return NOTHING
    least = OVERHEAD_BASE + OVERHEAD_PER_CPU * cpus + OVERHEAD_PER_GB * memory / 1024
    return Bounds(least, OVERHEAD_SPREAD * least)


def _function(device: VirtualObject) -> Demand:
    function = (device.get("sriovBacking") or {}).get("physicalFunctionBacking") or {}
    address = read_pci(str(function.get("id") or "automatic"))
    backing = device.get("backing") or {}
    network = next(iter(_networks([backing])), "") or str(backing.get("network") or "")
    return Demand("", network, "auto" if address.startswith("automatic") else address)


def _networks(backings: Iterable[VirtualObject]) -> Iterable[str]:
    for backing in backings:
        port = backing.get("port")
        if isinstance(port, Mapping) and isinstance(key := port.get("portgroupKey"), str) and key:
            yield f"DistributedVirtualPortgroup:{key}"


def _bandwidth(devices: Iterable[VirtualObject]) -> Iterable[tuple[str, int]]:
    """Yield what adapters reserve under Network I/O Control; SR-IOV adapters pass it by."""
    for device in devices:
        reserved = (device.get("resourceAllocation") or {}).get("reservation")
        if reserved and device.get("_typeName") != SRIOV:
            yield from ((network, int(reserved)) for network in _networks([device.get("backing") or {}]))


def _stores(backings: Iterable[VirtualObject]) -> Iterable[str]:
    return (str(b["datastore"]) for b in backings if isinstance(b.get("datastore"), str) and b["datastore"])


def _drives(devices: Iterable[VirtualObject]) -> Iterable[tuple[str, str]]:
    for device in filter(drives.is_connected, devices):
        if (what := drives.content(device)) is not None:
            yield drives.label(device), what
