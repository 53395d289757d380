"""A vCenter of a few VMs as a value, on which every interleaving of two operators is walked; see test_interleavings.

The operators decide with the product's own code: the layout of sets, leases, and the executor of steps. Each call to
this vCenter is one move, so anything may happen between two of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache

from vsphere_ai.addresses.pool import AddressPool
from vsphere_ai.addresses.request import PoolSettings
from vsphere_ai.connect import address_ledger
from vsphere_ai.connect.address_ledger import StoredText
from vsphere_ai.errors import Conflict, Locked, OutcomeUnknown, VimFault, VsphereAiError
from vsphere_ai.execution.actions import context, executor, leases, reconcile, vm_life
from vsphere_ai.execution.actions.context import Context
from vsphere_ai.execution.actions.executor import StepExecutor
from vsphere_ai.language.playbooks.play import Play
from vsphere_ai.model.facts import About, Estate, Facts
from vsphere_ai.model.records.pending import NoRecord
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import Clone, Destroy, PowerOff, PowerOn
from vsphere_ai.model.vm_sets import MemberMark, mark_of
from vsphere_ai.resources.makes_vms import MakesVms, WantedNic, WantedSet
from vsphere_ai.sets import lay_out as layout
from vsphere_ai.sets.leases import LeaseLedger
from vsphere_ai.sets.set_plays import SetPlay

NOW = 1_000_000
POOLS = {
    f"p{n}": AddressPool.model_validate(
        {"subnet": f"10.{n}.0.0/24", "ranges": (f"10.{n}.0.11-10.{n}.0.13",), "quarantine": 0}
    )
    for n in (1, 2)
}
"""Two pools of three addresses each."""
TEMPLATE, FOLDER, DATACENTER = "VirtualMachine:vm-0", "Folder:vms", "Datacenter:dc"
ABOUT = About("vc", "8.0.2", "1", "8.0.2.0", "11111111-2222-3333-4444-555555555555")
MANAGER = "TaskManager:TaskManager"
OPERATIONS = {
    "CloneVM_Task": "clone",
    "PowerOnVM_Task": "powerOn",
    "PowerOffVM_Task": "powerOff",
    "Destroy_Task": "destroy",
}
FOREVER = datetime(2100, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, order=True)
class Vm:
    """A VM. One that is being made has its name already, and neither its mark nor its instance UUID."""

    number: int
    name: str
    uuid: str = ""
    settings: tuple[tuple[str, str], ...] = ()
    on: bool = False
    foreign: bool = False

    @property
    def ref(self):
        return f"VirtualMachine:vm-{self.number}"

    def facts(self, ref=""):
        known = {
            "name": self.name,
            "parent": FOLDER,
            "config.instanceUuid": self.uuid,
            "config.extraConfig": tuple({"key": k, "value": v} for k, v in self.settings),
            "config.template": False,
            "config.hardware.device": (),
            "runtime.powerState": "poweredOn" if self.on else "poweredOff",
            "runtime.connectionState": "connected",
            "runtime.host": "HostSystem:h1",
            "guest.toolsRunningStatus": "guestToolsNotRunning",
            "recentTask": (),
        }
        return Facts(ref or self.ref, known)


@dataclass(frozen=True, order=True)
class Task:
    """What vCenter is at: a method on a VM. A clone has taken its name from its beginning on."""

    number: int
    method: str
    vm: int
    uuid: str = ""
    settings: tuple[tuple[str, str], ...] = ()
    state: str = "running"

    @property
    def ref(self):
        return f"Task:task-{self.number}"


@dataclass(frozen=True)
class World:
    """All that vCenter has: VMs, tasks, the text of the ledger with its serial number, and who holds the lock."""

    vms: tuple[Vm, ...] = ()
    tasks: tuple[Task, ...] = ()
    ledger: str = ""
    serial: int = 0
    lock: str = ""
    made: int = 0

    def vm(self, ref):
        """Return a VM by its reference, or by the one that its instance UUID stands for."""
        known = (v for v in self.vms if (v.uuid and ref == f"VirtualMachine:{v.uuid}") or ref == v.ref)
        return next(known, None)

    def with_vm(self, vm):
        return replace(self, vms=tuple(sorted((*(v for v in self.vms if v.number != vm.number), vm))))

    def running(self):
        return [t for t in self.tasks if t.state == "running"]

    def ended(self, task, state="success"):
        """Return the world after a task has ended: with its effect, or without one."""
        tasks = tuple(replace(t, state=state) if t.number == task.number else t for t in self.tasks)
        world, vm = replace(self, tasks=tasks), next((v for v in self.vms if v.number == task.vm), None)
        if vm is None:
            return world
        if (state, task.method) in (("error", "CloneVM_Task"), ("success", "Destroy_Task")):
            return replace(world, vms=tuple(v for v in world.vms if v is not vm))
        if state == "error":
            return world
        if task.method == "CloneVM_Task":
            taken = any(v.uuid == task.uuid for v in self.vms)
            return world.with_vm(
                replace(vm, uuid=f"another-{vm.number}" if taken else task.uuid, settings=task.settings)
            )
        return world.with_vm(replace(vm, on=task.method == "PowerOnVM_Task"))

    def submit(self, ref, method, args):
        """Return the world in which a method's task has begun, and the task; `VimFault` where it is refused."""
        vm = self.vm(ref)
        if method == "CloneVM_Task":
            if any(v.name == args["name"] for v in self.vms):
                raise refused("DuplicateName")
            config = args["spec"]["config"]
            settings = tuple(sorted((o["key"], o["value"]) for o in config["extraConfig"]))
            made = Vm(self.made + 1, args["name"])
            task = Task(self.made + 1, method, made.number, config["instanceUuid"], settings)
            return replace(self.with_vm(made), tasks=(*self.tasks, task), made=self.made + 1), task
        if vm is None:
            raise refused("ManagedObjectNotFound")
        if (method in ("PowerOnVM_Task", "Destroy_Task") and vm.on) or (method == "PowerOffVM_Task" and not vm.on):
            raise refused("InvalidPowerState")
        if any(t.vm == vm.number for t in self.running()):
            raise refused("TaskInProgress")
        task = Task(self.made + 1, method, vm.number)
        return replace(self, tasks=(*self.tasks, task), made=self.made + 1), task


