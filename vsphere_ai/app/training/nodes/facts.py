"""Nodes as vCenter shows them: addresses, GPUs and rails of a VM, and the parts of its ESXi host behind them. Pure.

What a guest knows better (CUDA indexes, names of interfaces and RDMA devices of other adapters than PVRDMA) is added
by those that ask the guest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_interface

from vsphere_ai.app.training.nodes.topology import VM_PATHS, host_numa, passed_nics, site_of, vgpu_sites, vm_cpus
from vsphere_ai.fabric import dvs, pci, route
from vsphere_ai.fabric.api_types import PhysicalNic, VirtualDevice
from vsphere_ai.fabric.trace import key_of
from vsphere_ai.gpu.devices import is_vgpu
from vsphere_ai.guests.cloud_init import given_network
from vsphere_ai.guests.netplan import file_text, read_network
from vsphere_ai.guests.ready import READY, verdict
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.names.pci_address import read_pci
from vsphere_ai.model.nodes import Node, NodeGpu, Rail
from vsphere_ai.model.plain import objects
from vsphere_ai.model.topology import PciSite
from vsphere_ai.model.vm_sets import MOID, mark_of, settings_of
from vsphere_ai.resources.makes_vms import WantedNic
from vsphere_ai.sets.guest_pci import guest_address, rdma_device, slot_of

PATHS = (
    "config.extraConfig",
    "config.instanceUuid",
    "guest.ipAddress",
    "guest.net",
    "guest.toolsRunningStatus",
    *VM_PATHS,
)
"""Properties of a VM that are looked at, beside those that every kind reads."""
DEVICES = "config.hardware.device"
PVRDMA, SRIOV = "VirtualVmxnet3Vrdma", "VirtualSriovEthernetCard"
GRAPHICS = "config.graphicsInfo"


@dataclass(frozen=True)
class Chosen:
    """A VM that is to be a node: its reference, and the NICs that its play gives it, by name (none: of no set).

    `control` is the name of the NIC for SSH and control traffic; empty: the primary one. `leaves` are the leaf switches
    of its rails by the names of their NICs.
    """

    ref: str
    nics: Mapping[str, WantedNic] = field(default_factory=dict)
    control: str = ""
    leaves: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RailSwitch:
    """The distributed switch of a rail: its MTU in bytes, and the uplinks beside the one that carries RDMA."""

    mtu: int | None = None
    others: tuple[str, ...] = ()


@dataclass(frozen=True)
class NodeState:
    """What has to hold before a VM is worked with: its power state, and its addresses by interface or NIC.

    `leased` are those its set holds for it, `reported` those that its guest has; both without prefix length.
    `passthrough`: a GPU is the VM's own; else the host shows what the guest of a vGPU does not. `switches` are what
    carries the rails, by their interfaces, and `settings` the VM's advanced settings. `functions` are the physical NICs
    by which the port groups of virtual functions go out, by their MAC addresses. `vgpus` are the GPUs of the host that
    run its vGPUs, by the UUID of the vGPU, where the host's nvidia-smi was asked (`live.RUNNING`). `asked` is what the
    playbook and the network file of the VM make of each rail, by its MAC address, in the words of a health profile.
    """

    power: str
    tools: str = ""
    leased: tuple[str, ...] = ()
    reported: tuple[str, ...] = ()
    passthrough: bool = False
    switches: Mapping[str, RailSwitch] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    functions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    vgpus: Mapping[str, PciSite] = field(default_factory=dict)
    asked: Mapping[str, Mapping[str, int | bool]] = field(default_factory=dict)


@dataclass(frozen=True)
class _AdapterNic:
    """A network adapter of a VM with its name in the set and in the guest, and the addresses that the guest has."""

    device: VirtualDevice
    mac: str
    name: str
    interface: str
    addresses: tuple[str, ...]


def node_of(chosen: Chosen, estate: Estate) -> tuple[Node, NodeState]:
    """Return a VM as a node, and its state."""
    facts, host = estate[chosen.ref], estate.host_of(chosen.ref)
    at = estate[host.ref] if host else None
    nics = tuple(_nics(facts))
    control = _control(chosen, nics)
    mark = mark_of(facts)
    leased = tuple(str(ip_interface(text).ip) for nic in (mark.nics if mark else ()) for text in nic.addresses)
    fallback = str(facts.get("guest.ipAddress") or "")
    address = next(iter(_by_family(control.addresses)), "") if control else ""
    found, numa = pci.devices(at) if at else {}, host_numa(at)
    gpus = tuple(_gpus(facts, at))
    node = Node(
        vm=facts.name,
        address=address or (leased[0] if leased and not chosen.control else fallback),
        interface=control.interface if control else "",
        ref=_real(facts),
        host=host.name if host else "",
        gpus=gpus,
        rails=tuple(_rails(chosen, nics, at, estate)),
        passed=tuple(passed_nics(facts, found, numa)),
        cpus=vm_cpus(facts),
        numa=numa,
    )
    reported = tuple(text for nic in nics for text in nic.addresses)
    whole = bool(gpus) and not any(gpu.profile for gpu in gpus)
    power, tools = (str(facts.get(path) or "") for path in ("runtime.powerState", "guest.toolsRunningStatus"))
    switches = dict(_switches(chosen, nics, at, estate)) if at is not None else {}
    functions = dict(_functions(nics, at, estate)) if at is not None else {}
    vgpus = dict(vgpu_sites(facts.name, at, found, numa)) if at is not None else {}
    settings, asked = settings_of(facts), dict(_asked(chosen, nics, facts))
    return node, NodeState(power, tools, leased, reported, whole, switches, settings, functions, vgpus, asked)


def _asked(chosen: Chosen, nics: Sequence[_AdapterNic], facts: Facts) -> Iterator[tuple[str, Mapping[str, int | bool]]]:
    """Yield what the play makes of each rail: MTU, GIDs of RoCE v2, and a rule where the network file has one."""
    try:
        file = (given_network(settings_of(facts)) or {}).get("ethernets")
    except ValueError:
        file = None
    listed = file.items() if isinstance(file, Mapping) else ()
    ruled = {name for name, each in listed if isinstance(each, Mapping) and each.get("routing-policy")}
    for nic in nics:
        wanted = chosen.nics.get(nic.name)
        if wanted is None or not _is_rail(chosen, nic):
            continue
        asked: dict[str, int | bool] = {"mtu": wanted.mtu} if wanted.mtu is not None else {}
        asked |= {"roce_v2": True} if wanted.protocol == "rocev2" else {}
        yield nic.mac, asked | ({"policy_routes": True} if nic.name in ruled else {})


def _real(facts: Facts) -> str:
    """Return the reference that vCenter has for a VM; a member of a set has another one in its estate."""
    return f"VirtualMachine:{facts.get(MOID) or facts.ref.partition(':')[2]}"


def _nics(facts: Facts) -> Iterator[_AdapterNic]:
    mark = mark_of(facts)
    names = {nic.mac: nic.name for nic in (mark.nics if mark else ())}
    interfaces = _interfaces(facts)
    reported = dict(_reported(facts))
    for device in facts.get(DEVICES) or ():
        mac = str(device.get("macAddress", "")).lower()
        if mac:
            yield _AdapterNic(device, mac, names.get(mac, ""), interfaces.get(mac, ""), reported.get(mac, ()))


def _interfaces(facts: Facts) -> dict[str, str]:
    """Return the names of interfaces by MAC address: as the guest reported them, else as its network file says."""
    settings = settings_of(facts)
    try:
        ready = verdict(settings[READY]) if settings.get(READY) else None
        return {mac: nic.name for mac, nic in ready.nics.items()} if ready else _in_file(settings)
    except ValueError:
        return {}


def _in_file(settings: Mapping[str, str]) -> dict[str, str]:
    config = given_network(settings)
    return {nic.mac: nic.name for nic in read_network(file_text(config))} if config is not None else {}


def _reported(facts: Facts) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield MAC addresses with the addresses that the guest reports for them; none of a link."""
    for net in objects(facts.get("guest.net")):
        config = net.get("ipConfig")
        shown = objects(config.get("ipAddress")) if isinstance(config, Mapping) else ()
        texts = [str(each.get("ipAddress")) for each in shown if each.get("state") in (None, "preferred")]
        yield str(net.get("macAddress", "")).lower(), tuple(t for t in texts if not ip_address(t).is_link_local)


