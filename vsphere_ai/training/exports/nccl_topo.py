"""Topology files for NCCL, read back as NCCL reads them, and compared with the host of a node.

Source: NCCL, src/graph/xml.cc and xml.h: its parser, which is stricter than XML, and the limits of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from vsphere_ai.model.nodes import Node
from vsphere_ai.training.exports.finding import LineFinding, at_line, by_line
from vsphere_ai.training.nccl_topo import SWITCH, written
from vsphere_ai.training.topology import devices_of

MOST_SUBNODES, MOST_ATTRIBUTES, LONGEST, MOST_COUNTED = 640, 16, 253, 255
"""Limits of NCCL's parser: children, attributes of an element, characters of a name or value, elements that it knows
(NCCL_TOPO_XML_MAX_NODES is 256, and the 256th is refused already)."""
KNOWN = frozenset(("system", "cpu", "pci", "gpu", "nic", "net", "nvlink", "c2c", "pcilink"))
"""Elements that NCCL reads; others it passes over with all that is in them."""
MOST_ELEMENTS, MOST_LEVELS = 10_000, 64
"""Limits of this reader: the file of a host with 16 GPUs and 16 NICs has some 100 elements in 8 levels."""
_BUS_ID = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_CLASS = re.compile(r"0x[0-9a-f]{6}")
_MASK = re.compile(r"[0-9a-f]{1,8}(,[0-9a-f]{8})*")
_TAG = re.compile(
    r"<!--.*?-->|<(/?)([A-Za-z]\w*)((?: +(?:[A-Za-z_]\w*(?:=(?:\"[^\"]*\"|'[^']*'))?)?)*+)(/?)>", re.DOTALL
)
_ATTRIBUTE = re.compile(
    r"(?P<blanks> +)(?:(?P<name>[A-Za-z_]\w*)(?:=(?P<quote>[\"'])(?P<value>.*?)(?P=quote))?)?", re.DOTALL
)
_BELOW = {"": {"system"}, "system": {"cpu"}, "cpu": {"pci", "nic"}, "pci": {"pci", "gpu", "nic", "pcilink"}}


@dataclass
class TopologyElement:
    """An element of a topology file: its name, attributes, children, and line.

    `dropped` are attributes that NCCL does not keep, since each blank takes the place of one; `twice` those that are
    there twice; `has_apostrophes`: a value stands in apostrophes.
    """

    name: str
    attributes: dict[str, str]
    line: int
    children: list[TopologyElement] = field(default_factory=list)
    dropped: tuple[str, ...] = ()
    twice: tuple[str, ...] = ()
    has_apostrophes: bool = False


def read(text: str) -> tuple[TopologyElement | None, list[LineFinding]]:
    """Return the root of a file, and what keeps NCCL from reading it; its parser is stricter than XML."""
    if (begun := text.rfind("<!--")) > text.rfind("-->"):
        return None, [at_line(text.count("\n", 0, begun) + 1, "the comment is not closed")]
    root = TopologyElement("", {}, 0)
    open_, at, line = [root], 0, 1
    for number, match in enumerate(_TAG.finditer(text)):
        if text[at : match.start()].strip(" \r\n"):
            return None, [at_line(line, "NCCL's parser expects an element here")]
        line += text.count("\n", at, match.start())
        if number > 2 * MOST_ELEMENTS or len(open_) > MOST_LEVELS:
            limits = f"{MOST_ELEMENTS} elements, or {MOST_LEVELS} levels"
            return None, [at_line(line, f"a topology file has no more than {limits}")]
        start, at = line, match.end()
        line += text.count("\n", match.start(), at)
        closing, name, attributes, single = match.groups()
        if name is None:
            continue
        if closing and attributes:
            return None, [at_line(start, f"</{name}> has attributes or blanks, which NCCL's parser refuses")]
        if closing:
            if open_[-1].name != name:
                return None, [at_line(start, f"</{name}> closes {open_[-1].name or 'nothing'}")]
            open_.pop()
            continue
        made = _element(name, attributes, start)
        open_[-1].children.append(made)
        open_ += [] if single else [made]
    if text[at:].strip(" \r\n"):
        return None, [at_line(line, "NCCL's parser expects an element here")]
    if len(open_) > 1:
        return None, [at_line(open_[-1].line, f"<{open_[-1].name}> is not closed")]
    if [each.name for each in root.children] != ["system"]:
        return None, [at_line(1, "a topology file is one <system>")]
    return root.children[0], []


def _element(name: str, text: str, line: int) -> TopologyElement:
    """Return an element of the attributes in a tag; each blank before one takes one of their places."""
    attributes: dict[str, str] = {}
    dropped, twice, places, has_apostrophes = [], [], 0, False
    for match in _ATTRIBUTE.finditer(text):
        places += len(match["blanks"])
        if match["name"] is None:
            continue
        has_apostrophes = has_apostrophes or match["quote"] == "'"
        if places > MOST_ATTRIBUTES:
            dropped.append(match["name"])
        elif match["name"] in attributes:
            twice.append(match["name"])
        attributes.setdefault(match["name"], match["value"] or "")  # NCCL reads a name alone as an empty value
    return TopologyElement(
        name, attributes, line, dropped=tuple(dropped), twice=tuple(twice), has_apostrophes=has_apostrophes
    )


def check(text: str) -> list[LineFinding]:
    """Return the problems of a topology file."""
    root, found = read(text)
    return by_line(found) if root is None else by_line(_faults(root))


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
        yield from _places(child, (*above, *here))


def _shown(place: tuple[str, ...]) -> str:
    numa, *switches = place or ("?",)
    return f"on NUMA node {numa}{' below ' if switches else ''}{', '.join(switches)}"


def _faults(root: TopologyElement) -> Iterator[LineFinding]:
    if not root.attributes.get("version", "").startswith("1"):
        yield at_line(root.line, 'NCCL reads version="1" only')
    yield from _counted(root)
    seen: dict[tuple[str, str], int] = {}
    for parent in _every(root):
        for each in parent.children:
            if each.name not in _BELOW.get(parent.name, ()) and parent.name in _BELOW:
                yield at_line(each.line, f"NCCL ignores <{each.name}> in <{parent.name}>", "warn")
        yield from _limits(parent)
        key = {"cpu": "numaid", "pci": "busid"}.get(parent.name)
        if key is None:
            continue
        value = parent.attributes.get(key)
        if value is None:
            yield at_line(parent.line, f"<{parent.name}> has no {key}")
        elif (parent.name, value) in seen:
            yield at_line(parent.line, f"{key} {value} is there twice, first on line {seen[parent.name, value]}")
        else:
            seen[parent.name, value] = parent.line
            yield from _cpu(parent) if parent.name == "cpu" else _pci(parent)


def _counted(root: TopologyElement) -> Iterator[LineFinding]:
    counted = [each for each in _every(root) if each.name in KNOWN]
    if len(counted) > MOST_COUNTED:
        text = f"this is the 256th element of {len(counted)}: NCCL's XML parser is limited to 256 nodes"
        yield at_line(counted[MOST_COUNTED].line, text)


def _limits(each: TopologyElement) -> Iterator[LineFinding]:
    for name in each.twice:
        yield at_line(each.line, f"{name} of <{each.name}> is there twice", "warn")
    if each.has_apostrophes:
        yield at_line(each.line, "values in apostrophes are read by NCCL 2.27.3 and later", "warn")
    if len(each.name) > LONGEST:
        yield at_line(each.line, f"the name of an element is longer than {LONGEST} characters")
    if len(each.children) > MOST_SUBNODES:
        yield at_line(each.line, f"<{each.name}> has more than {MOST_SUBNODES} children, which NCCL refuses")
    if each.dropped:
        names = ", ".join(each.dropped)
        yield at_line(
            each.line, f"<{each.name}> has more than {MOST_ATTRIBUTES} attributes and blanks: NCCL drops {names}"
        )
    for name, value in each.attributes.items():
        if len(value) > LONGEST:
            yield at_line(each.line, f"the value of {name} is longer than {LONGEST} characters")


def _cpu(each: TopologyElement) -> Iterator[LineFinding]:
    if not re.fullmatch(r"-1|\d+", each.attributes["numaid"]):
        yield at_line(each.line, f"'{each.attributes['numaid']}' is no number of a NUMA node")
    mask = each.attributes.get("affinity")
    if mask and not _MASK.fullmatch(mask):  # an empty one is read as no CPU (src/graph/topo.cc, ncclStrToCpuset)
        yield at_line(each.line, f"'{mask}' is no mask of CPUs such as 00000000,0000ffff")


def _pci(each: TopologyElement) -> Iterator[LineFinding]:
    bus, kind = each.attributes["busid"], each.attributes.get("class")
    if not _BUS_ID.fullmatch(bus):
        yield at_line(each.line, f"'{bus}' is no PCI address in lower case such as 0000:03:00.0")
    if kind is None and each.children:
        yield at_line(each.line, f"{bus} has no class, and NCCL finds none for a device that the guest does not have")
    elif kind is not None and not _CLASS.fullmatch(kind):
        yield at_line(each.line, f"'{kind}' is no class such as 0x030200")


def _every(root: TopologyElement) -> Iterator[TopologyElement]:
    """Yield the elements that NCCL reads: what is in one that it does not know, it passes over."""
    yield root
    for child in root.children if root.name in KNOWN else ():
        yield from _every(child)


def _is_switch(each: TopologyElement) -> bool:
    return each.attributes.get("class", "").startswith(f"0x{SWITCH:04x}") or bool(each.children)
