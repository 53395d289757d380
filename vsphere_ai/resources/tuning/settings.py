"""Settings that make a VM fast: how they are written, and which belong to other keys."""

from __future__ import annotations

import re
from typing import Literal

from vsphere_ai.fabric import pci
from vsphere_ai.model.facts import Estate
from vsphere_ai.model.state import Target
from vsphere_ai.model.view import View
from vsphere_ai.resources._possible_devices import possible_devices

CPUS, CORES = "config.hardware.numCPU", "config.hardware.numCoresPerSocket"
MHZ = "summary.hardware.cpuMhz"
Affinity = Literal["gpu", "off"] | tuple[int, ...]


def as_nodes(value: object) -> object:
    """Return one node, or a list, as nodes."""
    if isinstance(value, int) and not isinstance(value, bool):
        return (value,)
    return tuple(value) if isinstance(value, list) else value


def nodes_in(text: str) -> tuple[int, ...] | str:
    """Return the NUMA nodes of the advanced setting, or ``off`` without one; the text where it is no list of nodes."""
    listed = re.fullmatch(r"\d+(,\d+)*", text.replace(" ", ""))
    return tuple(sorted({int(n) for n in text.split(",")})) if listed else text or "off"


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
    facts, found = view.facts(on.ref), pci.devices(view.facts(on.ref))
    addresses = {a for each in possible_devices(target, view, facts) for a in each}
    gpus = [device for address, device in found.items() if address in addresses and device.is_gpu]
    nodes = {g.numa for g in gpus}
    return [] if None in nodes else sorted(n for n in nodes if n is not None)
