"""Devices of a case: the GPUs of its host, and the vGPUs and PVRDMA adapters its VM has after the plan."""

from __future__ import annotations

from vsphere_ai.compat.base import RuleCase
from vsphere_ai.fabric.trace import DEVICE as PVRDMA
from vsphere_ai.fabric.trace import key_of
from vsphere_ai.gpu.devices import PhysicalGpu, found_gpus, is_vgpu
from vsphere_ai.resources import kinds
from vsphere_ai.resources.mixins import VmDevices, giving


def gpus(case: RuleCase) -> tuple[PhysicalGpu, ...]:
    """Return the physical NVIDIA GPUs of the host, by PCI address; `Unreadable` when its devices are not shown."""
    return found_gpus(case.need("hardware.pciDevice"))


def wanted_vgpus(case: RuleCase) -> int:
    """Return how many vGPUs the VM has, or will have after this plan."""
    devices = case.need("config.hardware.device")
    planned = {*giving("vgpus")} & {*case.view.planned_kinds(case.ref)}
    return len(vgpu_names(case)) if planned else sum(is_vgpu(d) for d in devices)


def vgpu_names(case: RuleCase) -> tuple[str, ...]:
    """Return the vGPU profiles the VM has, or will have after this plan."""
    case.need("config.hardware.device")
    vm, view = case.target, case.view
    if vm is None:
        return ()
    facts, own = view.facts(vm.ref), {k: view.state(vm.ref, k) for k in view.planned_kinds(vm.ref)}
    states = (own.get(k) or kinds()[k].observe(facts, view.estate) for k in giving("vgpus"))
    return tuple(sorted(name for s in states if isinstance(s, VmDevices) for name in s.vgpus(vm, view)))


def planned_devices(case: RuleCase) -> list[VmDevices]:
    """Return the states that this plan gives the VM and that have devices."""
    return [s for k in case.view.planned_kinds(case.ref) if isinstance(s := case.view.state(case.ref, k), VmDevices)]


def wanted_adapters(case: RuleCase) -> tuple[tuple[str, str | None], ...]:
    """Return the VM's PVRDMA adapters, or those after this plan, as (port group key or name, chosen protocol)."""
    planned = (found for state in planned_devices(case) if (found := state.rdma_adapters()) is not None)
    if (adapters := next(planned, None)) is not None:
        return tuple((a.port_group, a.protocol) for a in adapters)
    present = [d for d in case.need("config.hardware.device") if d.get("_typeName") == PVRDMA]
    return tuple((key_of(d), d.get("deviceProtocol")) for d in present)
