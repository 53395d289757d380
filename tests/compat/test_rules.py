"""Every rule: its verdicts in a table, and what must hold for all of them."""

from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import state_rules
from support.declared import of_rules

from vsphere_ai.compat import gate
from vsphere_ai.model.deferred import Deferred
from vsphere_ai.model.estate.maintenance import PARTIAL, QUICK_PATCH

ABSENT = "<absent>"  # replaced by the builder's own marker
GPU = "0000:3b:00.0"
TESLA_T4 = {"id": "0000:86:00.0", "vendorId": 0x10DE, "classId": 0x0302, "deviceId": 0x1EB8, "subDeviceId": 0x12A2}
NEWEST = {**TESLA_T4, "deviceId": 0x7FFF, "deviceName": "GX999"}
A100 = {**TESLA_T4, "id": GPU, "deviceId": 0x20F1}
H100 = {**A100, "deviceId": 0x2331}
RTX_PRO = {**A100, "deviceId": 0x2BB5}
PRO_5000 = {**A100, "deviceId": 0x2BB3}
SECOND = {**A100, "id": "0000:86:00.0"}
VF = {**A100, "id": "0000:3b:00.4", "subDeviceId": 0}
BRIDGE = {**A100, "classId": 0x0680}
AIE = {"name": "NVIDIA-AIE_ESXi_7.0.2_Driver", "version": "510.47.03-1OEM.702.0.0.17630552"}
PVRDMA = {"_typeName": "VirtualVmxnet3Vrdma", "backing": {"port": {"portgroupKey": "dvportgroup-1"}}}
VGPU = {"_typeName": "VirtualPCIPassthrough", "backing": {"_typeName": "VirtualPCIPassthroughVmiopBackingInfo"}}
ROCE = {"device": "vmrdma0", "connectionInfo": {"state": "down"}, "capability": {"roceV1Capable": True}}

NO_PFC = {"query:nmlx5_core": "max_vfs=8"}
LATE = Deferred("dc", "HostSystem", "esx01", "config.network.vnic")
SMALL = {**ROCE, "connectionInfo": {"state": "active", "mtu": 1024}}


def pause(rx, tx):
    return {"nics": {"nics": {"vmnic4": SimpleNamespace(pause=SimpleNamespace(rx=rx, tx=tx))}}}


def partial(status, key=QUICK_PATCH):
    return {PARTIAL: ({"key": key, "hostStatus": status},)}


def adapter(group="dvportgroup-1", protocol=None):
    return SimpleNamespace(port_group=group, protocol=protocol)


def vnic(mtu):
    return {"device": "vmk2", "spec": {"mtu": mtu, "distributedVirtualPort": {"switchUuid": "50 2b"}}}


AWAY = {"option:Net.PVRDMAVmknic": "vmk0", "config.network.vnic": (vnic(1500), {
    "device": "vmk0", "spec": {"mtu": 1500, "distributedVirtualPort": {"switchUuid": "lan"}}})}  # fmt: skip


def vib(name="NVD-AIE_ESXi_8.0.0_Driver", version="550.54.16-1OEM.800.1.0.20613240"):
    return {"software": ({"name": name, "version": version},)}


def passthrough(**flags):
    return {"config.pciPassthruInfo": ({"id": GPU, **flags},)}


def product(version, build="1"):
    return {"config.product": {"version": version, "build": build}}


MANAGED = "ClusterComputeResource:domain-c9"
PVRDMA_HOST = {"pvrdma_host": {"vmknic": "vmk2"}}
UVM_ON = ({"key": "pciPassthru1.cfg.enable_uvm", "value": "1"},)


def vgpus(*names, uvm=None):
    return {"vgpu": {"profiles": names, "uvm": uvm}}


def group(name, profile):
    return {"device_groups": {"groups": (name,), "members": (profile, profile)}, "vgpu": {"profiles": ()}}


