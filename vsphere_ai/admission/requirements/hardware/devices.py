"""Whole PCI devices that the host has free."""

from __future__ import annotations

from collections.abc import Iterator

from vsphere_ai.admission.base import RUNS, STARTS, AdmissionCase, Reason, requirement
from vsphere_ai.fabric import pci


@requirement(
    "admission.devices",
    "Passthrough devices",
    occasions=STARTS | {"ha_restart"},
    source="vSphere Web Services API, VirtualPCIPassthroughDynamicBackingInfo",
    reads={"HostSystem": pci.PATHS},
    faults=("InsufficientHostCapacityFault", "GenericVmConfigFault"),
    shared=True,
)
def devices(case: AdmissionCase) -> Iterator[Reason]:
    """The host passes a free device through for each one of the VM.

    Devices are matched to all VMs there together, in any assignment.
    """
    vm, host = case.vm, case.host
    if vm.claims:
        taken = [c for ref, m in case.situation.on(host.ref).items() if ref != vm.ref for c in m.claims]
        if not pci.has_room(host, vm.claims, taken):
            named = ", ".join(sorted({_named(c, host) for c in vm.claims}))
            passed = all(pci.choices(host, vm.claims))
            why = "another VM has it" if passed else "it is not passed through there"
            help = "pass such a device through on the host, or give the VM another one"
            yield case.no(f"it has no free {named}: {why}", help, fault="InsufficientHostCapacityFault")


@requirement(
    "admission.fixed-device",
    "Devices by their address",
    occasions=RUNS,
    source="vSphere Web Services API, VirtualPCIPassthroughDeviceBackingInfo (systemId)",
    reads={"VirtualMachine": ("runtime.host",)},
    faults=("GenericVmConfigFault",),
)
def fixed_device(case: AdmissionCase) -> Reason | None:
    """A VM with the device at an address of one host runs on that host only, a clone of it too."""
    tied = case.vm.tied_to
    if not tied or tied == case.host.ref:
        return None
    home = case.situation.view.estate.get(tied)
    named = ", ".join(sorted({c.address for c in case.vm.claims if c.address}))
    message = f"the VM has the device {named} of {home.name if home else 'another host'}"
    return case.no(message, "give it a device by vendor and model, or remove the device", "GenericVmConfigFault")


def _named(claim: pci.Claim, host: object) -> str:
    return f"device {claim.address}" if claim.address else "device of the models that it allows"
