"""Snapshots of VMs: taken, gone back to, renamed and removed.

A snapshot keeps the configuration, and with memory that the VM ran. That a running VM with passthrough devices has no
memory snapshot is documented; the fault's type was not seen on a real vCenter.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.managed import Call, changes, datastores, demand
from vsphere_ai.lab.managed.refusals import invalid_name, not_found, not_supported
from vsphere_ai.lab.managed.vm_tasks.migration import pinned_by
from vsphere_ai.lab.managed.vm_tasks.power import check_power_on, power_off_now, power_on_now
from vsphere_ai.lab.managed.vms import disks
from vsphere_ai.lab.managed.vms.virtual_machine import guest_changed, refresh, stamp
from vsphere_ai.lab.managed.vms.vm_states import refuse_lost
from vsphere_ai.lab.sessions import now
from vsphere_ai.lab.store import ManagedObject, fill
from vsphere_ai.lab.tasks import TaskWork

MOST_LEVELS = 31
"""How deep a chain of snapshots can be (vSphere Virtual Machine Administration: 32 with the base disk)."""


@changes(vim.VirtualMachine, "CreateSnapshot_Task")
def create(call: Call, name: str, memory: bool, quiesce: bool, description: str | None = None) -> Any:
    """Take a snapshot, a child of the one the VM is at."""
    return _create(call, name, description, memory, quiesce)


@changes(vim.VirtualMachine, "CreateSnapshotEx_Task")
def create_ex(call: Call, name: str, memory: bool, quiesceSpec: Any = None, description: str | None = None) -> Any:
    """Take a snapshot, with more to say about the guest's file systems."""
    return _create(call, name, description, memory, quiesceSpec is not None)


def _create(call: Call, name: str, description: str | None, memory: bool, quiesce: bool) -> Any:
    demand(call, "VirtualMachine.State.CreateSnapshot")
    farm, mo = call.farm, call.mo
    if not name or len(name) > 80:
        raise invalid_name(name)

    def work(_task: TaskWork) -> Any:
        refuse_lost(farm, mo)
        _refuse(mo, memory)
        state = mo["runtime"].powerState
        if memory and state != "poweredOn":
            state = "poweredOff"
        made = farm.store.new(vim.vm.Snapshot, prefix="snapshot", config=copy.deepcopy(mo["config"]), vm=mo.ref)
        made.extra["running"] = bool(memory) and state == "poweredOn"
        info = mo["snapshot"] or vim.vm.SnapshotInfo()
        number = max((node.id for node, _ in _walk(info)), default=0) + 1
        tree = vim.vm.SnapshotTree(
            snapshot=made.ref, vm=mo.ref, name=name, description=description or "", id=number, createTime=now(),
            state=state if made.extra["running"] else "poweredOff", quiesced=bool(quiesce), childSnapshotList=[],
            replaySupported=False,
        )  # fmt: skip
        current = next((node for node, _ in _walk(info) if node.snapshot == info.currentSnapshot), None)
        if _depth(info, current) >= MOST_LEVELS:
            farm.store.delete(made)
            raise vim.fault.TooManySnapshotLevels(msg="The maximum number of snapshots has been reached.")
        if current is None:
            info.rootSnapshotList = [*(info.rootSnapshotList or ()), tree]
        else:
            current.childSnapshotList = [*(current.childSnapshotList or ()), tree]
        info.currentSnapshot = made.ref
        _show(farm, mo, info)
        disks.branch(farm, mo["config"])
        refresh(farm, mo)
        farm.record(mo, "CreateSnapshot_Task", name=name, memory=made.extra["running"])
        return made.ref

    return farm.tasks.start(mo, "createSnapshot", work)