# rule, what is changed (in About for the vCenter), what is planned {kind: fields}, verdict, words of the message
TABLE = [
    ("vcenter.version", {}, {}, "pass", "vCenter Server 7.0.2 build 17694817"),
    ("vcenter.version", {"version": "8.0.10"}, {}, "pass", "8.0.10"),
    ("vcenter.version", {"version": "7.0.1"}, {}, "fail", "older than 7.0.2"),
    ("vcenter.version", {"version": "6.10.9"}, {}, "fail", "older"),
    ("vcenter.version", {"version": "seven"}, {}, "unknown", "'seven'"),
    ("vcenter.api", {}, {}, "pass", "7.0.2.0"),
    ("vcenter.api", {"api": "7.0.1.1"}, {}, "fail", "older than 7.0.2.0"),
    ("vcenter.api", {"api": "6.5"}, {}, "fail", "6.5"),
    ("vcenter.api", {"api": "v7_0"}, {}, "unknown", "v7_0"),
    ("vcenter.type", {}, {}, "pass", "is a vCenter"),
    ("vcenter.type", {"api_type": "HostAgent"}, {}, "warn", "no distributed port groups"),
    ("vcenter.type", {"api_type": "Toaster"}, {}, "unknown", "Toaster"),
    ("vcenter.newest", {}, {}, "pass", "no host is newer"),
    ("vcenter.newest", {"version": "7.0.3"}, {}, "pass", "no host is newer than 7.0.3"),
    ("vcenter.newest", {"version": "7.0.1"}, {}, "fail", "esx01"),
    ("vcenter.newest", {"version": "x"}, {}, "unknown", "'x'"),
    ("esxi.version", {}, {}, "pass", "7.0 U2a (7.0.2 build 17867351)"),
    ("esxi.version", product("7.0.2", "99"), {}, "pass", "unlisted build 99"),
    ("esxi.version", product("8.0.10", "odd"), {}, "pass", "unlisted"),
    ("esxi.version", product("9.0.0.0", "24755229"), {}, "pass", "9.0.0.0"),
    ("esxi.version", product("7.0.1", "19324898"), {}, "fail", "7.0 U1e"),
    ("esxi.version", product("7.0.3", "18644231"), {}, "warn", "withdrawn"),
    ("esxi.version", product("7.x"), {}, "unknown", "'7.x'"),
    ("host.connected", {}, {}, "pass", "connected"),
    ("host.connected", {"runtime.connectionState": "notResponding"}, {}, "fail", "notResponding"),
    ("host.maintenance", {}, {}, "pass", "not in"),
    ("host.maintenance", {"runtime.inMaintenanceMode": True}, {}, "warn", "stays so"),
    ("host.partial-maintenance", {}, {}, "pass", "no partial"),
    ("host.partial-maintenance", partial("notInPartialMM"), {}, "pass", "no partial"),
    ("host.partial-maintenance", partial("enteringPartialMM"), {}, "warn", QUICK_PATCH),
    ("host.partial-maintenance", partial("inPartialMM", "nsxPartialMM"), {}, "warn", "nsxPartialMM"),
    ("host.reboot-pending", {}, {}, "pass", "no restart"),
    ("host.reboot-pending", {"summary.rebootRequired": True}, {}, "warn", "waits for a restart"),
    ("host.lockdown", {}, {}, "pass", "off"),
    ("host.lockdown", {"config.lockdownMode": "lockdownNormal"}, {}, "warn", "lockdownNormal"),
    ("host.lockdown", {"config.lockdownMode": "lockdownStrict"}, {}, "warn", "lockdownStrict"),
    ("host.ssh-service", {}, {}, "pass", "started when needed"),
    ("host.ssh-service", {"config.service.service": ({"key": "TSM-SSH", "running": True},)}, {}, "pass", "is running"),
    ("host.ssh-service", {"config.service.service": ({"key": "ntpd"},)}, {}, "fail", "no service TSM-SSH"),
    ("gpu.model", {}, {}, "pass", "1 × NVIDIA A100 40GB"),
    ("gpu.model", {"hardware.pciDevice": (A100, {**A100, "id": "0000:af:00.0"}, VF)}, {}, "pass", "2 × NVIDIA A100"),
    ("gpu.model", {"hardware.pciDevice": (NEWEST,)}, {}, "warn", "GX999 (10de:7fff)"),
    ("gpu.model", {"hardware.pciDevice": (VF, BRIDGE)}, {}, "fail", "no NVIDIA GPU"),
    ("cluster.configuration-profile", {}, PVRDMA_HOST, "pass", "gpu-a has no vSphere Configuration Profile"),
    ("cluster.configuration-profile", {"parent": MANAGED}, {}, "pass", "changes nothing it holds"),
    ("cluster.configuration-profile", {"parent": MANAGED}, {"mig": {}}, "pass", "changes nothing it holds"),
    ("cluster.configuration-profile", {"parent": MANAGED}, PVRDMA_HOST, "warn", "advanced options, firewall rulesets"),
    ("cluster.configuration-profile", {"parent": MANAGED}, {"vmkernel": {}}, "warn", "VMkernel adapters"),
    ("cluster.configuration-profile", {"parent": ABSENT}, {}, "unknown", "parent cannot be read"),
    ("cluster.image", {}, {}, "pass", "not managed with a single image"),
    ("cluster.image", {"parent": MANAGED}, {}, "pass", "removed by the next remediation"),
    ("cluster.image", {"parent": ABSENT}, {}, "unknown", "parent cannot be read"),
    ("gpu.nvswitch-passthrough", {}, {}, "pass", "no NVSwitch"),
    ("gpu.nvswitch-passthrough", {"hardware.pciDevice": (A100, BRIDGE)}, {}, "pass", "no GPU is passed through"),
    ("gpu.nvswitch-passthrough", {"hardware.pciDevice": (A100, BRIDGE)}, {"passthrough": {"devices": {GPU: True}}},
     "warn", "1 NVSwitch"),
    ("gpu.nvswitch-passthrough", {"hardware.pciDevice": (A100, BRIDGE), **passthrough(passthruEnabled=True)}, {},
     "warn", GPU),
    ("gpu.nvswitch-passthrough", {"hardware.pciDevice": (A100, BRIDGE), **passthrough(passthruEnabled=True)},
     {"passthrough": {"devices": {GPU: False}}}, "pass", "no GPU"),
    ("gpu.fabric-manager", {}, {}, "pass", "no HGX"),
    ("gpu.fabric-manager", {"hardware.pciDevice": ({**A100, "deviceId": 0x2901},)}, {}, "unknown", "HGX B200"),
    ("gpu.fabric-manager", {"hardware.pciDevice": ({**A100, "deviceId": 0x3182},)}, {}, "unknown", "HGX B300"),
    ("gpu.mig-capable", {}, {}, "pass", "supports MIG"),
    ("gpu.mig-capable", {"hardware.pciDevice": (A100, TESLA_T4)}, {}, "warn", "T4"),
    ("gpu.mig-capable", {"hardware.pciDevice": (TESLA_T4,)}, {}, "fail", "has no MIG"),
    ("gpu.mig-capable", {"hardware.pciDevice": (NEWEST,)}, {}, "unknown", "7fff"),
    ("gpu.mig-capable", {"hardware.pciDevice": (PRO_5000,)}, {}, "pass", "not published, read from the host"),
    ("gpu.passthrough", {}, {}, "pass", "passthrough is off for 1 GPU"),
    ("gpu.passthrough", {"config.graphicsInfo": ABSENT}, {}, "pass", "off"),
    ("gpu.passthrough", passthrough(passthruEnabled=True), {}, "warn", GPU),
    ("gpu.passthrough", {"config.graphicsInfo": ({"pciId": GPU, "graphicsType": "direct"},)}, {}, "warn", GPU),
    ("gpu.passthrough", {"config.pciPassthruInfo": ({"id": "0000:00:1f.0"},)}, {}, "unknown", GPU),
    ("gpu.passthrough", {"hardware.pciDevice": (A100, SECOND),
                         "config.pciPassthruInfo": ({"id": GPU, "passthruEnabled": True}, {"id": SECOND["id"]})},
     {}, "warn", f"GPU {GPU} is in passthrough mode"),
    ("gpu.shared-direct", {}, {}, "pass", "1 GPU is Shared Direct"),
    ("gpu.shared-direct", {"config.graphicsInfo": ({"pciId": GPU, "graphicsType": "shared"},)},
     {"graphics": {"default_type": "shared_direct"}}, "pass", "this plan"),
    ("gpu.shared-direct", {"config.graphicsInfo": ({"pciId": GPU, "graphicsType": "shared"},)},
     {}, "warn", "after a restart"),
    ("gpu.shared-direct", {"config.graphicsInfo": ({"pciId": GPU, "graphicsType": "shared"},),
     "config.graphicsConfig": {"hostDefaultGraphicsType": "sharedDirect",
                               "deviceType": ({"deviceId": GPU, "graphicsType": "shared"},)}},
     {"graphics": {"default_type": "shared"}}, "fail", "no GPU"),
    ("gpu.shared-direct", {"config.graphicsInfo": ({"pciId": GPU, "graphicsType": "sharedDirect"},
                                                   {"pciId": "0000:86:00.0", "graphicsType": "shared"}),
     "config.graphicsConfig": ABSENT, "hardware.pciDevice": (A100, TESLA_T4)}, {}, "warn", "1 of 2"),
    ("gpu.shared-direct", {"config.graphicsInfo": ({"pciId": "0000:03:00.0", "graphicsType": "basic"},)},
     {}, "unknown", "none of the host's GPUs"),
    ("gpu.iommu", {}, {}, "pass", "IOMMU is on"),
    ("gpu.iommu", passthrough(passthruCapable=False), {}, "warn", "suspected"),
    ("gpu.sriov", {}, {}, "pass", "SR-IOV-capable"),
    ("gpu.sriov", {"hardware.pciDevice": (TESLA_T4,)}, {}, "pass", "need no SR-IOV"),
    ("gpu.sriov", passthrough(sriovCapable=False), {}, "warn", "suspected"),
    ("gpu.sriov", passthrough(), {}, "warn", GPU),
    ("gpu.sriov", {"config.pciPassthruInfo": ({"id": "0000:00:1f.0"},)}, {}, "unknown", "not listed"),
    ("gpu.vib", {}, {}, "pass", "NVIDIA AI Enterprise driver 510.47.03"),
    ("gpu.vib", {**vib(), **product("8.0.2")}, {}, "pass", "550.54.16"),
    ("gpu.vib", {**vib("NVD-VMware_ESXi_8.0.0_Driver"), **product("8.0.3"), "hardware.pciDevice": (TESLA_T4,)},
     {}, "pass", "vGPU (graphics) driver"),
    ("gpu.vib", {**vib("NVD-VMware_ESXi_8.0.0_Driver", "575.1"), "hardware.pciDevice": (RTX_PRO,)},
     {}, "pass", "575.1"),
    ("gpu.vib", {**vib("NVD-VMware_ESXi_8.0.0_Driver", "575.1"), "hardware.pciDevice": (PRO_5000,)},
     {}, "pass", "575.1"),
    ("gpu.vib", {**vib(version="570.1"), "hardware.pciDevice": (PRO_5000,)}, {}, "fail", "too old for"),
    ("gpu.vib", vib("NVIDIA-VMware_ESXi_7.0_Host_Driver", "450.102-1OEM.700.0.0.15525992"), {}, "pass", "450.102"),
    ("gpu.vib", vib("NVIDIA-VMware_ESXi_7.0.2_Driver", "510.73.06-1OEM.702.0.0.17630552"), {}, "warn", "AI Enterprise"),
    ("gpu.vib", vib(), {}, "warn", "built for ESXi 8.0, the host runs 7.0.2"),
    ("gpu.vib", {"software": (AIE, {**AIE, "name": "NVIDIA-VMware_ESXi_7.0.2_Driver"})}, {}, "warn", "more than one"),
    ("gpu.vib", {"software": ({"name": "esx-base"}, {})}, {}, "fail", "not installed"),
    ("gpu.vib", {"hardware.pciDevice": (H100,)}, {}, "fail", "too old for"),
    ("gpu.vib", vib(version="beta"), {}, "unknown", "not understood"),
    ("host.rdma-device", {}, {}, "pass", "vmrdma0"),
    ("host.rdma-device", {"config.network.rdmaDevice": (ROCE,)}, {}, "warn", "fall back to TCP"),
    ("host.rdma-device", {"config.network.rdmaDevice": ({**ROCE, "connectionInfo": None},)}, {}, "warn", "vmrdma0"),
    ("host.rdma-device", {"config.network.rdmaDevice": ({"device": "vmrdma0"},)}, {}, "warn", "no RDMA device speaks"),
    ("host.pvrdma-vmknic", {}, {}, "pass", "vmk2"),
    ("host.pvrdma-vmknic", {"option:Net.PVRDMAVmknic": ""}, {"pvrdma_host": {"vmknic": "vmk3"}}, "pass", "plan names"),
    ("host.pvrdma-vmknic", {"option:Net.PVRDMAVmknic": ""}, {}, "warn", "no VMkernel adapter"),
    ("host.pvrdma-vmknic", {"option:Net.PVRDMAVmknic": "vmk7"}, {}, "warn", "no such VMkernel adapter"),
    ("host.pvrdma-vmknic", {"option:Net.PVRDMAVmknic": LATE, "config.network.vnic": ({**vnic(1500), "device": LATE},)},
     {}, "pass", "this plan makes"),
    ("host.pvrdma-vmknic", AWAY, {}, "warn", "is on another switch with MTU 1500: the RDMA NIC is on dvs-ai"),
    ("host.pvrdma-vmknic", {**AWAY, "config.network.rdmaDevice": ()}, {}, "pass", "vmk0"),
    ("host.pvrdma-vmknic", AWAY, {"pvrdma_host": {"vmknic": "vmk0"}}, "warn", "PVRDMA uses vmk0"),
    ("host.pvrdma-firewall", {}, {}, "pass", "ruleset pvrdma is open"),
    ("host.pvrdma-firewall", {"config.firewall.ruleset": ({"key": "pvrdma", "enabled": False},)}, {}, "warn", "closed"),
    ("host.pvrdma-firewall", {"config.firewall.ruleset": ()}, {}, "warn", "closed"),
    ("host.rdma-uplinks", {}, {}, "pass", "the only uplink of dvs-ai"),
    ("host.rdma-uplinks", {"config.network.proxySwitch": ({"dvsUuid": "50 2b", "pnic": ("key-vmnic4", "key-x")},)}, {},
     "warn", "50 2b has other NICs"),
    ("host.pvrdma-mtu", {}, {}, "pass", "vmk2 and dvs-ai have MTU 1500"),
    ("host.pvrdma-mtu", {"config.network.vnic": (vnic(9000),)}, {}, "warn", "vmk2 has MTU 9000, dvs-ai has 1500"),
    ("host.pvrdma-mtu", {"config.network.vnic": (vnic(1400),)}, {}, "warn", "vmk2 has MTU 1400, dvs-ai has 1500"),
    ("vm.rdma-path", {}, {}, "pass", "RDMA over dvpg-rdma on esx01"),
    ("vm.rdma-path", {}, {"pvrdma": {"adapters": (adapter(protocol="rocev1"),)}}, "warn", "speaks rocev2"),
    ("vm.rdma-path", {}, {"pvrdma": {"adapters": (adapter("dvpg-gone"),)}}, "unknown", "dvpg-gone: port group"),
    ("vm.rdma-path", {"runtime.host": ABSENT}, {}, "unknown", "no host"),
    ("host.roce-lossless", {}, {}, "pass", "PFC is configured"),
    ("host.roce-lossless", NO_PFC, {"roce": {"pfc_priority": 3}}, "pass", "this plan puts PFC on priority 3"),
    ("host.roce-lossless", {}, {"roce": {"pfc_priority": "off"}, **pause(True, True)}, "pass", "global pause"),
    ("host.roce-lossless", NO_PFC, pause(True, True), "pass", "global pause is on for vmnic4"),
    ("host.roce-lossless", NO_PFC, pause(True, False), "warn", "neither PFC nor global pause on vmnic4"),
    ("host.roce-lossless", {"query:nmlx5_core": "pfctx=0x08"}, {}, "unknown", "no PFC is configured"),
    ("host.roce-lossless", {"query:nmlx5_core": ABSENT}, {}, "unknown", "no PFC is configured"),
    ("host.roce-dcb", {}, {}, "pass", "PFC is at work on vmnic4"),
    ("host.roce-dcb", {}, pause(False, False), "pass", "PFC is at work on vmnic4"),
    ("host.roce-dcb", {}, pause(False, True), "warn", "vmnic4: PFC and global pause are both on"),
    ("host.roce-dcb", {"query:nmlx5_core": "pfctx=0x18 pfcrx=0x18"}, {}, "warn",
     "on priority 3, 4, and is not so at work: vmnic4: DCB on, PFC on priority 3"),
    ("host.roce-dcb", {"probe:dcb:vmnic4": " Enabled: false\n PFC Enabled: false\n"}, {}, "warn", "DCB off, no PFC"),
    ("host.roce-dcb", {"probe:dcb:vmnic4": ABSENT}, {}, "unknown", "vmnic4 was not asked"),
    ("host.roce-dcb", {"probe:dcb:vmnic4": "no such thing"}, {}, "unknown", "is not shown"),
    ("host.rdma-mtu", {}, {}, "pass", "RDMA MTU 4096 on vmrdma0"),
    ("host.rdma-mtu", {"config.network.rdmaDevice": ({**SMALL, "connectionInfo": {"state": "active", "mtu": 512},
                                                      "backing": {"pairedUplink": "key-vmnic4"}},)}, {},
     "warn", "vmrdma0 uses 512, its switch has room for 1024"),
    ("host.rdma-mtu", {"config.network.rdmaDevice": (SMALL,)}, {}, "warn", "vmrdma0 1024"),
    ("host.rdma-mtu", {"config.network.rdmaDevice": ({**SMALL, "connectionInfo": {"state": "active"}},)}, {},
     "unknown", "the MTU of vmrdma0 is not shown"),
    ("vm.pvrdma-endpoints", {}, {}, "pass", "hardware version 19"),
    ("vm.pvrdma-endpoints", {"config.version": "vmx-17"}, {}, "warn", "hardware version 17 is below 18"),
    ("vm.pvrdma-endpoints", {"config.version": "vmx-17"}, {"hardware": {"version": 18}}, "pass", "version 18"),
    ("vm.pvrdma-endpoints", {"config.version": "vmx-new"}, {}, "unknown", "not known: vmx-new"),
    ("dvs.version", {}, {}, "pass", "dvs-ai has version 7.0.2"),
    ("dvs.version", {}, {"pvrdma": {"adapters": (adapter("dvpg-rdma"),)}}, "pass", "dvs-ai"),
    ("dvs.version", {}, {"pvrdma": {"adapters": (adapter("dvpg-gone"),)}}, "unknown", "dvpg-gone"),
    ("vm.hardware-version", {}, {}, "pass", "carries all devices"),
    ("vm.hardware-version", {"config.version": "vmx-9"}, {"hardware": {"version": 19}}, "pass", "after this plan"),
    ("vm.hardware-version", {"config.version": "vmx-9"}, {"hardware": {"version": None}}, "fail", "PVRDMA needs 13"),
    ("vm.hardware-version", {"config.version": "vmx-14"}, {"vgpu": {"profiles": ("a", "a")}}, "fail", "2 vGPUs need"),
    ("vm.hardware-version", {"config.version": "vmx-20"}, {"pvrdma": {"adapters": (adapter(protocol="rocev2"),)}},
     "fail", "14 to 19"),
    ("vm.hardware-version", {"config.version": "vmx-20"}, {}, "pass", "vmx-20"),
    ("vm.hardware-version", {"config.version": "vmx-15", "config.hardware.device": (VGPU,)}, {}, "warn", "17 or later"),
    ("vm.hardware-version", {"config.version": "vmx-13", "config.hardware.device": (PVRDMA,)}, {}, "warn", "namespace"),
    ("vm.hardware-version", {"config.version": "vmx-4", "config.hardware.device": ()}, {}, "pass", "vmx-4"),
    ("vm.hardware-version", {"config.version": "new"}, {}, "unknown", "'new'"),
    ("vm.hardware-hosts", {}, {}, "pass", "runs on all 1 hosts"),
    ("vm.hardware-hosts", {}, {"hardware": {"version": 20}}, "fail", "above 19, the most esx01 (ESXi 7.0.2) runs"),
    ("vm.hardware-hosts", {"config.version": "vmx-21"}, {}, "fail", "21"),
    ("vm.hardware-hosts", {"config.version": "x"}, {}, "unknown", "'x'"),
    ("vm.hardware-hosts", {"runtime.host": ABSENT}, {}, "unknown", "the VM has no host"),
    ("vm.peer-to-peer", {}, {}, "pass", "nothing to reach"),
    ("vm.peer-to-peer", {}, vgpus("grid_a100-40c", "grid_a100-40c"), "pass", "full frame buffer"),
    ("vm.peer-to-peer", {}, vgpus("grid_a100-20c", "grid_a100-40c"), "warn", "grid_a100-20c is MIG-backed or a part"),
    ("vm.peer-to-peer", {}, vgpus("grid_a100-3-20c", "grid_a100-3-20c"), "warn", "no peer-to-peer"),
    ("vm.peer-to-peer", {}, vgpus("grid_a100-40c", "grid_a100-40c", uvm=True), "warn", "unified memory is on"),
    ("vm.peer-to-peer", {"config.extraConfig": UVM_ON}, vgpus("grid_a100-40c", "grid_a100-40c"), "warn", "unified"),
    ("vm.peer-to-peer", {"config.extraConfig": UVM_ON}, vgpus("grid_a100-40c", "grid_a100-40c", uvm=False), "pass", ""),
    ("vm.peer-to-peer", {}, vgpus("nvidia_h100xm-80c", "nvidia_h100xm-80c", uvm=True), "pass", "full frame buffer"),
    ("vm.peer-to-peer", {}, vgpus("nvidia_x9-80c", "nvidia_x9-80c"), "unknown", "nvidia_x9-80c"),
    ("vm.peer-to-peer", {}, group("Nvidia:2@nvidia_h100l-47c%NVLink", "nvidia_h100l-47c"), "fail", "cannot use NVLink"),
    ("vm.peer-to-peer", {}, group("Nvidia:2@nvidia_h100l-94c%NVLink", "nvidia_h100l-94c"), "pass", "2 vGPUs"),
    ("vm.unified-memory", {}, {}, "pass", "off"),
    ("vm.unified-memory", {}, vgpus("grid_a100-20c", uvm=True), "fail", "grid_a100-20c is a part of a GPU"),
    ("vm.unified-memory", {"config.extraConfig": UVM_ON}, vgpus("grid_a100-20c", "grid_a100-20c"), "fail", "a100-20c"),
    ("vm.unified-memory", {}, vgpus("grid_a100-40c", uvm=True), "pass", "whole"),
    ("vm.unified-memory", {}, vgpus("grid_a100-3-20c", uvm=True), "pass", "whole"),
    ("vm.firmware", {}, {}, "pass", "EFI"),
    ("vm.firmware", {"config.firmware": "bios"}, {"vgpu": {"firmware": "efi"}}, "warn", "will not boot"),
    ("vm.firmware", {"config.firmware": "bios"}, {"hardware": {"firmware": "efi"}}, "warn", "will not boot"),
    ("vm.firmware", {"config.firmware": "bios"}, {"pci_devices": {"firmware": "efi"}}, "warn", "will not boot"),
    ("vm.firmware", {"config.firmware": "bios"}, {"hardware": {"firmware": None}}, "fail", "bios firmware"),
    ("vm.memory-reservation", {}, {}, "pass", "all memory is reserved"),
    ("vm.memory-reservation", {"config.memoryReservationLockedToMax": False}, {"vgpu": {"memory_locked": True}},
     "pass", "this plan"),
    ("vm.memory-reservation", {"config.memoryReservationLockedToMax": False},
     {"hardware": {"memory_reservation": "full"}}, "pass", "this plan"),
    ("vm.memory-reservation", {"config.memoryReservationLockedToMax": False},
     {"hardware": {"memory_reservation": 4096}}, "fail", "not all memory"),
    ("vm.hotadd", {}, {}, "pass", "off"),
    ("vm.hotadd", {"config.memoryHotAddEnabled": True}, {}, "warn", "memory hot add"),
    ("vm.hotadd", {"config.cpuHotAddEnabled": True}, {}, "warn", "unverified"),
    ("vm.tools", {}, {}, "pass", "VMware Tools 11.2.5 running"),
    ("vm.tools", {"guest.toolsRunningStatus": "guestToolsExecutingScripts", "config.tools.toolsVersion": 8395},
     {}, "pass", "VMware Tools running"),
    ("vm.tools", {"guest.toolsRunningStatus": "guestToolsNotRunning"}, {}, "warn", "not running"),
    ("vm.tools", {"guest.toolsVersionStatus2": "guestToolsTooOld"}, {}, "warn", "guestToolsTooOld"),
    ("vm.tools", {"runtime.powerState": "poweredOff"}, {}, "unknown", "poweredOff"),
    ("vm.guest-linux64", {}, {}, "pass", "ubuntu64Guest"),
    ("vm.guest-linux64", {"config.guestId": "other5xLinux64Guest"}, {}, "pass", "64-bit"),
    ("vm.guest-linux64", {"config.guestId": "rhel9_64Guest"}, {}, "pass", "64-bit"),
    ("vm.guest-linux64", {"config.guestId": "otherLinuxGuest"}, {}, "fail", "no 64-bit Linux"),
    ("vm.guest-linux64", {"config.guestId": "windows2019srv_64Guest"}, {}, "fail", "no 64-bit Linux"),
    ("vm.guest-linux64", {"config.guestId": "otherGuest64"}, {}, "warn", "does not show"),
    ("vm.question", {}, {}, "pass", "no question"),
    ("vm.question", {"runtime.question": {"text": "Moved or copied?"}}, {}, "fail", "waits for an answer"),
    ("vgpu.licence", {}, {}, "pass", "licensed until 2026-11-30 5:2:12 GMT"),
    ("vgpu.licence", {"name": "new"}, {}, "pass", "licensed"),
    ("vgpu.licence", {"name": "old"}, {}, "warn", "no vGPU licence"),
    ("vgpu.licence", {"name": "bare"}, {}, "unknown", "not shown"),
    ("vgpu.licence", {"name": "gone"}, {}, "unknown", "lists no vGPU of this VM"),
    ("vgpu.licence", {"runtime.host": ABSENT}, {}, "unknown", "the host of this VM cannot be read"),
    ("vgpu.guest-driver", {}, {}, "pass", "510.85.02 is of the same branch"),
    ("vgpu.guest-driver", {"name": "old"}, {}, "pass", "470.82.01 is of the branch before"),
    ("vgpu.guest-driver", {"name": "older"}, {}, "warn", "R460 (vGPU 12), the host's 510.47.03 of R510 (vGPU 14)"),
    ("vgpu.guest-driver", {"name": "new"}, {}, "warn", "527.15 is of R525 (vGPU 15)"),
    ("vgpu.guest-driver", {"name": "odd"}, {}, "unknown", "driver 515.48.07 is of no known vGPU release"),
    ("vgpu.guest-driver", {"name": "bare"}, {}, "unknown", "no NVIDIA driver is loaded"),
    *state_rules.VERDICTS,
    *(row for table in of_rules("VERDICTS") for row in table),
]  # fmt: skip

