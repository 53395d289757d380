"""Least privilege: what vCenter asks an account for, per step of a plan and per kind of setting."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vsphere_ai.fabric.dvs import PORT_GROUP
from vsphere_ai.language.playbooks.play import TargetPlan, TargetPlans
from vsphere_ai.model.deferred import is_deferred
from vsphere_ai.model.facts import Estate, Facts, grouped
from vsphere_ai.model.privilege import ASSIGN, HOST_NETWORK, MEMBERS, NETWORK, ON_OBJECT, Duty
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import (
    Clone,
    ClusterRules,
    Destroy,
    DeviceChange,
    Invoke,
    Lifecycle,
    MoveAway,
    MoveBack,
    Reboot,
    Reconfigure,
    SetTags,
    Step,
    WriteLeases,
)
from vsphere_ai.model.vm_sets import member_of
from vsphere_ai.planning.planner import Plan
from vsphere_ai.resources import kinds
from vsphere_ai.resources.makes_vms import MakesVms
from vsphere_ai.resources.mixins import kinds_with, probes_of

PrivilegeOf = Callable[[str], str | None]
"""WSDL name of a method -> its privilege (see `connect.plain.privilege_of`)."""

READING = ("System.View", "System.Read")
"""Every role has them; an account that has no role on an object lacks them there."""

DELETE = "VirtualMachine.Inventory.Delete"
"""What destroying a VM takes, on the VM and on its folder."""
CUSTOMIZE = "VirtualMachine.Provisioning.Customize"
REMOVE_DISK = "VirtualMachine.Config.RemoveDisk"
"""What detaching a disk takes (VirtualMachineConfigSpec, deviceChange)."""
EDIT_CLUSTER = "Host.Inventory.EditCluster"
LEDGER = ("Global.ManageCustomFields", "Global.SetCustomField")
"""What writing the leases of addresses takes, on the root folder (see `connect.address_ledger`)."""
READING_METHODS = (
    *("CreateContainerView", "CurrentTime", "QueryConfigOptionEx", "QueryConfigTarget", "QueryOptions"),
    "HasPrivilegeOnEntities",
)

UNSTATED: Mapping[str, str] = {
    # an OptionManager serves vCenter and hosts alike, so the method itself states none
    "UpdateOptions": "Host.Config.AdvancedConfig",
    # every inventory object can be destroyed; this tool destroys its lock only, which is a folder
    "Destroy_Task": "Folder.Delete",
    "MigrateVM_Task": "Resource.HotMigrate",  # for a VM that runs; one that is off takes COLD
    "CloneVM_Task": "VirtualMachine.Provisioning.Clone",  # this and the next: stated by the API reference only
    "SetField": "Global.SetCustomField",
    "AddVirtualNic": "Host.Config.Network",
    "UpdateVirtualNic": "Host.Config.Network",
    # depends on what is set; members and policies take other privileges (DistributedVirtualSwitch, API reference)
    "ReconfigureDvs_Task": "DVSwitch.Modify",
    "ReconfigureDVPortgroup_Task": "DVPortgroup.Modify",
    # what the kinds state themselves
    **{method: taken for c in kinds().values() for duty in c.traits.duties for method, taken in duty.unstated.items()},
}
SETTINGS, COLD = "VirtualMachine.Config.Settings", "Resource.ColdMigrate"
"""What a field of a ConfigSpec takes that is not named below; what a VM that is off takes to go to another host."""
FIELDS: Mapping[str, str] = {
    "cpuAllocation": "VirtualMachine.Config.Resource",
    "memoryAllocation": "VirtualMachine.Config.Resource",
    "memoryReservationLockedToMax": "VirtualMachine.Config.Resource",
    "latencySensitivity": "VirtualMachine.Config.Resource",
    "numCPUs": "VirtualMachine.Config.CPUCount",
    "numCoresPerSocket": "VirtualMachine.Config.CPUCount",
    "memoryMB": "VirtualMachine.Config.Memory",
    "name": "VirtualMachine.Config.Rename",
    "annotation": "VirtualMachine.Config.Annotation",
    "firmware": SETTINGS,
}
DEVICES: Mapping[str, str] = {
    "add": "VirtualMachine.Config.AddRemoveDevice",
    "remove": "VirtualMachine.Config.AddRemoveDevice",
    "edit": "VirtualMachine.Config.EditDevice",
    "add VirtualDisk": "VirtualMachine.Config.AddNewDisk",
    "edit VirtualDisk": "VirtualMachine.Config.DiskExtend",
}
EXTRA_CONFIG = "VirtualMachine.Config.AdvancedConfig"
SPACE = "Datastore.AllocateSpace"
CONNECTING, VNICS = ("AddVirtualNic", "UpdateVirtualNic"), "config.network.vnic"
"""Methods that take `NETWORK` on a distributed port group as well (HostNetworkSystem, API reference)."""

ACTIONS: Mapping[str, tuple[str, ...]] = {
    "enter-maintenance": ("EnterMaintenanceMode_Task",),
    "exit-maintenance": ("ExitMaintenanceMode_Task",),
    "reboot": ("RebootHost_Task",),
    "start-ssh": ("StartService",),
    "stop-ssh": ("StopService",),
    "power-off": ("ShutdownGuest", "PowerOffVM_Task"),
    "power-on": ("PowerOnVM_Task",),
    **dict.fromkeys(("migrate", "move-away", "move-back"), ("MigrateVM_Task",)),
}
"""What carries out each action of a `Lifecycle` step."""
SOFTWARE = "fetchSoftwarePackages"
LOCKING = ("CreateFolder", "Destroy_Task")


@dataclass(frozen=True, order=True)
class PrivilegeNeed:
    """One privilege on one object, and what it is for."""

    name: str
    ref: str
    privilege: str
    reason: str


def needed(plan: Plan, estate: Estate, privilege_of: PrivilegeOf) -> tuple[PrivilegeNeed, ...]:
    """Return every privilege carrying out a plan takes, by object; reading what it is about included."""
    found: dict[tuple[str, str], PrivilegeNeed] = {}
    for need in (*_reading(plan, estate, privilege_of), *_changing(plan, estate, privilege_of)):
        found.setdefault((need.ref, need.privilege), need)
    return tuple(sorted(found.values()))


def for_lock(name: str, ref: str, privilege_of: PrivilegeOf) -> tuple[PrivilegeNeed, ...]:
    """Return what the lock in vCenter takes on the folder it is made in (see `connect.vcenter_lock.place`)."""
    privileges = (*READING, *of_methods(LOCKING, privilege_of))
    return tuple(sorted(PrivilegeNeed(name, ref, p, "hold the lock in vCenter") for p in privileges))


def _reading(plan: Plan, estate: Estate, privilege_of: PrivilegeOf) -> Iterator[PrivilegeNeed]:
    for target in {i.target for i in plan.items}:
        at = _home(target.ref, estate)
        name, ref = (at.name, at.ref) if at else (target.name, target.ref)
        for privilege in READING:
            yield PrivilegeNeed(name, ref, privilege, "see it")
        host = {"host": target, "vm": estate.host_of(target.ref)}.get(target.kind)
        software = privilege_of(SOFTWARE)
        if host and software:
            yield PrivilegeNeed(host.name, host.ref, software, "read the installed VIBs")


def _changing(plan: Plan, estate: Estate, privilege_of: PrivilegeOf) -> Iterator[PrivilegeNeed]:
    for planned in plan.steps:
        step = planned.step
        if isinstance(step, Clone):
            yield from _of_clone(step, estate)
            continue
        if isinstance(step, WriteLeases):
            root = [*estate.up_from(step.target.ref)][-1]
            yield from (PrivilegeNeed(root.name, root.ref, privilege, step.summary) for privilege in LEDGER)
            continue
        if isinstance(step, ClusterRules):
            yield PrivilegeNeed(estate[step.cluster].name, step.cluster, EDIT_CLUSTER, step.summary)
            continue
        if isinstance(step, SetTags):
            name, ref = _object(step, estate)
            root = [*estate.up_from(ref)][-1]
            yield PrivilegeNeed(root.name, root.ref, ASSIGN, step.summary)
            yield PrivilegeNeed(name, ref, ON_OBJECT, step.summary)
            continue
        on = _object(step, estate)
        for privilege in of_step(step, privilege_of):
            name, ref = (step.target.name, step.target.ref) if privilege == HOST_NETWORK else on
            yield PrivilegeNeed(name, ref, privilege, step.summary)
        stores = _stores(step.device_changes, estate) if isinstance(step, Reconfigure) else ()
        for ref in (*_port_groups(step, estate), *stores):
            facts = estate.get(ref)
            privilege = SPACE if ref in stores else NETWORK
            yield PrivilegeNeed(facts.name if facts else ref, ref, privilege, f"{step.target.name}: {step.summary}")


def _of_clone(step: Clone, estate: Estate) -> Iterator[PrivilegeNeed]:
    """Return what CloneVM_Task takes (API reference): on source, folder, resource pool, datastore and port groups."""
    source = estate.get(step.source)
    location, changes = step.spec["location"], step.spec["config"].get("deviceChange", ())
    own = (source.get("datastore") or ()) if source and not location.get("datastore") else ()  # where its disks are
    way = "DeployTemplate" if source and source.get("config.template") else "Clone"
    taken = {
        step.source: (f"VirtualMachine.Provisioning.{way}", *([CUSTOMIZE] if "customization" in step.spec else [])),
        step.folder: ("VirtualMachine.Inventory.CreateFromExisting", *_of_new(step)),
        location.get("pool", ""): ("Resource.AssignVMToPool",),
        location.get("datastore", ""): (SPACE,),
        **{ref: (NETWORK,) for ref in _ports(changes)},
        **{ref: (SPACE,) for ref in (*own, *_stores(changes, estate))},
    }
    for ref, privileges_ in taken.items():
        facts = estate.get(ref)
        for privilege in privileges_ if ref else ():
            yield PrivilegeNeed(facts.name if facts else ref, ref, privilege, f"{step.target.name}: {step.summary}")


def _of_new(step: Clone) -> tuple[str, ...]:
    """Return what the configuration of a new VM takes; a VM has the privileges of its folder until it has its own."""
    config = step.spec["config"]
    changes = map(_operation, config.get("deviceChange", ()))
    fields = [f for f in config if f in FIELDS]
    return of_spec(fields, changes, bool(config.get("extraConfig")))


def unplanned(plan: Plan, wanted: TargetPlans, estate: Estate, privilege_of: PrivilegeOf) -> tuple[PrivilegeNeed, ...]:
    """Return what targets with problems may take beyond `needed`: their steps are not known, so all that are possible.

    A host whose MIG could not be read, because its SSH is stopped, has no step of MIG in the plan.
    """
    found: dict[tuple[str, str], PrivilegeNeed] = {}
    unsure = dict.fromkeys(p.target for p in plan.problems if p.target in wanted)
    for on, duty in (each for target in unsure for each in _possible(target, wanted[target], estate)):
        for privilege in privileges(duty, privilege_of):
            need = PrivilegeNeed(on.name, on.ref, privilege, f"may be needed: {duty.purpose.replace('`', '')}")
            found.setdefault((on.ref, privilege), need)
    known = {(n.ref, n.privilege) for n in needed(plan, estate, privilege_of)}
    return tuple(sorted(n for key, n in found.items() if key not in known))


def _possible(target: Target, asked: TargetPlan, estate: Estate) -> Iterator[tuple[Target, Duty]]:
    words = tuple(f"`{s.kind}`" for s in asked.states)
    for duty in ROLE:
        if duty.purpose.startswith(words) and duty.where == {"host": "hosts", "vm": "VMs"}.get(target.kind):
            yield target, duty
    if any(probes_of(type(s)) for s in asked.states):
        yield target, OVER_SSH
    if target.kind == "vm":
        yield target, POWER_CYCLES
    if target.kind == "host":
        yield target, MAINTENANCE
        if asked.rolling.evacuate == "power_off":
            yield from ((vm, POWER_CYCLES) for vm in estate.vms_on(target.ref) if estate.is_on(vm.ref))


def _object(step: Step, estate: Estate) -> tuple[str, str]:
    """Return name and reference of what a step is done to; for what an earlier step makes, of where it is made."""
    home = _home(step.target.ref, estate)
    if home is not None:
        return home.name, home.ref
    if isinstance(step, Invoke) and step.on:
        at = estate.get(step.on) or estate.datacenter_of(step.target.ref) or step.target
        return at.name, at.ref
    return step.target.name, step.target.ref


def _home(ref: str, estate: Estate) -> Facts | None:
    """Return the folder of a VM that does not exist yet: until it has roles of its own, it has those of its folder."""
    member = member_of(estate, ref)
    return estate.get(member.place.folder) if member is not None and not member.exists else None


def missing_privileges(
    needs: Sequence[PrivilegeNeed], ask: Callable[[tuple[str, ...], tuple[str, ...]], Mapping[str, tuple[str, ...]]]
) -> frozenset[PrivilegeNeed]:
    """Return what an account lacks. `ask` gets references and privileges, and returns those missing by reference."""
    wanted = {ref: tuple(sorted({n.privilege for n in own})) for ref, own in grouped(needs, lambda n: n.ref).items()}
    alike = grouped(wanted, lambda ref: wanted[ref])  # one question for all objects on which the same is needed
    answers = (lacks for privileges, refs in alike.items() for lacks in ask(refs, privileges).items())
    missing = {(ref, privilege) for ref, lacks in answers for privilege in lacks}
    return frozenset(need for need in needs if (need.ref, need.privilege) in missing)


def of_step(step: Step, privilege_of: PrivilegeOf) -> tuple[str, ...]:
    """Return what one step takes on its target; a command in a host's shell takes nothing of vCenter."""
    match step:
        case Invoke(method="ReconfigureDvs_Task") if "host" in step.args.get("spec", {}):
            return MEMBERS, HOST_NETWORK
        case Invoke():
            return of_methods((step.method,), privilege_of)
        case Reboot(via="ssh"):
            return ()
        case Destroy():
            return (DELETE, REMOVE_DISK) if step.detached else (DELETE,)
        case MoveAway() | MoveBack():
            moving = of_methods(ACTIONS[step.action], privilege_of) if step.live else (COLD,)
            return (*moving, *of_spec((), map(_operation, step.devices)))
        case Lifecycle():
            return of_methods(ACTIONS[step.action], privilege_of)
        case Reconfigure():
            return of_spec(step.spec, map(_operation, step.device_changes), bool(step.extra_config))
        case _:
            return ()


