"""EnvironmentBrowser: what a host or a cluster offers to virtual machines."""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.hardware.host import LabHost
from vsphere_ai.lab.hardware.vgpu import known_types, supported_types
from vsphere_ai.lab.managed import Call, reads
from vsphere_ai.lab.managed.placement import newest_hardware
from vsphere_ai.lab.managed.refusals import host_not_connected, invalid_argument
from vsphere_ai.lab.managed.vms import device_groups
from vsphere_ai.lab.managed.vms.devices import max_vgpus
from vsphere_ai.lab.managed.vms.devices_nic import max_pvrdma
from vsphere_ai.lab.managed.vms.devices_pci import max_passthrough, system_id
from vsphere_ai.lab.store import ManagedObject, fill

DEV = vim.vm.device
GUESTS = {
    "ubuntu64Guest": ("linuxGuest", "Ubuntu Linux (64-bit)"),
    "otherGuest64": ("otherGuestFamily", "Other (64-bit)"),
}
VERSIONS = (10, 11, 13, 14, 15, 17, 18, 19, 20, 21, 22)


@reads(vim.EnvironmentBrowser, "QueryConfigTarget")
def query_config_target(call: Call, host: Any = None) -> Any:
    """Return vGPU types, passthrough devices and networks of a host, or of all hosts together."""
    hosts = _hosts(call, host)
    farm = call.farm
    types = sorted({t for h in hosts for t in supported_types(farm.host(h))})
    networks = list(dict.fromkeys(ref for h in hosts for ref in h["network"]))
    groups = [farm.store.get(r) for r in networks]
    return fill(
        vim.vm.ConfigTarget(
            numCpus=max(h["summary"].hardware.numCpuThreads for h in hosts),
            numCpuCores=max(h["summary"].hardware.numCpuCores for h in hosts),
            numNumaNodes=2,
            smcPresent=False,
            maxMemMBOptimalPerf=min(h["summary"].hardware.memorySize >> 20 for h in hosts),
            sharedGpuPassthroughTypes=[vim.vm.PciSharedGpuPassthroughInfo(name=t, vgpu=t) for t in types],
            pciPassthrough=[p for h in hosts for p in _passthrough(h)],
            vendorDeviceGroupInfo=list(
                {g.deviceGroupName: g for h in hosts for g in device_groups.offered(farm.host(h))}.values()
            ),
            distributedVirtualPortgroup=[_portgroup(g) for g in groups if "dvs" in g.extra],
            network=[vim.vm.NetworkInfo(name=g["name"], network=g["summary"]) for g in groups if "dvs" not in g.extra],
        )
    )


@reads(vim.EnvironmentBrowser, "QueryConfigOptionDescriptor")
def query_config_option_descriptor(call: Call) -> Any:
    """Return the hardware versions and the hosts that run each."""
    hosts = _hosts(call, None)
    newest = {h.moid: newest_hardware(call.farm.host(h).version) for h in hosts}
    best = min(newest.values())
    return [
        vim.vm.ConfigOptionDescriptor(
            key=f"vmx-{number}",
            description=f"Hardware version {number}",
            host=[h.ref for h in hosts if newest[h.moid] >= number],
            createSupported=True,
            runSupported=True,
            upgradeSupported=True,
            defaultConfigOption=number == best,
        )
        for number in VERSIONS
        if number <= max(newest.values())
    ]


@reads(vim.EnvironmentBrowser, "QueryConfigOptionEx")
def query_config_option_ex(call: Call, spec: Any = None) -> Any:
    """Return what a hardware version offers on a host."""
    if spec is None:
        return _option(call, None, None)
    return _option(call, spec.key, spec.host, tuple(spec.guestId))


@reads(vim.EnvironmentBrowser, "QueryConfigOption")
def query_config_option(call: Call, key: str | None = None, host: Any = None) -> Any:
    """Return what a hardware version offers on a host."""
    return _option(call, key, host)


@reads(vim.EnvironmentBrowser, "QueryTargetCapabilities")
def query_target_capabilities(call: Call, host: Any = None) -> Any:
    """Return the capabilities of a host."""
    return _hosts(call, host)[0]["capability"]


