"""SR-IOV virtual functions of a host's NICs, and devices that are given to VMs whole: what a boot makes of them."""

from __future__ import annotations

from collections.abc import Iterator

from vsphere_ai.lab.hardware.host import LabHost
from vsphere_ai.lab.hardware.parts import LabPciDevice, Pnic

DRIVER_OF_VFS = "pciPassthru"
"""VMkernel module that holds a virtual function for VMs."""


def nic_at(host: LabHost, pci: str) -> Pnic | None:
    """Return the NIC at a PCI address."""
    return next((n for n in host.pnics if n.pci == pci), None)


def set_functions(host: LabHost, nic: Pnic, count: int) -> bool:
    """Configure how many virtual functions the next boot makes; return whether that changed anything."""
    with host.changing():
        changed = nic.vfs_configured != count
        nic.vfs_configured = count
        if changed:
            host.notify("network")
        return changed


def set_passthrough(host: LabHost, pci: str, enabled: bool, *, at_once: bool) -> bool:
    """Configure whether a GPU or NIC is given to VMs whole; return whether that changed anything.

    With `at_once` the device is bound to its new driver now, else at the next boot.
    """
    device = host.gpu_at(pci) or nic_at(host, pci)
    if device is None:
        raise KeyError(pci)
    with host.changing():
        changed = device.passthrough != enabled
        device.passthrough = enabled
        if at_once and device.passed_through != enabled:
            changed = True
            device.pass_through()
        if changed:
            host.notify("graphics")
        return changed


def virtual(nic: Pnic) -> Iterator[LabPciDevice]:
    """Yield the virtual functions of a NIC, behind its physical functions on the same bus."""
    segment, bus, rest = nic.pci.split(":")
    slot, _, function = rest.partition(".")
    first = int(slot, 16) * 8 + int(function) * nic.sriov_max + 2
    for number in range(nic.vfs):
        at, sub = divmod(first + number, 8)
        yield LabPciDevice(
            f"{segment}:{bus}:{at:02x}.{sub}", nic.vendor_id, nic.device_id + 1, nic.vendor_id, 0, 0x0200,
            "Ethernet controller", nic.vendor_name, f"{nic.description} Virtual Function",
            f"PF_0.{int(bus, 16)}.{function}_VF_{number}", module=DRIVER_OF_VFS, numa_node=nic.numa_node,
            parent=nic.pci,
        )  # fmt: skip
