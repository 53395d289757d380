"""Rules of cost: GPUs that are paid for do work, and VMs hold nothing that they do not use."""

from __future__ import annotations

from vsphere_ai.compat.pillars.base import PillarCase, has_adapter, has_gpu, host_rule, vm_rule
from vsphere_ai.gpu.devices import found_gpus, is_whole
from vsphere_ai.gpu.smi import live
from vsphere_ai.model.estate.vm_corrections import CpuSettings
from vsphere_ai.model.finding import Finding
from vsphere_ai.model.text import counted
from vsphere_ai.resources.corrections import text_of

MEMORY_LOCKED, CPU_RESERVED = "config.memoryReservationLockedToMax", "config.cpuAllocation.reservation"
LATENCY = "config.latencySensitivity"
IDLE_REMEDY = "destroy the set, or power its VMs off, when no team uses it"


@host_rule(
    "cost.gpus-assigned",
    "GPUs of the host in use",
    source="Azure Well-Architected Framework, Cost Optimization; NVIDIA Virtual GPU Software Documentation",
    verdicts={"pass": "a VM that is on has a GPU of the host", "warn": "no VM that is on has one"},
    reads={"HostSystem": ("hardware.pciDevice",), "VirtualMachine": ("config.hardware.device",)},
    by_hand="which VMs get GPUs is a choice of their owner",
)
def gpus_assigned(case: PillarCase) -> Finding | None:
    """A host with GPUs runs a VM that has one of them. `vsphere-ai capacity` shows what is left of each GPU."""
    gpus = found_gpus(case.need("hardware.pciDevice"))
    if not gpus:
        return None
    estate = case.farm.view.estate
    users = [v.name for v in estate.vms_on(case.ref) if v.ref in case.farm.on and has_gpu(case.farm.view, v)]
    seen = ("VMs with GPUs", ", ".join(users) or "none")
    if users:
        return case.passed(f"{counted(len(users), 'VM')} with GPUs run there", seen)
    return case.warned(
        f"{counted(len(gpus), 'GPU')} that no VM uses", seen, remedy="vsphere-ai capacity shows what fits"
    )


@host_rule(
    "cost.gpu-load",
    "vGPUs at work",
    source="NVIDIA Virtual GPU Software Documentation, Monitoring GPU Performance (nvidia-smi vgpu -q)",
    verdicts={
        "pass": "a vGPU of the host computes at the moment",
        "warn": "all vGPUs are idle at the moment",
        "unknown": "nvidia-smi was not asked, or shows no utilization",
    },
    by_hand="what runs on a GPU is a choice of its owner",
)
def gpu_load(case: PillarCase) -> Finding | None:
    """At the moment of reading, some vGPU of the host computes. One reading is no proof that a VM is idle for long."""
    if why := live.why_not_listed(case.facts):
        return case.unknown(f"the vGPUs that run here are not known: {why}")
    running = live.running(case.facts)
    if not running:
        return None
    loads = [vgpu.load for vgpu in running if vgpu.load is not None]
    if not loads:
        return case.unknown("nvidia-smi shows no utilization of vGPUs")
    seen = ("nvidia-smi vgpu -q, Utilization Gpu", ", ".join(f"{n} %" for n in loads))
    if any(loads):
        return case.passed(f"{sum(map(bool, loads))} of {len(loads)} vGPUs compute", seen)
    return case.warned(f"{counted(len(loads), 'vGPU')} idle at the moment", seen, remedy=IDLE_REMEDY)


