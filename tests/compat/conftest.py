"""A small healthy estate as plain values: every rule passes on it; tests change one thing at a time."""

from dataclasses import replace

import pytest
from support.declared import healthy

from vsphere_ai.model.facts import About, CommandOutput, Estate, Facts
from vsphere_ai.model.state import Target
from vsphere_ai.model.view import View
from vsphere_ai.resources import kinds

ABSENT = object()
A100 = {"id": "0000:3b:00.0", "vendorId": 0x10DE, "classId": 0x0302, "deviceId": 0x20F1, "subDeviceId": 0x145F,
        "deviceName": "GA100 [A100 PCIe 40GB]"}  # fmt: skip
VF = {**A100, "id": "0000:3b:00.4", "subDeviceId": 0}
# 0xa2d6 and 0xb000 as vSphere shows them: signed 16-bit numbers
NIC = {"id": "0000:5e:00.0", "vendorId": 0x15B3, "classId": 0x0200, "deviceId": -23850, "subDeviceId": -20480}
DRIVER = {"name": "NVIDIA-AIE_ESXi_7.0.2_Driver", "version": "510.47.03-1OEM.702.0.0.17630552", "vendor": "NVIDIA"}

ABOUT = About("vc01", "7.0.2", "17694817", "7.0.2.0", "instance")


def vgpu_listing(*vgpus):
    """Return what `nvidia-smi vgpu -q` prints of vGPUs, given as (VM, licence, guest driver)."""
    text = f"GPU 0000{A100['id'].upper()}\n    Active vGPUs : {len(vgpus)}\n"
    for number, (vm, licence, driver) in enumerate(vgpus, 1):
        text += f"    vGPU ID : {number}\n        VM ID : {number}\n        VM Name : {vm}\n"
        text += f"        vGPU Name : GRID A100-20C\n        Guest Driver Version : {driver}\n"
        text += f"        License Status : {licence}\n        GPU Instance ID : N/A\n"
    return text


HOST = {
    **healthy("host"),
    "name": "esx01",
    "parent": "ClusterComputeResource:domain-c1",
    "config.product": {"version": "7.0.2", "build": "17867351"},
    "summary.config.product": {"version": "7.0.2", "build": "17867351"},
    "runtime.connectionState": "connected",
    "runtime.inMaintenanceMode": False,
    "summary.rebootRequired": False,
    "config.lockdownMode": "lockdownDisabled",
    "config.service.service": ({"key": "TSM-SSH", "running": False}, {"key": "ntpd", "running": True}),
    "hardware.pciDevice": (NIC, A100, VF),
    "config.pciPassthruInfo": (
        {"id": A100["id"], "passthruCapable": True, "passthruEnabled": False, "sriovCapable": True},
        {"id": NIC["id"], "passthruCapable": True, "passthruEnabled": False},
    ),
    "config.graphicsInfo": ({"pciId": A100["id"], "graphicsType": "sharedDirect"},
                            {"pciId": "0000:03:00.0", "graphicsType": "basic"}),
    "config.graphicsConfig": {"hostDefaultGraphicsType": "sharedDirect", "deviceType": ()},
    "software": (DRIVER, {"name": "esx-base", "version": "7.0.2-0.0.17867351"}),
    "option:Net.PVRDMAVmknic": "vmk2",
    "config.network.rdmaDevice": (
        {"device": "vmrdma0", "connectionInfo": {"state": "active", "mtu": 4096},
         "backing": {"pairedUplink": "key-vmnic4"}, "capability": {"roceV2Capable": True}},
    ),
    "config.network.pnic": ({"key": "key-vmnic4", "device": "vmnic4", "driver": "nmlx5_core"},),
    "config.network.proxySwitch": (
        {"dvsUuid": "50 2b", "dvsName": "dvs-ai", "pnic": ("key-vmnic4",), "uplinkPort": ({"key": "1", "value": "up"},),
         "spec": {"backing": {"pnicSpec": ({"pnicDevice": "vmnic4", "uplinkPortKey": "1"},)}}},
    ),
    "config.network.vnic": (
        {"device": "vmk2", "spec": {"mtu": 1500, "distributedVirtualPort": {"switchUuid": "50 2b"}}},
    ),
    "config.firewall.ruleset": ({"key": "pvrdma", "enabled": True},),
    "query:nmlx5_core": "max_vfs=8 pfctx=0x08 pfcrx=0x08",
    "probe:nvidia-smi vgpus": vgpu_listing(
        ("train-01", "Licensed (Expiry: 2026-11-30 5:2:12 GMT)", "510.85.02"), ("bare", "N/A", "N/A"),
        ("old", "Unlicensed (Unrestricted)", "470.82.01"), ("older", "Unlicensed", "460.32.03"),
        ("new", "Licensed", "527.15"), ("odd", "Licensed", "515.48.07")),
    "probe:nvidia-smi gpus": f"0, 0000{A100['id']}, NVIDIA A100, GPU-1, Disabled, Disabled, 40960, 510.47.03\n",
    "probe:nvidia-smi instances": "No MIG-enabled devices found.\n",
    "probe:nvidia-smi compute instances": "No MIG-enabled devices found.\n",
    "probe:dcb:vmnic4": "   Mode: 3 - IEEE Mode\n   Enabled: true\n   PFC Enabled: true\n"
                        "   PFC Configuration: 0 0 0 1 0 0 0 0\n",
}  # fmt: skip