def _by_family(addresses: Sequence[str]) -> list[str]:
    return sorted(addresses, key=lambda text: ip_address(text).version)


def _control(chosen: Chosen, nics: Sequence[_AdapterNic]) -> _AdapterNic | None:
    """Return the adapter for SSH and control traffic: the one that is asked for, the primary one, or the first."""
    if chosen.control:
        return next((nic for nic in nics if nic.name == chosen.control), None)
    primary = (nic for nic in nics if (wanted := chosen.nics.get(nic.name)) is not None and wanted.primary)
    usual = (nic for nic in nics if nic.addresses and not _is_rail(chosen, nic))
    return next((nic for own in (primary, usual) for nic in own), None)


def _is_rail(chosen: Chosen, nic: _AdapterNic) -> bool:
    wanted = chosen.nics.get(nic.name)
    if wanted is not None and (wanted.rail is not None or wanted.role is not None):
        return wanted.rail is not None or wanted.role == "rdma"
    return nic.device.get("_typeName") in (PVRDMA, SRIOV)


def _rails(chosen: Chosen, nics: Sequence[_AdapterNic], host: Facts | None, estate: Estate) -> Iterator[Rail]:
    found, numa = pci.devices(host) if host else {}, host_numa(host)
    for nic in nics:
        if not _is_rail(chosen, nic):
            continue
        wanted, slot = chosen.nics.get(nic.name), slot_of(nic.device)
        uplink = _uplink(nic.device, host, estate) if host is not None else None
        pvrdma = nic.device.get("_typeName") == PVRDMA
        speed = ((uplink.get("linkSpeed") or {}).get("speedMb") or 0) / 1000 if uplink else 0
        yield Rail(
            interface=nic.interface,
            address=next(iter(_by_family(nic.addresses)), ""),
            number=wanted.rail if wanted else None,
            rdma_device=rdma_device(slot) if pvrdma and slot is not None else "",
            mtu=wanted.mtu if wanted else None,
            speed=speed or None,
            vmnic=uplink["device"] if uplink else "",
            switch_port=chosen.leaves.get(nic.name, ""),
            mac=nic.mac,
            guest_pci=guest_address(slot) if slot is not None else "",
            site=site_of(read_pci(str(uplink.get("pci"))), found, numa) if uplink else None,
        )


