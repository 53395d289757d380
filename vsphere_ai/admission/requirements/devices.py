"""Whole PCI devices and SR-IOV functions that the host has free."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from vsphere_ai.admission.base import RUNS, STARTS, Case, Quantity, Reason, requirement
from vsphere_ai.admission.machine import Machine
from vsphere_ai.fabric import pci


@requirement(
    "admission.devices",
    "Passthrough devices and SR-IOV functions",
    occasions=STARTS | {"ha_restart"},
    source="vSphere Web Services API, VirtualPCIPassthroughDynamicBackingInfo and HostSriovInfo",
    reads={"HostSystem": pci.PATHS},
    faults=("InsufficientHostCapacityFault", "GenericVmConfigFault"),
    shared=True,
)
def devices(case: Case) -> Iterator[Reason]:
    """The host passes a free device through for each one of the VM, and has a function for each SR-IOV adapter.

    Devices are matched to all VMs there together, in any assignment.
    """
    vm, host = case.vm, case.host
    others = [m for ref, m in case.situation.on(host.ref).items() if ref != vm.ref]
    if vm.claims:
        taken = [c for m in others for c in m.claims]
        if not pci.has_room(host, vm.claims, taken):
            named = ", ".join(sorted({_named(c, host) for c in vm.claims}))
            passed = all(pci.choices(host, vm.claims))
            why = "another VM has it" if passed else "it is not passed through there"
            help = "pass such a device through on the host, or give the VM another one"
            yield case.no(f"it has no free {named}: {why}", help, fault="InsufficientHostCapacityFault")
    if vm.functions:
        yield from _functions(case, others)


@requirement(
    "admission.fixed-device",
    "Devices by their address",
    occasions=RUNS,
    source="vSphere Web Services API, VirtualPCIPassthroughDeviceBackingInfo (systemId)",
    reads={"VirtualMachine": ("runtime.host",)},
    faults=("GenericVmConfigFault",),
)
def fixed_device(case: Case) -> Reason | None:
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


def _functions(case: Case, others: list[Machine]) -> Iterator[Reason]:
    infos = case.host.get(pci.PASSTHRU)
    if infos is None:
        yield case.unknown("its SR-IOV functions were not read")
        return
    have = {
        str(i["id"]).lower(): int(i.get("numVirtualFunction") or 0)
        for i in infos
        if i.get("sriovActive") or i.get("sriovEnabled")
    }
    taken = Counter(f for m in others for f in m.functions)
    need = Counter(case.vm.functions)
    for address, count in need.items():
        free = (have.get(address, 0) - taken[address]) if address else sum(have.values()) - taken.total()
        if count > free:
            of = f" of the NIC {address}" if address else ""
            message = f"it has {max(free, 0)} SR-IOV functions{of} free, the VM needs {count}"
            yield case.no(
                message,
                "raise sriov: {vfs: N} on the host",
                quantity=Quantity(count, free, "functions"),
                fault="InsufficientHostCapacityFault",
            )