RULES = {r.id: r for r in gate.rules()}
# rule -> paths it can do without
OPTIONAL = {
    "gpu.vib": {"hardware.pciDevice", "config.product", "summary.config.product"},
    "gpu.passthrough": {"config.graphicsInfo"},
    "gpu.shared-direct": {"config.graphicsConfig"},
    "esxi.version": {"config.product", "summary.config.product"},
    "vm.tools": {"guest.toolsVersionStatus2", "config.tools.toolsVersion"},
    "vm.question": {"runtime.question"},
    "host.partial-maintenance": {PARTIAL},
    "host.pvrdma-vmknic": {"config.network.vnic", "config.network.rdmaDevice", "config.network.proxySwitch"},
    "host.rdma-mtu": {"config.network.proxySwitch"},
    "host.rdma-uplinks": {"config.network.proxySwitch"},
    "host.roce-dcb": {"query:nmlx5_core"},
    **state_rules.OPTIONAL,
    **{rule: paths for optional in of_rules("OPTIONAL") for rule, paths in optional.items()},
}
NEEDED = [
    (r.id, (path,))
    for r in gate.rules()
    for path in r.properties.get({"host": "HostSystem", "vm": "VirtualMachine"}.get(r.target), ())
    if path not in OPTIONAL.get(r.id, ())
] + [("esxi.version", ("config.product", "summary.config.product"))]


