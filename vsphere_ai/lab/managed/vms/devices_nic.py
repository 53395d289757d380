"""Network adapters of a VM: what vCenter demands of their backing, their type and their address."""

from __future__ import annotations

import itertools
import re
from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.hardware import functions
from vsphere_ai.lab.managed.networks.dvs_bandwidth import check_allocation, default_allocation
from vsphere_ai.lab.managed.networks.dvs_ports import take
from vsphere_ai.lab.managed.refusals import bad_device, invalid_power_state, too_many_devices
from vsphere_ai.lab.managed.vms.device_change import DeviceChange
from vsphere_ai.lab.managed.vms.virtual_machine import mac_address

DEV = vim.vm.device
NIC = DEV.VirtualEthernetCard
PVRDMA = DEV.VirtualVmxnet3Vrdma
SRIOV = DEV.VirtualSriovEthernetCard
MOST = 10
"""Adapters a VM can have, of all types together."""

# the hardware versions that have `deviceProtocol`; later ones decide by themselves
PROTOCOL_HARDWARE = range(14, 20)
SRIOV_HARDWARE = 10
_MAC = re.compile(r"([0-9a-f]{2}:){5}[0-9a-f]{2}")


def is_hot(nic: Any) -> bool:
    """Return whether an adapter may be added, changed or removed while the VM runs."""
    return not isinstance(nic, (PVRDMA, SRIOV))


def check(change: DeviceChange, index: int, nic: Any) -> None:
    """Raise the fault vCenter would for an adapter that is added or edited."""
    others = [d for d in change.config.hardware.device if isinstance(d, NIC) and d.key != nic.key]
    if len(others) >= MOST:
        raise too_many_devices()
    _check_backing(change, index, nic)
    if isinstance(nic, PVRDMA):
        _check_pvrdma(change, index, nic)
    if isinstance(nic, SRIOV):
        _check_sriov(change, index, nic)
    if nic.addressType == "manual":
        _check_address(index, nic)
    port = getattr(nic.backing, "port", None)
    group = change.farm.store.objects.get(port.portgroupKey or "") if port is not None else None
    why = check_allocation(change.farm, group, nic.resourceAllocation)
    if why:
        raise bad_device(index, why)


def _check_backing(change: DeviceChange, index: int, nic: Any) -> None:
    where = f"Invalid backing for device '{index}'"
    if isinstance(nic.backing, NIC.DistributedVirtualPortBackingInfo):
        port = nic.backing.port
        group = change.farm.store.objects.get(port.portgroupKey or "")
        if group is None or "dvs" not in group.extra or group.extra["dvs"]["uuid"] != port.switchUuid:
            raise bad_device(index, f"{where}: no such distributed port group.", backing=True)
        if group.extra["uplink"]:
            raise bad_device(index, f"{where}: {group['name']} is an uplink port group.", backing=True)
        if change.host.ref not in group["host"]:
            raise bad_device(index, f"{where}: the host is not on this switch.", backing=True)
    elif isinstance(nic.backing, NIC.NetworkBackingInfo):
        plain = change.farm.named.get(f"network:{nic.backing.deviceName}")
        if plain is None or change.host.ref not in plain["host"]:
            raise bad_device(index, f"{where}: no such network on the host.", backing=True)
        nic.backing.network = plain.ref
    else:
        raise bad_device(index, f"{where}.", backing=True)


def _check_pvrdma(change: DeviceChange, index: int, nic: Any) -> None:
    if not isinstance(nic.backing, NIC.DistributedVirtualPortBackingInfo):
        raise bad_device(index, "A PVRDMA adapter needs a distributed port group.", backing=True)
    others = [d for d in change.config.hardware.device if isinstance(d, PVRDMA) and d.key != nic.key]
    if change.hardware < 13:
        raise bad_device(index, f"PVRDMA is not available with hardware version {change.hardware}.")
    if nic.deviceProtocol is not None and nic.deviceProtocol not in ("rocev1", "rocev2"):
        raise bad_device(index, f"Unknown device protocol '{nic.deviceProtocol}'.")
    if nic.deviceProtocol is not None and change.hardware not in PROTOCOL_HARDWARE:
        raise bad_device(index, f"Hardware version {change.hardware} has no device protocol to choose.")
    if len(others) >= max_pvrdma(change.hardware):
        raise too_many_devices()


def _check_sriov(change: DeviceChange, index: int, nic: Any) -> None:
    if change.hardware < SRIOV_HARDWARE:
        raise bad_device(index, f"SR-IOV is not available with hardware version {change.hardware}.")
    function = nic.sriovBacking.physicalFunctionBacking if nic.sriovBacking else None
    if function is None:
        raise bad_device(index, "An SR-IOV adapter needs a physical function.", backing=True)
    if function.id.startswith("Automatic"):
        return
    found = functions.nic_at(change.farm.host(change.host), function.id)
    if found is None or not found.sriov_max:
        raise bad_device(index, f"The host has no physical function {function.id}.", backing=True)