@changes(vim.vm.Snapshot, "RemoveSnapshot_Task")
def remove(call: Call, removeChildren: bool, consolidate: bool | None = None) -> Any:
    """Remove a snapshot, with those taken after it or without."""
    farm, snapshot = call.farm, call.mo
    mo = farm.store.get(snapshot["vm"])
    demand(call, "VirtualMachine.State.RemoveSnapshot")

    def work(_task: TaskWork) -> None:
        refuse_lost(farm, mo)
        node, parent = _find(mo, snapshot)
        children = list(node.childSnapshotList or ())
        with _disks_merged(farm, mo):
            _cut(farm, mo, node, parent, [] if removeChildren else children)
        farm.record(mo, "RemoveSnapshot_Task", name=str(node.name), children=bool(removeChildren))

    return farm.tasks.start(mo, "removeSnapshot", work)


@changes(vim.VirtualMachine, "RemoveAllSnapshots_Task", "VirtualMachine.State.RemoveSnapshot")
def remove_all(call: Call, consolidate: bool | None = None, spec: Any = None) -> Any:
    """Remove every snapshot of a VM; there may be none."""
    farm, mo = call.farm, call.mo

    def work(_task: TaskWork) -> None:
        refuse_lost(farm, mo)
        if mo["snapshot"] is not None:
            with _disks_merged(farm, mo):
                for node, _ in list(_walk(mo["snapshot"])):
                    farm.store.delete(farm.store.get(node.snapshot))
                _show(farm, mo, None)
            farm.record(mo, "RemoveAllSnapshots_Task")

    return farm.tasks.start(mo, "removeAllSnapshots", work)


@changes(vim.vm.Snapshot, "RevertToSnapshot_Task")
def revert(call: Call, host: Any = None, suppressPowerOn: bool | None = None) -> Any:
    """Go back to a snapshot."""
    mo = call.farm.store.get(call.mo["vm"])
    demand(call, "VirtualMachine.State.RevertToSnapshot")
    return _revert(call.farm, mo, call.mo, bool(suppressPowerOn))


@changes(vim.VirtualMachine, "RevertToCurrentSnapshot_Task", "VirtualMachine.State.RevertToSnapshot")
def revert_to_current(call: Call, host: Any = None, suppressPowerOn: bool | None = None) -> Any:
    """Go back to the snapshot the VM is at."""
    info = call.mo["snapshot"]
    if info is None:
        raise not_found("the virtual machine has no snapshot")
    return _revert(call.farm, call.mo, call.farm.store.get(info.currentSnapshot), bool(suppressPowerOn))


@changes(vim.vm.Snapshot, "RenameSnapshot")
def rename(call: Call, name: str | None = None, description: str | None = None) -> None:
    """Call a snapshot anew, or describe it anew."""
    farm = call.farm
    mo = farm.store.get(call.mo["vm"])
    demand(call, "VirtualMachine.State.RenameSnapshot")
    node, _ = _find(mo, call.mo)
    if name is not None and (not name or len(name) > 80):
        raise invalid_name(name)
    node.name = node.name if name is None else name
    node.description = node.description if description is None else description
    _show(farm, mo, mo["snapshot"])
    farm.record(mo, "RenameSnapshot", name=str(node.name))


def _revert(farm: Farm, mo: ManagedObject, snapshot: ManagedObject, stay_off: bool) -> Any:
    def work(_task: TaskWork) -> None:
        refuse_lost(farm, mo)
        node, _ = _find(mo, snapshot)
        runs = snapshot.extra.get("running", False) and not stay_off
        was_on, before = mo["runtime"].powerState == "poweredOn", mo["config"]
        if was_on:
            power_off_now(farm, mo, "RevertToSnapshot_Task")
        elif mo["runtime"].powerState == "suspended":
            mo["runtime"].powerState = "poweredOff"
        mo.props["config"] = copy.deepcopy(snapshot["config"])
        mo["config"].changeVersion, mo["config"].modified, mo["config"].name = stamp(), now(), before.name
        disks.branch(farm, mo["config"])
        _show_disks(farm, mo)
        guest_changed(farm, mo)
        mo["snapshot"].currentSnapshot = node.snapshot
        _show(farm, mo, mo["snapshot"])
        farm.record(mo, "RevertToSnapshot_Task", name=str(node.name))
        if runs:
            check_power_on(farm, mo, farm.host_of(mo))
            power_on_now(farm, mo, farm.host_of(mo), "RevertToSnapshot_Task")

    return farm.tasks.start(mo, "revertToSnapshot", work)


