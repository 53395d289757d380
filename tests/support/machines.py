"""Hosts whose PCI devices matter: two GPUs and two NICs, one pair below a switch, the other at one NUMA node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from support.estates import A100, PCI, guest, host
from vsphere_ai.model.facts import CommandOutput, Facts, ProbeFailure
from vsphere_ai.model.state import Target
from vsphere_ai.resources.kernel import ATS

GPU_0, GPU_1 = PCI
NIC_0, NIC_1 = "0000:5e:00.0", "0000:af:00.0"
SYSTEM = "5f7c2b9a-0000-0000-0000-000000000001"
NODES = {0: (GPU_0, NIC_0), 1: (GPU_1, NIC_1)}
PARENTS = {GPU_0: "0000:3a:00.0", NIC_0: "0000:3a:00.0", GPU_1: "0000:85:00.0", NIC_1: "0000:ae:00.0"}


def kernel_listing(configured: str, running: str) -> CommandOutput:
    """Return what `esxcli system settings kernel list -o atsSupport` prints."""
    return CommandOutput(
        0,
        "Name       Type Configured Runtime Default Description\n"
        "---------- ---- ---------- ------- ------- -----------\n"
        f"atsSupport Bool {configured:<10} {running:<7} FALSE   Enable Support for PCIe ATS.\n",
    )


def machine(target: Target, *, passed: Mapping[str, str] | None = None, waiting: Mapping[str, bool] | None = None,
            ats: CommandOutput | ProbeFailure | None = None, numa: Mapping[int, tuple[str, ...]] | None = NODES,
            **more: Any) -> Facts:  # fmt: skip
    """Return a host; `passed`: address -> hardware label of what is passed through, `waiting`: what is configured."""
    kinds = {GPU_0: (0x0302, 0x10DE, A100, "A100"), GPU_1: (0x0302, 0x10DE, A100, "A100"),
             NIC_0: (0x0200, 0x15B3, 0x101B, "ConnectX-6"), NIC_1: (0x0200, 0x15B3, 0x101B, "ConnectX-6"),
             **dict.fromkeys(PARENTS.values(), (0x0604, -32634, 0x347A, "Root Port"))}  # fmt: skip
    devices = tuple(
        {"_typeName": "HostPciDevice", "id": a, "classId": c, "vendorId": v, "deviceId": d, "subDeviceId": 1,
         "vendorName": "V", "deviceName": n, **({"parentBridge": PARENTS[a]} if a in PARENTS else {})}
        for a, (c, v, d, n) in kinds.items())  # fmt: skip
    passed, waiting = passed or {}, waiting or {}
    infos = tuple(
        {"_typeName": "HostPciPassthruInfo", "id": a, "dependentDevice": a, "passthruCapable": a in PARENTS,
         "passthruEnabled": waiting.get(a, a in passed), "passthruActive": a in passed,
         **({"hardwareLabel": passed[a]} if passed.get(a) else {})} for a in kinds)  # fmt: skip
    nodes = None if numa is None else {
        "_typeName": "HostNumaInfo", "numNodes": len(numa),
        "numaNode": tuple({"typeId": n, "pciId": p} for n, p in numa.items())}  # fmt: skip
    facts = host(target, **{"hardware__pciDevice": devices, "config__pciPassthruInfo": infos,
                            "hardware__numaInfo": nodes, "summary__hardware__cpuMhz": 2600,
                            "summary__hardware__numCpuThreads": 128, **more})  # fmt: skip
    probes = {**facts.probes, ATS.name: ats} if ats is not None else facts.probes
    return Facts(facts.ref, facts.properties, facts.unreadable, probes)


def fixed(key: int, address: str) -> dict[str, Any]:
    """Return a fixed passthrough device of a VM."""
    return {"_typeName": "VirtualPCIPassthrough", "key": key,
            "backing": {"_typeName": "VirtualPCIPassthroughDeviceBackingInfo", "id": address, "deviceId": "20f1",
                        "vendorId": 0x10DE, "systemId": SYSTEM, "deviceName": "A100"}}  # fmt: skip


def dynamic(key: int, device: int = A100, label: str = "", vendor: int = 0x10DE) -> dict[str, Any]:
    """Return a dynamic passthrough device of a VM."""
    allowed = ({"_typeName": "VirtualPCIPassthroughAllowedDevice", "vendorId": vendor, "deviceId": device},)
    backing = {"_typeName": "VirtualPCIPassthroughDynamicBackingInfo", "allowedDevice": allowed, "deviceName": ""}
    return {"_typeName": "VirtualPCIPassthrough", "key": key,
            "backing": {**backing, **({"customLabel": label} if label else {})}}  # fmt: skip


def tuned(target: Target, on: Target, *devices: Mapping[str, Any], **more: Any) -> Facts:
    """Return a VM with some devices and all that `tuning` reads."""
    plain = {"config__hardware__device": tuple(devices), "config__hardware__numCPU": 16,
             "config__hardware__numCoresPerSocket": 1,
             "config__latencySensitivity": {"_typeName": "LatencySensitivity", "level": "normal"}}  # fmt: skip
    return guest(target, on, **{**plain, **more})


def keys(**values: str) -> tuple[dict[str, str], ...]:
    """Return ``config.extraConfig``; dots as double underscores."""
    return tuple({"_typeName": "OptionValue", "key": k.replace("__", "."), "value": v} for k, v in values.items())
