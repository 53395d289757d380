"""Evacuation of hosts by DRS: which VMs have to go, which hosts take all of them together, and what is in the way.

The search puts each VM where it breaks the fewest rules between VMs and the fewest VMs run, and goes back where a later
VM finds no place; it gives up after so many steps. What it tries it takes back, unseen.

VMs that a rule keeps together leave together, or none of them does (unverified; vSphere Resource Management 8.0, VM-VM
affinity rules: "DRS tries to keep the specified virtual machines together on the same host").
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.hardware import vgpu as vgpus
from vsphere_ai.lab.managed import Call, demand, reads
from vsphere_ai.lab.managed.clusters import cluster_rules
from vsphere_ai.lab.managed.placement import drs_level
from vsphere_ai.lab.managed.refusals import invalid_argument, invalid_state, migration_failed
from vsphere_ai.lab.managed.running_vms import powered_on
from vsphere_ai.lab.managed.vm_tasks import migration
from vsphere_ai.lab.managed.vm_tasks.power import profiles
from vsphere_ai.lab.managed.vms import device_groups, vgpu_migration
from vsphere_ai.lab.managed.vms.vm_states import is_kept_by_vcenter
from vsphere_ai.lab.sessions import now
from vsphere_ai.lab.store import ManagedObject, fill

STEPS = 400
"""Tries after which the search gives up."""


@dataclass
class EvacuationOutcome:
    """Where each VM goes, in the order in which they go, and what keeps those that cannot go."""

    targets: list[tuple[ManagedObject, ManagedObject]] = field(default_factory=list)
    stuck: dict[str, tuple[ManagedObject, list[Exception]]] = field(default_factory=dict)


def search(farm: Farm, hosts: list[ManagedObject]) -> EvacuationOutcome:
    """Return where DRS would bring the VMs of hosts that are emptied together; the caller holds the store's lock."""
    with _leaving(hosts):
        vms = [vm for host in hosts for vm in powered_on(farm, host) if not is_kept_by_vcenter(vm)]
        found = EvacuationOutcome()
        going = []
        for vm in vms:
            faults = list(unmovable(farm, vm))
            if faults:
                found.stuck[vm.moid] = vm, faults
            else:
                going.append(vm)
        going.sort(key=lambda vm: -int(vm["config"].memoryAllocation.reservation or 0))
        with _marked(going, cluster_rules.LEAVES):
            found.targets = _placed(farm, going, [STEPS]) or _group_by_group(farm, going, found)
    return found


def unmovable(farm: Farm, vm: ManagedObject) -> Iterator[Exception]:
    """Yield what keeps DRS from moving a VM to any host."""
    runtime = vm["runtime"]
    if not drs_level(farm, vm):
        yield vim.fault.DrsDisabledOnVm(msg="DRS is disabled for the virtual machine.")
    if runtime.connectionState != "connected" or runtime.question is not None:
        yield invalid_state("the virtual machine is not connected, or waits for an answer")
    if "MigrateVM_Task" in vm["disabledMethod"]:
        yield vim.fault.MethodDisabled(msg="The method is disabled by 'com.example.backup' (MigrateVM_Task).")
    pin = migration.pinned_by(vm)
    if pin is not None:
        label = pin.deviceInfo.label
        yield vim.fault.DeviceNotSupported(
            device=label, msg=f"Device '{label}' is a passthrough device, which cannot be migrated while in use."
        )
    if profiles(vm) and not vgpu_migration.drs_may(farm, farm.store.get(farm.host_of(vm)["parent"])):
        yield migration_failed("DRS of this cluster does not migrate virtual machines with vGPUs")


def choices(farm: Farm, vm: ManagedObject) -> tuple[list[ManagedObject], list[Exception]]:
    """Return the hosts that take a VM which is evacuated, the best first, and a fault of each other one."""
    own = farm.host_of(vm)
    cluster, fitting, faults = farm.store.get(own["parent"]), [], []
    for host in (farm.store.get(ref) for ref in cluster["host"] if ref != own.ref):
        fault = next(migration.faults(migration.arrival(farm, vm, host, by_drs=True)), None)
        if fault is None:
            fitting.append(host)
        else:
            faults.append(fault)
    rules = {h.moid: sum(1 for _ in cluster_rules.broken_by(farm, vm, h)) for h in fitting}
    fitting.sort(key=lambda h: (rules[h.moid], len(powered_on(farm, h)), h["name"]))
    return fitting, faults


def _placed(farm: Farm, vms: list[ManagedObject], tries: list[int]) -> list[tuple[ManagedObject, ManagedObject]] | None:
    if not vms:
        return []
    for host in choices(farm, vms[0])[0]:
        tries[0] -= 1
        if tries[0] < 0:
            return None
        undo = _moved(farm, vms[0], host)
        if undo is None:
            continue
        try:
            rest = _placed(farm, vms[1:], tries)
        finally:
            undo()
        if rest is not None:
            return [(vms[0], host), *rest]
    return None


