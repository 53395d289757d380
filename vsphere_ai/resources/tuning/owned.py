"""Owners of advanced settings: those that kinds write, and properties of a VM, which a play cannot set by name.

What kinds write is what they declare (`Traits.vm_settings`). vSphere keeps the properties of a VM in its .vmx file as
well, where an advanced setting of that name would contradict them. vSphere takes names in any case of letters.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase

from vsphere_ai.resources import kinds

# Sources: VMware KB 1714 (parameters of .vmx files), vSphere Resource Management 7.0 (sched.*, numa.*), and .vmx files
# of vSphere 7; that vSphere keeps each in this name only is unverified.
OF_SPEC: Mapping[str, tuple[str, str]] = {
    "name": (r"displayname", "it is the name of the VM"),
    "annotation": (r"annotation", "it is the notes of the VM: write notes of vm_set"),
    "guestId": (r"guestos", "write guest_id of vm_set"),
    "instanceUuid": (r"vc\.uuid", "it is the identity of the VM"),
    "uuid": (r"uuid\.(bios|location)", "it is the identity of the VM"),
    "files": (r"(nvram|workingdir|extendedconfigfile|vmx\.log\.filename)", "it is a file of the VM"),
    "numCPUs": (r"numvcpus", "write cpus"),
    "numCoresPerSocket": (r"cpuid\.corespersocket", "write cores_per_socket"),
    "memoryMB": (r"memsize", "write memory_gb of vm_set: memory of other VMs is not set by playbooks"),
    "cpuAllocation": (
        r"sched\.cpu\.(min|max|shares|units)",
        "it is a reservation, a limit or shares: write cpu_reservation, or hardware",
    ),
    "memoryAllocation": (
        r"sched\.mem\.(min|minsize|max|shares)",
        "it is a reservation, a limit or shares: write hardware: {memory_reservation: …}",
    ),
    "memoryReservationLockedToMax": (r"sched\.mem\.pin", "write hardware: {memory_reservation: full}"),
    "latencySensitivity": (r"sched\.cpu\.latencysensitivity", "write latency_sensitivity"),
    "cpuAffinity": (r"sched\.cpu\.affinity", "it is the CPU affinity of the VM, which playbooks do not set"),
    "memoryAffinity": (r"sched\.mem\.affinity", "write numa_affinity"),
    "version": (r"virtualhw\.version", "write hardware: {version: …}"),
    "firmware": (r"firmware", "write hardware: {firmware: …}"),
    "bootOptions": (r"uefi\.secureboot\.enabled|(bios|efi)\.(bootdelay|bootorder)", "it is a boot option of the VM"),
    "cpuHotAddEnabled": (r"vcpu\.hot(add|remove)", "it is a property of the VM, which playbooks do not set"),
    "memoryHotAddEnabled": (r"mem\.hotadd", "it is a property of the VM, which playbooks do not set"),
    "nestedHVEnabled": (r"vhv\.enable", "it is a property of the VM, which playbooks do not set"),
    "deviceGroups": (r"devicegroups?(\d+)?\..*", "write device_groups"),
    "deviceChange": (
        r"ethernet\d+\.(present|virtualdev|networkname|dvs\..*|opaquenetwork\..*|addresstype|address|generatedaddress"
        r"|generatedaddressoffset|connectiontype|startconnected|pcislotnumber|checkmacaddress)"
        r"|(scsi|sata|ide|nvme)\d+(:\d+)?\.(present|filename|devicetype|virtualdev|mode|sharedbus|pcislotnumber)",
        "it is a device of the VM: write adapters, or disks of vm_set",
    ),
}
"""Field of a ConfigSpec -> the settings of a .vmx file that say the same, in small letters, and what to write."""


def owner_of(key: str) -> str:
    """Return what to write instead of an advanced setting that a kind or a property of the VM owns; else empty."""
    name = key.strip().lower()
    declared = ((own, words) for kind in kinds().values() for own, words in kind.traits.vm_settings.items())
    words = next((words for own, words in declared if fnmatchcase(name, own.lower())), "")
    return words or next((words for own, words in OF_SPEC.values() if re.fullmatch(own, name)), "")