def of_methods(methods: Iterable[str], privilege_of: PrivilegeOf) -> tuple[str, ...]:
    """Return the privileges of methods; ValueError for one whose privilege is not stated."""
    found: dict[str, None] = {}
    for method in methods:
        privilege = privilege_of(method) or UNSTATED.get(method)
        if privilege is None:
            raise ValueError(f"the privilege of {method} is not stated")
        found[privilege] = None
    return tuple(found)


def of_spec(fields: Iterable[str], operations: Iterable[str] = (), extra_config: bool = False) -> tuple[str, ...]:
    """Return what ReconfigVM_Task takes for what is in a ConfigSpec (VirtualMachineConfigSpec, API reference)."""
    found = dict.fromkeys(DEVICES.get(o) or DEVICES.get(o.partition(" ")[0], DEVICES["edit"]) for o in operations)
    found |= dict.fromkeys(FIELDS.get(f, SETTINGS) for f in sorted(fields))
    found |= {EXTRA_CONFIG: None} if extra_config else {}
    return tuple(found)


def _stores(changes: Iterable[DeviceChange], estate: Estate) -> tuple[str, ...]:
    """Return the datastores that new disks name."""
    files = (str((c["device"].get("backing") or {}).get("fileName") or "") for c in changes if c["operation"] == "add")
    names = {file.partition("]")[0].removeprefix("[") for file in files if file}
    return tuple(sorted(f.ref for f in estate.of_type("Datastore") if f.name in names)) if names else ()


