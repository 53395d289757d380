"""Devices that need all memory of their VM reserved."""

from __future__ import annotations

from vsphere_ai.admission.base import STARTS, AdmissionCase, Quantity, Reason, gb, requirement
from vsphere_ai.admission.machine import Machine
from vsphere_ai.fabric.corrections import MachineNeeds
from vsphere_ai.resources.corrections import text_of


@requirement(
    "admission.memory-locked",
    "All memory reserved for devices",
    occasions=STARTS | {"ha_restart"},
    source="vSphere Virtual Machine Administration 8.0, PCI devices (sched.mem.min has to be equal to memsize)",
    faults=("GenericVmConfigFault",),
    of_vm=True,
)
def memory_locked(case: AdmissionCase) -> Reason | None:
    """VMs with certain devices power on only with all of their memory reserved.

    The devices are vGPUs, passthrough devices, SR-IOV adapters and PVRDMA adapters.
    """
    vm, present = case.vm, case.situation.before.on(case.host.ref).get(case.vm.ref)
    if present is not None and _figures(present) == _figures(vm):
        return None  # it has powered on like this
    if not vm.demands_all_memory or vm.memory_mb is None or vm.reserved_mb is None or vm.reserved_mb >= vm.memory_mb:
        return None
    what = " and ".join(vm.demands_all_memory)
    message = f"{what} needs all {gb(vm.memory_mb)} of its memory reserved; {gb(vm.reserved_mb)} are"
    return case.no(
        message,
        f"write {text_of(MachineNeeds(case.vm.target, all_memory=True))}",
        quantity=Quantity(vm.memory_mb, vm.reserved_mb, "MB"),
        fault="GenericVmConfigFault",
    )


def _figures(vm: Machine) -> tuple[object, ...]:
    return vm.memory_mb, vm.reserved_mb, vm.demands_all_memory
