"""Graphics types and policies of a host, as the vSphere API and playbooks spell them."""

from __future__ import annotations

from collections.abc import Mapping

from vsphere_ai.gpu.vgpus import vgpu_mode
from vsphere_ai.model.plain import PlainObject, objects

# vSphere API spelling (HostGraphicsConfig) <-> the spelling of a playbook
FROM_API = {"sharedDirect": "shared_direct"}
TO_API = {v: k for k, v in FROM_API.items()}


def common_mode(modes: Mapping[str, str]) -> str | None:
    """Return the one mode that every GPU is in; None when they differ, or one waits for another."""
    found = set(modes.values())
    return found.pop() if len(found) == 1 and found <= set(vgpu_mode.TO_API) else None


def spelled(graphics_type: str) -> str:
    """Return a graphics type as playbooks spell it."""
    return FROM_API.get(graphics_type, graphics_type)


def api_type(graphics_type: str | None) -> str:
    """Return a graphics type as the API spells it."""
    return TO_API.get(graphics_type or "", graphics_type or "")


def config_with(config: PlainObject, types: Mapping[str, str], modes: Mapping[str, str]) -> dict[str, object]:
    """Return a complete HostGraphicsConfig with types (of the API) and vGPU modes by PCI address.

    No patch semantics are promised: what is left out of it may be lost.
    """
    device = "HostGraphicsConfigDeviceType"
    have: dict[str, dict[str, object]] = {str(d["deviceId"]): {**d} for d in objects(config.get("deviceType"))}
    for pci in (*types, *modes):
        have.setdefault(pci, {"_typeName": device, "deviceId": pci, "graphicsType": config["hostDefaultGraphicsType"]})
        have[pci] |= {"graphicsType": types[pci]} if pci in types else {}
        have[pci] |= {"vgpuMode": vgpu_mode.TO_API[modes[pci]]} if pci in modes else {}
    return {**config, "_typeName": "HostGraphicsConfig", "deviceType": tuple(have.values())}
