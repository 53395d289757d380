"""Virtual Ethernet adapters of a VM as vSphere shows them, and as they are sent.

Source: vSphere Web Services API reference, VirtualEthernetCard and the types derived from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from vsphere_ai.fabric import networks
from vsphere_ai.fabric.dvs import PORT_GROUP, switch_of
from vsphere_ai.fabric.networks import PLAIN
from vsphere_ai.model.facts import Estate
from vsphere_ai.model.names.pci_address import read_pci
from vsphere_ai.model.view import View

TYPES = {
    "vmxnet3": "VirtualVmxnet3",
    "e1000e": "VirtualE1000e",
    "sriov": "VirtualSriovEthernetCard",
    "pvrdma": "VirtualVmxnet3Vrdma",
}
"""What a playbook calls the types that are added here -> their names in the API."""
OLDER = {"e1000": "VirtualE1000", "pcnet32": "VirtualPCNet32", "vmxnet": "VirtualVmxnet", "vmxnet2": "VirtualVmxnet2"}
COLD = ("sriov", "pvrdma")
"""Types that are changed while the VM is off, and that need all its memory reserved."""
AUTOMATIC = "Automatic-0000:00:00.0"  # any physical function behind the port group; not in the references
_NAMES = {api: name for name, api in (TYPES | OLDER).items()}
_PORT_BACKING = "VirtualEthernetCardDistributedVirtualPortBackingInfo"
_PLAIN_BACKING = "VirtualEthernetCardNetworkBackingInfo"


def cards(devices: Iterable[Mapping[str, object]]) -> tuple[Mapping[str, Any], ...]:
    """Return the Ethernet adapters among virtual devices, in the order of their units."""
    found = [d for d in devices if d.get("_typeName") in _NAMES]
    return tuple(sorted(found, key=lambda d: (d.get("unitNumber") or 0, d["key"])))


def type_of(device: Mapping[str, Any]) -> str:
    """Return what an adapter's type is called in a playbook."""
    return _NAMES[device["_typeName"]]


def network_of(device: Mapping[str, Any]) -> str:
    """Return what an adapter is connected to as ``Type:key``, where a standard port group's key is its name."""
    backing = device.get("backing") or {}
    port = backing.get("port") or {}
    if port.get("portgroupKey"):
        return f"{PORT_GROUP}:{port['portgroupKey']}"
    if backing.get("_typeName") == _PLAIN_BACKING:
        return f"{PLAIN}:{backing.get('deviceName', '')}"
    if backing.get("opaqueNetworkId"):
        return f"OpaqueNetwork:{backing['opaqueNetworkId']}"
    return "(no port group)"


def named(estate: Estate, network: str) -> str:
    """Return the name of a network as an operator knows it, with its switch where other networks have that name."""
    facts = estate.get(network)
    return networks.label(estate, facts) if facts else network.partition(":")[2] or network


def found(vm: str, name: str, view: View) -> str:
    """Return the port group that a name means for a VM, as `network_of` writes it.

    A standard port group is ``Network:NAME``. The name itself where there is none of it, or several.
    """
    network = networks.for_vm(view.estate, vm, name).network
    if network is None:
        return name
    managed = network.ref.partition(":")[0]
    return {PORT_GROUP: network.ref, PLAIN: f"{PLAIN}:{network.name}"}.get(managed, name)


def is_port_group(network: str) -> bool:
    """Return whether an adapter can be connected to it here: a distributed or a standard port group."""
    return network.startswith((f"{PORT_GROUP}:", f"{PLAIN}:"))


def is_distributed(network: str) -> bool:
    """Return whether it is a distributed port group."""
    return network.startswith(f"{PORT_GROUP}:")


def backing(network: str, view: View) -> dict[str, object]:
    """Return the backing that connects an adapter to a port group; ports and cookies are the server's business."""
    if not is_distributed(network):
        return {"_typeName": _PLAIN_BACKING, "deviceName": network.partition(":")[2]}
    group = view.facts(network)
    switch = switch_of(view.estate, group)
    port = {
        "_typeName": "DistributedVirtualSwitchPortConnection",
        "portgroupKey": group.get("key", network.partition(":")[2]),
        "switchUuid": switch.get("uuid") if switch else "",
    }
    return {"_typeName": _PORT_BACKING, "port": port}


def connectable(connected: bool) -> dict[str, object]:
    """Return whether a new adapter is connected; the three booleans are required on the wire."""
    return {
        "_typeName": "VirtualDeviceConnectInfo",
        "startConnected": connected,
        "allowGuestControl": True,
        "connected": connected,  # counts only while the VM is on
    }


def function_of(device: Mapping[str, Any]) -> str | None:
    """Return the PCI address of the physical function behind an SR-IOV adapter, ``auto`` for any; else None."""
    function = (device.get("sriovBacking") or {}).get("physicalFunctionBacking") or {}
    if device["_typeName"] != TYPES["sriov"]:
        return None
    pci = str(function.get("id") or AUTOMATIC)
    return "auto" if pci.startswith("Automatic") else read_pci(pci)


def sriov_backing(function: str) -> dict[str, object]:
    """Return the backing of an SR-IOV adapter.

    The type requires the fields besides `id`; what they hold is unverified (no reference says, no vCenter was asked).
    """
    device = {
        "_typeName": "VirtualPCIPassthroughDeviceBackingInfo",
        "id": AUTOMATIC if function == "auto" else function,
        "deviceName": "",
        "deviceId": "0",
        "systemId": "BYPASS",
        "vendorId": 0,
    }
    return {"_typeName": "VirtualSriovEthernetCardSriovBackingInfo", "physicalFunctionBacking": device}


def wrong_address(mac: str) -> str:
    """Say why an address cannot be given to an adapter by hand; empty when it can."""
    parts = [int(p, 16) for p in mac.split(":")]
    if not any(parts) or parts[0] & 1:
        return "it is no address of a single adapter"
    if parts[:3] == [0x00, 0x0C, 0x29]:
        return "00:0c:29 is what ESXi makes addresses of"
    if parts[:3] == [0x00, 0x50, 0x56] and parts[3] > 0x3F:
        return "of VMware's range, 00:50:56:00:00:00 to 00:50:56:3f:ff:ff may be given by hand"
    return ""
