"""Trace of a VM's PVRDMA adapters, link by link to the physical NIC, with the fix of each broken link.

Source: vSphere Networking 7.0, "PVRDMA Support".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from vsphere_ai.fabric import dvs, networks
from vsphere_ai.fabric import route as fabric_route
from vsphere_ai.fabric.api_types import VirtualDevice
from vsphere_ai.fabric.corrections import MachineNeeds, NewRdmaAdapter, RdmaAdapterSettings
from vsphere_ai.fabric.host import host_links, mtu_link
from vsphere_ai.fabric.links import PATH_PART, VM_PART, Link, LinkPlace, why
from vsphere_ai.fabric.path import HOST, is_seen, path_links
from vsphere_ai.model.estate.host_version import hardware_limits, hardware_number
from vsphere_ai.model.estate.remedies import version_for
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.finding import Verdict, worst
from vsphere_ai.model.state import Target

DEVICE = "VirtualVmxnet3Vrdma"
CARD = LinkPlace("VM adapter", VM_PART, fabric_route.PATH_RULE)
HARDWARE = LinkPlace("virtual hardware", VM_PART, "vm.hardware-version")
ENDPOINTS_LACK = LinkPlace("virtual hardware", VM_PART, "vm.pvrdma-endpoints")
MEMORY = LinkPlace("guest memory", VM_PART, "vm.memory-reservation")
MINIMUM_VERSION, NAMESPACES, ENDPOINTS = 13, 17, 18  # hardware versions


@dataclass(frozen=True)
class Trace:
    """One adapter of a VM, followed on the host the VM is on. `switch` is the switch's uuid, `rdma_mtu` in bytes.

    `paths` are the hosts that were followed, each with the reference of the port group. They are more than one where an
    adapter is to be made or changed: it has to work on every host the VM can run on.
    """

    vm: Target
    host: Target | None
    adapter: str
    port_group: str
    links: tuple[Link, ...]
    switch: str = ""
    protocol: str = ""
    rdma_mtu: int | None = None
    version: int | None = None
    paths: tuple[tuple[Target, str], ...] = ()

    def having(self, verdict: Verdict) -> tuple[Link, ...]:
        """Return the links with a verdict."""
        return tuple(h for h in self.links if h.verdict == verdict)

    @property
    def verdict(self) -> Verdict:
        """The worst of its links: a path that fails is broken, one that is no worse than a warning is healthy."""
        return worst(link.finding for link in self.links)


def trace(estate: Estate, vm: Target, hosts: Sequence[Target] | None = None) -> tuple[Trace, ...]:
    """Follow every PVRDMA adapter of a VM; a VM without one has a trace that says so.

    `hosts` are those the VM can run on, where something else ties it to fewer than its whole cluster.
    """
    around = tuple(estate.hosts_for(vm.ref) if hosts is None else hosts)
    facts, host = estate[vm.ref], estate.host_of(vm.ref)
    version = hardware_number(facts.get("config.version"))
    devices = facts.get("config.hardware.device")
    if devices is None:
        link = CARD.link("unknown", f"its devices cannot be read: {why(facts, 'config.hardware.device')}")
        return (Trace(vm, host, "", "", (link,), version=version),)
    found = _rdma_cards(facts)
    if not found:
        links, group = _no_adapter(estate, vm, around)
        return (Trace(vm, host, "", "", links, version=version, paths=_paths(estate, vm, group, links, around)),)
    return tuple(_trace(estate, vm, device, around) for device in found)


def key_of(device: VirtualDevice) -> str:
    """Return the key of the distributed port group an adapter is on; empty when it is on none."""
    port = (device.get("backing") or {}).get("port") or {}
    return str(port.get("portgroupKey", ""))


def _trace(estate: Estate, vm: Target, device: VirtualDevice, around: Sequence[Target]) -> Trace:
    facts, host = estate[vm.ref], estate.host_of(vm.ref)
    protocol, key = device.get("deviceProtocol") or None, key_of(device)
    group = estate.get(f"{dvs.PORT_GROUP}:{key}")
    single = sum(key_of(d) == key for d in _rdma_cards(facts)) == 1
    name = networks.label(estate, group) if group else key
    card = RdmaAdapterSettings(vm, name) if group and single else None
    links = [_adapter(facts, device, card), *_of_vm(estate, vm, around)]
    route = None
    if host is None:
        links.append(HOST.link("unknown", "the VM has no host, or it may not be read"))
    else:
        path, route = path_links(estate, host, group, protocol)
        links += [_with_protocol(h, route, card) for h in path]
        links += host_links(estate, host, group)
        links.append(mtu_link(estate, host, route))
        if group and any(_changes_protocol(h) for h in links):
            links += _elsewhere(estate, vm, group, around)
    info = (route.device.get("connectionInfo") or {}) if route and route.device else {}
    switch = route.switch.get("uuid", "") if route and route.switch else ""
    mtu, version = info.get("mtu"), hardware_number(facts.get("config.version"))
    paths = _paths(estate, vm, group, links, around)
    return Trace(vm, host, _label(device), name, tuple(links), str(switch), protocol or "", mtu, version, paths)


def _changes_protocol(link: Link) -> bool:
    return link.name == fabric_route.PROTOCOL_LINK and isinstance(link.fix, RdmaAdapterSettings)


def _with_protocol(link: Link, route: fabric_route.FabricRoute | None, card: RdmaAdapterSettings | None) -> Link:
    """Let the adapter speak what the device does, where that is what is broken."""
    able = fabric_route.protocols(route.device) if route and route.device else ()
    if link.name != fabric_route.PROTOCOL_LINK or link.verdict != "fail" or card is None or not able:
        return link
    return link.with_fix(replace(card, protocol=able[-1]))


# -- the VM


def _no_adapter(estate: Estate, vm: Target, around: Sequence[Target]) -> tuple[tuple[Link, ...], Facts | None]:
    """Suggest an adapter, with all that blocks it on the hosts the VM can run on; and its port group."""
    seen = "the VM has no PVRDMA adapter"
    host = estate.host_of(vm.ref)
    group = _best_group(estate, host, around) if host else None
    if host is None or group is None:
        help = "no port group carries RDMA on its host; trace a VM that has an adapter"
        return (CARD.link("fail", seen, help),), None
    # the adapter reserves the memory itself
    own = [h for h in _of_vm(estate, vm, around) if h.name != MEMORY.name and h.verdict == "fail"]
    here = _of_host(estate, host, group)
    elsewhere = _elsewhere(estate, vm, group, around)
    name = networks.label(estate, group)
    hopeless = [h for h in _faults((*here, *elsewhere)) if h.part == PATH_PART and not h.fix]
    if hopeless:
        help = f"{name} has to carry RDMA on every host the VM can run on: {hopeless[0].name}: {hopeless[0].seen}"
        return (CARD.link("fail", seen, help), *own, *here, *elsewhere), group
    return (CARD.link("fail", seen, fix=NewRdmaAdapter(vm, name)), *own, *here, *elsewhere), group


def _best_group(estate: Estate, host: Target, around: Sequence[Target]) -> Facts | None:
    """Return the port group with the fewest broken links: first on the VM's own host, then on the others it can run on.

    One that is broken on its own host counts only where a playbook can fix it.
    """
    found: list[tuple[tuple[bool, int, str], Facts]] = []
    for group in estate.of_type(dvs.PORT_GROUP):
        if dvs.is_uplink(estate, group):
            continue
        own = _faults(path_links(estate, host, group)[0])
        if all(link.fix for link in own):
            rest = sum(bool(_faults(path_links(estate, h, group)[0])) for h in around)
            found.append(((bool(own), rest, networks.label(estate, group)), group))
    return min(found, key=lambda f: f[0])[1] if found else None


def _faults(links: Iterable[Link]) -> list[Link]:
    return [h for h in links if h.is_faulty]


def _of_host(estate: Estate, host: Target, group: Facts) -> list[Link]:
    links, route = path_links(estate, host, group)
    return [*links, *host_links(estate, host, group), mtu_link(estate, host, route)]


def _elsewhere(estate: Estate, vm: Target, group: Facts, around: Sequence[Target]) -> list[Link]:
    """Return what is not in order on the other hosts a VM can run on; each says whose it is."""
    own = estate.host_of(vm.ref)
    found = ((host, link) for host in around if host != own for link in _faults(_of_host(estate, host, group)))
    return [link.on(host.name) for host, link in found]


def _paths(
    estate: Estate, vm: Target, group: Facts | None, links: Sequence[Link], around: Sequence[Target]
) -> tuple[tuple[Target, str], ...]:
    """Return the hosts that were followed: the VM's own, and the others where an adapter is made or changed."""
    own = estate.host_of(vm.ref)
    wide = any(isinstance(h.fix, NewRdmaAdapter) for h in links)
    wide |= any(h.fix and h.name == fabric_route.PROTOCOL_LINK for h in links)
    hosts = dict.fromkeys(((own,) if own else ()) + (tuple(around) if wide else ()))
    return tuple((h, group.ref) for h in hosts if group and is_seen(estate[h.ref]))


