"""VM states that stand in the way: vApp, snapshots, vTPM, fault tolerance, questions, lost connections, agents."""

from __future__ import annotations

import copy
import threading
from typing import Any

from pyVmomi import vim, vmodl

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.managed import Call, changes, datastores
from vsphere_ai.lab.managed.clusters import resource_pools
from vsphere_ai.lab.managed.refusals import host_not_connected, invalid_argument, invalid_power_state, invalid_state
from vsphere_ai.lab.managed.vms import disks, encryption
from vsphere_ai.lab.scenario import Pool
from vsphere_ai.lab.sessions import now
from vsphere_ai.lab.store import ManagedObject, fill

DEV = vim.vm.device
VCLS, VCLS_KEY = "vcls", "HDCS.agent"
AGENT_MANAGER = "com.vmware.vim.eam"
EMBEDDED = (8, 0, 3)  # vCenter itself manages vCLS VMs from 8.0 U3 on, ESX Agent Manager before
CONNECTION = "connection"
"""Among what the lab keeps of a VM: its connection state while its host is connected."""
LOCKED_BY_FT = ("deviceChange", "deviceGroups", "memoryMB", "numCPUs", "numCoresPerSocket", "firmware")


def put_into_state(farm: Farm, mo: ManagedObject, spec: Any) -> None:
    """Give a VM of the scenario its vApp, snapshots, virtual TPM, fault tolerance, question, agent and connection."""
    runtime = mo["runtime"]
    if spec.vapp:
        _into_vapp(farm, mo, spec.vapp)
    if spec.snapshots:
        farm.store.set(mo, snapshot=_snapshots(farm, mo, spec.snapshots))
    if spec.tpm:
        encryption.encrypt(mo, missing=spec.key_missing)
    if spec.ft:
        runtime.faultToleranceState = "running"
        mo["config"].ftInfo = vim.vm.FaultToleranceConfigInfo(
            role=1, instanceUuids=[mo["config"].instanceUuid], configPaths=[mo["config"].files.vmPathName]
        )
    if spec.question:
        runtime.question = fill(vim.vm.QuestionInfo(id="1", text=spec.question))
    if spec.agent:
        _manage(farm, mo, spec.agent)
    mo.extra[CONNECTION] = runtime.connectionState = spec.connection
    farm.store.set(mo, disabledMethod=list(spec.disabled_methods))
    farm.store.touch(mo, "runtime", "config", "summary")


def _into_vapp(farm: Farm, mo: ManagedObject, name: str) -> None:
    """Move a VM into a vApp of its cluster; the VM has no parent folder any more, the vApp has it."""
    folder, pool = farm.store.get(mo["parent"]), farm.store.get(mo["resourcePool"])
    vapp = farm.named.get(f"vapp:{pool.moid}:{name}")
    if vapp is None:
        vapp = farm.store.new(vim.VirtualApp, prefix="resgroup-v", name=name, parent=pool.ref, owner=pool["owner"],
                              vm=[], resourcePool=[], parentFolder=folder.ref, overallStatus="green")  # fmt: skip
        resource_pools.show(farm, vapp, Pool(name))
        farm.store.set(pool, resourcePool=[*pool["resourcePool"], vapp.ref])
        farm.store.set(folder, childEntity=[*folder["childEntity"], vapp.ref])
        farm.named[f"vapp:{pool.moid}:{name}"] = vapp
    farm.store.set(folder, childEntity=[r for r in folder["childEntity"] if r != mo.ref])
    farm.store.set(pool, vm=[r for r in pool["vm"] if r != mo.ref])
    farm.store.set(vapp, vm=[*vapp["vm"], mo.ref])
    farm.store.set(mo, parent=None, parentVApp=vapp.ref, resourcePool=vapp.ref)


def _snapshots(farm: Farm, mo: ManagedObject, names: Any) -> Any:
    """Return the tree of snapshots, each a child of the one before; the VM's disks are children of the last one's."""
    made = []
    for _ in names:
        made.append(farm.store.new(vim.vm.Snapshot, prefix="snapshot", config=copy.deepcopy(mo["config"]), vm=mo.ref))
        disks.branch(farm, mo["config"])
        datastores.hold(farm, mo)
    tree: Any = None
    for number, name in reversed(list(enumerate(names, 1))):
        tree = vim.vm.SnapshotTree(
            snapshot=made[number - 1].ref, vm=mo.ref, name=name, description="", id=number, createTime=now(),
            state="poweredOff", quiesced=False, childSnapshotList=[tree] if tree is not None else [],
        )  # fmt: skip
    return fill(vim.vm.SnapshotInfo(currentSnapshot=made[-1].ref, rootSnapshotList=[tree]))


