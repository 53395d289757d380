"""Topology files for NCCL, read back as NCCL reads them, and compared with the host of a node.

Sources: NVIDIA/nccl src/graph/xml.cc (its parser: `nccl_xml`), src/graph/topo.cc (ncclTopoAddCpu, ncclTopoAddPci), and
src/include/cpuset.h (masks of CPUs).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from vsphere_ai.model.nodes import Node
from vsphere_ai.training.exports.finding import LineFinding, at_line, by_line
from vsphere_ai.training.exports.nccl_xml import MOST_ATTRIBUTES, NotRead, TopologyElement, number, parse
from vsphere_ai.training.nccl_topo import SWITCH, written
from vsphere_ai.training.topology import devices_of

_BUS_ID = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
"""Addresses of devices as NCCL writes them itself: it finds a device in the file by the same text."""
_SWITCH_ID = re.compile(r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]")
"""Addresses of switches: only their digits are read (busIdToInt64)."""
_CLASS = re.compile(r"0x[0-9a-f]{2,6}")
_MASK = re.compile(r"(?:0[xX])?[0-9a-fA-F]{1,8}(,+(?:0[xX])?[0-9a-fA-F]{1,8})*,*")
"""Parts of at most 32 CPUs (ncclStrToCpuset)."""


def read(text: str) -> tuple[TopologyElement | None, list[LineFinding]]:
    """Return the first root of a file, and what keeps NCCL from reading it; its parser is stricter than XML."""
    try:
        elements = parse(text).children
    except NotRead as refusal:
        return None, [at_line(refusal.line, str(refusal))]
    roots = [element for element in elements if element.is_read]
    if not roots:
        return None, [at_line(1, "a topology file is one <system>: NCCL uses nothing of this one")]
    others = [*roots[1:], *(element for element in elements if not element.is_read)]
    return roots[0], [
        at_line(element.line, f"NCCL uses the first <system>, and not this <{element.name}>", "warn")
        for element in others
    ]


def check(text: str) -> list[LineFinding]:
    """Return the problems of a topology file."""
    root, findings = read(text)
    return by_line(findings if root is None else [*findings, *_faults(root)])


def differences(text: str, node: Node) -> list[LineFinding]:
    """Return where a file without faults differs from the host of a node: devices, switches, NUMA nodes."""
    theirs, ours = places(text), places(written(node))
    found = []
    for bus in sorted({*theirs, *ours}):
        name = next((d.name for d in devices_of(node) if d.guest_pci == bus), "device")
        line, place = theirs.get(bus, (0, ()))
        if bus not in ours:
            found.append(at_line(line, f"{node.vm} has no device at {bus}"))
        elif bus not in theirs:
            found.append(at_line(0, f"{name} of {node.vm} ({bus}) is missing"))
        elif place != ours[bus][1]:
            found.append(at_line(line, f"{name} of {node.vm} ({bus}) is {_shown(ours[bus][1])}, not {_shown(place)}"))
    return found


def places(text: str) -> dict[str, tuple[int, tuple[str, ...]]]:
    """Return the devices of a file by their addresses: their lines, and what they are below, the NUMA node first."""
    root, _ = read(text)
    return dict(_places(root, ())) if root is not None else {}


def _places(each: TopologyElement, above: tuple[str, ...]) -> Iterator[tuple[str, tuple[int, tuple[str, ...]]]]:
    name = each.attributes.get("busid", "")
    if each.name == "pci" and not _is_switch(each):
        yield name, (each.line, above)
    here = {"cpu": (each.attributes.get("numaid", ""),), "pci": (name,)}.get(each.name, ())
    for child in each.children:
        if child.is_read:
            yield from _places(child, (*above, *here))


def _shown(place: tuple[str, ...]) -> str:
    numa, *switches = place or ("?",)
    return f"on NUMA node {numa}{' below ' if switches else ''}{', '.join(switches)}"


def _faults(root: TopologyElement) -> Iterator[LineFinding]:
    first: dict[tuple[str, str, str], int] = {}
    for host, parent in _every(root, ""):
        yield from _limits(parent)
        key = {"cpu": "numaid", "pci": "busid"}.get(parent.name)
        if key is None:
            continue
        value = parent.attributes.get(key)
        if value is None:
            yield at_line(parent.line, f"<{parent.name}> has no {key}")
        elif (host, key, value) in first:
            yield at_line(parent.line, f"{key} {value} is there twice, first on line {first[host, key, value]}")
        else:
            first[host, key, value] = parent.line
            yield from _cpu(parent) if parent.name == "cpu" else _pci(parent)


def _limits(each: TopologyElement) -> Iterator[LineFinding]:
    for child in each.children:
        if not child.is_read:
            yield at_line(child.line, f"NCCL ignores <{child.name}> in <{each.name}>", "warn")
    for name in each.twice:
        yield at_line(each.line, f"{name} of <{each.name}> is there twice", "warn")
    for name in each.parted:
        yield at_line(each.line, f"a blank stands before '=' behind {name} of <{each.name}>: NCCL loses its value")
    if each.has_apostrophes:
        yield at_line(each.line, "values in apostrophes are read by NCCL 2.27.3 and later", "warn")
    if each.dropped:
        names = ", ".join(each.dropped)
        yield at_line(
            each.line, f"<{each.name}> has more than {MOST_ATTRIBUTES} attributes and blanks: NCCL drops {names}"
        )


def _cpu(each: TopologyElement) -> Iterator[LineFinding]:
    if number(each.attributes["numaid"]) is None:
        yield at_line(each.line, f"'{each.attributes['numaid']}' is no number of a NUMA node")
    mask = each.attributes.get("affinity")
    if mask and not _MASK.fullmatch(mask):  # an empty one is read as no CPU
        yield at_line(each.line, f"'{mask}' is no mask of CPUs such as 00000000,0000ffff")


def _pci(each: TopologyElement) -> Iterator[LineFinding]:
    bus, kind = each.attributes["busid"], each.attributes.get("class")
    is_switch = any(child.name == "pci" for child in each.children)
    if not (_SWITCH_ID if is_switch else _BUS_ID).fullmatch(bus):
        yield at_line(each.line, f"'{bus}' is no PCI address in lower case such as 0000:03:00.0")
    if kind is None and each.children:
        yield at_line(each.line, f"{bus} has no class, and NCCL finds none for a device that the guest does not have")
    elif kind is not None and not _CLASS.fullmatch(kind):
        yield at_line(each.line, f"'{kind}' is no class such as 0x030200: NCCL takes it for a PCIe bridge", "warn")


def _every(element: TopologyElement, host: str) -> Iterator[tuple[str, TopologyElement]]:
    """Yield the elements that NCCL reads, each with the host (`host_hash`, empty for one host) of its CPU."""
    host = element.attributes.get("host_hash", host) if element.name == "cpu" else host
    yield host, element
    for child in element.children:
        if child.is_read:
            yield from _every(child, host)


def _is_switch(each: TopologyElement) -> bool:
    is_bridge = each.attributes.get("class", "").startswith(f"0x{SWITCH:04x}")
    return is_bridge or any(child.name == "pci" for child in each.children)
