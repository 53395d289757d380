"""Network adapters of VMs, and the NICs behind them, as vCenter would show them."""

from __future__ import annotations

from typing import Any

from support.estates import ESX1, LAN, SWITCH, estate, guest, host
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.state import Target

NIC4, NIC5 = "0000:5e:00.0", "0000:5e:00.1"
DVS = "VirtualEthernetCardDistributedVirtualPortBackingInfo"
STANDARD = Facts("Network:network-7", {"name": "VM Network", "parent": "Folder:group-n1"})
LAN_SWITCH = "VmwareDistributedVirtualSwitch:dvs-2"


def card(key: int, group: str = "dvportgroup-2", typ: str = "VirtualVmxnet3", **more: Any) -> dict[str, Any]:
    """Return an adapter on a distributed port group, by its key, or on a standard one with ``name:NAME``."""
    port = {"_typeName": "DistributedVirtualSwitchPortConnection", "portgroupKey": group, "switchUuid": "50 2c"}
    backing: dict[str, Any] = {"_typeName": DVS, "port": port}
    if group.startswith("name:"):
        backing = {"_typeName": "VirtualEthernetCardNetworkBackingInfo", "deviceName": group.removeprefix("name:")}
    made = {
        "_typeName": typ,
        "key": key,
        "unitNumber": key - 3993,
        "backing": backing,
        "macAddress": f"00:50:56:80:00:{key % 100:02d}",
        "addressType": "assigned",
        "deviceInfo": {"label": f"Network adapter {key - 3999}"},
        "connectable": {"startConnected": True, "allowGuestControl": True, "connected": True},
    }
    if typ == "VirtualSriovEthernetCard":
        made["sriovBacking"] = {"physicalFunctionBacking": {"id": "Automatic-0000:00:00.0"}}
    return {**made, **more}


def function(pci: str, now: int = 0, *, configured: int | None = None, most: int = 16, **more: Any) -> dict[str, Any]:
    """Return what a host says of a NIC that can have virtual functions."""
    later = now if configured is None else configured
    return {
        "_typeName": "HostSriovInfo",
        "id": pci,
        "passthruEnabled": False,
        "sriovCapable": True,
        "sriovEnabled": later > 0,
        "sriovActive": now > 0,
        "numVirtualFunctionRequested": later,
        "numVirtualFunction": now,
        "maxVirtualFunctionSupported": most,
        **more,
    }


def machine(target: Target = ESX1, *functions: dict[str, Any], **more: Any) -> Facts:
    """Return a host with two NICs: vmnic4 is the uplink of dvs-rdma, vmnic5 that of dvs-lan."""
    switches = [("50 2b", "dvs-rdma", "vmnic4", "12"), ("50 2c", "dvs-lan", "vmnic5", "22")]
    proxies = tuple(
        {"_typeName": "HostProxySwitch", "dvsUuid": uuid, "dvsName": name, "pnic": (f"key-{nic}",),
         "uplinkPort": ({"key": port, "value": "Uplink 1"},),
         "spec": {"backing": {"pnicSpec": ({"pnicDevice": nic, "uplinkPortKey": port},)}}}
        for uuid, name, nic, port in switches
    )  # fmt: skip
    nics = ({"_typeName": "PhysicalNic", "key": "key-vmnic4", "device": "vmnic4", "pci": NIC4},
            {"_typeName": "PhysicalNic", "key": "key-vmnic5", "device": "vmnic5", "pci": NIC5})  # fmt: skip
    given = {
        "config__network__proxySwitch": proxies,
        "config__network__pnic": nics,
        "config__pciPassthruInfo": functions or (function(NIC4, 4), function(NIC5)),
        "option:Net.PVRDMAVmknic": "vmk2",
        "config__firewall__ruleset": ({"_typeName": "HostFirewallRuleset", "key": "pvrdma", "enabled": True},),
        "network": (STANDARD.ref, LAN),
        **more,
    }
    return host(target, **given)


def around(target: Target, *cards: dict[str, Any], others: tuple[Facts, ...] = (), **more: Any) -> Estate:
    """Return an estate with a VM that has these adapters, on such a host."""
    on = more.pop("on", ESX1)
    machines = more.pop("hosts", (machine(),))
    given = {"config__hardware__device": cards, **more}
    return estate(*machines, guest(target, on, **given), STANDARD, *others)


__all__ = ["DVS", "LAN_SWITCH", "NIC4", "NIC5", "STANDARD", "SWITCH", "around", "card", "function", "machine"]
