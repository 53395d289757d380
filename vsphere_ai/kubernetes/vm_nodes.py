"""VMs as nodes of a Kubernetes cluster: their network adapters and passed-through NICs, as vCenter shows them.

Source: vSphere Web Services API reference, VirtualEthernetCard, GuestNicInfo, DVSMacManagementPolicy.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from vsphere_ai.fabric import dvs, networks, pci
from vsphere_ai.fabric.api_types import VirtualDevice
from vsphere_ai.fabric.links import why
from vsphere_ai.fabric.route import HOST_PATHS, PORT_GROUP_PATHS, SWITCH_PATHS
from vsphere_ai.fabric.trace import key_of
from vsphere_ai.guests.reported import reported
from vsphere_ai.kubernetes.guest_network import Ethernet, Interface, guest_file
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.names.networks import Address
from vsphere_ai.model.plain import inside, objects
from vsphere_ai.model.state import Target

DEVICES = "config.hardware.device"
PATHS: Mapping[str, tuple[str, ...]] = {
    "VirtualMachine": ("config.extraConfig", DEVICES, "guest.hostName", "guest.net"),
    "HostSystem": HOST_PATHS,
    dvs.PORT_GROUP: PORT_GROUP_PATHS,
    **{switch: SWITCH_PATHS for switch in dvs.SWITCHES},
}
"""Property paths that are read, by managed type."""
ADAPTERS = {
    "VirtualE1000e": "e1000e",
    "VirtualVmxnet3": "vmxnet3",
    "VirtualVmxnet3Vrdma": "pvrdma",
    "VirtualSriovEthernetCard": "sriov",
}
"""Types of the API -> what a playbook calls them; adapters of older types are not for pods."""
MELLANOX = 0x15B3
VIRTUAL_FUNCTIONS = frozenset({0x1004, 0x1012, 0x1014, 0x1016, 0x1018, 0x101A, 0x101C, 0x101E})
"""Device ids of NVIDIA's virtual functions, as pci.ids names them."""
MOST_NAME = 63
"""Characters of a node's name that its label ``kubernetes.io/hostname`` can hold."""
_PART = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?"
_NODE = re.compile(rf"{_PART}(\.{_PART})*")


@dataclass(frozen=True)
class NodeNic:
    """A network adapter of a VM with a distributed port group, or with a network of another kind.

    `macs_allowed`: the port group lets the guest use MAC addresses that the adapter does not have; None: not known.
    `rdma`: the port group goes out by an RDMA NIC of the VM's host. `mtu` is the guest's in bytes, else the switch's
    largest, which is `switch_mtu`. `names` is what the port group may be called, its bare name first. `source` says
    what the interface's name rests on; empty where it is not known.
    """

    type: str
    port_group: str
    mac: str
    label: str
    interface: str = ""
    source: str = ""
    addresses: tuple[Interface, ...] = ()
    is_reported: bool = False
    gateways: tuple[Address, ...] = ()
    mtu: int | None = None
    switch_mtu: int | None = None
    macs_allowed: bool | None = None
    rdma: bool = False
    names: tuple[str, ...] = ()


@dataclass(frozen=True, order=True)
class NicModel:
    """A model of NVIDIA NIC by DirectPath I/O: PCI ids in hexadecimal; a virtual function, or a physical one."""

    vendor: str
    device: str
    is_virtual: bool


@dataclass(frozen=True)
class VmNode:
    """A VM; `name` is the name of the node, empty where no host name of the guest can be one.

    `unreadable` says why its devices cannot be read; empty where they can.
    """

    vm: Target
    name: str
    nics: tuple[NodeNic, ...]
    passed: tuple[NicModel, ...] = ()
    unreadable: str = ""


def nodes_of(estate: Estate, vms: Sequence[Target], interfaces: Mapping[str, str]) -> tuple[VmNode, ...]:
    """Return VMs as nodes. `interfaces` maps port groups to names of interfaces, where no network file names them."""
    return tuple(_node(estate, vm, interfaces) for vm in vms)