def target_of(world, rule):
    return {"host": world.host, "vm": world.vm}.get(RULES[rule].target)


def check(world, rule, changes, planned=None):
    """Run one rule on the healthy estate with some properties of its target changed."""
    target = target_of(world, rule)
    changes = {p: world.absent if v == ABSENT else v for p, v in changes.items()}
    states = {(target.ref, kind): fields for kind, fields in (planned or {}).items()} if target else {}
    view = world.view({target.ref: changes}, planned=states) if target else world.view(about=changes)
    return list(RULES[rule].check(target, view))


@pytest.mark.parametrize(("rule", "changes", "planned", "verdict", "words"), TABLE)
def test_verdict(world, rule, changes, planned, verdict, words):
    findings = check(world, rule, changes, planned)
    hits = [f for f in findings if f.verdict == verdict and words in f.message]
    assert hits, findings
    for finding in findings:
        assert finding.target == target_of(world, rule)
        assert finding.source == RULES[rule].source
        assert finding.refuses == (
            finding.verdict == "fail" or (finding.verdict == "unknown" and RULES[rule].blocks_unknown)
        )


def test_the_table_shows_every_documented_verdict():
    shown = {(rule, verdict) for rule, _, _, verdict, _ in TABLE}
    # depend on the switch, and on what others want: see test_estate_rules.py
    elsewhere = {("dvs.version", "fail"), ("gpu.passthrough", "fail"), *state_rules.ELSEWHERE}
    elsewhere.add(("host.partial-maintenance", "fail"))  # only of a host that restarts
    elsewhere |= {pair for pairs in of_rules("ELSEWHERE") for pair in pairs}
    documented = {(r.id, v) for r in gate.rules() for v in r.verdicts}
    assert documented - shown <= elsewhere
    assert shown <= documented