def _manage(farm: Farm, mo: ManagedObject, agent: str) -> None:
    """Mark a VM as an agent: vCLS VMs by an advanced setting as well, whatever they are called."""
    config = mo["config"]
    key, kind = agent, "agent"
    if agent == VCLS:
        embedded = tuple(map(int, farm.scenario.vcenter.version.split("."))) >= EMBEDDED
        key, kind = ("VirtualCenter", "vcls-entity") if embedded else (AGENT_MANAGER, "cluster-agent")
        config.extraConfig = [*config.extraConfig, vim.option.OptionValue(key=VCLS_KEY, value="true")]
    config.managedBy = vim.ext.ManagedByInfo(extensionKey=key, type=kind)
    mo.extra["agent"] = agent


def is_kept_by_vcenter(vm: ManagedObject) -> bool:
    """Return whether vCenter itself moves a VM or powers it off when its host enters maintenance mode."""
    return vm.extra.get("agent") in (VCLS, AGENT_MANAGER)


def comes_back(farm: Farm, vm: ManagedObject, seconds: float, start: Any) -> None:
    """Let vCenter power a vCLS VM on again that a client has powered off: it does so by itself."""
    if vm.extra.get("agent") != VCLS:
        return

    def later() -> None:
        with farm.store.lock:
            host = farm.host_of(vm)
            free = "entering" not in host.extra and not farm.host(host).in_maintenance
            if not farm.closed and free and vm["runtime"].powerState == "poweredOff":
                start(farm, vm, host, "vCenter")

    timer = threading.Timer(seconds, later)
    timer.daemon = True
    timer.start()


def refuse_lost(farm: Farm, mo: ManagedObject) -> None:
    """Refuse every operation on a VM that vCenter cannot reach, or that waits for an answer."""
    if not farm.host(farm.host_of(mo)).up:
        raise host_not_connected()
    state = mo["runtime"].connectionState
    if state == "disconnected":
        raise host_not_connected()
    if state != "connected":
        raise invalid_state(f"the virtual machine is {state}")
    encryption.refuse_locked(mo)
    if mo["runtime"].question is not None:
        raise vim.fault.TaskInProgress(
            task=vim.Task("task-question"),
            msg="The operation is not allowed because another task is already in progress.",
        )


def refuse_change(farm: Farm, mo: ManagedObject, spec: Any = None) -> None:
    """Refuse a change of a VM's configuration: also while it is suspended, and of hardware under fault tolerance.

    Without a `spec` it is the hardware version that changes.
    """
    refuse_lost(farm, mo)
    if mo["runtime"].powerState == "suspended":
        raise invalid_power_state("suspended", "poweredOff")
    hardware = spec is None or any(getattr(spec, name, None) not in (None, []) for name in LOCKED_BY_FT)
    if hardware and mo["runtime"].faultToleranceState not in (None, "notConfigured"):
        raise vim.fault.VmFaultToleranceConfigIssue(
            reason="ftUnsupportedHardware",
            entityName=str(mo["name"]),
            entity=mo.ref,
            msg="The virtual machine is protected by Fault Tolerance, which does not allow this change.",
        )


def refuse_disabled(mo: ManagedObject, method: str) -> None:
    """Refuse a method that another product, such as one for backups, has disabled; and any, of a VM that is made."""
    if isinstance(mo.ref, vim.VirtualMachine) and "config" not in mo.props and not method.startswith("Retrieve"):
        raise vmodl.fault.ManagedObjectNotFound(
            obj=mo.ref,
            msg=f"The object '{mo.type_name}:{mo.moid}' has already been deleted or has not been completely created",
        )
    if method in (mo.props.get("disabledMethod") or ()):
        raise vim.fault.MethodDisabled(
            source="com.example.backup", msg=f"The method is disabled by 'com.example.backup' ({method})."
        )


@changes(vim.VirtualMachine, "AnswerVM")
def answer(call: Call, questionId: str, answerChoice: str) -> None:
    """Answer the question a VM waits with; the choice does not matter to the lab."""
    question = call.mo["runtime"].question
    if question is None or question.id != questionId:
        raise invalid_argument("questionId", "there is no such question")
    call.mo["runtime"].question = None
    call.farm.store.touch(call.mo, "runtime")
    call.farm.record(call.mo, "AnswerVM", choice=answerChoice)
