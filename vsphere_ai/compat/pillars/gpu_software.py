"""Rules about NVIDIA's software: what unified memory excludes, and drivers with which a host may crash."""

from __future__ import annotations

from vsphere_ai.compat.pillars.base import PillarCase, host_rule, vm_rule
from vsphere_ai.compat.rules.driver import HostDriver, host_driver
from vsphere_ai.compat.rules.nvlink import unified_memory
from vsphere_ai.gpu.corrections import UnifiedMemory
from vsphere_ai.gpu.devices import found_gpus, has_vgpus
from vsphere_ai.model.finding import Finding
from vsphere_ai.model.names.versions import numbers
from vsphere_ai.resources.corrections import text_of
from vsphere_ai.resources.mixins import VmDevices

FIXED_BRANCH, FIXED = 535, (535, 247)
"""The branch that KB 394974 is about, and the driver of its release 16.10; that number is unverified."""
FAULTY = {"hopper": "Hopper", "ada": "Ada"}


@host_rule(
    "reliability.vgpu-iommu-fault",
    "Driver without the IOMMU fault",
    source="Broadcom KB 394974; NVIDIA vGPU software 16.10, Release Notes, Resolved Issues",
    verdicts={
        "pass": "vGPU 16.10 or later",
        "warn": "a branch before R535, for which no fix is named",
        "fail": "R535 before vGPU 16.10: the host may crash with a purple screen and XID 32",
    },
    reads={"HostSystem": ("software", "hardware.pciDevice")},
    by_hand="installing packages is the task of vSphere Lifecycle Manager",
)
def vgpu_iommu_fault(case: PillarCase) -> Finding | None:
    """A Hopper or Ada GPU with a vGPU driver before 16.10 (535.247) may crash its host with a purple screen."""
    found = found_gpus(case.need("hardware.pciDevice"))
    names = sorted({FAULTY[g.board.architecture] for g in found if g.board and g.board.architecture in FAULTY})
    drivers = [driver for vib in case.need("software") if (driver := host_driver(vib))]
    if not names or not drivers:
        return None
    oldest = min(drivers, key=_version)
    seen = (f"software[{oldest.name}].version", oldest.version), ("hardware.pciDevice", ", ".join(names))
    remedy = "install the vGPU manager of 16.10 or later (535.247), host by host"
    if oldest.branch == FIXED_BRANCH and _version(oldest) < FIXED:
        return case.failed(
            f"driver {oldest.driver} may crash the host: an IOMMU fault with XID 32", *seen, remedy=remedy
        )
    if oldest.branch < FIXED_BRANCH:
        message = f"driver {oldest.driver} may have the IOMMU fault that is fixed in vGPU 16.10"
        return case.warned(message, *seen, remedy=remedy)
    return case.passed(f"driver {oldest.driver} is not one of those with the IOMMU fault", *seen)


@vm_rule(
    "operations.unified-memory",
    "Unified memory and vMotion",
    source="NVIDIA Virtual GPU Software User Guide, Unified Memory; NCCL issue 2101",
    verdicts={"pass": "off", "warn": "on: vMotion is ruled out"},
    reads={"VirtualMachine": ("config.extraConfig", "config.hardware.device")},
    by_hand="NCCL before 2.21.5 in the image needs it",
)
def uvm_or_vmotion(case: PillarCase) -> Finding | None:
    """Unified memory of a vGPU rules out vMotion, and NCCL from 2.27 on does not start without it (2.21.5 does).

    On A100 it also switches NVLink between the vGPUs of a VM off (`performance.peer-to-peer`). `health` knows the
    version of NCCL in the guest, and which of the three is to be given up.
    """
    given = (case.farm.view.state(case.ref, kind) for kind in case.farm.view.planned_kinds(case.ref))
    planned = any(s.vgpus(case.farm.targets[case.ref], case.farm.view) for s in given if isinstance(s, VmDevices))
    if not planned and not has_vgpus(case.facts):
        return None
    on = unified_memory(case.need("config.extraConfig"), case.planned("config.extraConfig"))
    if on is None:
        message = "unified memory is off: vMotion is possible, and NCCL in the guest has to be older than 2.27"
        return case.passed(message, ("config.extraConfig", "no enable_uvm"))
    play = text_of(UnifiedMemory(case.target))
    remedy = f"{play}, with NCCL 2.21.5 in the image; or power the VM off for maintenance of its host"
    return case.warned("unified memory is on: the VM does not move by vMotion", on, remedy=remedy)


def _version(driver: HostDriver) -> tuple[int, ...]:
    return numbers(driver.driver) or ()
