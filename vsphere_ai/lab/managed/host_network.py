"""``config.network`` of a host: physical NICs, RDMA devices, proxy switches and VMkernel adapters, linked by keys."""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.hardware.parts import Pnic
from vsphere_ai.lab.managed.network import join_host, new_port
from vsphere_ai.lab.scenario import Host as HostSpec
from vsphere_ai.lab.store import ManagedObject, fill


def network_info(farm: Farm, mo: ManagedObject, spec: HostSpec) -> Any:
    """Join the host to its switches and return its HostNetworkInfo."""
    host = farm.host(mo)
    uplinks: dict[str, list[str]] = {}
    for nic in spec.nics:
        if nic.switch:
            uplinks.setdefault(nic.switch, []).append(nic.name)
    proxies = [join_host(farm, farm.named[f"switch:{name}"], mo, nics) for name, nics in uplinks.items()]
    index = len(farm.hosts)
    info = vim.host.NetworkInfo(
        pnic=[_pnic(nic) for nic in host.pnics],
        rdmaDevice=[_rdma(nic) for nic in host.pnics if nic.rdma],
        proxySwitch=proxies,
        vnic=[
            _vnic(farm, v.name, v.port_group, v.ip or f"10.{20 + n}.0.{index}", index)
            for n, v in enumerate(spec.vmkernel)
        ],
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


def project(farm: Farm, mo: ManagedObject) -> None:
    """Bring the state of RDMA devices in ``config.network`` up to date."""
    if mo["config"] is not None:
        mo["config"].network.rdmaDevice = [_rdma(nic) for nic in farm.host(mo).pnics if nic.rdma]
        farm.store.set(mo.extra["networkSystem"], networkInfo=mo["config"].network)


def _key(kind: str, name: str) -> str:
    return f"key-vim.host.{kind}-{name}"


def _pnic(nic: Pnic) -> Any:
    speed = vim.host.PhysicalNic.LinkSpeedDuplex(speedMb=nic.speed_mb, duplex=True)
    return fill(
        vim.host.PhysicalNic(
            key=_key("PhysicalNic", nic.name),
            device=nic.name,
            pci=nic.pci,
            driver=nic.driver,
            linkSpeed=speed if nic.link_up else None,
            spec=vim.host.PhysicalNic.Specification(linkSpeed=speed),
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


def _vnic(farm: Farm, name: str, group: str, address: str, index: int) -> Any:
    target = farm.named.get(f"portgroup:{group}")
    port = None
    mtu = 1500
    if target is not None:
        dvs = target.extra["dvs"]
        mtu = dvs["config"].maxMtu
        port = vim.dvs.PortConnection(
            switchUuid=dvs["uuid"], portgroupKey=target.moid, portKey=new_port(dvs), connectionCookie=1
        )
    return fill(
        vim.host.VirtualNic(
            device=name,
            key=_key("VirtualNic", name),
            portgroup="" if port else group,
            port=port.portKey if port else None,
            spec=vim.host.VirtualNic.Specification(
                ip=vim.host.IpConfig(dhcp=False, ipAddress=address, subnetMask="255.255.0.0"),
                mac=f"00:50:56:6{index % 16:x}:{index % 256:02x}:{int(name[3:] or 0):02x}",
                mtu=mtu,
                distributedVirtualPort=port,
                portgroup=None if port else group,
                netStackInstanceKey="defaultTcpipStack",
            ),
        )
    )