@vm_rule(
    "cost.unused-nics",
    "No unused NICs",
    source="vSphere Virtual Machine Administration 7.0, Network Adapter Basics",
    verdicts={"pass": "every NIC is connected", "warn": "a NIC of a VM that is on is not"},
    reads={"VirtualMachine": ("config.hardware.device", "runtime.powerState")},
    by_hand="whether an adapter is needed is a choice of the owner of the VM",
)
def unused_nics(case: PillarCase) -> Finding | None:
    """Every NIC of a training VM is connected: one that is not holds an address and a port for nothing."""
    if case.need("runtime.powerState") != "poweredOn":
        return None
    nics = [d for d in case.need("config.hardware.device") if d.get("macAddress")]
    idle = [d for d in nics if not (d.get("connectable") or {"connected": True}).get("connected")]
    names = ", ".join(str((d.get("deviceInfo") or {}).get("label") or d.get("macAddress")) for d in idle)
    if idle:
        return case.warned(f"not connected: {names}", ("connectable.connected", False), remedy="connect or remove them")
    return case.passed(f"{counted(len(nics), 'NIC')}, none unconnected", ("connectable.connected", True))


@vm_rule(
    "cost.powered-off",
    "VMs with whole GPUs are on",
    source="vSphere Virtual Machine Administration 7.0, Add a PCI Device",
    verdicts={"pass": "on", "warn": "off, with whole devices of a host assigned to it"},
    reads={"VirtualMachine": ("config.hardware.device", "runtime.powerState")},
    by_hand="whether a VM is needed is a choice of its owner",
)
def powered_off(case: PillarCase) -> Finding | None:
    """A VM that is off holds no vGPU; a whole device that is assigned to it is often left to it all the same."""
    if not any(is_whole(d) for d in case.need("config.hardware.device")):
        return None
    state = case.need("runtime.powerState")
    if state == "poweredOn":
        return case.passed("it is on", ("runtime.powerState", state))
    message = "off, with whole devices of a host"
    return case.warned(message, ("runtime.powerState", state), remedy="remove the devices, or power it on")


@vm_rule(
    "cost.reservations",
    "No reservation without need",
    source="vSphere Resource Management 7.0, Resource Allocation Reservation; Performance Best Practices 7.0",
    verdicts={
        "pass": "what is reserved is needed",
        "warn": "CPU or memory is reserved, and nothing of the VM needs it",
    },
    reads={"VirtualMachine": (MEMORY_LOCKED, CPU_RESERVED, LATENCY, "config.hardware.device")},
    by_hand="how much to reserve is a choice of the owner of the VM: `tuning`",
)
def reservations(case: PillarCase) -> Finding | None:
    """A VM reserves all memory for a GPU, a whole device or RDMA, and CPU for high latency sensitivity, else neither.

    What is reserved cannot be given to another VM, also while it is idle.
    """
    case.need("config.hardware.device")
    vm, facts = case.farm.targets[case.ref], case.facts
    strict = (case.need(LATENCY) or {}).get("level") == "high"
    needs_memory = strict or has_gpu(case.farm.view, vm) or has_adapter(case.farm.view, vm)
    locked, mhz = bool(facts.get(MEMORY_LOCKED)), facts.get(CPU_RESERVED) or 0
    seen = (MEMORY_LOCKED, locked), (CPU_RESERVED, f"{mhz} MHz"), (LATENCY, "high" if strict else "not high")
    idle = [*(["all memory"] if locked and not needs_memory else []), *([f"{mhz} MHz"] if mhz and not strict else [])]
    if idle:
        play = text_of(CpuSettings(vm, is_reserved=False))
        remedy = play if mhz and not strict else "take the memory reservation away"
        return case.warned(f"{' and '.join(idle)} reserved without need", *seen, remedy=remedy)
    return case.passed("nothing is reserved without need", *seen)


@vm_rule(
    "cost.orphans",
    "VMs with their files",
    source="vSphere Web Services API reference, VirtualMachineConnectionState",
    verdicts={"pass": "connected", "fail": "orphaned, invalid or inaccessible: it does nothing and keeps its disks"},
    uses=("vm.connected",),
    by_hand="whether an orphaned VM is needed is a choice of its owner",
)
def orphans(case: PillarCase) -> Finding | None:
    """No training VM is left without its host or its files. Disks that belong to no VM are asked about."""
    return case.reported()