def _check_address(index: int, nic: Any) -> None:
    mac = str(nic.macAddress or "").lower()
    if not _MAC.fullmatch(mac) or int(mac[:2], 16) & 1 or mac == "00:00:00:00:00:00":
        raise bad_device(index, f"Invalid MAC address '{mac}'.")
    if mac.startswith("00:0c:29") or (mac.startswith("00:50:56") and int(mac[9:11], 16) > 0x3F):
        raise bad_device(index, f"The MAC address '{mac}' is not in the range 00:50:56:00:00:00 to 00:50:56:3f:ff:ff.")


def wants_address(old: Any, new: Any) -> bool:
    """Return whether an edit takes an address that was given by hand away again."""
    return old.addressType == "manual" and new.addressType in ("generated", "assigned") and not new.macAddress


def refuse_while_on(old: Any, new: Any) -> None:
    """Refuse what a running VM's adapter cannot have changed: its address."""
    changed = new.addressType not in (None, old.addressType) or new.macAddress not in (None, "", old.macAddress)
    if changed:
        raise invalid_power_state("poweredOn", "poweredOff")


def complete(change: DeviceChange, nic: Any) -> None:
    """Give a new adapter what the server gives: an address, its connection, a port."""
    if nic.connectable is None:
        nic.connectable = DEV.VirtualDevice.ConnectInfo(
            startConnected=True, allowGuestControl=True, connected=change.powered_on
        )
    nic.connectable.connected = change.powered_on and nic.connectable.startConnected
    _fill_allocation(nic)
    nic.wakeOnLanEnabled = True if nic.wakeOnLanEnabled is None else nic.wakeOnLanEnabled
    _address(change, nic)
    connect(change, nic)


def edited(change: DeviceChange, old: Any, nic: Any, *, new_address: bool) -> None:
    """Bring an edited adapter in order: its port goes with its port group, its address with its type."""
    port, before = getattr(nic.backing, "port", None), getattr(old.backing, "port", None)
    if port is not None:
        same = before is not None and before.portgroupKey == port.portgroupKey
        port.portKey = before.portKey if same and before else None
        connect(change, nic)
    if nic.connectable is not None and not change.powered_on:
        nic.connectable.connected = False
    _fill_allocation(nic)
    if new_address:
        nic.macAddress = None
    _address(change, nic)


def _fill_allocation(nic: Any) -> None:
    given, default = nic.resourceAllocation, default_allocation()
    if given is None:
        nic.resourceAllocation = default
        return
    given.reservation = default.reservation if given.reservation is None else given.reservation
    given.limit = default.limit if given.limit is None else given.limit


def _address(change: DeviceChange, nic: Any) -> None:
    used = {d.macAddress for d in change.config.hardware.device if isinstance(d, NIC)}
    if not nic.macAddress:
        nic.macAddress = next(m for m in (mac_address(change.vm, i) for i in itertools.count()) if m not in used)
        # vCenter gives addresses of its own also where the host was asked for one
        nic.addressType = "assigned"
    nic.macAddress = nic.macAddress.lower()


def connect(change: DeviceChange, nic: Any) -> None:
    """Give an adapter on a distributed switch a port of its own."""
    port = getattr(nic.backing, "port", None)
    if port is not None and not port.portKey:
        port.portKey = take(change.farm, change.farm.store.objects[port.portgroupKey])
        port.connectionCookie = 1


def detail(nic: Any) -> dict[str, Any]:
    """Say for the ledger which adapter it is."""
    port = getattr(nic.backing, "port", None)
    more: dict[str, Any] = {"connected": bool(nic.connectable.startConnected)} if nic.connectable is not None else {}
    if isinstance(nic, SRIOV) and nic.sriovBacking is not None:
        more["function"] = nic.sriovBacking.physicalFunctionBacking.id
    given = nic.resourceAllocation
    if given is not None and (given.reservation, given.limit, given.share.shares) != (0, -1, 50):
        more["bandwidth"] = {"shares": given.share.shares, "reservation": given.reservation, "limit": given.limit}
    network = port.portgroupKey if port else getattr(nic.backing, "deviceName", None)
    return {"portgroup": network, "mac": nic.macAddress, **more}


def max_pvrdma(hardware: int) -> int:
    """Return how many PVRDMA adapters one VM may have: one before native endpoints (hardware version 18)."""
    return 0 if hardware < 13 else 1 if hardware < 18 else 10
