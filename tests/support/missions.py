"""The mission's farm before and after: two hosts with two A100s each and four VMs, the last one powered off."""

from __future__ import annotations

from support.estates import (
    ESX1,
    ESX2,
    ON,
    PCI,
    estate,
    guest,
    host,
    pvrdma_device,
    smi,
    vgpu_device,
    vm,
    wants,
)
from vsphere_ai.model.facts import Estate
from vsphere_ai.resources.host_graphics import HostGraphics
from vsphere_ai.resources.mig import Mig
from vsphere_ai.resources.pvrdma import Pvrdma, PvrdmaAdapter
from vsphere_ai.resources.pvrdma_host import PvrdmaHost
from vsphere_ai.resources.vgpu import Vgpu
from vsphere_ai.resources.vm_hardware import VmHardware

PROFILE = "grid_a100-3-20c"
HOST_STATES = (
    HostGraphics(default_type="shared_direct", assignment_policy="performance"),
    Mig(mode="enabled"),
    PvrdmaHost(vmknic="vmk2", firewall=True),
)
VM_STATES = (
    VmHardware(version=19),
    Vgpu(profiles=(PROFILE,)),
    Pvrdma(adapters=(PvrdmaAdapter(port_group="dvpg-rdma", protocol="rocev2"),)),
)
VMS = tuple(vm(n) for n in (1, 2, 3, 4))
DESIRED = {h: wants(*HOST_STATES) for h in (ESX1, ESX2)} | {v: wants(*VM_STATES) for v in VMS}


def plain_farm() -> Estate:
    """What the mission starts from."""
    on = {1: ESX1, 2: ESX1, 3: ESX2, 4: ESX2}
    return estate(
        host(ESX1), host(ESX2),
        *(guest(vm(n), h, config__version="vmx-17", runtime__powerState="poweredOn" if n < 4 else "poweredOff")
          for n, h in on.items()),
    )  # fmt: skip


def finished_farm() -> Estate:
    """The same farm as the mission leaves it."""
    prepared = {
        "active": "sharedDirect",
        "probes": smi(dict.fromkeys(PCI, ON)),
        "config__sharedPassthruGpuTypes": (PROFILE, "grid_a100-1-5c"),
        "option:Net.PVRDMAVmknic": "vmk2",
        "config__firewall__ruleset": ({"_typeName": "HostFirewallRuleset", "key": "pvrdma", "enabled": True},),
    }
    extra = {"pciPassthru.use64bitMMIO": "TRUE", "pciPassthru.64bitMMIOSizeGB": "128"}
    done = {
        "config__version": "vmx-19",
        "config__memoryReservationLockedToMax": True,
        "config__hardware__device": (vgpu_device(13000, PROFILE), pvrdma_device(4000)),
        "config__extraConfig": tuple({"_typeName": "OptionValue", "key": k, "value": v} for k, v in extra.items()),
    }
    return estate(
        host(ESX1, **prepared), host(ESX2, **prepared),
        *(guest(vm(n), ESX1 if n < 3 else ESX2, **done) for n in (1, 2, 3, 4)),
    )  # fmt: skip