def _group_by_group(
    farm: Farm, vms: list[ManagedObject], found: EvacuationOutcome
) -> list[tuple[ManagedObject, ManagedObject]]:
    """Return where those VMs go that find a place one after another; note what keeps the others.

    VMs that rules keep together go all, or none of them.
    """
    targets, undone = [], []
    for group in cluster_rules.kept_together(farm, vms):
        places = _placed(farm, group, [STEPS])
        if places is None:
            # which of the hosts that take one of them keeps them apart is in no fault of a single VM
            none = vim.fault.NoCompatibleHost(msg="No host is compatible.")
            found.stuck |= {vm.moid: (vm, choices(farm, vm)[1] or [none]) for vm in group}
            continue
        undone += [undo for vm, host in places if (undo := _moved(farm, vm, host)) is not None]
        targets += places
    for undo in reversed(undone):
        undo()
    return targets


def _moved(farm: Farm, vm: ManagedObject, host: ManagedObject) -> Callable[[], None] | None:
    """Bring a VM to a host, unseen; return how to take it back, None where its vGPUs do not fit."""
    source, runtime = farm.host_of(vm), vm["runtime"]
    give_back = vgpus.lend(farm.host(host), str(vm["name"]), profiles(vm), device_groups.together(vm))
    if give_back is None:
        return None
    before, there = source.props["vm"], host.props["vm"]
    source.props["vm"] = [ref for ref in before if ref != vm.ref]
    host.props["vm"] = [*there, vm.ref]
    runtime.host = host.ref

    def undo() -> None:
        runtime.host = source.ref
        source.props["vm"], host.props["vm"] = before, there
        give_back()

    return undo


@contextmanager
def _leaving(hosts: list[ManagedObject]) -> Iterator[None]:
    """Take hosts for such that enter maintenance mode; those that do so anyway stay so."""
    with _marked([host for host in hosts if "entering" not in host.extra], "entering"):
        yield


@contextmanager
def _marked(objects: list[ManagedObject], name: str) -> Iterator[None]:
    """Keep a mark of that name at objects for as long as it takes."""
    for each in objects:
        each.extra[name] = None
    try:
        yield
    finally:
        for each in objects:
            del each.extra[name]


def drs_faults(found: EvacuationOutcome) -> Any:
    """Return the faults of VMs that cannot go, as vCenter shows them."""
    by_vm = [vim.cluster.DrsFaults.FaultsByVm(vm=vm.ref, fault=faults) for vm, faults in found.stuck.values()]
    return vim.cluster.DrsFaults(reason="hostMaint", faultsByVm=by_vm)


@reads(vim.ClusterComputeResource, "ClusterEnterMaintenanceMode")
def enter_maintenance(call: Call, host: Any, option: Any = None, info: Any = None) -> Any:
    """Return which of some hosts DRS could empty together, with the migrations, and what keeps the others; do nothing.

    A host after another is added to those that can be emptied. VMs that DRS would move by recommendation only count as
    movable. How a cluster without DRS answers is unverified: the lab refuses.
    """
    farm, cluster = call.farm, call.mo
    if not cluster["configurationEx"].drsConfig.enabled:
        raise invalid_state("DRS is not enabled")
    hosts = [farm.store.get(ref) for ref in host]
    for each in hosts:
        if each["parent"] != cluster.ref:
            raise invalid_argument("host", f"{each['name']} is of another cluster")
        demand(call, "Host.Config.Maintenance", each)
    if farm.tasks.doom is not None and farm.tasks.doom.finds is not None:
        return _as_demanded(farm, hosts, farm.tasks.doom.finds)
    emptied: list[ManagedObject] = []
    stuck, last = EvacuationOutcome(), EvacuationOutcome()
    for each in hosts:
        found = search(farm, [*emptied, each])
        if found.stuck:
            stuck.stuck.update(found.stuck)
        else:
            emptied, last = [*emptied, each], found
    recommendations = [_recommendation(farm, each, last) for each in emptied]
    return fill(
        vim.cluster.EnterMaintenanceResult(
            recommendations=recommendations, fault=drs_faults(stuck) if stuck.stuck else None
        )
    )


def _as_demanded(farm: Farm, hosts: list[ManagedObject], finds: tuple[Exception, ...]) -> object:
    """Answer as a fault of the lab demands: each VM is kept by the same, or every host is emptied."""
    found = EvacuationOutcome()
    for vm in (vm for host in hosts for vm in powered_on(farm, host) if finds and not is_kept_by_vcenter(vm)):
        found.stuck[vm.moid] = vm, list(finds)
    emptied = [] if found.stuck else hosts
    return fill(
        vim.cluster.EnterMaintenanceResult(
            recommendations=[_recommendation(farm, host, found) for host in emptied],
            fault=drs_faults(found) if found.stuck else None,
        )
    )


def _recommendation(farm: Farm, host: ManagedObject, found: EvacuationOutcome) -> object:
    moves = [(vm, target) for vm, target in found.targets if vm["runtime"].host == host.ref]
    actions = [
        vim.cluster.MigrationAction(
            type="MigrationV1",
            target=vm.ref,
            drsMigration=vim.cluster.DrsMigration(
                key=vm.moid, time=now(), vm=vm.ref, source=host.ref, destination=target.ref
            ),
        )
        for vm, target in moves
    ]
    enters = vim.cluster.Action(type="HostMaintenanceV1", target=host.ref)
    return fill(
        vim.cluster.Recommendation(
            key=host.moid, type="V1", time=now(), rating=5, reason="hostMaint",
            reasonText="Host is entering maintenance mode", action=[*actions, enters], target=host["parent"],
        )
    )  # fmt: skip
