"""Rules about hosts with NVSwitch: GPU passthrough beside it, and Fabric Manager on HGX B200 and B300."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from vsphere_ai.compat.base import Case, Meanings, Paths, Rule
from vsphere_ai.compat.devices import gpus
from vsphere_ai.gpu.devices import NVIDIA, UNSIGNED
from vsphere_ai.model.finding import Finding

BRIDGE_CLASS = 0x0680  # PCI class "other bridge": NVSwitches up to Hopper show as NVIDIA devices of this class
FABRIC_COMPONENT = {0x2901: "B200", 0x3182: "B300"}
"""PCI device id -> GPU of an HGX baseboard whose NVSwitch needs Fabric Manager as a component of ESXi."""
NVSWITCH_SOURCE = "NVIDIA AI Enterprise 8.0 and 9, NVIDIA vGPU for Compute: NVIDIA NVSwitch"


class GpuNvswitchPassthrough(Rule):
    """NVIDIA AI Enterprise 8.0 does not support GPU passthrough under vSphere on systems with NVSwitch."""

    id = "gpu.nvswitch-passthrough"
    title = "No GPU passthrough beside an NVSwitch"
    target = "host"
    source = NVSWITCH_SOURCE
    verdicts: ClassVar[Meanings] = {
        "pass": "the host has no NVSwitch, or passes no GPU through",
        "warn": "the host has an NVSwitch, and a GPU is, or will be, passed through",
    }
    properties: ClassVar[Paths] = {"HostSystem": ("hardware.pciDevice", "config.pciPassthruInfo")}
    needed_by = frozenset({"graphics", "passthrough", "pci_devices"})

    def judge(self, case: Case) -> Iterator[Finding]:
        """Look for NVSwitches first, then at the GPUs."""
        switches = [d for d in case.need("hardware.pciDevice") if _is_nvswitch(d)]
        now = {p["id"]: p.get("passthruEnabled") for p in case.need("config.pciPassthruInfo")}
        seen = [(f"hardware.pciDevice[{d['id']}].classId", f"{d['classId']:04x}") for d in switches[:1]]
        if not switches:
            yield case.passed("no NVSwitch among the PCI devices", ("hardware.pciDevice", "no NVSwitch"))
            return
        planned = case.planned("config.pciPassthruInfo")
        after = {**now, **(planned.value if planned else {})}
        given = [g.pci for g in gpus(case) if after.get(g.pci)]
        if given:
            yield case.warned(
                f"this host has {len(switches)} NVSwitch devices and gives GPU {', '.join(given)} to VMs as a whole, "
                "which NVIDIA AI Enterprise 8.0 does not support under vSphere",
                *seen,
                *((f"config.pciPassthruInfo[{pci}].passthruEnabled", now.get(pci)) for pci in given[:1]),
                help="use vGPUs with the full frame buffer, or ask NVIDIA whether your release supports it",
            )
        else:
            yield case.passed("no GPU is passed through", *seen)


class GpuFabricManager(Rule):
    """On HGX B200 and B300 the NVSwitch needs Fabric Manager as a component of ESXi.

    NVIDIA AI Enterprise Infra 9.0 does not contain it; 8.2 does. vCenter does not show whether it runs.
    """

    id = "gpu.fabric-manager"
    title = "Fabric Manager on HGX B200 and B300"
    target = "host"
    source = NVSWITCH_SOURCE
    verdicts: ClassVar[Meanings] = {
        "pass": "the host has no B200 or B300",
        "unknown": "the host has B200 or B300 GPUs: whether Fabric Manager is installed is not visible",
    }
    properties: ClassVar[Paths] = {"HostSystem": ("hardware.pciDevice",)}
    needed_by = frozenset({"graphics", "vgpu"})

    def judge(self, case: Case) -> Iterator[Finding]:
        """Go by the PCI device ids."""
        found = [g for g in gpus(case) if g.device_id in FABRIC_COMPONENT]
        if found:
            names = ", ".join(sorted({FABRIC_COMPONENT[g.device_id] for g in found}))
            yield case.unknown(
                f"HGX {names}: NVLink between GPUs needs the Fabric Manager component of ESXi, which vCenter does not "
                "show; NVIDIA AI Enterprise Infra 9.0 does not contain it", found[0].seen,
                help="install NVIDIA AI Enterprise Infra 8.2 with its Fabric Manager component",
            )  # fmt: skip
        else:
            yield case.passed("no HGX B200 or B300", ("hardware.pciDevice", "no B200 or B300"))


def _is_nvswitch(device: Mapping[str, Any]) -> bool:
    return (device["vendorId"] & UNSIGNED, device["classId"] & UNSIGNED) == (NVIDIA, BRIDGE_CLASS)
