"""One host with figures that are known exactly, for worked examples of admission.

The host has 64 cores, 128 logical processors of 2,500 MHz, 1,024,000 MB for VMs of which 618,400 MB are taken, and
156,000 MHz of which 60,000 are taken.
"""

from __future__ import annotations

from vsphere_ai.admission.admit import admit
from vsphere_ai.admission.machine import Bounds, Machine
from vsphere_ai.admission.machines import Machines
from vsphere_ai.admission.situation import Situation
from vsphere_ai.model.facts import About, Estate, Facts
from vsphere_ai.model.view import View

MB = 1 << 20
HOST, CLUSTER, POOL, STORE = "HostSystem:h", "ClusterComputeResource:c", "ResourcePool:p", "Datastore:d"
ABOUT = About("vc", "8.0.1", "1", "8.0.1.0", "i")
HARDWARE = {
    "name": "H",
    "parent": CLUSTER,
    "runtime.connectionState": "connected",
    "runtime.inMaintenanceMode": False,
    "summary.hardware.numCpuThreads": 128,
    "summary.hardware.numCpuCores": 64,
    "summary.hardware.cpuMhz": 2500,
    "config.hyperThread": {"active": True},
    "hardware.memorySize": 1_048_576 * MB,
    "systemResources.config.memoryAllocation.reservation": 24_576,
    "systemResources.config.cpuAllocation.reservation": 4_000,
    "config.product": {"version": "8.0.1", "build": "1"},
    "config.product.version": "8.0.1",
    "network": (),
}
RUNNING = Machine("VirtualMachine:other", "other", 4, 1, 614_400, 614_400, Bounds(4_000, 4_000), 60_000)


def gb(number):
    return number * 1024


def vm(**figures):
    wanted = {"cpus": 4, "cores_per_socket": 1, "memory_mb": gb(16), "reserved_mb": 0, "overhead_mb": 152, **figures}
    overhead = wanted.pop("overhead_mb")
    return Machine("VirtualMachine:new", "new", overhead_mb=Bounds(overhead, overhead), **wanted)


def farm(cluster=None, pool=None, store=None, objects=(), running=(RUNNING,), **host):
    """A situation with the host, its cluster, pool and datastore."""
    facts = [Facts(HOST, {**HARDWARE, **host}), Facts(CLUSTER, {"name": "C", **(cluster or {})}), *objects]
    facts += [Facts(POOL, {"name": "pool", "owner": CLUSTER, "parent": "ResourcePool:root", **pool})] if pool else []
    facts += [Facts(STORE, {"name": "store", **store})] if store else []
    facts += [Facts(m.ref, {"name": m.name, "runtime.host": HOST, "runtime.powerState": "poweredOn"}) for m in running]
    facts.append(Facts("VirtualMachine:new", {"name": "new", "runtime.host": HOST, "runtime.powerState": "poweredOff"}))
    view = View(Estate(ABOUT, {f.ref: f for f in facts}))
    machines = Machines(view)
    machines._present.update({m.ref: m for m in running})
    return Situation.as_read(view, machines)


def answer(situation, machine, occasion="power_on"):
    host = situation.view.estate[HOST]
    found = admit(machine, host, situation, occasion)
    return found.answer, {r.fault for r in found.refusals}, {r.rule for r in found.reasons}
