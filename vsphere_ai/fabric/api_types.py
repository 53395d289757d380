"""Data objects of the vSphere API that describe networks and devices: the fields that are read here.

Source: vSphere Web Services API reference; a field that is unset on the server is absent. A type that only others here
have bears the name it has there.
"""

from __future__ import annotations

from typing import TypedDict


class KeyValue(TypedDict):
    """KeyValue: a port of a host's switch and the name of its uplink."""

    key: str
    value: str


class LinkSpeed(TypedDict, total=False):
    """PhysicalNicLinkInfo: speed in Mbit/s."""

    speedMb: int
    duplex: bool


class PhysicalNic(TypedDict, total=False):
    """PhysicalNic of a host; `pci` is its PCI address. Driver and firmware since vSphere 8.0.0.1."""

    key: str
    device: str
    pci: str
    driver: str
    driverVersion: str
    firmwareVersion: str
    linkSpeed: LinkSpeed | None
    rdmaDevice: str


class PnicSpec(TypedDict, total=False):
    """DistributedVirtualSwitchHostMemberPnicSpec: a NIC that a host gives to a switch."""

    pnicDevice: str
    uplinkPortKey: str


class _DistributedVirtualSwitchHostMemberPnicBacking(TypedDict, total=False):
    pnicSpec: tuple[PnicSpec, ...]


class _HostProxySwitchSpec(TypedDict, total=False):
    backing: _DistributedVirtualSwitchHostMemberPnicBacking


class _HostProxySwitchHostLagConfig(TypedDict, total=False):
    uplinkPort: tuple[KeyValue, ...]


class ProxySwitch(TypedDict, total=False):
    """HostProxySwitch: what a host knows of a distributed switch; `pnic` are keys of NICs, `mtu` is in bytes."""

    dvsUuid: str
    dvsName: str
    pnic: tuple[str, ...]
    uplinkPort: tuple[KeyValue, ...]
    hostLag: tuple[_HostProxySwitchHostLagConfig, ...]
    spec: _HostProxySwitchSpec
    mtu: int


class RdmaBacking(TypedDict, total=False):
    """HostRdmaDevicePnicBacking: `pairedUplink` is the key of a physical NIC."""

    pairedUplink: str


class RdmaConnection(TypedDict, total=False):
    """HostRdmaDeviceConnectionInfo: speed in Mbit/s, RDMA MTU in bytes."""

    state: str
    mtu: int
    speedInMbps: int


class _HostRdmaDeviceCapability(TypedDict, total=False):
    roceV1Capable: bool
    roceV2Capable: bool
    iWarpCapable: bool


class HostRdmaDevice(TypedDict, total=False):
    """HostRdmaDevice."""

    device: str
    description: str
    driver: str
    backing: RdmaBacking
    connectionInfo: RdmaConnection
    capability: _HostRdmaDeviceCapability


class PortConnection(TypedDict, total=False):
    """DistributedVirtualSwitchPortConnection."""

    switchUuid: str
    portgroupKey: str


class IpConfig(TypedDict, total=False):
    """HostIpConfig, IPv4."""

    dhcp: bool
    ipAddress: str
    subnetMask: str


class VnicSpec(TypedDict, total=False):
    """HostVirtualNicSpec; `mtu` in bytes."""

    mtu: int
    ip: IpConfig
    distributedVirtualPort: PortConnection
    opaqueNetwork: object
    netStackInstanceKey: str


class Vnic(TypedDict, total=False):
    """HostVirtualNic: a VMkernel adapter; `portgroup` names a standard port group."""

    device: str
    portgroup: str
    spec: VnicSpec


class _VMwareUplinkPortOrderPolicy(TypedDict, total=False):
    inherited: bool
    activeUplinkPort: tuple[str, ...]
    standbyUplinkPort: tuple[str, ...]


class _StringPolicy(TypedDict, total=False):
    value: str


class _VmwareUplinkPortTeamingPolicy(TypedDict, total=False):
    policy: _StringPolicy
    uplinkPortOrder: _VMwareUplinkPortOrderPolicy


class PortSetting(TypedDict, total=False):
    """VMwareDVSPortSetting: the settings of a port group."""

    uplinkTeamingPolicy: _VmwareUplinkPortTeamingPolicy


class ApiPciDevice(TypedDict, total=False):
    """HostPciDevice; ids are signed 16-bit numbers."""

    id: str
    vendorId: int
    deviceId: int
    classId: int
    subDeviceId: int
    deviceName: str
    vendorName: str
    parentBridge: str


class GraphicsInfo(TypedDict, total=False):
    """HostGraphicsInfo: a GPU of a host, and references of the VMs on it. `vgpuMode` since vSphere 8.0.3.0."""

    pciId: str
    graphicsType: str
    vgpuMode: str
    vm: tuple[str, ...]


class AllowedDevice(TypedDict):
    """VirtualPCIPassthroughAllowedDevice; ids are signed 16-bit numbers."""

    vendorId: int
    deviceId: int


class DeviceBacking(TypedDict, total=False):
    """The backing of a virtual device: PCI passthrough, a vGPU, or the port of an Ethernet adapter."""

    _typeName: str
    id: str
    assignedId: str
    customLabel: str
    allowedDevice: tuple[AllowedDevice, ...]
    migrateSupported: bool | None
    vendorId: int
    deviceId: str
    vgpu: str
    port: PortConnection
    deviceName: str
    opaqueNetworkId: str


class _VirtualDeviceConnectInfo(TypedDict, total=False):
    connected: bool
    startConnected: bool


class DeviceInfo(TypedDict, total=False):
    """Description of a virtual device."""

    label: str


class _VirtualDeviceDeviceGroupInfo(TypedDict):
    groupInstanceKey: int
    sequenceId: int


class VirtualDevice(TypedDict, total=False):
    """VirtualDevice of a VM, Ethernet adapters and PCI devices included."""

    _typeName: str
    key: int
    deviceInfo: DeviceInfo
    connectable: _VirtualDeviceConnectInfo
    backing: DeviceBacking
    deviceGroupInfo: _VirtualDeviceDeviceGroupInfo
    macAddress: str
    deviceProtocol: str


class ApiDeviceGroup(TypedDict):
    """VirtualMachineVirtualDeviceGroupsVendorDeviceGroup of a VM."""

    _typeName: str
    groupInstanceKey: int
    deviceGroupName: str


class GroupMember(TypedDict):
    """VendorDeviceGroupInfoComponentDeviceInfo: a member of a group that a host offers, with a template of it."""

    type: str
    device: VirtualDevice


class Shares(TypedDict, total=False):
    """SharesInfo."""

    level: str
    shares: int


class Allocation(TypedDict, total=False):
    """DvsHostInfrastructureTrafficResourceAllocation, in Mbit/s; limit -1: unlimited."""

    shares: Shares
    reservation: int
    limit: int


class TrafficResource(TypedDict, total=False):
    """DvsHostInfrastructureTrafficResource."""

    key: str
    allocationInfo: Allocation


class PoolAllocation(TypedDict, total=False):
    """DvsVmVnicResourceAllocation: quota in Mbit/s."""

    reservationQuota: int


class ResourcePool(TypedDict, total=False):
    """DVSVmVnicNetworkResourcePool."""

    key: str
    name: str
    configVersion: str
    allocationInfo: PoolAllocation