def refused(fault):
    return VimFault(f"vCenter says {fault}", "", {"_typeName": fault})


class Paused(BaseException):
    """The product's code waits for the answer of a call: its name, and whether it changes something."""

    def __init__(self, method, args, *, changes):
        self.method, self.args, self.changes = method, args, changes


LOST = OutcomeUnknown("the answer was lost", "look")


class Calls:
    """A vCenter that gives the answers that are known already, and pauses at the next call."""

    def __init__(self, operator, known):
        self.operator, self.known = operator, list(known)
        self.lock = self
        self.vcenter, self.ref, self.name, self.expires, self.about = self, f"Folder:{operator}", "vc", FOREVER, ABOUT

    def _answer(self, method, *args, changes=False):
        if not self.known:
            raise Paused(method, args, changes=changes)
        answer = self.known.pop(0)
        if isinstance(answer, VsphereAiError):
            raise answer
        return answer

    def read_objects(self, refs, paths):
        return self._answer("read", tuple(refs))

    def run_task(self, ref, method, args=None, *, timeout, progress=None):
        task = self._answer("submit", ref, method, args or {}, changes=True)
        self._answer("wait", task)

    def read_ledger(self):
        return self._answer("read_ledger")

    def write_ledger(self, before, text):
        return self._answer("write_ledger", before.head, text, changes=True)

    def read(self, paths):
        return self._answer("read all")

    def service(self, name):
        return MANAGER if name == "taskManager" else None

    def now(self):
        return FOREVER - timedelta(days=1)


def answered(world, operator, method, args):
    """Return the world after a call, and its answer; None while a task that it waits for runs."""
    match method, args:
        case "read", (refs,):
            return world, {ref: facts for ref in refs if (facts := read(world, ref)) is not None}
        case "read all", ():
            return world, {v.ref: v.facts() for v in world.vms}
        case "read_ledger", ():
            return world, StoredText(world.ledger, f"{world.serial}" if world.serial else "")
        case "write_ledger", (head, text):
            if world.lock not in ("", operator):
                return world, Locked("the lock was lost", rule="lock.lost")
            if head != (f"{world.serial}" if world.serial else ""):
                return world, Conflict("another run changed the leases", rule="leases.changed")
            return replace(world, ledger=text, serial=world.serial + 1), StoredText(text, f"{world.serial + 1}")
        case "submit", (ref, name, given):
            try:
                world, task = world.submit(ref, name, given)
            except VimFault as fault:
                return world, fault
            return world, task.ref
        case "wait", (ref,):
            task = next(t for t in world.tasks if t.ref == ref)
            if task.state == "running":
                return world, None
            return world, ref if task.state == "success" else LOST if task.state == "gone" else refused("SystemError")
    raise LookupError(method)


def read(world, ref):
    if ref.startswith("Task:"):
        task = next((t for t in world.tasks if t.ref == ref and t.state != "gone"), None)
        if task is None:
            return None
        return Facts(ref, {"info.state": task.state, "info.descriptionId": f"VirtualMachine.{OPERATIONS[task.method]}"})
    if ref == MANAGER:
        return Facts(ref, {"recentTask": tuple(t.ref for t in world.tasks if t.state != "gone")})
    if ref == TEMPLATE:
        refs = tuple(t.ref for t in world.tasks if t.method == "CloneVM_Task" and t.state != "gone")
        return Facts(ref, {"name": "template", "recentTask": refs})
    vm = world.vm(ref)
    if vm is None:
        return None
    tasks = tuple(t.ref for t in world.tasks if t.vm == vm.number and t.state != "gone")
    return vm.facts(ref).having({"recentTask": tasks})


