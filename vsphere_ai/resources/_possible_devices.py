"""Whole devices and GPUs of its host that a VM has, or may get when it powers on."""

from __future__ import annotations

from vsphere_ai.fabric import pci
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.state import Target
from vsphere_ai.model.view import View
from vsphere_ai.resources.mixins import vgpus_of
from vsphere_ai.resources.pci_devices import PciDevices


def possible_devices(vm: Target, view: View, host: Facts) -> tuple[tuple[str, ...], ...]:
    """Return per device of a VM the PCI addresses of what it is or may be: whole devices, and the GPUs for vGPUs."""
    whole = (view.get(PciDevices, vm.ref) or PciDevices()).devices or ()
    each = tuple(device.there(host) for device in whole)
    if not vgpus_of(vm, view):
        return each
    states = pci.passthroughs(host)
    passed = {address for address, state in states.items() if state.enabled}
    return (*each, tuple(a for a, d in pci.devices(host).items() if d.is_gpu and a not in passed))