def _rdma_cards(facts: Facts) -> list[VirtualDevice]:
    return [d for d in facts.get("config.hardware.device", ()) if d.get("_typeName") == DEVICE]


def _adapter(facts: Facts, device: VirtualDevice, card: RdmaAdapterSettings | None) -> Link:
    """Look at the adapter itself; `card` names it for a correction, None where it is one of several."""
    protocol = {"rocev1": "RoCE v1", "rocev2": "RoCE v2"}.get(device.get("deviceProtocol") or "", "RoCE by default")
    connectable = device.get("connectable") or {}
    on = facts.get("runtime.powerState") == "poweredOn"
    cut = connectable.get("connected" if on else "startConnected") is False
    seen = f"{_label(device)}, PVRDMA, {protocol}"
    if cut:
        fix = replace(card, connected=True) if card else None
        return CARD.link("fail", f"{seen}, disconnected", "" if fix else "connect the adapter", fix)
    return CARD.link("pass", seen)


def _of_vm(estate: Estate, vm: Target, hosts: Sequence[Target]) -> Iterator[Link]:
    facts = estate[vm.ref]
    version = hardware_number(facts.get("config.version"))
    if version is None:
        yield HARDWARE.link("unknown", f"{facts.get('config.version') or why(facts, 'config.version')}")
    elif version < MINIMUM_VERSION:
        help = f"PVRDMA needs hardware version {MINIMUM_VERSION}; an upgrade cannot be undone"
        known, _ = hardware_limits(estate, hosts)
        fix = MachineNeeds(vm, version=version_for(known, MINIMUM_VERSION) or MINIMUM_VERSION)
        yield HARDWARE.link("fail", f"vmx-{version}", help, fix)
    else:
        lacks = ["namespaces"] if version < NAMESPACES else []
        lacks += ["native endpoints"] if version < ENDPOINTS else []
        seen = f"vmx-{version}" + (f": no {' and no '.join(lacks)}" if lacks else "")
        yield ENDPOINTS_LACK.link("info" if lacks else "pass", seen)
    if facts.get("config.memoryReservationLockedToMax"):
        yield MEMORY.link("pass", "all of it is reserved")
    else:
        fix = MachineNeeds(vm, all_memory=True)
        yield MEMORY.link("fail", "not all of it is reserved", "PVRDMA needs all guest memory reserved", fix)


def _label(device: VirtualDevice) -> str:
    label = (device.get("deviceInfo") or {}).get("label")
    return str(label or f"device {device.get('key', '?')}")