@pytest.mark.parametrize(("rule", "paths"), NEEDED)
def test_a_missing_property_is_unknown(world, rule, paths):
    verdicts = {f.verdict for f in check(world, rule, dict.fromkeys(paths, ABSENT))}
    assert verdicts == {"unknown"}


@pytest.mark.parametrize("rule", [r for r in RULES if not r.startswith("vcenter")])
def test_an_object_that_was_not_read_is_unknown(world, rule):
    target = target_of(world, rule)
    findings = list(RULES[rule].check(target, world.view({target.ref: world.absent})))
    assert {f.verdict for f in findings} == {"unknown"}
    assert "not read" in findings[0].message


def test_an_unknown_says_why(world):
    path = "software"
    denied = world.view({world.host.ref: {path: world.absent}}, unreadable={world.host.ref: {path: "NoPermission"}})
    (finding,) = RULES["gpu.vib"].check(world.host, denied)
    assert finding.message == "software cannot be read: NoPermission"
    lost = {"config.pciPassthruInfo": world.absent, "runtime.connectionState": "notResponding"}
    (finding,) = RULES["gpu.iommu"].check(world.host, world.view({world.host.ref: lost}))
    assert "notResponding" in finding.message
    (finding,) = check(world, "gpu.iommu", {"config.pciPassthruInfo": ABSENT})
    assert "shows no value" in finding.message


