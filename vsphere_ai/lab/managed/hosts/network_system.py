"""HostNetworkSystem: VMkernel adapters made, changed and removed, and the speed of physical NICs."""

from __future__ import annotations

import ipaddress
from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.managed import Call, changes, reads
from vsphere_ai.lab.managed.host_managers import host_of_manager
from vsphere_ai.lab.managed.hosts import virtual_nic_manager
from vsphere_ai.lab.managed.hosts.host_network import mac_of, new_vnic
from vsphere_ai.lab.managed.refusals import host_config_fault, invalid_argument, not_found
from vsphere_ai.lab.store import ManagedObject, fill

NETWORK = "Host.Config.Network"
MTUS = range(1280, 9001)
OPTION = "Net.PVRDMAVmknic"


@changes(vim.host.NetworkSystem, "AddVirtualNic", NETWORK)
def add_virtual_nic(call: Call, portgroup: str, nic: Any) -> str:
    """Make a VMkernel adapter and return the name the host gives it: the first vmkN that is free."""
    mo, _ = host_of_manager(call)
    if bool(portgroup) == (nic.distributedVirtualPort is not None):
        raise invalid_argument("portgroup", "either a standard port group or a distributed port")
    if nic.ip is None:
        raise invalid_argument("nic.ip")
    network = mo["config"].network
    largest = _largest_mtu(call.farm, mo, portgroup, nic.distributedVirtualPort)
    _check(mo, nic, largest, "")
    used = {v.device for v in network.vnic}
    device = next(f"vmk{n}" for n in range(256) if f"vmk{n}" not in used)
    made = new_vnic(call.farm, device, portgroup or nic.distributedVirtualPort)
    made.spec.mac = nic.mac or mac_of(len(used), int(mo.moid.rpartition("-")[2]))
    made.spec.netStackInstanceKey = nic.netStackInstanceKey or "defaultTcpipStack"
    _take(made.spec, nic)
    made.spec.mtu = nic.mtu or 1500
    network.vnic = [*network.vnic, fill(made)]
    _changed(call, mo, "AddVirtualNic", device, made.spec)
    return device


@changes(vim.host.NetworkSystem, "UpdateVirtualNic", NETWORK)
def update_virtual_nic(call: Call, device: str, nic: Any) -> None:
    """Change a VMkernel adapter; what the specification leaves out stays.

    A change of address on the adapter that carries management would cut the host off: vCenter rolls it back.
    """
    mo, _ = host_of_manager(call)
    found = _vnic(mo, device)
    port = nic.distributedVirtualPort
    if port is not None and port.portgroupKey != getattr(found.spec.distributedVirtualPort, "portgroupKey", None):
        raise invalid_argument("nic.distributedVirtualPort", "the lab does not move an adapter to another port group")
    _check(mo, nic, _largest_mtu(call.farm, mo, found.portgroup, found.spec.distributedVirtualPort), device)
    before = (_address(found.spec), found.spec.mtu)
    ip = nic.ip and _address(nic)
    managed = mo.extra.get("vnic_services", {}).get("management", set())
    if ip and ip != before[0] and managed == {device}:
        raise vim.fault.NetworkDisruptedAndConfigRolledBack(
            host=str(mo["name"]), msg="Network configuration change disconnected the host and has been rolled back."
        )
    _take(found.spec, nic)
    if before != (_address(found.spec), found.spec.mtu):
        _changed(call, mo, "UpdateVirtualNic", device, found.spec)


@changes(vim.host.NetworkSystem, "RemoveVirtualNic", NETWORK)
def remove_virtual_nic(call: Call, device: str) -> None:
    """Remove a VMkernel adapter that nothing uses."""
    mo, host = host_of_manager(call)
    found = _vnic(mo, device)
    services = mo.extra.get("vnic_services", {})
    if services.get("management") == {device} or host.advanced_options.get(OPTION) == device:
        raise vim.fault.ResourceInUse(
            type=vim.host.NetworkSystem, name=device, msg=f"The resource '{device}' is in use."
        )
    network = mo["config"].network
    network.vnic = [v for v in network.vnic if v.device != device]
    for chosen in services.values():
        chosen.discard(device)
    _changed(call, mo, "RemoveVirtualNic", device, found.spec)


