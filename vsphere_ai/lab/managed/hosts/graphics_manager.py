"""HostGraphicsManager: what graphics devices are configured as, what they run as, and the vGPU types they offer."""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.hardware.gpu import LabGpu
from vsphere_ai.lab.hardware.host import LabHost
from vsphere_ai.lab.hardware.vgpu import supported_types
from vsphere_ai.lab.managed import Call, changes, reads
from vsphere_ai.lab.managed.host_managers import host_of_manager, shows
from vsphere_ai.lab.managed.refusals import host_config_fault, invalid_argument
from vsphere_ai.lab.store import ManagedObject

TYPES = ("shared", "sharedDirect")
POLICIES = ("performance", "consolidation")
MODES = ("sameSize", "mixedSize")
WITH_MODES = (8, 0, 3)
"""The first ESXi release that shows and takes the vGPU mode of a GPU."""


@shows("graphicsManager")
def project(farm: Farm, mo: ManagedObject) -> None:
    """Write the graphics state of a host into its manager and into ``config``."""
    host, vms = farm.host(mo), {farm.store.get(r)["name"]: r for r in mo["vm"]}
    info = [
        vim.host.GraphicsInfo(
            deviceName=gpu.esx_name,
            vendorName="NVIDIA Corporation",
            pciId=gpu.pci,
            graphicsType=gpu.active,
            vgpuMode=_mode(host, gpu),
            memorySizeInKB=gpu.memory_mib * 1024 if gpu.driver else 0,
            vm=[vms[name] for name in gpu.vms if name in vms],
        )
        for gpu in host.gpus
    ]
    config = vim.host.GraphicsConfig(
        hostDefaultGraphicsType=host.graphics_default,
        sharedPassthruAssignmentPolicy=host.assignment_policy,
        deviceType=[
            vim.host.GraphicsConfig.DeviceType(
                deviceId=gpu.pci,
                graphicsType=gpu.configured,
                vgpuMode=gpu.vgpu_mode if host.release >= WITH_MODES else None,
            )
            for gpu in host.gpus
        ],
    )
    types = supported_types(host)
    shares = [
        vim.host.SharedGpuCapabilities(
            vgpu=t,
            diskSnapshotSupported=True,
            memorySnapshotSupported=True,
            suspendSupported=True,
            migrateSupported=host.migrates_vgpus,
        )
        for t in types
    ]
    values = {
        "graphicsInfo": info,
        "graphicsConfig": config,
        "sharedPassthruGpuTypes": types,
        "sharedGpuCapabilities": shares,
    }
    farm.store.set(mo.extra["graphicsManager"], **values)
    if mo["config"] is not None:
        for name, value in values.items():
            setattr(mo["config"], name, value)


def _mode(host: LabHost, gpu: LabGpu) -> str | None:
    """Return ``graphicsInfo[].vgpuMode``: what the GPU runs in; no mode applies unless it is active for vGPUs."""
    if host.release < WITH_MODES:
        return None
    if gpu.active != "sharedDirect":
        return "none"
    return "multiInstanceGpu" if gpu.mig_current else gpu.vgpu_mode


@changes(vim.host.GraphicsManager, "UpdateGraphicsConfig", "Host.Config.Settings")
def update_graphics_config(call: Call, config: Any) -> None:
    """Replace the configuration; a device not in ``deviceType`` takes the host's default.

    Active types do not change before a reboot.
    """
    mo, host = host_of_manager(call)
    if config.hostDefaultGraphicsType not in TYPES:
        raise invalid_argument("config.hostDefaultGraphicsType", str(config.hostDefaultGraphicsType))
    if config.sharedPassthruAssignmentPolicy not in POLICIES:
        raise invalid_argument("config.sharedPassthruAssignmentPolicy", str(config.sharedPassthruAssignmentPolicy))
    devices: dict[str, Any] = {}
    modes: dict[str, Any] = {}
    for index, device in enumerate(config.deviceType or ()):
        where = f"config.deviceType[{index}]"
        if host.gpu_at(device.deviceId) is None or device.deviceId in devices:
            raise invalid_argument(f"{where}.deviceId", str(device.deviceId))
        if device.graphicsType not in TYPES:
            raise invalid_argument(f"{where}.graphicsType", str(device.graphicsType))
        if device.vgpuMode is not None and host.release >= WITH_MODES:
            if device.vgpuMode not in MODES:
                raise invalid_argument(f"{where}.vgpuMode", str(device.vgpuMode))
            modes[device.deviceId] = device.vgpuMode
        devices[device.deviceId] = device.graphicsType
    for gpu in host.gpus:
        wanted = devices.get(gpu.pci, config.hostDefaultGraphicsType)
        moded = modes.get(gpu.pci, gpu.vgpu_mode)
        if gpu.vms and (wanted, moded) != (gpu.configured, gpu.vgpu_mode):
            raise host_config_fault(f"Graphics device {gpu.pci} is in use by {', '.join(gpu.vms)}.")
    changed = host.configure_graphics(
        default=config.hostDefaultGraphicsType,
        policy=config.sharedPassthruAssignmentPolicy,
        devices=devices,
        modes=modes,
    )
    if changed:
        call.farm.record(
            mo,
            "UpdateGraphicsConfig",
            default=config.hostDefaultGraphicsType,
            policy=config.sharedPassthruAssignmentPolicy,
            devices={gpu.pci: gpu.configured for gpu in host.gpus},
            **({"modes": modes} if modes else {}),
        )


@reads(vim.host.GraphicsManager, "RefreshGraphicsManager")
def refresh(call: Call) -> None:
    """Read the devices again."""
    mo, _ = host_of_manager(call)
    call.farm.mark(mo)


@reads(vim.host.GraphicsManager, "IsSharedGraphicsActive")
def is_shared_graphics_active(call: Call) -> bool:
    """Return whether vSGA (the X server), not vGPU, is running."""
    _, host = host_of_manager(call)
    return host.services["xorg"].running if "xorg" in host.services else False
