"""`esxcli graphics` and `esxcli hardware pci`: what the host shows of its GPUs."""

from __future__ import annotations

from collections.abc import Mapping

from vsphere_ai.lab.hardware.gpu import GraphicsType
from vsphere_ai.lab.hardware.host import AssignmentPolicy, LabHost
from vsphere_ai.lab.hardware.parts import LabPciDevice
from vsphere_ai.lab.hardware.pci import pci_devices
from vsphere_ai.lab.shell.columns import block
from vsphere_ai.lab.shell.esxcli_command import EsxcliCommand, EsxcliError, Options, number

_DEVICE_WORDS: Mapping[str, str] = {
    "basic": "Basic",
    "shared": "Shared",
    "sharedDirect": "Shared Passthru",
    "direct": "Direct",
}
_HOST_TYPES: Mapping[str, GraphicsType] = {"Shared": "shared", "SharedPassthru": "sharedDirect"}
_POLICIES: Mapping[str, AssignmentPolicy] = {"Performance": "performance", "Consolidation": "consolidation"}


def _device_list(host: LabHost, options: Options) -> str:
    with host.lock:
        blocks = []
        for gpu in host.gpus:
            rows = (
                ("Vendor Name", "NVIDIA Corporation"),
                ("Device Name", gpu.esx_name),
                ("Module Name", "nvidia" if gpu.driver and gpu.active != "direct" else "None"),
                ("Graphics Type", _DEVICE_WORDS[gpu.active]),
                ("Memory Size in KB", gpu.memory_mib * 1024 if gpu.driver else 0),
                ("Number of VMs", len(gpu.vms)),
            )
            blocks.append(block(rows, head=gpu.pci))
        return "\n".join(blocks)


def _host_get(host: LabHost, options: Options) -> str:
    kind = next(word for word, api in _HOST_TYPES.items() if api == host.graphics_default)
    policy = host.assignment_policy.capitalize()
    return block((("Default Graphics Type", kind), ("Shared Passthru Assignment Policy", policy)))


def _host_set(host: LabHost, options: Options) -> str:
    """Change the host default and the policy; the configured type of each GPU stays as it is."""
    kind, policy = options.get("default-type"), options.get("shared-passthru-assignment-policy")
    if (kind is not None and kind not in _HOST_TYPES) or (policy is not None and policy not in _POLICIES):
        raise EsxcliError(f"Error: Invalid value, use one of {', '.join((*_HOST_TYPES, *_POLICIES))}")
    with host.changing():
        default = _HOST_TYPES[kind] if kind else host.graphics_default
        spread = _POLICIES[policy] if policy else host.assignment_policy
        as_is = {gpu.pci: gpu.configured for gpu in host.gpus}
        if host.configure_graphics(default=default, policy=spread, devices=as_is):
            detail = {"default": default, "policy": spread}
            host.ledger.record(host.name, "esxcli graphics host set", detail, channel="ssh")
    return ""


def _pci_list(host: LabHost, options: Options) -> str:
    wanted = number(str(int(options["class"], 16))) if _is_hex(options.get("class")) else None
    mask = int(options["mask"], 16) if _is_hex(options.get("mask")) else 0xFFFF
    shown = [d for d in pci_devices(host) if wanted is None or d.class_id & mask == wanted & mask]
    return "\n".join(_pci_block(device) for device in shown)


def _is_hex(text: str | None) -> bool:
    if text is None:
        return False
    try:
        int(text, 16)
    except ValueError:
        raise EsxcliError(f"Error: Invalid number {text}") from None
    return True


def _pci_block(device: LabPciDevice) -> str:
    segment, bus, rest = device.address.split(":")
    slot, _, function = rest.partition(".")
    virtual = bool(device.parent)
    rows = (
        ("Address", device.address),
        ("Segment", f"0x{segment}"),
        ("Bus", f"0x{bus}"),
        ("Slot", f"0x{slot}"),
        ("Function", f"0x{function}"),
        ("VMkernel Name", device.vmkernel_name),
        ("Vendor Name", device.vendor_name),
        ("Device Name", device.device_name),
        ("Configured Owner", "" if virtual else "VMkernel"),
        ("Current Owner", "VMkernel"),
        ("Vendor ID", f"0x{device.vendor_id:04x}"),
        ("Device ID", f"0x{device.device_id:04x}"),
        ("SubVendor ID", f"0x{device.sub_vendor_id:04x}"),
        ("SubDevice ID", f"0x{device.sub_device_id:04x}"),
        ("Device Class", f"0x{device.class_id:04x}"),
        ("Device Class Name", device.class_name),
        ("Programming Interface", "0x00"),
        ("Revision ID", "0xa1"),
        ("Module Name", device.module or "None"),
        ("Physical Slot", -1 if virtual else device.slot_number),
        ("Passthru Capable", "true" if device.class_id != 0x0300 else "false"),
        ("Reset Method", "Function reset" if virtual else "Bridge reset"),
        ("FPT Sharable", "true"),
        ("NUMA Node", device.numa_node),
    )
    return block(rows, head=device.address)


COMMANDS: Mapping[str, EsxcliCommand] = {
    "graphics device list": EsxcliCommand(_device_list),
    "graphics host get": EsxcliCommand(_host_get),
    "graphics host set": EsxcliCommand(_host_set, {"d": "default-type", "s": "shared-passthru-assignment-policy"}),
    "hardware pci list": EsxcliCommand(_pci_list, {"c": "class", "m": "mask"}),
}