def _switches(
    chosen: Chosen, nics: Sequence[_AdapterNic], host: Facts, estate: Estate
) -> Iterator[tuple[str, RailSwitch]]:
    for nic in nics:
        group = estate.get(f"{dvs.PORT_GROUP}:{key_of(nic.device)}")
        if not _is_rail(chosen, nic) or group is None:
            continue
        followed = route.follow(estate, host.ref, group)
        mtu = followed.switch.get("config.maxMtu") if followed.switch is not None else None
        uplinks = route.active_uplinks(group) if nic.device.get("_typeName") == PVRDMA else ()
        yield nic.interface, RailSwitch(mtu, tuple(u for u in uplinks if u != followed.uplink))


def _functions(nics: Sequence[_AdapterNic], host: Facts, estate: Estate) -> Iterator[tuple[str, tuple[str, ...]]]:
    for nic in nics:
        if nic.device.get("_typeName") == SRIOV:
            switch = dvs.switch_of(estate, estate.get(f"{dvs.PORT_GROUP}:{key_of(nic.device)}"))
            proxy = dvs.proxies(host).get(str(switch.get("uuid"))) if switch is not None else None
            yield nic.mac, tuple(sorted(dvs.nics(proxy).values())) if proxy is not None else ()


def _uplink(device: VirtualDevice, host: Facts, estate: Estate) -> PhysicalNic | None:
    """Return the physical NIC that carries an adapter: the one of a virtual function, else its port group's uplink."""
    backing = device.get("sriovBacking")
    port = backing.get("physicalFunctionBacking") if isinstance(backing, Mapping) else None
    function = str(port.get("id", "")) if isinstance(port, Mapping) else ""
    pnics: Sequence[PhysicalNic] = host.get("config.network.pnic") or ()
    own = next((p for p in pnics if function and read_pci(str(p.get("pci"))) == read_pci(function)), None)
    if own is not None:  # else it is any function of the uplink
        return own
    group = estate.get(f"{dvs.PORT_GROUP}:{key_of(device)}")
    return route.follow(estate, host.ref, group).nic if group is not None else None


def _gpus(facts: Facts, host: Facts | None) -> Iterator[NodeGpu]:
    """Yield the GPUs of a VM in the order of their addresses in the guest, which is that of nvidia-smi."""
    devices, numa = pci.devices(host) if host else {}, host_numa(host)
    addresses = {a for a, d in devices.items() if d.is_gpu}
    shared = [str(g["pciId"]) for g in (host.get(GRAPHICS) or () if host else ()) if facts.ref in _vms(g)]
    found = []
    for device in facts.get(DEVICES) or ():
        slot, backing = slot_of(device), device.get("backing") or {}
        guest = guest_address(slot) if slot is not None else ""
        whole = read_pci(str(backing.get("assignedId") or backing.get("id") or ""))
        if is_vgpu(device):
            # of several GPUs only the host's own nvidia-smi says which of them runs which vGPU
            at = shared[0] if len(shared) == 1 else ""
            found.append(NodeGpu(0, guest, at, profile=str(backing.get("vgpu", ""))))
        elif whole in addresses:
            found.append(NodeGpu(0, guest, whole))
    for index, gpu in enumerate(sorted(found, key=lambda each: each.guest_pci)):
        site = site_of(gpu.host_pci, devices, numa)
        yield NodeGpu(index, gpu.guest_pci, gpu.host_pci, profile=gpu.profile, site=site)


def _vms(graphics: Mapping[str, object]) -> Sequence[str]:
    found = graphics.get("vm")
    return found if isinstance(found, tuple) else ()