def test_an_unreadable_question_is_unknown(world):
    hidden = world.view(unreadable={world.vm.ref: {"runtime.question": "NoPermission"}})
    (finding,) = RULES["vm.question"].check(world.vm, hidden)
    assert finding.verdict == "unknown"


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_nothing_passes_without_having_been_seen(world, data):
    """Whatever is hidden: no exception, and every value given as evidence was there."""
    rule = data.draw(st.sampled_from(sorted(r for r in RULES if not r.startswith("vcenter"))))
    target = target_of(world, rule)
    everything = world.host_properties if target.kind == "host" else world.vm_properties
    paths = sorted(set(everything) - {"name", "parent", "runtime.host"})
    hidden = data.draw(st.sets(st.sampled_from(paths)))
    view = world.view({target.ref: dict.fromkeys(hidden, world.absent)})
    shown = tuple(p for p in everything if p not in hidden)
    for finding in RULES[rule].check(target, view):
        assert finding.evidence or finding.verdict == "unknown"
        for path, value in finding.evidence:
            assert path.startswith(shown) or ": " in path or value == "unset"


def test_a_configured_type_becomes_active_with_the_restart_of_the_plan(world):
    changes = {world.host.ref: {"config.graphicsInfo": ({"pciId": GPU, "graphicsType": "shared"},)}}
    (finding,) = RULES["gpu.shared-direct"].check(world.host, world.view(changes, rebooting=[world.host.ref]))
    assert finding.verdict == "pass"
    assert ("plan.reboot", "true") in finding.evidence


@pytest.mark.parametrize(("mode", "verdict"), [(QUICK_PATCH, "fail"), ("sphereletPartialMM", "warn")])
def test_a_host_that_is_patched_alive_does_not_restart(world, mode, verdict):
    view = world.view({world.host.ref: partial("inPartialMM", mode)}, rebooting=[world.host.ref])
    (finding,) = RULES["host.partial-maintenance"].check(world.host, view)
    assert (finding.verdict, finding.refuses) == (verdict, verdict == "fail")


def test_a_pending_restart_is_part_of_a_plan_that_restarts(world):
    view = world.view({world.host.ref: {"summary.rebootRequired": True}}, rebooting=[world.host.ref])
    (finding,) = RULES["host.reboot-pending"].check(world.host, view)
    assert finding.verdict == "pass"
    assert "this plan restarts" in finding.message