def _operation(change: DeviceChange) -> str:
    return f"{change.get('operation')} {change['device'].get('_typeName')}"


def _port_groups(step: Step, estate: Estate) -> Iterator[str]:
    """Return the port groups that a step connects an adapter to, of a VM or of a host's VMkernel."""
    if isinstance(step, Reconfigure):
        yield from _ports(step.device_changes)
        return
    elif isinstance(step, Invoke) and step.method in CONNECTING:
        vnics = (estate[step.target.ref].get(VNICS) or ()) if step.target.ref in estate.objects else ()
        there = [v["spec"] for v in vnics if v["device"] == step.args.get("device")]
        ports = [spec.get("distributedVirtualPort") for spec in (step.args["nic"], *there)]
    else:
        return
    yield from _keys(ports)


def _ports(changes: Iterable[DeviceChange]) -> Iterator[str]:
    added = (c for c in changes if c.get("operation") != "remove")
    yield from _keys((c["device"].get("backing") or {}).get("port") for c in added)


def _keys(ports: Iterable[Mapping[str, Any] | None]) -> Iterator[str]:
    for port in ports:
        key = (port or {}).get("portgroupKey")
        if isinstance(key, str) and not is_deferred(key):  # what an earlier step makes cannot be asked about
            yield f"{PORT_GROUP}:{key}"


