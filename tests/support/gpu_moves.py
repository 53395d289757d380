"""Farms of hosts with one A100 each and VMs with vGPUs on them, of which some have to leave their hosts."""

from __future__ import annotations

from dataclasses import replace

from support.estates import CLUSTER, ESX1, OFF, PCI, estate, gpu_info, guest, host, smi, vgpu_device, vm, wants
from vsphere_ai.compat.vgpu_vmotion import SERVICE
from vsphere_ai.language.playbooks.play import Rolling
from vsphere_ai.model.facts import About, Facts
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import Step
from vsphere_ai.planning.planner import PlanContext, make_plan
from vsphere_ai.resources import kinds

EIGHT = About("vc", "8.0.2", "22385739", "8.0.2.0", "i")
HALF, WHOLE = "grid_a100-20c", "grid_a100-40c"
DRS = {"_typeName": "ClusterDrsConfigInfo", "enabled": True, "defaultVmBehavior": "fullyAutomated"}


def machine(number):
    return Target("host", f"esx{number:02d}", f"HostSystem:host-{number}")


def about(version, build="99999999"):
    return About("vc", version, build, f"{version}.0", "i")


def gpu_host(number, vms=(), **more):
    """A host with one A100 in Shared Direct mode; `vms` are the numbers of the VMs that vCenter shows on it."""
    info = (gpu_info(PCI[0], "sharedDirect", [vm(n).ref for n in vms]),)
    device = host(ESX1).get("hardware.pciDevice")[:1]
    given = {"config__graphicsInfo": info, "hardware__pciDevice": device,
             "config__sharedPassthruGpuTypes": (HALF, WHOLE), "query:vgpu profiles": STUN, **more}  # fmt: skip
    return host(machine(number), active="sharedDirect", probes=given.pop("probes", smi({PCI[0]: OFF})), **given)


STUN = {HALF: [[10_000, 25], [25_000, 10]], WHOLE: [[10_000, 49]]}


def gpu_vm(number, on, *profiles, **more):
    devices = [vgpu_device(13000 + n, p) for n, p in enumerate(profiles or (HALF,))]
    for device in devices:
        device["backing"]["migrateSupported"] = True
    return guest(vm(number), machine(on), **{"config__hardware__device": tuple(devices), **more})


def farm(*facts, about=EIGHT, hot=True, drs=DRS):
    service = Facts(SERVICE, {"query:vgpu.hotmigrate.enabled": ({"key": "vgpu.hotmigrate.enabled", "value": hot},)})
    made = estate(*facts, service, about=about)
    cluster = replace(made[CLUSTER], properties={**made[CLUSTER].properties, "configurationEx": {"drsConfig": drs}})
    return replace(made, objects={**made.objects, CLUSTER: cluster})


def rolled(seen, hosts, *, vms=None, extra=(), **rolling):
    """Plan a window with maintenance mode on each host, VMs being moved."""
    how = Rolling(**{"evacuate": "vmotion", **rolling})
    desired = {machine(n): wants(rolling=how) for n in hosts} | (vms or {})
    work = {machine(n): [Step(target=machine(n), summary="work", needs_maintenance=True)] for n in hosts}
    for step in extra:
        work.setdefault(step.target, []).append(step)
    return make_plan(desired, seen, kinds(), "test.yml", besides=PlanContext(work))


def moves(plan):
    return [(m.vm.name, m.source.name, m.target.name) for m in plan.impact.migrations]
