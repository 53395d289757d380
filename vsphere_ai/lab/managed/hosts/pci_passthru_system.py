"""HostPciPassthruSystem: devices given to VMs whole, at once where a host can, and virtual functions of NICs."""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.hardware import functions
from vsphere_ai.lab.hardware.host import LabHost
from vsphere_ai.lab.managed import Call, changes
from vsphere_ai.lab.managed.host_managers import host_of_manager, shows
from vsphere_ai.lab.managed.hosts import pci
from vsphere_ai.lab.managed.refusals import host_config_fault, invalid_argument
from vsphere_ai.lab.managed.vms import devices_pci
from vsphere_ai.lab.store import ManagedObject


@shows("pciPassthruSystem")
def project(farm: Farm, mo: ManagedObject) -> None:
    """Write what devices are configured as and run as into the manager and into ``config``."""
    if mo["config"] is not None:
        mo["config"].pciPassthruInfo = pci.passthrough(farm.host(mo), mo.extra["iommu"])
        farm.store.set(mo.extra["pciPassthruSystem"], pciPassthruInfo=mo["config"].pciPassthruInfo)


@changes(vim.host.PciPassthruSystem, "UpdatePassthruConfig", "Host.Config.PciPassthru")
def update_passthru_config(call: Call, config: Any) -> None:
    """Configure devices; the whole list is checked before anything of it counts."""
    mo, host = host_of_manager(call)
    shown = {info.id: info for info in mo["config"].pciPassthruInfo}
    for each in config:
        _check(host, shown.get(each.id), each)
        gpu = host.gpu_at(each.id)
        user = devices_pci.in_use(call.farm, mo).get(each.id) or ", ".join(gpu.vms if gpu else ())
        if user and shown[each.id].passthruEnabled != each.passthruEnabled:
            raise host_config_fault(f"Device {each.id} is in use by {user}.")
    rebinds = bool(mo["capability"] and mo["capability"].deviceRebindWithoutRebootSupported)
    changed = [detail for each in config if (detail := _configure(host, each, rebinds))]
    if changed:
        call.farm.record(mo, "UpdatePassthruConfig", devices=changed)


def _check(host: LabHost, info: Any, wanted: Any) -> None:
    if info is None:
        raise invalid_argument("config.id", f"{wanted.id} is no device that can be configured")
    if wanted.passthruEnabled and not info.passthruCapable:
        raise host_config_fault(f"Device {wanted.id} cannot be passed through")
    if not isinstance(wanted, vim.host.SriovConfig):
        return
    nic = functions.nic_at(host, wanted.id)
    if not isinstance(info, vim.host.SriovInfo) or not info.sriovCapable or nic is None:
        raise host_config_fault(f"Device {wanted.id} does not support SR-IOV")
    if wanted.sriovEnabled and wanted.passthruEnabled:
        raise host_config_fault(f"Device {wanted.id} cannot have SR-IOV and passthrough enabled at the same time")
    if wanted.sriovEnabled and not 1 <= wanted.numVirtualFunction <= info.maxVirtualFunctionSupported:
        raise invalid_argument(
            "config.numVirtualFunction", f"{wanted.numVirtualFunction}, at most {info.maxVirtualFunctionSupported}"
        )


def _configure(host: LabHost, wanted: Any, rebinds: bool) -> dict[str, Any] | None:
    """Configure one device; unset, `applyNow` means at once where the host can.

    The API reference does not say what a host that cannot does when it is asked to: here it waits for the boot.
    """
    at_once = rebinds and wanted.applyNow is not False and not isinstance(wanted, vim.host.SriovConfig)
    changed = functions.set_passthrough(host, wanted.id, bool(wanted.passthruEnabled), at_once=at_once)
    detail = {"id": wanted.id, "passthrough": bool(wanted.passthruEnabled)}
    nic = functions.nic_at(host, wanted.id)
    if isinstance(wanted, vim.host.SriovConfig) and nic is not None:
        count = int(wanted.numVirtualFunction) if wanted.sriovEnabled else 0
        changed = functions.set_functions(host, nic, count) or changed
        detail["functions"] = count
    return detail if changed else None