VGPU = {"_typeName": "VirtualPCIPassthrough",
        "backing": {"_typeName": "VirtualPCIPassthroughVmiopBackingInfo", "vgpu": "grid_a100-20c"}}  # fmt: skip
PVRDMA = {"_typeName": "VirtualVmxnet3Vrdma", "deviceProtocol": "rocev2",
          "backing": {"port": {"portgroupKey": "dvportgroup-1"}}}  # fmt: skip
DISK = {"_typeName": "VirtualDisk", "backing": None}

VM = {
    **healthy("vm"),
    "name": "train-01",
    "runtime.host": "HostSystem:host-1",
    "runtime.connectionState": "connected",
    "runtime.powerState": "poweredOn",
    "config.version": "vmx-19",
    "config.firmware": "efi",
    "config.guestId": "ubuntu64Guest",
    "config.tools.toolsVersion": 11333,
    "guest.toolsRunningStatus": "guestToolsRunning",
    "guest.toolsVersionStatus2": "guestToolsUnmanaged",
    "config.extraConfig": (),
    "config.hardware.device": (DISK, VGPU, PVRDMA),
    "config.memoryReservationLockedToMax": True,
    "config.cpuHotAddEnabled": False,
    "config.memoryHotAddEnabled": False,
}
GROUP = {"name": "dvpg-rdma", "config.distributedVirtualSwitch": "VmwareDistributedVirtualSwitch:dvs-1",
         "config.defaultPortConfig": {"uplinkTeamingPolicy": {"uplinkPortOrder": {"activeUplinkPort": ("up",)}}},
         }  # fmt: skip
SWITCH = {"name": "dvs-ai", "uuid": "50 2b", "config.maxMtu": 1500, "config.productInfo.version": "7.0.2"}

ESX01 = Target("host", "esx01", "HostSystem:host-1")
TRAIN = Target("vm", "train-01", "VirtualMachine:vm-1")
OBJECTS = {
    ESX01.ref: HOST,
    TRAIN.ref: VM,
    "DistributedVirtualPortgroup:dvportgroup-1": GROUP,
    "VmwareDistributedVirtualSwitch:dvs-1": SWITCH,
    "ClusterComputeResource:domain-c1": {"name": "gpu-a"},
    "ClusterComputeResource:domain-c9": {"name": "gpu-z", "configManagerEnabled": True, "lifecycleManaged": True},
}


def _state(kind, runs_on=lambda host, view: True, **fields):
    """A state with these fields, of a VM that can run where `runs_on` says."""
    own = type("Planned", (kinds()[kind],), {"runs_on": lambda self, host, view: runs_on(host, view)})
    return own.model_construct(**fields)


class World:
    """Builds views of the healthy estate with changes: {reference: {path: value or ABSENT}}."""

    absent = ABSENT
    about, host, vm = ABOUT, ESX01, TRAIN
    a100, vf, nic, driver, vgpu, pvrdma = A100, VF, NIC, DRIVER, VGPU, PVRDMA
    host_properties, vm_properties = HOST, VM

    def view(self, changes=None, *, planned=None, about=None, unreadable=None, rebooting=()):
        """Return a view; `planned` is {(ref, kind): fields}, `unreadable` {ref: {path: reason}}."""
        facts = {}
        changes = changes or {}
        for ref in [*OBJECTS, *(r for r in changes if r not in OBJECTS)]:
            change = changes.get(ref, {})
            if change is ABSENT:
                continue
            merged = {**OBJECTS.get(ref, {}), **change}
            shown = {p: v for p, v in merged.items() if v is not ABSENT and not p.startswith("probe:")}
            answers = {p.removeprefix("probe:"): CommandOutput(0, v) for p, v in merged.items()
                       if p.startswith("probe:") and v is not ABSENT}  # fmt: skip
            facts[ref] = Facts(ref, shown, (unreadable or {}).get(ref, {}), answers)
        states = {}
        for (ref, kind), fields in (planned or {}).items():
            states.setdefault(ref, {})[kind] = _state(kind, **fields)
        estate = Estate(replace(ABOUT, **(about or {})), facts)
        return View(estate, {}, frozenset(rebooting), states)


@pytest.fixture(scope="session")
def world():
    return World()
