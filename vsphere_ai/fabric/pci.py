"""PCI devices of a host as vCenter shows them: models, bridges, NUMA nodes, passthrough, distance of two devices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from vsphere_ai.fabric.api_types import ApiPciDevice, DeviceBacking, VirtualDevice
from vsphere_ai.fabric.matching import assigned
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.names.pci_address import read_pci

DEVICES, NUMA, PASSTHRU = "hardware.pciDevice", "hardware.numaInfo", "config.pciPassthruInfo"
PATHS = (DEVICES, NUMA, PASSTHRU)
NVIDIA = 0x10DE
DISPLAY, NETWORK = 0x0300, 0x0200  # PCI class codes; the low byte is the subclass
FIXED, DYNAMIC = "VirtualPCIPassthroughDeviceBackingInfo", "VirtualPCIPassthroughDynamicBackingInfo"
_VIRTUAL = "virtual function"  # how pci.ids names the virtual functions of every NIC


@dataclass(frozen=True)
class PciFunction:
    """One PCI function. Ids are unsigned; `parent` is the bridge above it, empty right below the host bridge.

    `numa` is None where the host does not say which node it is attached to.
    """

    address: str
    vendor: int
    device: int
    class_id: int
    name: str
    parent: str = ""
    numa: int | None = None
    virtual: bool = False

    @property
    def is_gpu(self) -> bool:
        """A GPU of NVIDIA; not a virtual function of one."""
        return self.vendor == NVIDIA and self.class_id & 0xFF00 == DISPLAY and not self.virtual

    @property
    def is_nic(self) -> bool:
        """An Ethernet or InfiniBand controller, or a virtual function of one."""
        return self.class_id & 0xFF00 == NETWORK


@dataclass(frozen=True)
class Claim:
    """A whole device a VM takes of its host: the one at an address, else any one of these models with that label."""

    address: str = ""
    models: frozenset[tuple[int, int]] = frozenset()
    label: str = ""


@dataclass(frozen=True)
class PassthroughState:
    """Whether a device can be, is configured to be, and is passed through; `label` is its hardware label."""

    capable: bool
    enabled: bool
    active: bool
    together: str = ""
    """The device that is reset with it: functions with the same one move together."""
    functions: int | None = 0
    """SR-IOV virtual functions that are configured on it; None: SR-IOV is on, and the host does not say how many."""
    label: str = ""


def devices(facts: Facts) -> dict[str, PciFunction]:
    """Return every PCI device of a host by address, bridges included."""
    nodes = _nodes(facts)
    found = {read_pci(str(d["id"])): _device(d, nodes) for d in facts.get(DEVICES) or ()}
    return dict(sorted(found.items()))


def counted_functions(info: Mapping[str, object], number: str, switch: str) -> int | None:
    """Return how many virtual functions a device has: 0 where SR-IOV is off, None where it is on without a number."""
    if not info.get(switch):
        return 0
    count = info.get(number)
    return count if isinstance(count, int) else None


def passthroughs(facts: Facts) -> dict[str, PassthroughState]:
    """Return what the host says of passing each device through, by address."""
    return {
        read_pci(str(p["id"])): PassthroughState(
            capable=bool(p.get("passthruCapable")),
            enabled=bool(p.get("passthruEnabled")),
            active=bool(p.get("passthruActive")),
            together=str(p.get("dependentDevice") or ""),
            functions=counted_functions(p, "numVirtualFunctionRequested", "sriovEnabled"),
            label=str(p.get("hardwareLabel") or ""),
        )
        for p in facts.get(PASSTHRU) or ()
    }


def bridges_above(address: str, found: Mapping[str, PciFunction]) -> tuple[str, ...]:
    """Return the bridges above a device, the one below the host bridge first."""
    above: list[str] = []
    at = found.get(address)
    while at is not None and at.parent and at.parent not in above:
        above.append(at.parent)
        at = found.get(at.parent)
    return tuple(reversed(above))


def switches_above(address: str, found: Mapping[str, PciFunction]) -> tuple[str, ...]:
    """Return the PCIe switches above a device by their upstream ports, the one nearest to the CPU first.

    Below the upstream port of a switch lie several slots, its downstream ports; below a root port or a downstream port
    lies one. NCCL counts the same bridges when it reads the tree of a Linux host (src/graph/xml.cc).
    """
    return tuple(bridge for bridge in bridges_above(address, found) if len(_slots_below(bridge, found)) > 1)


def _slots_below(bridge: str, found: Mapping[str, PciFunction]) -> set[str]:
    # a NIC with many virtual functions has several slots of one bus, and is one device
    return {a.rpartition(".")[0] for a, d in found.items() if d.parent == bridge and not d.virtual}


def root_bus(address: str, found: Mapping[str, PciFunction]) -> str:
    """Return the bus below the host bridge a device hangs on, e.g. ``0000:3a``: its root complex."""
    return (*bridges_above(address, found), address)[0].rpartition(":")[0]


def nearness(one: str, other: str, found: Mapping[str, PciFunction]) -> str:
    """Say how a transfer between two devices travels, nearest first: ``switch``, ``root``, ``node``; "" when farther.

    ``root``: below the same host bridge; ``node``: another host bridge of the same CPU.
    """
    if set(bridges_above(one, found)) & set(bridges_above(other, found)):
        return "switch"
    if root_bus(one, found) == root_bus(other, found):
        return "root"
    nodes = {found[a].numa for a in (one, other) if a in found}
    return "node" if len(nodes) == 1 and None not in nodes else ""


def tree(host: str, chosen: Iterable[str], found: Mapping[str, PciFunction]) -> tuple[str, ...]:
    """Draw where devices sit, one line each: the host, its roots with their NUMA node, bridges, the devices."""
    wanted = [a for a in dict.fromkeys(chosen) if a in found]
    roots = dict.fromkeys(sorted(root_bus(a, found) for a in wanted))
    lines = [host]
    for index, root in enumerate(roots):
        below = [a for a in wanted if root_bus(a, found) == root]
        nodes = sorted({n for a in below if (n := found[a].numa) is not None})
        where = f"NUMA node {', '.join(map(str, nodes))}" if nodes else "NUMA node unknown"
        last = index == len(roots) - 1
        lines.append(f"{'└' if last else '├'}─ PCI root {root} ({where})")
        paths = [(*bridges_above(a, found), a) for a in sorted(below)]
        lines += [f"{'   ' if last else '│  '}{line}" for line in _branches(paths, 0, found)]
    return tuple(lines)


def matching(facts: Facts, vendor: int, device: int, label: str = "") -> tuple[str, ...]:
    """Return the devices of a host that a VM may get by vendor, device and hardware label: passthrough is on."""
    states = passthroughs(facts)
    return tuple(
        a
        for a, d in devices(facts).items()
        if (d.vendor, d.device) == (vendor, device) and a in states and states[a].enabled and states[a].label == label
    )


def claim_of(device: VirtualDevice) -> Claim | None:
    """Return what a VM's device, or the template of one, takes of the host; None when it is no whole device.

    A dynamic device of a running VM is the one the host has assigned to it.
    """
    backing: DeviceBacking = device.get("backing") or {}
    if backing.get("_typeName") == FIXED:
        return Claim(read_pci(str(backing.get("id"))))
    if backing.get("_typeName") != DYNAMIC:
        return None
    allowed = frozenset((a["vendorId"] & 0xFFFF, a["deviceId"] & 0xFFFF) for a in backing.get("allowedDevice", ()))
    return Claim(read_pci(str(backing.get("assignedId") or "")), allowed, backing.get("customLabel") or "")


def choices(facts: Facts, claims: Iterable[Claim]) -> tuple[tuple[str, ...], ...]:
    """Return per claim the devices of a host that would do; what is not passed through does not."""
    found = devices(facts)
    passed = {a: p.label for a, p in passthroughs(facts).items() if p.enabled}
    by_model: dict[tuple[int, int, str], list[str]] = {}
    for address, label in passed.items():
        if (d := found.get(address)) is not None:
            by_model.setdefault((d.vendor, d.device, label), []).append(address)
    return tuple(
        tuple(a for a in [c.address] if a in passed)
        if c.address
        else tuple(a for m in sorted(c.models) for a in by_model.get((*m, c.label), ()))
        for c in claims
    )


def has_room(facts: Facts, mine: Iterable[Claim], others: Iterable[Claim]) -> bool:
    """Return whether a host has a device for each claim besides those of others, in any assignment."""
    # other VMs come first; one that finds no device is skipped, because it is not this VM's problem
    theirs, own = list(choices(facts, others)), list(choices(facts, mine))
    found = assigned([*theirs, *own])
    return all(number in found for number in range(len(theirs), len(theirs) + len(own)))


def signed(value: int) -> int:
    """Return a 16-bit id as the API carries it in a short."""
    return value - 0x10000 if value > 0x7FFF else value


def _branches(paths: list[tuple[str, ...]], depth: int, found: Mapping[str, PciFunction]) -> Iterator[str]:
    heads = dict.fromkeys(w[depth] for w in paths if len(w) > depth)
    for index, head in enumerate(heads):
        last = index == len(heads) - 1
        yield f"{'└' if last else '├'}─ {head} {found[head].name if head in found else 'PCI bridge'}"
        below = [w for w in paths if len(w) > depth + 1 and w[depth] == head]
        yield from (f"{'   ' if last else '│  '}{line}" for line in _branches(below, depth + 1, found))


def _device(device: ApiPciDevice, nodes: Mapping[str, int]) -> PciFunction:
    vendor, class_id = device["vendorId"] & 0xFFFF, device["classId"] & 0xFFFF
    name = str(device.get("deviceName") or "")
    address = read_pci(str(device["id"]))
    # NVIDIA's virtual functions carry the name of the GPU, but no sub device id
    nvidia = vendor == NVIDIA and class_id & 0xFF00 == DISPLAY and not device.get("subDeviceId")
    return PciFunction(
        address=address,
        vendor=vendor,
        device=device["deviceId"] & 0xFFFF,
        class_id=class_id,
        name=name or str(device.get("vendorName") or "device"),
        parent=read_pci(str(device.get("parentBridge") or "")),
        numa=nodes.get(address),
        virtual=nvidia or _VIRTUAL in name.lower(),
    )


def _nodes(facts: Facts) -> dict[str, int]:
    found: dict[str, int] = {}
    for node in (facts.get(NUMA) or {}).get("numaNode", ()):
        found.update({read_pci(str(pci)): int(node["typeId"]) for pci in node.get("pciId", ())})
    return found
