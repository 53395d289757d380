"""An estate with two GPU hosts and some VMs, written as vCenter would answer; every test changes what it is about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from support.declared import healthy
from vsphere_ai.gpu.smi.live import COMPUTE, GPUS, INSTANCES
from vsphere_ai.language.playbooks.play import Power, Rolling, TargetPlan
from vsphere_ai.model.facts import About, CommandOutput, Estate, Facts, ProbeFailure
from vsphere_ai.model.state import Target
from vsphere_ai.model.view import View
from vsphere_ai.planning.observing import observe
from vsphere_ai.resources import kinds

PCI = ("0000:3b:00.0", "0000:86:00.0")
A100 = 0x20F1
H100 = 0x2331
ESX1, ESX2, ESX3 = (Target("host", f"esx0{n}", f"HostSystem:host-{n}") for n in (1, 2, 3))
DRS = {"_typeName": "ClusterDrsConfigInfo", "enabled": True, "defaultVmBehavior": "fullyAutomated"}
CLUSTER = "ClusterComputeResource:domain-c1"
GROUP, LAN = "DistributedVirtualPortgroup:dvportgroup-1", "DistributedVirtualPortgroup:dvportgroup-2"
SWITCH = "VmwareDistributedVirtualSwitch:dvs-1"
ABOUT = About("vCenter", "7.0.2", "17694817", "7.0.2.0", "uuid-1")


def vm(number: int) -> Target:
    """Return the target of VM number N."""
    return Target("vm", f"train-{number:02d}", f"VirtualMachine:vm-{number}")


def gpu_info(pci: str, active: str = "shared", vms: Sequence[str] = ()) -> dict[str, Any]:
    return {"_typeName": "HostGraphicsInfo", "pciId": pci, "vendorName": "NVIDIA Corporation", "deviceName": "A100",
            "graphicsType": active, "memorySizeInKB": 41943040, "vm": tuple(vms)}  # fmt: skip


def pci_device(pci: str, device: int) -> dict[str, Any]:
    return {"_typeName": "HostPciDevice", "id": pci, "classId": 0x0302, "vendorId": 0x10DE, "deviceId": device,
            "subDeviceId": 0x145F, "subVendorId": 0x10DE, "deviceName": "GPU", "vendorName": "NVIDIA"}  # fmt: skip


def smi(modes: Mapping[str, tuple[str, str]], instances: Sequence[tuple[int, str, int, int, str]] = (),
        driver: str = "535.183.01") -> dict[str, CommandOutput]:  # fmt: skip
    """Return probe answers: PCI -> (current, pending); instances as (gpu index, name, profile id, gi, start:size)."""
    rows = [f"{i}, 0000{pci.upper()}, NVIDIA A100-PCIE-40GB, GPU-{i}, {now}, {later}, 40960, {driver}"
            for i, (pci, (now, later)) in enumerate(modes.items())]  # fmt: skip
    head = "+----+\n| GPU instances: |\n| GPU Name Profile Instance Placement |\n|  ID ID Start:Size |\n|====|\n"
    table = "".join(f"|  {g}  MIG {name}  {pid}  {gi}  {place} |\n+---+\n" for g, name, pid, gi, place in instances)
    none = CommandOutput(6, "No GPU instances found: Not Found\n")
    compute = "".join(f"|  {g}  {gi}  MIG {name}  0  0  0:1 |\n+---+\n" for g, name, _, gi, _ in instances)
    ci_head = "+---+\n| Compute instances: |\n| GPU GPU Name Profile Instance Placement |\n|====|\n"
    return {
        GPUS.name: CommandOutput(0, "\n".join(rows) + "\n"),
        INSTANCES.name: CommandOutput(0, head + table) if instances else none,
        COMPUTE.name: CommandOutput(0, ci_head + compute) if instances else none,
    }


OFF = ("Disabled", "Disabled")
ON = ("Enabled", "Enabled")


def host(target: Target, *, active: str = "shared", configured: str | None = None, device: int = A100,
         probes: Mapping[str, CommandOutput | ProbeFailure] | None = None, **more: Any) -> Facts:  # fmt: skip
    """Return the facts of a host with two GPUs; `more` overrides properties (dots as double underscores)."""
    config = {"_typeName": "HostGraphicsConfig", "hostDefaultGraphicsType": configured or active,
              "sharedPassthruAssignmentPolicy": "performance",
              "deviceType": tuple({"_typeName": "HostGraphicsConfigDeviceType", "deviceId": p,
                                   "graphicsType": configured or active} for p in PCI)}  # fmt: skip
    properties = {
        **healthy("host"),
        "name": target.name,
        "parent": CLUSTER,
        "config.product": {"version": "7.0.2", "build": "17867351", "_typeName": "AboutInfo"},
        "summary.config.product": {"version": "7.0.2", "build": "17867351", "_typeName": "AboutInfo"},
        "runtime.connectionState": "connected",
        "runtime.inMaintenanceMode": False,
        "runtime.bootTime": "2026-01-01T00:00:00+00:00",
        "summary.rebootRequired": False,
        "config.lockdownMode": "lockdownDisabled",
        "config.service.service": ({"_typeName": "HostService", "key": "TSM-SSH", "running": True, "policy": "off"},),
        "config.graphicsConfig": config,
        "config.graphicsInfo": tuple(gpu_info(p, active) for p in PCI),
        "config.sharedPassthruGpuTypes": (),
        "config.pciPassthruInfo": tuple(
            {"_typeName": "HostSriovInfo", "id": p, "passthruCapable": True, "passthruEnabled": False,
             "passthruActive": False, "sriovCapable": True} for p in PCI),
        "hardware.pciDevice": tuple(pci_device(p, device) for p in PCI),
        "hardware.memorySize": 1 << 40,
        "summary.hardware.numCpuThreads": 128,
        "summary.hardware.numCpuCores": 64,
        "summary.hardware.cpuMhz": 2500,
        "network": (),
        "software": ({"_typeName": "SoftwarePackage", "name": "NVIDIA-AIE_ESXi_7.0.2_Driver",
                      "version": "470.63-1OEM.702.0.0.17630552", "vendor": "NVIDIA"},),
        "option:Net.PVRDMAVmknic": "",
        "config.firewall.ruleset": ({"_typeName": "HostFirewallRuleset", "key": "pvrdma", "enabled": False},),
        "config.network.vnic": tuple({"_typeName": "HostVirtualNic", "device": d} for d in ("vmk0", "vmk2")),
        "config.network.pnic": ({"_typeName": "PhysicalNic", "key": "key-vmnic4", "device": "vmnic4",
                                 "driver": "nmlx5_core"},
                                {"_typeName": "PhysicalNic", "key": "key-vmnic5", "device": "vmnic5"}),
        "config.network.rdmaDevice": ({
            "_typeName": "HostRdmaDevice", "key": "key-vmrdma0", "device": "vmrdma0",
            "backing": {"_typeName": "HostRdmaDevicePnicBacking", "pairedUplink": "key-vmnic4"},
            "connectionInfo": {"state": "active", "mtu": 4096, "speedInMbps": 100000},
            "capability": {"roceV1Capable": True, "roceV2Capable": True, "iWarpCapable": False}},),
        "config.network.proxySwitch": ({
            "_typeName": "HostProxySwitch", "dvsUuid": "50 2b", "dvsName": "dvs-rdma", "pnic": ("key-vmnic4",),
            "uplinkPort": ({"key": "12", "value": "Uplink 1"},),
            "spec": {"backing": {"pnicSpec": ({"pnicDevice": "vmnic4", "uplinkPortKey": "12"},)}}},),
        **{k.replace("__", "."): v for k, v in more.items()},
    }  # fmt: skip
    answers = smi(dict.fromkeys(PCI, OFF)) if probes is None else probes
    return Facts(target.ref, {k: v for k, v in properties.items() if v is not None}, probes=answers)


def guest(target: Target, on: Target, **more: Any) -> Facts:
    """Return the facts of a running Linux VM; `more` overrides properties (dots as double underscores)."""
    properties = {
        **healthy("vm"),
        "name": target.name,
        "parent": "Folder:group-v1",
        "runtime.host": on.ref,
        "runtime.powerState": "poweredOn",
        "runtime.connectionState": "connected",
        "config.changeVersion": "1",
        "config.version": "vmx-19",
        "config.firmware": "efi",
        "config.guestId": "ubuntu64Guest",
        "config.hardware.memoryMB": 65536,
        "config.hardware.numCPU": 8,
        "config.memoryReservationLockedToMax": False,
        "config.memoryAllocation.reservation": 0,
        "config.cpuAllocation.reservation": 0,
        "config.cpuHotAddEnabled": False,
        "config.memoryHotAddEnabled": False,
        "config.hardware.device": (),
        "config.extraConfig": (),
        "guest.toolsRunningStatus": "guestToolsRunning",
        "guest.toolsVersionStatus2": "guestToolsUnmanaged",
        "config.tools.toolsVersion": 11333,
        **{k.replace("__", "."): v for k, v in more.items()},
    }
    return Facts(target.ref, {k: v for k, v in properties.items() if v is not None})


def vgpu_device(key: int, profile: str) -> dict[str, Any]:
    return {"_typeName": "VirtualPCIPassthrough", "key": key,
            "backing": {"_typeName": "VirtualPCIPassthroughVmiopBackingInfo", "vgpu": profile}}  # fmt: skip


def pvrdma_device(key: int, group: str = "dvportgroup-1", protocol: str | None = "rocev2") -> dict[str, Any]:
    device = {"_typeName": "VirtualVmxnet3Vrdma", "key": key, "macAddress": f"00:50:56:00:00:{key % 100:02d}",
              "backing": {"_typeName": "VirtualEthernetCardDistributedVirtualPortBackingInfo",
                          "port": {"_typeName": "DistributedVirtualSwitchPortConnection", "portgroupKey": group,
                                   "switchUuid": "50 2b", "portKey": "7"}}}  # fmt: skip
    return {**device, "deviceProtocol": protocol} if protocol else device


def network() -> tuple[Facts, ...]:
    """Return an RDMA switch with one port group, and a port group of another switch."""

    def group(ref: str, name: str, switch: str, uplinks: tuple[str, ...]) -> Facts:
        policy = {"uplinkPortOrder": {"activeUplinkPort": uplinks}}
        return Facts(ref, {"name": name, "parent": "Folder:group-n1", "key": ref.partition(":")[2],
                           "config.uplink": False, "config.distributedVirtualSwitch": switch,
                           "config.defaultPortConfig": {"uplinkTeamingPolicy": policy}})  # fmt: skip

    return (
        Facts(
            SWITCH,
            {
                "name": "dvs-rdma",
                "uuid": "50 2b",
                "config.maxMtu": 9000,
                "parent": "Folder:group-n1",
                "config.productInfo.version": "7.0.2",
            },
        ),
        Facts(
            "VmwareDistributedVirtualSwitch:dvs-2", {"name": "dvs-lan", "uuid": "50 2c", "parent": "Folder:group-n1"}
        ),
        group(GROUP, "dvpg-rdma", SWITCH, ("Uplink 1",)),
        group(LAN, "dvpg-lan", "VmwareDistributedVirtualSwitch:dvs-2", ("Uplink 1",)),
    )


def estate(*facts: Facts, about: About = ABOUT) -> Estate:
    """Return an estate of the given objects, with a cluster, folders and a network around them."""
    around = (
        Facts("Folder:group-d1", {"name": "Datacenters"}),
        Facts("Datacenter:dc-1", {"name": "DC0", "parent": "Folder:group-d1"}),
        Facts("Folder:group-v1", {"name": "vm", "parent": "Datacenter:dc-1"}),
        Facts("Folder:group-h1", {"name": "host", "parent": "Datacenter:dc-1"}),
        Facts("Folder:group-n1", {"name": "network", "parent": "Datacenter:dc-1"}),
        Facts(CLUSTER, {"name": "gpu-a", "parent": "Folder:group-h1", "configurationEx": {"drsConfig": DRS}}),
        *network(),
    )
    return Estate(about, {f.ref: f for f in (*around, *facts)})


def view(of: Estate, **more: Any) -> View:
    """Return a view of what is, with every state observed."""
    return View(of, observe(of, kinds()), **more)


def state_of(kind: Any, facts: Facts) -> Any:
    """Return what a kind observes of a host or VM by itself."""
    return kind.observe(facts, estate(facts))


def wants(*states: Any, rolling: Rolling | None = None, power: Power | None = None) -> TargetPlan:
    """Return what a playbook would want of one target."""
    return TargetPlan(tuple(states), rolling or Rolling(evacuate="power_off"), power or Power())


def made(of: Estate, desired: Mapping[Target, TargetPlan]) -> Any:
    """Return the plan."""
    from vsphere_ai.planning.planner import make_plan

    return make_plan(desired, of, kinds(), "test.yml")
