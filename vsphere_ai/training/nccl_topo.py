"""NCCL topology file (NCCL_TOPO_FILE), written from the topology of a node.

Source: NCCL, src/graph/xml.cc (elements and attributes) and src/graph/topo.cc (classes). Speeds and widths of links are
left to NCCL, which reads those of the guest's devices; vCenter does not show them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vsphere_ai.model.names.written_names import xml_attribute, xml_comment
from vsphere_ai.model.nodes import Node
from vsphere_ai.training.topology import GuestDevice, PciBranch, topology

SWITCH = 0x0604
STAND_IN = 0xF000
"""Domain of the addresses of switches, which the guest does not have: no device of a guest is in it."""
SHOWN = 8
"""Nodes that a file names in its comment."""


def written(node: Node) -> str:
    """Return the file for a node whose topology has no gaps."""
    found = topology(node)
    cpus = dict(found.cpus)
    lines = ['<system version="1">']
    for number, branch in found.branches:
        affinity = f' affinity="{_mask(cpus[number])}"' if number in cpus else ""
        lines += [f'  <cpu numaid="{number}"{affinity}>', *_lines(branch, "    "), "  </cpu>"]
    return "".join(f"{line}\n" for line in (*lines, "</system>"))


def file_for(nodes: Sequence[Node], text: str) -> str:
    """Return a file that is the same for several nodes, with a comment that names them."""
    shown = ", ".join(f"{node.vm} on {node.host}" for node in nodes[:SHOWN])
    more = f" and {len(nodes) - SHOWN} more" if len(nodes) > SHOWN else ""
    return (
        f"<!-- {xml_comment(shown)}{more}\n"
        "     GPUs and NICs where the PCI and NUMA tree of the host has them, under the addresses of the guest.\n"
        f"     Addresses from {STAND_IN:04x} on stand for PCIe switches of the host. -->\n{text}"
    )


def stand_in(switch: str) -> str:
    """Return the address that stands for a switch of the host in the file."""
    domain, _, rest = switch.partition(":")
    return f"{STAND_IN | int(domain, 16) & 0xFFF:04x}:{rest}"


def _lines(branch: PciBranch, indent: str) -> Iterator[str]:
    for switch, below in branch.switches:
        yield f'{indent}<pci busid="{stand_in(switch)}" class="0x{SWITCH:04x}00">'
        yield from _lines(below, f"{indent}  ")
        yield f"{indent}</pci>"
    for device in branch.devices:
        yield f"{indent}<!-- {xml_comment(_words(device))} -->"
        bus = xml_attribute(f"PCI address of {device.name} in the guest", device.guest_pci)
        yield f'{indent}<pci busid="{bus}" class="0x{device.site.class_id:04x}00"/>'


def _words(device: GuestDevice) -> str:
    return f"{device.name}: {device.site.address} on the host"


def _mask(cpus: int) -> str:
    """Return the mask of the first CPUs of a guest, as Linux writes `cpumap`."""
    digits = f"{(1 << cpus) - 1:x}"
    digits = digits.zfill(-(-len(digits) // 8) * 8)
    return ",".join(digits[at : at + 8] for at in range(0, len(digits), 8))
