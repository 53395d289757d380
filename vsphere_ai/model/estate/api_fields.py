"""Fields of the vSphere API that came after 7.0.2.0, the oldest supported, and which of them a connection cannot see.

A client library sees only the fields it has tables for, and leaves out the others without an error. So a vCenter newer
than the installed pyVmomi has to be distinguished from one that lacks a field. Versions: pyVmomi's own type tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from vsphere_ai.model.facts import About

UPDATE = "pip install --upgrade pyvmomi"


@dataclass(frozen=True)
class ApiField:
    """A field or method of the API by its WSDL names, the API version it came with, and what it is used for."""

    type: str
    name: str
    since: tuple[int, ...]
    purpose: str

    def __str__(self) -> str:
        return f"{self.type}.{self.name} ({self.purpose}, since API {'.'.join(map(str, self.since))})"


FIELDS = (
    ApiField("HostGraphicsManager", "RetrieveVgpuProfileInfo", (7, 0, 3, 0), "how long moving a vGPU stuns its VM"),
    ApiField("VirtualMachineVgpuProfileInfo", "stunTimeEstimates", (8, 0, 2, 0), "how long moving a vGPU stuns its VM"),
    ApiField("HostAssignableHardwareManager", "RetrieveVendorDeviceGroupInfo", (8, 0, 0, 1), "device groups"),
    ApiField("VirtualMachineConfigSpec", "deviceGroups", (8, 0, 0, 1), "device groups"),
    ApiField("VirtualDevice", "deviceGroupInfo", (8, 0, 0, 1), "device groups"),
    ApiField("PhysicalNic", "driverVersion", (8, 0, 0, 1), "driver versions of NICs"),
    ApiField("PhysicalNic", "firmwareVersion", (8, 0, 0, 1), "firmware versions of NICs"),
    ApiField("HostGraphicsConfigDeviceType", "vgpuMode", (8, 0, 3, 0), "vGPU modes"),
    ApiField("HostGraphicsInfo", "vgpuMode", (8, 0, 3, 0), "vGPU modes"),
)


def unseen(about: About) -> Iterator[ApiField]:
    """Yield what the vCenter has and the installed pyVmomi cannot see."""
    return (f for f in FIELDS if about.api_numbers < f.since <= about.offered_numbers)


def why_missing(about: About, since: tuple[int, ...]) -> tuple[str, str]:
    """Say in words why something of an API version is not there, and what would help; the help is empty for "update".

    The vCenter is older, or pyVmomi is.
    """
    if about.api_numbers < since <= about.offered_numbers:
        words = f"vCenter offers API {about.offered_api}, the installed pyVmomi knows the API up to {about.api}"
        return words, f"update pyVmomi ({UPDATE})"
    return f"vCenter has API {about.api}", ""
