"""``config.network`` of a host: physical NICs, RDMA devices, proxy switches and VMkernel adapters, linked by keys."""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.hardware import drivers
from vsphere_ai.lab.hardware.drivers import rdma_mtu
from vsphere_ai.lab.hardware.host import LabHost
from vsphere_ai.lab.hardware.parts import Pnic
from vsphere_ai.lab.managed.host_managers import shows
from vsphere_ai.lab.managed.networks.dvs_defaults import release
from vsphere_ai.lab.managed.networks.dvs_ports import take
from vsphere_ai.lab.managed.networks.network import join_host, port_group_at
from vsphere_ai.lab.scenario import Host as HostSpec
from vsphere_ai.lab.scenario import Vmkernel
from vsphere_ai.lab.store import ManagedObject, fill

FIRST_WITH_VERSIONS = (8, 0)
"""The first release whose hosts show driver and firmware versions of NICs (PhysicalNic, vSphere API 8.0.0.1)."""


def network_info(farm: Farm, mo: ManagedObject, spec: HostSpec) -> Any:
    """Join the host to its switches and return its HostNetworkInfo."""
    host = farm.host(mo)
    uplinks: dict[str, list[str]] = {}
    for nic in spec.nics:
        if nic.switch:
            uplinks.setdefault(nic.switch, []).append(nic.name)
    proxies = [join_host(farm, farm.named[f"switch:{name}"], mo, nics) for name, nics in uplinks.items()]
    index = len(farm.hosts)
    pnics, rdma = _devices(host)
    info = vim.host.NetworkInfo(
        pnic=pnics,
        rdmaDevice=rdma,
        proxySwitch=proxies,
        vnic=[_vnic(farm, mo, v, v.ip or f"10.{20 + n}.0.{index}") for n, v in enumerate(spec.vmkernel)],
        ipV6Enabled=False,
        dnsConfig=vim.host.DnsConfig(
            hostName=spec.name.partition(".")[0], domainName=str(mo["name"]).partition(".")[2]
        ),
    )
    if not proxies:
        info.vswitch = [
            vim.host.VirtualSwitch(
                name="vSwitch0",
                key="key-vim.host.VirtualSwitch-vSwitch0",
                numPorts=1536,
                numPortsAvailable=1530,
                mtu=1500,
                pnic=[_key("PhysicalNic", n.name) for n in host.pnics],
            )
        ]
    return fill(info)


@shows("networkSystem")
def project(farm: Farm, mo: ManagedObject) -> None:
    """Bring NICs and RDMA devices in ``config.network`` up to date; their MTU is that of the switch they serve."""
    if mo["config"] is not None:
        network, host = mo["config"].network, farm.host(mo)
        _follow_switches(network, host.pnics)
        nics = [(dict(vars(nic)), dict(vars(nic.rdma)) if nic.rdma else None) for nic in host.pnics]
        network.pnic, network.rdmaDevice = mo.shown("nics", nics, lambda: _devices(host))
        farm.store.set(mo.extra["networkSystem"], networkInfo=network)


def _devices(host: LabHost) -> tuple[list[Any], list[Any]]:
    return [_pnic(host, nic) for nic in host.pnics], [_rdma(nic) for nic in host.pnics if nic.rdma]


def _follow_switches(network: Any, nics: list[Pnic]) -> None:
    mtus = {key: proxy.mtu for proxy in network.proxySwitch or () for key in proxy.pnic or ()}
    for nic in nics:
        nic.mtu = mtus.get(_key("PhysicalNic", nic.name)) or 1500
        if nic.rdma:
            nic.rdma.mtu = rdma_mtu(nic.mtu)


def _key(kind: str, name: str) -> str:
    return f"key-vim.host.{kind}-{name}"


def _pnic(host: LabHost, nic: Pnic) -> Any:
    shows = release(host.version) >= FIRST_WITH_VERSIONS

    def at(speed: int) -> Any:
        return vim.host.PhysicalNic.LinkSpeedDuplex(speedMb=speed, duplex=True)

    return fill(
        vim.host.PhysicalNic(
            key=_key("PhysicalNic", nic.name),
            device=nic.name,
            pci=nic.pci,
            driver=nic.driver,
            driverVersion=drivers.VERSIONS.get(nic.driver) if shows else None,
            firmwareVersion=nic.firmware if shows else None,
            linkSpeed=at(nic.forced_mb or nic.speed_mb) if nic.link_up else None,
            validLinkSpecification=[at(speed) for speed in nic.speeds],
            # unset: it is negotiated
            spec=vim.host.PhysicalNic.Specification(linkSpeed=at(nic.forced_mb) if nic.forced_mb else None),
            wakeOnLanSupported=False,
            mac=nic.mac,
            autoNegotiateSupported=True,
            rdmaDevice=_key("RdmaDevice", nic.rdma.name) if nic.rdma else None,
        )
    )


def _rdma(nic: Pnic) -> Any:
    device = nic.rdma
    if device is None:
        raise ValueError(f"{nic.name} has no RDMA device")
    return vim.host.RdmaDevice(
        key=_key("RdmaDevice", device.name),
        device=device.name,
        driver=device.driver,
        description=device.description,
        backing=vim.host.RdmaDevice.PnicBacking(pairedUplink=_key("PhysicalNic", nic.name)),
        connectionInfo=vim.host.RdmaDevice.ConnectionInfo(
            state=device.state.lower(), mtu=device.mtu, speedInMbps=device.speed_gb * 1000
        ),
        capability=vim.host.RdmaDevice.Capability(
            roceV1Capable=device.rocev1, roceV2Capable=device.rocev2, iWarpCapable=False
        ),
    )


def _vnic(farm: Farm, host: ManagedObject, spec: Vmkernel, address: str) -> Any:
    target = port_group_at(farm, spec.port_group, host)
    port: Any = spec.port_group
    mtu = 1500
    if target is not None:
        dvs = target.extra["dvs"]
        mtu = dvs["config"].maxMtu
        port = vim.dvs.PortConnection(switchUuid=dvs["uuid"], portgroupKey=target.moid)
    made = new_vnic(farm, spec.name, port)
    made.spec.ip = vim.host.IpConfig(dhcp=False, ipAddress=address, subnetMask="255.255.0.0")
    made.spec.mac = mac_of(int(spec.name[3:] or 0), len(farm.hosts))
    made.spec.mtu = spec.mtu or mtu
    return fill(made)


def mac_of(number: int, host: int) -> str:
    """Return the MAC address of a host's VMkernel adapter."""
    return f"00:50:56:6{host % 16:x}:{host % 256:02x}:{number:02x}"


def new_vnic(farm: Farm, name: str, at: Any) -> Any:
    """Return a VMkernel adapter on a standard port group (its name) or on a distributed one (a PortConnection)."""
    spec = vim.host.VirtualNic.Specification(netStackInstanceKey="defaultTcpipStack")
    made = vim.host.VirtualNic(device=name, key=_key("VirtualNic", name), portgroup="", spec=spec)
    if isinstance(at, str):
        made.portgroup = spec.portgroup = at
        return made
    made.port = take(farm, farm.store.objects[at.portgroupKey])
    spec.distributedVirtualPort = vim.dvs.PortConnection(
        switchUuid=at.switchUuid, portgroupKey=at.portgroupKey, portKey=made.port, connectionCookie=1
    )
    return made
