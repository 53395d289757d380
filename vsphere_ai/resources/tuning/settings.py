"""Settings that make a VM fast: how they are written, and which belong to other keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from vsphere_ai.fabric import pci
from vsphere_ai.model.facts import Estate
from vsphere_ai.model.state import Target
from vsphere_ai.model.view import View
from vsphere_ai.resources.mixins import vgpus_of
from vsphere_ai.resources.pci_devices import PciDevices

MHZ, THREADS = "summary.hardware.cpuMhz", "summary.hardware.numCpuThreads"


# advanced settings that say what another key of a play says, or what vSphere keeps elsewhere
OWNED: Mapping[str, str] = {
    r"pcipassthru\d*\..*": "vgpu, pci_devices and gpudirect set it",
    r"numa\.nodeaffinity": "write numa_affinity",
    r"sched\.cpu\.latencysensitivity": "write latency_sensitivity",
    r"sched\.cpu\.min|sched\.mem\.(min|pin)": "it is a reservation: write cpu_reservation, or hardware",
    r"numvcpus": "write cpus",
    r"cpuid\.corespersocket": "write cores_per_socket",
    r"memsize": "memory is not set by playbooks",
    r"firmware|virtualhw\.version": "write hardware",
    r"displayname|guestos": "it is a property of the VM",
}


Affinity = Literal["gpu", "off"] | tuple[int, ...]


def as_nodes(value: object) -> object:
    """Return one node, or a list, as nodes."""
    return (
        (value,)
        if isinstance(value, int) and not isinstance(value, bool)
        else tuple(value)
        if isinstance(value, list)
        else value
    )


def as_text(value: object) -> object:
    """Advanced settings are texts; YAML has numbers and booleans of its own."""
    if isinstance(value, bool):
        return str(value).upper()
    return str(value) if isinstance(value, int) else value


def is_same(have: str, wanted: str) -> bool:
    """Return whether two values are the same; vSphere writes booleans in upper or lower case as it likes."""
    return have == wanted or (have.lower() == wanted.lower() and wanted.lower() in ("true", "false"))


def full_mhz(cpus: int, vm: str, estate: Estate) -> int:
    """Return the MHz of that many CPUs on the VM's host; 0 where its clock rate is not known."""
    on = estate.host_of(vm)
    return cpus * int(estate[on.ref].get(MHZ) or 0) if on else 0


def gpu_nodes(target: Target, view: View) -> list[int]:
    """Return the NUMA nodes of the GPUs the VM has or may get when it powers on."""
    on = view.estate.host_of(target.ref)
    if on is None:
        return []
    facts = view.facts(on.ref)
    found, states = pci.devices(facts), pci.passthroughs(facts)
    addresses: list[str] = []
    whole = view.get(PciDevices, target.ref)
    for device in (whole.devices if whole else None) or ():
        addresses += device.there(facts)
    if vgpus_of(target, view):
        addresses += [a for a, d in found.items() if d.is_gpu and not (a in states and states[a].enabled)]
    gpus = [found[a] for a in addresses if a in found and found[a].is_gpu]
    known = {g.numa for g in gpus if g.numa is not None}
    return sorted(known) if all(g.numa is not None for g in gpus) else []
