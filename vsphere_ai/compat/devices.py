"""Devices of a case: the GPUs of its host, and the vGPUs and PVRDMA adapters its VM has after the plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vsphere_ai.compat.base import Case
from vsphere_ai.gpu.devices import Gpu, found_gpus, is_vgpu

PVRDMA = "VirtualVmxnet3Vrdma"


def gpus(case: Case) -> tuple[Gpu, ...]:
    """Return the physical NVIDIA GPUs of the host, by PCI address; `Unreadable` when its devices are not shown."""
    return found_gpus(case.need("hardware.pciDevice"))


def wanted_vgpus(case: Case) -> int:
    """Return how many vGPUs the VM has, or will have after this plan."""
    planned = case.planned("vgpu", "profiles")
    if planned is not None:
        return len(planned)
    return sum(is_vgpu(d) for d in case.need("config.hardware.device"))


def wanted_adapters(case: Case) -> tuple[tuple[str, str | None], ...]:
    """Return the VM's PVRDMA adapters, or those after this plan, as (port group key or name, chosen protocol)."""
    planned = case.planned("pvrdma", "adapters")
    if planned is not None:
        return tuple((a.port_group, a.protocol) for a in planned)
    cards = case.planned("adapters", "adapters")
    if cards is not None:
        return tuple((c.port_group.partition(":")[2], c.protocol) for c in cards if c.type == "pvrdma")
    present = [d for d in case.need("config.hardware.device") if d.get("_typeName") == PVRDMA]
    return tuple((_port_group(d), d.get("deviceProtocol")) for d in present)


def _port_group(device: Mapping[str, Any]) -> str:
    port = (device.get("backing") or {}).get("port") or {}
    return str(port.get("portgroupKey", ""))