def _node(estate: Estate, vm: Target, interfaces: Mapping[str, str]) -> VmNode:
    facts = estate[vm.ref]
    file = guest_file(objects(facts.get("config.extraConfig")))
    names = (name.lower() for name in (file.hostname, str(facts.get("guest.hostName") or ""), vm.name))
    devices: Sequence[VirtualDevice] = facts.get(DEVICES) or ()
    known = file.ethernets or {}
    cards = sorted((d for d in devices if d.get("_typeName") in ADAPTERS), key=lambda d: d["key"])
    return VmNode(
        vm,
        next((name for name in names if len(name) <= MOST_NAME and _NODE.fullmatch(name)), ""),
        tuple(_nic(estate, vm, device, known, interfaces) for device in cards),
        tuple(sorted({nic for device in devices for nic in _passed(device)})),
        why(facts, DEVICES) if facts.get(DEVICES) is None else "",
    )


def _nic(
    estate: Estate, vm: Target, device: VirtualDevice, known: Mapping[str, Ethernet], interfaces: Mapping[str, str]
) -> NodeNic:
    facts = estate[vm.ref]
    mac = str(device.get("macAddress") or "").lower()
    group = estate.get(f"{dvs.PORT_GROUP}:{key_of(device)}")
    switch = dvs.switch_of(estate, group)
    most = switch.get("config.maxMtu") if switch else None
    file = known.get(mac, Ethernet(mac))
    seen = reported(facts.get("guest.net"), mac)
    backing = device.get("backing") or {}
    name = str(backing.get("deviceName") or backing.get("opaqueNetworkId") or "no network")
    names = networks.spellings(estate, group) if group else (name,)
    stated = _stated(estate, vm, group, interfaces) if group else interfaces.get(name, "")
    host = estate.host_of(vm.ref)
    return NodeNic(
        type=ADAPTERS[device.get("_typeName", "")],
        port_group=networks.label(estate, group) if group else name,
        names=names,
        mac=mac,
        label=str((device.get("deviceInfo") or {}).get("label") or f"device {device.get('key')}"),
        interface=stated or file.name,
        source="--interface" if stated else "guestinfo.metadata" if file.name else "",
        addresses=tuple(dict.fromkeys((*seen, *file.addresses))),
        is_reported=bool(seen),
        gateways=file.gateways,
        mtu=file.mtu or most,
        switch_mtu=most,
        macs_allowed=_macs_allowed(group) if group else None,
        rdma=bool(host and switch and switch.get("uuid") in dvs.with_rdma(estate[host.ref])),
    )


def _stated(estate: Estate, vm: Target, group: Facts, interfaces: Mapping[str, str]) -> str:
    """Return the interface's name that is stated for a port group: the first one whose key means it for the VM."""
    meant = ((networks.for_vm(estate, vm.ref, name).network, interface) for name, interface in interfaces.items())
    return next((interface for network, interface in meant if network and network.ref == group.ref), "")


def _macs_allowed(group: Facts) -> bool | None:
    """Return whether frames of foreign MAC addresses pass both ways: forged transmits, and MAC learning or all frames.

    MAC management took over from the security policy; a switch shows both, an older one the latter only.
    """
    settings = group.get("config.defaultPortConfig")
    if settings is None:
        return None
    new = inside(settings, "macManagementPolicy")
    if isinstance(new, Mapping):
        both = new.get("allowPromiscuous") or inside(new, "macLearningPolicy.enabled")
        return bool(new.get("forgedTransmits") and both)
    allowed = (inside(settings, f"securityPolicy.{name}.value") for name in ("forgedTransmits", "allowPromiscuous"))
    return all(allowed)


def _passed(device: VirtualDevice) -> Iterator[NicModel]:
    """Yield the models of NVIDIA NICs that a passthrough device is, or may be."""
    backing = device.get("backing") or {}
    models: list[tuple[int, int]] = []
    if backing.get("_typeName") == pci.FIXED:
        if backing.get("vendorId") is not None and backing.get("deviceId"):  # else its model is not known
            models.append((int(backing["vendorId"]), int(str(backing["deviceId"]), 16)))
    elif backing.get("_typeName") == pci.DYNAMIC:
        models += [(each["vendorId"], each["deviceId"]) for each in backing.get("allowedDevice", ())]
    for vendor, model in models:
        if vendor & 0xFFFF == MELLANOX:
            yield NicModel(f"{MELLANOX:04x}", f"{model & 0xFFFF:04x}", model & 0xFFFF in VIRTUAL_FUNCTIONS)
