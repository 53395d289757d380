"""Hosts with planted PCI trees, as vCenter shows them, and what NCCL has to be shown of a VM on one."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from xml.etree import ElementTree

from vsphere_ai.model.facts import About, Estate, Facts

GPU, NIC, DISK, BRIDGE = 0x0302, 0x0200, 0x0108, 0x0604
CLASSES = {"gpu": GPU, "nic": NIC, "disk": DISK}


@dataclass
class Switch:
    """A PCIe switch: what is below its downstream ports."""

    below: list[Switch | Part]


@dataclass
class Part:
    """A device in a slot; `guest` is its address in the VM that has it, `vfs` its virtual functions on the host."""

    kind: str
    guest: str = ""
    vfs: int = 0
    address: str = ""


@dataclass
class Farm:
    """A host: what hangs below its root ports, by NUMA node; and the rows that vCenter shows of it."""

    roots: dict[int, list[Switch | Part]]
    rows: list[dict[str, object]] = field(default_factory=list)
    numa: dict[str, int] = field(default_factory=dict)
    parts: list[Part] = field(default_factory=list)


def planted(random: Random) -> Farm:
    """Return a host with one to four NUMA nodes, and one to five root ports on each."""
    nodes = random.choice((1, 2, 2, 2, 4))
    farm = Farm({n: [_slot(random, 0) for _ in range(random.randint(1, 5))] for n in range(nodes)})
    farm.roots[random.randrange(nodes)].append(Part("gpu"))
    guests = random.sample(range(3, 200), 64)
    bus = iter(range(1, 4000))

    def row(address, class_id, parent, name, node):
        ids = {"vendorId": 0x10DE if class_id == GPU else 0x15B3, "deviceId": 0x20F1}
        farm.rows.append({"id": address, "classId": class_id, **ids, "subDeviceId": 1, "deviceName": name,
                          **({"parentBridge": parent} if parent else {})})  # fmt: skip
        farm.numa[address] = node

    def below(port, thing, node):
        at = next(bus)
        here = f"{at >> 8:04x}:{at & 255:02x}"
        if isinstance(thing, Part):
            thing.address = f"{here}:00.0"
            row(thing.address, CLASSES[thing.kind], port, thing.kind, node)
            for number in range(2, 2 + thing.vfs):
                row(f"{here}:{number // 8:02x}.{number % 8}", NIC, port, "a Virtual Function", node)
            farm.parts.append(thing)
            return
        row(f"{here}:00.0", BRIDGE, port, "upstream port", node)
        at = next(bus)
        ports = random.sample(range(32), len(thing.below))
        for slot, each in zip(ports, thing.below, strict=True):
            address = f"{at >> 8:04x}:{at & 255:02x}:{slot:02x}.0"
            row(address, BRIDGE, f"{here}:00.0", "downstream port", node)
            below(address, each, node)

    for node, things in farm.roots.items():
        at = next(bus)
        for slot, thing in enumerate(things):
            address = f"{at >> 8:04x}:{at & 255:02x}:{slot + 1:02x}.0"
            row(address, BRIDGE, "", "root port", node)
            below(address, thing, node)
    for part in farm.parts:
        if part.kind != "disk" and len(guests) > 1 and random.random() < 0.7:
            part.guest = f"0000:{guests.pop():02x}:00.0"
    gpu = next(p for p in farm.parts if p.kind == "gpu")
    gpu.guest = gpu.guest or f"0000:{guests.pop():02x}:00.0"
    random.shuffle(farm.rows)
    return farm


def _slot(random: Random, depth: int) -> Switch | Part:
    if depth < 3 and random.random() < 0.5:
        return Switch([_slot(random, depth + 1) for _ in range(random.randint(2, 5))])
    kind = random.choice(("gpu", "gpu", "nic", "nic", "disk"))
    return Part(kind, vfs=random.choice((0, 0, 4, 30)) if kind == "nic" else 0)


def slot_number(guest: str) -> int:
    """Return the slot number that vCenter shows of a device with this address in the guest."""
    below, function = divmod(int(guest.split(":")[1], 16) - 3, 8)
    return function << 10 | (5 + below) << 5


def estate_of(farm: Farm, random: Random) -> Estate:
    """Return what vCenter shows of the host and of a VM that has the parts with an address in the guest."""
    nodes = tuple({"typeId": n, "pciId": tuple(a for a, at in farm.numa.items() if at == n)} for n in farm.roots)
    mine = [p for p in farm.parts if p.guest]
    devices, graphics, pnics = [], [], []
    for number, part in enumerate(p for p in farm.parts if p.kind == "nic"):
        pnics.append({"device": f"vmnic{number}", "pci": part.address, "linkSpeed": {"speedMb": 100000}})
    vgpu = sum(p.kind == "gpu" for p in mine) == 1 and random.random() < 0.5
    for number, part in enumerate(mine):
        slot = {"slotInfo": {"pciSlotNumber": slot_number(part.guest)}, "key": 13000 + number}
        if part.kind == "gpu" and vgpu:
            backing = {"_typeName": "VirtualPCIPassthroughVmiopBackingInfo", "vgpu": "grid_a100-40c"}
            graphics.append({"pciId": part.address, "vm": ("VirtualMachine:vm-1",)})
        elif part.kind == "nic" and part.vfs:
            mac = f"00:50:56:00:00:{number:02x}"
            backing = {"physicalFunctionBacking": {"id": part.address}}
            devices.append(
                {"_typeName": "VirtualSriovEthernetCard", "macAddress": mac, "sriovBacking": backing, **slot}
            )
            continue
        elif random.random() < 0.5:
            backing = {"_typeName": "VirtualPCIPassthroughDeviceBackingInfo", "id": part.address}
        else:
            backing = {"_typeName": "VirtualPCIPassthroughDynamicBackingInfo", "assignedId": part.address.upper()}
        devices.append({"_typeName": "VirtualPCIPassthrough", "backing": backing, **slot})
    random.shuffle(devices)
    host = {"name": "esx", "hardware.pciDevice": tuple(farm.rows), "config.graphicsInfo": tuple(graphics),
            "hardware.numaInfo": {"numNodes": len(nodes), "numaNode": nodes},
            "config.network.pnic": tuple(pnics)}  # fmt: skip
    vm = {"name": "vm", "runtime.host": "HostSystem:host-1", "config.hardware.device": tuple(devices),
          "config.hardware.numCPU": 32}  # fmt: skip
    objects = {"HostSystem:host-1": host, "VirtualMachine:vm-1": vm}
    about = About("vc", "8.0.2", "1", "8.0.2.0", "x")
    return Estate(about, {ref: Facts(ref, properties) for ref, properties in objects.items()})


def wanted(farm: Farm) -> dict[int, object]:
    """Return the planted tree of the VM: devices by their addresses in the guest, switches as what is below."""

    def shape(thing: Switch | Part) -> object:
        if isinstance(thing, Part):
            return thing.guest or None
        return _bag(shape(each) for each in thing.below) or None

    found = {node: _bag(map(shape, things)) for node, things in farm.roots.items()}
    return {node: things for node, things in found.items() if things}


def shown(text: str) -> dict[int, object]:
    """Return the tree in a file, in the same form."""

    def shape(element: ElementTree.Element) -> object:
        below = list(element)
        return _bag(map(shape, below)) if below else element.attrib["busid"]

    cpus = ElementTree.fromstring(text)
    assert cpus.tag == "system"
    assert cpus.attrib == {"version": "1"}
    return {int(cpu.attrib["numaid"]): _bag(map(shape, cpu)) for cpu in cpus}


def _bag(things: object) -> tuple[object, ...]:
    return tuple(sorted((each for each in things if each), key=repr))
