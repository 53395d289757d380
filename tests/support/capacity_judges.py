"""Two judges of capacity: the lab's own model of power-on, and a naive one that shares no code with the solver."""

from __future__ import annotations

import itertools

from vsphere_ai.capacity.verdict import GpuHosts, VmDemand
from vsphere_ai.gpu.catalog import board
from vsphere_ai.gpu.vgpus.slot import GpuSlot
from vsphere_ai.lab.hardware import parts, vgpu
from vsphere_ai.lab.hardware.gpu import LabGpu
from vsphere_ai.lab.hardware.host import LabHost
from vsphere_ai.lab.ledger import Ledger

MIG = ("1-5c", "1-5cme", "1-10c", "2-10c", "3-20c", "4-20c", "7-40c")
SLICED = ("40c", "20c", "10c", "8c", "5c", "4c")
DRIVER = "535.261.03"


def names(*sizes):
    """A100 profile names as the lab's hosts list them."""
    return tuple(f"grid_a100x-{s}" for s in sizes)


def pci(number):
    return f"0000:{0x3B + number:02x}:00.0"


def lab_hosts(hosts, policy="performance"):
    """Hosts of the lab: name -> modes of its GPUs, True being MIG."""
    made = {}
    for name, modes in hosts.items():
        gpus = [LabGpu.of(n, pci(n), "a100-40gb") for n in range(len(modes))]
        for gpu, enabled in zip(gpus, modes, strict=True):
            gpu.configured = "sharedDirect"
            gpu.mig_current = gpu.mig_pending = enabled
        made[name] = LabHost(name, Ledger(), gpus=gpus, vibs=[parts.driver_vib(DRIVER)], assignment_policy=policy)
    return made


def farm(hosts, policy="performance"):
    """The same hosts as a capacity question."""
    slots = [
        GpuSlot(name, pci(n), board("a100-40gb"), "mig" if enabled else "time_sliced")
        for name, modes in hosts.items()
        for n, enabled in enumerate(modes)
    ]
    return GpuHosts(tuple(slots), dict.fromkeys(hosts, policy))


def demands(vms, hosts):
    """VMs (name -> profiles) that may run on any of the hosts."""
    everywhere = frozenset(hosts)
    return [VmDemand(name, tuple(profiles), everywhere) for name, profiles in vms.items()]


def powers_on(hosts, vms, assignment, policy="performance"):
    """Power VMs on in the lab in the order of an assignment; return what each got as (GPU, profile, start)."""
    made = lab_hosts(hosts, policy)
    got = {}
    for vm, (host, places) in assignment.items():
        assert sorted(vms[vm]) == sorted(p.profile for p in places)
        claimed = vgpu.power_on(made[host], vm, [p.profile for p in places])
        got[vm] = tuple((_gpu(made[host], v), v.type_name, _start(made[host], v)) for v in claimed)
    return got


def _gpu(host, one):
    return next(g.pci for g in host.gpus if any(v is one for v in g.vgpus))


def _start(host, one):
    gpu = next(g for g in host.gpus if any(v is one for v in g.vgpus))
    return None if one.gi is None else gpu.instance(one.gi).start


def some_order_powers_on(hosts, vms, policy="performance"):
    """Try every order of VMs and of their vGPUs, and every host, in the lab; no situation is tried twice."""
    made = lab_hosts(hosts, policy)
    kinds = sorted({tuple(sorted(p)) for p in vms.values()})
    counts = tuple(sum(tuple(sorted(p)) == k for p in vms.values()) for k in kinds)
    dead = set()
    number = itertools.count()

    def situation():
        return tuple(
            (tuple(sorted((i.profile.id, i.start) for i in g.instances)), tuple(sorted(v.type_name for v in g.vgpus)))
            for h in made.values()
            for g in h.gpus
        )

    def search(left):
        if not any(left):
            return True
        key = (situation(), left)
        if key in dead:
            return False
        for at, profiles in enumerate(kinds):
            if left[at]:
                for host, way in itertools.product(made.values(), sorted(set(itertools.permutations(profiles)))):
                    vm = f"vm-{next(number)}"
                    try:
                        vgpu.power_on(host, vm, way)
                    except vgpu.NoGraphicsResource:
                        continue
                    done = search((*left[:at], left[at] - 1, *left[at + 1 :]))
                    vgpu.power_off(host, vm)
                    if done:
                        return True
        dead.add(key)
        return False

    return search(counts)


class _Trials:
    """Power VMs on in the lab in every way, each taken back afterwards."""

    def __init__(self, hosts, vms):
        self.made, self.vms, self.seen = lab_hosts(hosts), vms, set()

    def situation(self, where):
        gpus = [g for h in self.made.values() for g in h.gpus]
        instances = tuple(tuple(sorted((i.profile.id, i.start) for i in g.instances)) for g in gpus)
        return instances, tuple(tuple(sorted(v.type_name for v in g.vgpus)) for g in gpus), tuple(sorted(where.items()))

    def any_way(self, left, names, then):
        """Tell whether one of the VMs can power on somewhere so that `then` (VM, host) holds."""
        for vm in left:
            for name, way in itertools.product(names, sorted(set(itertools.permutations(self.vms[vm])))):
                try:
                    vgpu.power_on(self.made[name], vm, way)
                except vgpu.NoGraphicsResource:
                    continue
                done = then(vm, name)
                vgpu.power_off(self.made[name], vm)
                if done:
                    return True
        return False

    def restart(self, left, names):
        return not left or self.any_way(left, names, lambda vm, _: self.restart([v for v in left if v != vm], names))

    def survives(self, where):
        # a lost host keeps its VMs in the model: nobody powers on there
        return all(
            self.restart([vm for vm, name in where.items() if name == lost], [n for n in self.made if n != lost])
            for lost in self.made
        )

    def place(self, where):
        key = self.situation(where)
        if key in self.seen:
            return False
        self.seen.add(key)
        left = [vm for vm in self.vms if vm not in where]
        if not left:
            return self.survives(where)
        return self.any_way(left, list(self.made), lambda vm, name: self.place({**where, vm: name}))


def some_assignment_survives(hosts, vms):
    """Try every way to power VMs on in the lab, and after it every loss of a host; for a handful of VMs."""
    return _Trials(hosts, vms).place({})