@changes(vim.host.NetworkSystem, "UpdatePhysicalNicLinkSpeed", NETWORK)
def update_link_speed(call: Call, device: str, linkSpeed: Any = None) -> None:
    """Force the speed of a physical NIC, or let it be negotiated again."""
    mo, host = host_of_manager(call)
    nic = next((n for n in host.pnics if n.name == device), None)
    if nic is None:
        raise not_found(device)
    if linkSpeed is not None and (linkSpeed.speedMb not in nic.speeds or not linkSpeed.duplex):
        raise invalid_argument("linkSpeed", f"{linkSpeed.speedMb} Mb")
    forced = linkSpeed.speedMb if linkSpeed is not None else 0
    if forced != nic.forced_mb:
        nic.forced_mb = forced
        call.farm.record(mo, "UpdatePhysicalNicLinkSpeed", device=device, speed=forced)
        call.farm.mark(mo)


@reads(vim.host.NetworkSystem, "RefreshNetworkSystem", NETWORK)
def refresh(call: Call) -> None:
    """Read the network again."""
    mo, _ = host_of_manager(call)
    call.farm.mark(mo)


def _vnic(mo: ManagedObject, device: str) -> Any:
    found = next((v for v in mo["config"].network.vnic or () if v.device == device), None)
    if found is None:
        raise not_found(device)
    return found


def _largest_mtu(farm: Farm, mo: ManagedObject, portgroup: str, port: Any) -> int:
    """Return the MTU of the switch behind a port group this host has; refuse where it has none."""
    network = mo["config"].network
    if port is None:
        if f"network:{portgroup}" not in farm.named or not network.vswitch:
            raise not_found(portgroup)
        return int(network.vswitch[0].mtu or 1500)
    proxy = next((p for p in network.proxySwitch or () if p.dvsUuid == port.switchUuid), None)
    group = farm.store.objects.get(port.portgroupKey or "")
    if proxy is None or group is None or group.extra.get("dvs") is None:
        raise not_found(f"{port.switchUuid} {port.portgroupKey}")
    if group.extra["dvs"]["uuid"] != port.switchUuid or group["config"].uplink:
        raise invalid_argument("nic.distributedVirtualPort.portgroupKey")
    return int(proxy.mtu or 1500)


def _check(mo: ManagedObject, nic: Any, largest: int, device: str) -> None:
    if nic.mtu is not None and nic.mtu not in MTUS:
        raise invalid_argument("nic.mtu", str(nic.mtu))
    if nic.mtu is not None and nic.mtu > largest:
        raise host_config_fault(f"MTU {nic.mtu} is larger than the {largest} of the virtual switch")
    if nic.ip is None or nic.ip.dhcp:
        return
    try:
        address = ipaddress.IPv4Interface(f"{nic.ip.ipAddress}/{nic.ip.subnetMask}")
    except ValueError as error:
        raise invalid_argument("nic.ip", str(error)) from None
    others = {v.spec.ip.ipAddress for v in mo["config"].network.vnic or () if v.device != device}
    if str(address.ip) in others:
        raise host_config_fault(f"another adapter of this host has the address {address.ip}")


def _take(spec: Any, wanted: Any) -> None:
    if wanted.ip is not None:
        spec.ip = vim.host.IpConfig(dhcp=wanted.ip.dhcp)
        spec.ip.ipAddress = "169.254.7.7" if wanted.ip.dhcp else wanted.ip.ipAddress  # no DHCP server in the lab
        spec.ip.subnetMask = "255.255.0.0" if wanted.ip.dhcp else wanted.ip.subnetMask
    if wanted.mtu is not None:
        spec.mtu = wanted.mtu


def _address(spec: Any) -> tuple[Any, ...]:
    return (True,) if spec.ip.dhcp else (False, spec.ip.ipAddress, spec.ip.subnetMask)


def _changed(call: Call, mo: ManagedObject, method: str, device: str, spec: Any) -> None:
    virtual_nic_manager.show(call.farm, mo)
    address = "dhcp" if spec.ip.dhcp else f"{spec.ip.ipAddress}/{spec.ip.subnetMask}"
    call.farm.record(mo, method, device=device, address=address, mtu=spec.mtu)
    call.farm.mark(mo)