def at_once(limit, *, fastest, slowest=10.0, late=0.05, wake=None):
    """Polling that does not wait, and looks often enough to see the other side of every wait."""
    yield 0.0
    yield limit / 2
    yield limit + 1


def patched(monkeypatch):
    """Let the product's waits take no time, and its ledger be this one."""
    for module in (context, executor, reconcile, vm_life):
        monkeypatch.setattr(module, "polling", at_once)
    monkeypatch.setattr(address_ledger, "read_text", lambda vcenter: vcenter.read_ledger())
    monkeypatch.setattr(address_ledger, "write_text", lambda lock, before, text: lock.write_ledger(before, text))
    monkeypatch.setattr(leases.time, "time", lambda: NOW)


# -- plans


class Made(MakesVms):
    """The kind of the plays: its VMs have only what their clones bring."""

    def new_vm(self, member, estate):
        return Vm(0, member.name).facts(member.ref)


@dataclass(frozen=True)
class Wants:
    """What an operator's playbook says: how many VMs of which sets. Each has a NIC in each pool."""

    sets: tuple[tuple[str, int], ...]

    def plays(self):
        nics = tuple(WantedNic(pool, "net", "vmxnet3", (pool,)) for pool in POOLS)
        for name, count in self.sets:
            wanted = WantedSet(name, "template", cluster="cluster", nics=nics)
            names = {i: f"{name}-{i}" for i in range(1, count + 1)}
            yield SetPlay(Play(name, "vm", name, ()), Made(), wanted, names)


def estate_of(world):
    """The inventory as planning reads it."""
    fixed = (
        Facts(DATACENTER, {"name": "DC0", "parent": ""}),
        Facts(FOLDER, {"name": "vms", "parent": DATACENTER}),
        Facts("ClusterComputeResource:c1", {"name": "cluster", "parent": DATACENTER, "resourcePool": "ResourcePool:p"}),
        Facts("HostSystem:h1", {"name": "esx01", "parent": "ClusterComputeResource:c1",
                                "runtime.connectionState": "connected", "runtime.inMaintenanceMode": False}),
        Facts(TEMPLATE, {"name": "template", "parent": FOLDER, "config.template": True, "config.instanceUuid": "t",
                         "config.extraConfig": ()}),
    )  # fmt: skip
    return Estate(ABOUT, {f.ref: f for f in (*fixed, *(v.facts() for v in world.vms))})


def plan(world, wants):
    """Return the steps of a plan; None where it is refused."""
    terms = PoolSettings(POOLS, NOW, ())
    laid = layout.expand_sets(tuple(wants.plays()), estate_of(world), LeaseLedger(world.ledger, terms))
    if any(m.faults for m in laid.members):
        return None
    writes = [
        s
        for steps in layout.ledger_steps(laid.estate, [Target("vm", m.name, m.ref) for m in laid.members]).values()
        for s in steps
    ]
    steps = [s for s in writes if not s.comes_last]
    for m in laid.members:
        vm = Target("vm", m.name, m.ref)
        if m.leaving:
            steps.append(PowerOff(target=vm, summary="power off", shutdown_timeout=1, force=True))
            steps.append(Destroy(target=vm, summary="destroy", set=m.set, index=m.index))
            continue
        if not m.exists:
            steps.append(clone(vm, m))
        if not m.exists or laid.estate[m.ref].get("runtime.powerState") != "poweredOn":
            steps.append(PowerOn(target=vm, summary="power on"))
    return (*steps, *(s for s in writes if s.comes_last))


def clone(vm, member):
    settings = MemberMark(
        member.set, member.index, member.uuid, generation=member.generation, nics=member.nics
    ).settings()
    options = tuple({"key": k, "value": v} for k, v in settings.items())
    config = {"instanceUuid": member.uuid, "extraConfig": options}
    return Clone(target=vm, summary="clone", source=TEMPLATE, folder=FOLDER, name=vm.name, spec={"config": config})


def advance(operator, step, known):
    """Carry a step on with the answers that are known; None when it is done, else the next call, or how it failed."""
    calls = Calls(operator, known)
    made = Context(calls, None, lambda *_: (), {}, {}, note=NoRecord(), lock=lambda: calls)
    try:
        StepExecutor(made).do(step, lambda _line: None)
    except Paused as call:
        return call
    except VsphereAiError as error:
        return error
    return None


def marks(world):
    """The marks that count, by VM."""
    found = {v: _mark_read_by(mark_of, v) for v in world.vms if not v.foreign}
    return {v: m for v, m in found.items() if m is not None}


@cache
def _mark_read_by(reader, vm):
    """The mark of a VM, read once: a walk meets the same VM in thousands of worlds."""
    return reader(vm.facts())
