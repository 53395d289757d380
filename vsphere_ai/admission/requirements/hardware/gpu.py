"""GPUs with room for the vGPUs of the VM."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from vsphere_ai.admission.base import RUNS, AdmissionCase, Reason, requirement
from vsphere_ai.admission.gpus import LISTED, fills_first, slots_of, stays_on
from vsphere_ai.capacity.host import Policy
from vsphere_ai.capacity.solve import solve
from vsphere_ai.capacity.verdict import Fit, GpuHosts, NoFit, VmDemand
from vsphere_ai.model.state import Target


@requirement(
    "admission.gpu",
    "GPUs for vGPUs",
    occasions=RUNS,
    source="vSphere API, InsufficientGraphicsResourcesFault; NVIDIA vGPU software user guide, valid configurations",
    reads={"HostSystem": ("config.graphicsInfo", "config.graphicsConfig", LISTED, "hardware.pciDevice")},
    faults=("InsufficientGraphicsResourcesFault",),
    shared=True,
)
def gpu(case: AdmissionCase) -> Iterator[Reason]:
    """The GPUs of the host have room for all vGPUs of the VM, beside those of all other VMs that run there.

    Room is what the mode of each GPU leaves: MIG instances that exist or can be made, vGPUs of one size, or places of
    mixed sizes. What stands on GPUs and was not read makes the answer unknown.
    """
    vm, host, view = case.vm, case.host, case.situation.view
    if not vm.vgpus:
        return
    others = [m for ref, m in case.situation.on(host.ref).items() if m.vgpus and ref != vm.ref]
    # what stays where it is keeps its GPUs, all others are to find theirs
    staying = {m.ref for m in others if stays_on(view, m.ref) and view.facts(m.ref).get("runtime.host") == host.ref}
    target = Target("host", host.name, host.ref)
    slots = slots_of(view, target, staying)
    if not any(s.kind.takes(p) for s in slots for p in vm.vgpus):
        what = f"none of its GPUs gives {vm.vgpus[0]}" if slots else "it has no GPU that gives vGPUs"
        yield case.no(what, fault="InsufficientGraphicsResourcesFault")
        return
    policy: Policy = "consolidation" if fills_first(view, target) else "performance"
    farm = GpuHosts(slots, {host.name: policy})
    here = frozenset({host.name})
    demands = [VmDemand(m.ref, m.vgpus, here, host.name if m.ref in staying else None) for m in others]
    demands.append(VmDemand(vm.ref, vm.vgpus, here))
    answer = solve(farm, demands)
    unsure = any(s.unsure for s in slots)
    if isinstance(answer, NoFit) and unsure:
        answer = solve(replace(farm, slots=tuple(replace(s, unsure=False) for s in slots)), demands)
    if isinstance(answer, Fit):
        if unsure or answer.warnings:
            yield case.unknown("what stands on its GPUs was not read" if unsure else answer.warnings[0])
    elif isinstance(answer, NoFit) and answer.exact:
        yield case.no(f"no room on its GPUs: {answer.explanation}", "free GPUs there, or use another host",
                      "InsufficientGraphicsResourcesFault")  # fmt: skip
    else:
        yield case.unknown("whether its GPUs have room is not known")