def _hosts(call: Call, ref: Any) -> list[ManagedObject]:
    farm, compute = call.farm, call.mo.extra["compute"]
    if ref is not None:
        host = farm.store.get(ref)
        if host["parent"] != compute.ref:
            raise invalid_argument("host", "it is not in this cluster")
        if not farm.host(host).up or host["config"] is None:
            raise host_not_connected()
        return [host]
    up = [h for h in (farm.store.get(r) for r in compute["host"]) if farm.host(h).up and h["config"] is not None]
    if not up:
        raise host_not_connected()
    return up


def _passthrough(host: ManagedObject) -> list[Any]:
    capable = {i.id for i in host["config"].pciPassthruInfo if i.passthruActive}
    system = system_id(host)
    return [
        vim.vm.PciPassthroughInfo(name=d.deviceName, pciDevice=d, systemId=system)
        for d in host["hardware"].pciDevice
        if d.id in capable
    ]


def _portgroup(group: ManagedObject) -> Any:
    dvs = group.extra["dvs"]
    return vim.dvs.DistributedVirtualPortgroupInfo(
        switchName=dvs["name"],
        switchUuid=dvs["uuid"],
        portgroupName=group["name"],
        portgroupKey=group.moid,
        portgroupType="earlyBinding",
        uplinkPortgroup=group.extra["uplink"],
        portgroup=group.ref,
    )


def _option(call: Call, key: str | None, ref: Any, guests: tuple[str, ...] = ()) -> Any:
    farm: Farm = call.farm
    hosts = _hosts(call, ref)
    lowest = min(hosts, key=lambda h: newest_hardware(farm.host(h).version))
    newest = newest_hardware(farm.host(lowest).version)
    key = key or f"vmx-{newest}"
    number = int(key[4:]) if key.startswith("vmx-") and key[4:].isdigit() else 0
    if number not in VERSIONS or number > newest:
        raise invalid_argument("key", key)
    described = [
        vim.vm.GuestOsDescriptor(id=g, family=family, fullName=name, recommendedFirmware="efi")
        for g, (family, name) in GUESTS.items()
        if not guests or g in guests
    ]
    hardware = vim.vm.VirtualHardwareOption(
        hwVersion=number,
        virtualDeviceOption=[_controllers(number, farm.host(lowest).version), *_devices(farm.host(lowest), number)],
        numCPU=[1, 2, 4, 8, 16, 32, 64],
    )
    option = vim.vm.ConfigOption(version=key, description=key, guestOSDescriptor=described, hardwareOptions=hardware)
    return fill(option)


def _controllers(number: int, version: str) -> Any:
    def up_to(most: int) -> Any:
        return vim.option.IntOption(min=0, max=most, defaultValue=0)

    return DEV.VirtualPCIControllerOption(
        type=DEV.VirtualPCIController,
        deprecated=False,
        plugAndPlay=False,
        numEthernetCards=up_to(10),
        numVmxnet3EthernetCards=up_to(10),
        numVmxnet3VrdmaEthernetCards=up_to(max_pvrdma(number)),
        numPCIPassthroughDevices=up_to(max_passthrough(number, version)),
        numSCSIControllers=up_to(4),
    )


def _devices(host: LabHost, number: int) -> list[Any]:
    types = list(known_types(host))
    backings = [
        DEV.VirtualPCIPassthroughOption.VmiopBackingOption(
            type=DEV.VirtualPCIPassthrough.VmiopBackingInfo,
            vgpu=vim.option.StringOption(defaultValue=name, validCharacters=""),
            maxInstances=max_vgpus(host.version),
        )
        for name in types
    ]
    options = [
        DEV.VirtualPCIPassthroughOption(
            type=DEV.VirtualPCIPassthrough,
            deprecated=False,
            plugAndPlay=False,
            hotRemoveSupported=False,
            backingOption=backings,
        )
    ]
    if number >= 13:
        protocols = [vim.ElementDescription(key=p, label=p, summary=p) for p in ("rocev1", "rocev2")]
        choice = vim.option.ChoiceOption(choiceInfo=protocols, defaultIndex=1)
        options.append(
            DEV.VirtualVmxnet3VrdmaOption(
                type=DEV.VirtualVmxnet3Vrdma,
                deprecated=False,
                plugAndPlay=False,
                deviceProtocol=choice if 14 <= number <= 19 else None,
            )
        )
    return options