# -- the role, for the documentation


def privileges(duty: Duty, privilege_of: PrivilegeOf) -> tuple[str, ...]:
    """Return the privileges of a row of the role."""
    spec = of_spec(duty.fields, duty.operations, duty.extra_config)
    return tuple(dict.fromkeys((*duty.also, *of_methods(duty.methods, privilege_of), *spec)))


def _of_kinds(*targets: str) -> Iterator[Duty]:
    """Yield the rows that the kinds themselves state."""
    for cls in kinds().values():
        yield from cls.traits.duties if cls.target in targets else ()


def _acting(purpose: str, where: str, *actions: str) -> Duty:
    return Duty(purpose, where, tuple(method for action in actions for method in ACTIONS[action]))


MAINTENANCE = _acting(
    "maintenance mode, reboots through vCenter", "hosts", "enter-maintenance", "exit-maintenance", "reboot"
)
BY_SSH = ", ".join(f"`{k}`" for k, cls in sorted(kinds().items()) if probes_of(cls))
MAKING = ", ".join(f"`{name}`" for name in kinds_with(MakesVms))
OVER_SSH = _acting(f"starting and stopping SSH: {BY_SSH}", "hosts", "start-ssh", "stop-ssh")
MOVES = _acting("`evacuate: vmotion` with vGPUs", "VMs", "migrate")
POWER_CYCLES = _acting("power cycles", "VMs", "power-off", "power-on")
ROLE = (
    Duty("reading; every role has it", "everything the tool is to see", READING_METHODS, also=READING),
    Duty("`check`: the list of VIBs", "hosts", (SOFTWARE,)),
    Duty("SSH to hosts in lockdown mode: their exception users", "hosts", ("QueryLockdownExceptions",)),
    *_of_kinds("datacenter", "host"),
    OVER_SSH,
    MAINTENANCE,
    *_of_kinds("vm"),
    POWER_CYCLES,
    MOVES,
    Duty("`bench crossover`", "VMs", ACTIONS["move-away"], operations=("edit",), also=(COLD,)),
    Duty("`--lock vcenter`, `run unlock`", "the folder `vsphere-ai locks`, or the root to make it", LOCKING),
    Duty(f"leases of addresses: {MAKING}, `ipam`", "the root folder", ("AddCustomFieldDef",), also=LEDGER[1:]),
)