@contextmanager
def _disks_merged(farm: Farm, mo: ManagedObject) -> Iterator[None]:
    """Merge the disks of the snapshots that go into those that go on with them."""
    frozen = {node.snapshot._moId: farm.store.get(node.snapshot)["config"] for node, _ in _walk(mo["snapshot"])}
    yield
    kept = {node.snapshot._moId for node, _ in _walk(mo["snapshot"])} if mo["snapshot"] is not None else set()
    left = [config for moid, config in frozen.items() if moid in kept]
    gone = [config for moid, config in frozen.items() if moid not in kept]
    while gone:
        config = gone.pop(0)
        disks.merge(farm, mo, config, [mo["config"], *left, *gone])
    _show_disks(farm, mo)


def _show_disks(farm: Farm, mo: ManagedObject) -> None:
    """Note which files a VM uses now, and delete those that it does not use any more."""
    before = mo.extra[datastores.HELD]
    refresh(farm, mo)
    datastores.delete(farm, before - mo.extra[datastores.HELD])


def _refuse(mo: ManagedObject, memory: bool) -> None:
    if mo["config"].template:
        raise not_supported("a template has no snapshots")
    if mo["runtime"].faultToleranceState not in (None, "notConfigured"):
        raise not_supported("a virtual machine with Fault Tolerance has no snapshots")
    if memory and mo["runtime"].powerState == "poweredOn" and pinned_by(mo) is not None:
        raise vim.fault.SnapshotIncompatibleDeviceInVm(
            fault=vim.fault.SnapshotFault(),
            msg=f"The snapshot cannot hold the memory of '{pinned_by(mo).deviceInfo.label}', a passthrough device.",
        )


def _walk(info: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every snapshot of a tree with its parent, None for a root."""
    level = [(node, None) for node in info.rootSnapshotList or ()]
    while level:
        yield from level
        level = [(child, node) for node, _ in level for child in node.childSnapshotList or ()]


def _find(mo: ManagedObject, snapshot: ManagedObject) -> tuple[Any, Any]:
    found = (pair for pair in _walk(mo["snapshot"]) if pair[0].snapshot == snapshot.ref) if mo["snapshot"] else None
    pair = next(found, None) if found is not None else None
    if pair is None:
        raise not_found(snapshot.moid)
    return pair


def _depth(info: Any, node: Any) -> int:
    above = {id(child): parent for child, parent in _walk(info)}
    depth = 0
    while node is not None:
        node, depth = above.get(id(node)), depth + 1
    return depth


def _cut(farm: Farm, mo: ManagedObject, node: Any, parent: Any, children: list[Any]) -> None:
    """Take a snapshot out of its tree; the VM is at its parent then, if it was at what goes."""
    info = mo["snapshot"]
    siblings = parent.childSnapshotList if parent is not None else info.rootSnapshotList
    left = [each for other in siblings for each in (children if other is node else [other])]
    if parent is not None:
        parent.childSnapshotList = left
    elif left:
        info.rootSnapshotList = left
    gone = parent is None and not left  # an empty list of roots is no value of a SnapshotInfo
    kept = set() if gone else {each.snapshot._moId for each, _ in _walk(info)}
    for ref in [each.ref for each in farm.store.of(vim.vm.Snapshot) if each["vm"] == mo.ref]:
        if ref._moId not in kept:
            farm.store.delete(farm.store.get(ref))
    if info.currentSnapshot is None or info.currentSnapshot._moId not in kept:
        info.currentSnapshot = parent.snapshot if parent is not None else None
    _show(farm, mo, info if kept else None)


def _show(farm: Farm, mo: ManagedObject, info: Any) -> None:
    nodes = list(_walk(info)) if info is not None else []
    farm.store.set(
        mo,
        snapshot=fill(info) if info is not None else None,
        rootSnapshot=[node.snapshot for node, parent in nodes if parent is None],
    )
    for node, _ in nodes:
        children = [child.snapshot for child in node.childSnapshotList or ()]
        farm.store.set(farm.store.get(node.snapshot), childSnapshot=children)
