"""Values that a field of a scenario can have, beyond its type."""

from __future__ import annotations

import math
import re

from vsphere_ai.lab.hardware.pci_names import slot_of

# XML 1.0, section 2.2: what no document of the vSphere API can hold
NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

_VERSION = (re.compile(r"\d+\.\d+\.\d+"), "a version, such as 7.0.2")
_NUMBER = (re.compile(r"\d+"), "a build number")
_NAMED = (re.compile(r"(?s).+"), "a name")
SHAPES: dict[tuple[str, str], tuple[re.Pattern[str], str]] = {
    ("Gpu", "device_id"): (re.compile(r"(0[xX])?[0-9a-fA-F]{1,4}|"), "four hexadecimal digits"),
    ("Host", "version"): _VERSION,
    ("VCenter", "version"): _VERSION,
    ("VCenter", "api"): (re.compile(r"(\d+\.\d+\.\d+\.\d+)?"), "an API version, such as 7.0.2.0"),
    ("Host", "nvidia_driver"): (re.compile(r"(\d+(\.\d+)+)?"), "a driver version, such as 470.256.02"),
    ("Vm", "guest_driver"): (re.compile(r"(\d+(\.\d+)+|none)?"), "a driver version, such as 535.54.03, or none"),
    ("Host", "build"): _NUMBER,
    ("VCenter", "build"): _NUMBER,
    ("Host", "name"): (re.compile(r"[A-Za-z0-9_.-]+(\[[0-9]{1,9}:[0-9]{1,9}\])?[A-Za-z0-9_.-]*"), "a host name"),
    ("Vm", "name"): _NAMED,
    ("Cluster", "name"): _NAMED,
    ("Switch", "name"): _NAMED,
    ("PortGroup", "name"): _NAMED,
    ("Nic", "name"): _NAMED,
    ("Vmkernel", "name"): _NAMED,
    ("Image", "tools"): _VERSION,
    ("Image", "cloud_init"): (re.compile(r"\d+(\.\d+)+|none"), "a version, such as 23.4.4, or none"),
    ("Rule", "name"): _NAMED,
    ("Datastore", "name"): (re.compile(r"[^\[\]]+"), "a name without brackets"),
    ("DatastoreCluster", "name"): _NAMED,
    ("Scenario", "datastore"): (re.compile(r"[^\[\]]+"), "a name without brackets"),
    ("Vm", "iso"): (re.compile(r"(\[[^\]]+\] .+|client|host)?"), 'a file such as "[isos] linux.iso", client or host'),
    ("Pool", "path"): (re.compile(r"/?[^/]+(/[^/]+)*/?"), "a path of names, such as research/llm"),
    ("DeviceGroup", "name"): _NAMED,
    ("DeviceGroup", "device"): (re.compile(r"([0-9a-f]{4}:[0-9a-f]{4})?"), "vendor and device id, such as 10de:2321"),
}
RANGES: dict[tuple[str, str], tuple[float, float]] = {
    ("Host", "cpu_cores"): (1, 1024),
    ("Host", "threads"): (0, 2048),
    ("Host", "cpu_mhz"): (1, 10000),
    ("Host", "memory_gb"): (1, 65536),
    ("Host", "system_memory_mb"): (-1, 1 << 26),
    ("Host", "system_cpu_mhz"): (-1, 10**7),
    ("Ha", "failover_level"): (1, 31),
    ("Ha", "cpu_percent"): (-1, 100),
    ("Ha", "memory_percent"): (-1, 100),
    ("Ha", "slot_cpu_mhz"): (0, 10**6),
    ("Ha", "slot_memory_mb"): (0, 1 << 26),
    ("Pool", "memory_limit_mb"): (-1, 1 << 40),
    ("Pool", "memory_reservation_mb"): (0, 1 << 40),
    ("Pool", "cpu_limit_mhz"): (-1, 1 << 30),
    ("Pool", "cpu_reservation_mhz"): (0, 1 << 30),
    ("Host", "boot_seconds"): (-1, 86400),
    ("Host", "clock_ahead"): (-86400, 86400),
    ("DeviceGroup", "count"): (1, 16),
    ("Datastore", "capacity_gb"): (1, 65536),
    ("Datastore", "free_gb"): (-1, 65536),
    ("Guests", "processes"): (8, 32768),
    ("Guests", "memory_mb"): (64, 1 << 20),
    ("Guests", "minutes"): (0.01, 10080),
    ("Vm", "hardware"): (4, 22),
    ("Vm", "cpus"): (1, 768),
    ("Vm", "cores_per_socket"): (1, 768),
    ("Vm", "simultaneous_threads"): (1, 2),
    ("Vm", "cpu_reservation_mhz"): (0, 10**7),
    ("Vm", "cpu_affinity"): (0, 2047),
    ("Vm", "memory_reservation_mb"): (0, 1 << 26),
    ("Vm", "overhead_mb"): (-1, 1 << 20),
    ("Vm", "memory_gb"): (1, 24576),
    ("Vm", "disk_gb"): (1, 63488),
    ("Vm", "more_disks_gb"): (1, 63488),
    ("Vm", "disk_used_gb"): (0, 63488),
    ("PortGroup", "vlan"): (0, 4094),
    ("Switch", "mtu"): (1280, 9000),
    ("Switch", "uplinks"): (1, 32),
    ("Vmkernel", "mtu"): (0, 9000),
}


LARGEST = 10**12


def fault_in_text(text: str, where: tuple[str, str]) -> str:
    """Return what is wrong with a text in the field `where`, a class and a field name; empty when nothing is."""
    if NOT_XML.search(text):
        return f"{where[1]} holds a character that the vSphere API cannot carry"
    if where[1] == "pci":
        return "" if slot_of(text) else f'pci must be a PCI address, such as "0000:3b:00.0", not {text!r}'
    shape = SHAPES.get(where)
    return f"{where[1]} must be {shape[1]}, not {text!r}" if shape and not shape[0].fullmatch(text) else ""


def fault_in_number(number: float, where: tuple[str, str]) -> str:
    """Return what is wrong with a number in the field `where`; empty when nothing is."""
    low, high = RANGES.get(where, (0, math.inf))
    if low <= number <= min(high, LARGEST) and math.isfinite(number):
        return ""
    allowed = f"{low:g} to {high:g}" if high < math.inf else f"{low:g} or more"
    return f"{where[1]} must be {allowed}, not {number}"
