"""Rules about hosts with NVSwitch: GPU passthrough beside it, and Fabric Manager on HGX B200 and B300."""

from __future__ import annotations

from vsphere_ai.compat.base import Evidence, RuleCase, host_rule
from vsphere_ai.compat.devices import gpus
from vsphere_ai.fabric.api_types import ApiPciDevice
from vsphere_ai.gpu.devices import NVIDIA, UNSIGNED
from vsphere_ai.model.finding import Finding
from vsphere_ai.resources.topics import Topic

BRIDGE_CLASS = 0x0680  # PCI class "other bridge": NVSwitches up to Hopper show as NVIDIA devices of this class
FABRIC_COMPONENT = {0x2901: "B200", 0x3182: "B300"}
"""PCI device id -> GPU of an HGX baseboard whose NVSwitch needs Fabric Manager as a component of ESXi."""
NVSWITCH_SOURCE = "NVIDIA AI Enterprise 8.0 and 9, NVIDIA vGPU for Compute: NVIDIA NVSwitch"


@host_rule(
    "gpu.nvswitch-passthrough",
    "No GPU passthrough beside an NVSwitch",
    source=NVSWITCH_SOURCE,
    verdicts={
        "pass": "the host has no NVSwitch, or passes no GPU through",
        "warn": "the host has an NVSwitch, and a GPU is, or will be, passed through",
    },
    reads=("hardware.pciDevice", "config.pciPassthruInfo"),
    about=Topic.HOST_GRAPHICS | Topic.PASSTHROUGH | Topic.WHOLE_DEVICES,
)
def gpu_nvswitch_passthrough(case: RuleCase) -> Finding:
    """NVIDIA AI Enterprise 8.0 does not support GPU passthrough under vSphere on systems with NVSwitch."""
    switches = [d for d in case.need("hardware.pciDevice") if _is_nvswitch(d)]
    now = {p["id"]: p.get("passthruEnabled") for p in case.need("config.pciPassthruInfo")}
    seen: list[Evidence] = [(f"hardware.pciDevice[{d['id']}].classId", f"{d['classId']:04x}") for d in switches[:1]]
    if not switches:
        return case.passed("no NVSwitch among the PCI devices", ("hardware.pciDevice", "no NVSwitch"))
    planned = case.planned("config.pciPassthruInfo")
    after = {**now, **(planned.value if planned else {})}
    given = [g.pci for g in gpus(case) if after.get(g.pci)]
    if not given:
        return case.passed("no GPU is passed through", *seen)
    message = (
        f"this host has {len(switches)} NVSwitch devices and gives GPU {', '.join(given)} to VMs as a whole, "
        "which NVIDIA AI Enterprise 8.0 does not support under vSphere"
    )
    seen.append((f"config.pciPassthruInfo[{given[0]}].passthruEnabled", now.get(given[0])))
    help = "use vGPUs with the full frame buffer, or ask NVIDIA whether your release supports it"
    return case.warned(message, *seen, help=help)


@host_rule(
    "gpu.fabric-manager",
    "Fabric Manager on HGX B200 and B300",
    source=NVSWITCH_SOURCE,
    verdicts={
        "pass": "the host has no B200 or B300",
        "unknown": "the host has B200 or B300 GPUs: whether Fabric Manager is installed is not visible",
    },
    reads=("hardware.pciDevice",),
    about=Topic.HOST_GRAPHICS | Topic.VGPU,
)
def gpu_fabric_manager(case: RuleCase) -> Finding:
    """On HGX B200 and B300 the NVSwitch needs Fabric Manager as a component of ESXi.

    NVIDIA AI Enterprise Infra 9.0 does not contain it; 8.2 does. vCenter does not show whether it runs.
    """
    found = [g for g in gpus(case) if g.device_id in FABRIC_COMPONENT]
    if not found:
        return case.passed("no HGX B200 or B300", ("hardware.pciDevice", "no B200 or B300"))
    names = ", ".join(sorted({FABRIC_COMPONENT[g.device_id] for g in found}))
    message = (
        f"HGX {names}: NVLink between GPUs needs the Fabric Manager component of ESXi, which vCenter does not "
        "show; NVIDIA AI Enterprise Infra 9.0 does not contain it"
    )
    help = "install NVIDIA AI Enterprise Infra 8.2 with its Fabric Manager component"
    return case.unknown(message, found[0].seen, help=help)


def _is_nvswitch(device: ApiPciDevice) -> bool:
    return (device["vendorId"] & UNSIGNED, device["classId"] & UNSIGNED) == (NVIDIA, BRIDGE_CLASS)
