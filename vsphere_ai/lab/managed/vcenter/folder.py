"""Folder: creating, renaming and destroying folders, of whose names each parent has one; moving VMs into them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.managed import Call, changes, demand
from vsphere_ai.lab.managed.refusals import duplicate_name, invalid_name, not_supported
from vsphere_ai.lab.managed.vcenter.custom_fields import offer
from vsphere_ai.lab.store import ManagedObject
from vsphere_ai.lab.tasks import TaskWork

LONGEST = 80
# "any / (slash), \ (backslash) used in this name will be escaped; any % as well, unless it starts an escape sequence"
# (vSphere Web Services API, ManagedEntity.name)
_TO_ESCAPE = re.compile(r"[/\\]|%(?!2f|5c|25)", re.IGNORECASE)
_ESCAPES = {"/": "%2f", "\\": "%5c", "%": "%25"}


@changes(vim.Folder, "CreateFolder", "Folder.Create")
def create_folder(call: Call, name: str) -> Any:
    """Create a folder of the same kind in this one; a name that is there already is DuplicateName."""
    parent, name = call.mo, checked_name(name)
    if vim.Folder not in parent["childType"]:
        raise not_supported("the folder takes no folders")
    refuse_twin(call.farm, parent, name)
    made = call.farm.store.new(
        vim.Folder,
        prefix=parent.moid.rstrip("-0123456789"),
        name=name,
        parent=parent.ref,
        childEntity=[],
        childType=list(parent["childType"]),
    )
    call.farm.store.set(parent, childEntity=[*parent["childEntity"], made.ref])
    offer(call.farm, made)
    call.farm.record(made, "CreateFolder", parent=str(parent["name"]))
    return made.ref


@changes(vim.Folder, "Destroy_Task", "Folder.Delete")
def destroy(call: Call) -> Any:
    """Destroy a folder and the folders in it."""
    farm, mo = call.farm, call.mo
    _refuse_system_folder(farm, mo)

    def work(_task: TaskWork) -> None:
        # another task may have been first, or put something into it
        farm.store.get(mo.ref)
        doomed = _all_below(farm, mo)
        parent = farm.store.get(mo["parent"])
        farm.store.set(parent, childEntity=[ref for ref in parent["childEntity"] if ref != mo.ref])
        farm.record(mo, "Destroy_Task")
        for each in doomed:
            farm.store.delete(each)

    return farm.tasks.start(mo, "destroy", work)


@changes(vim.Folder, "Rename_Task", "Folder.Rename")
def rename(call: Call, newName: str) -> Any:
    """Give a folder another name."""
    farm, mo = call.farm, call.mo
    name = checked_name(newName)
    _refuse_system_folder(farm, mo)

    def work(_task: TaskWork) -> None:
        farm.store.get(mo.ref)
        if name != mo["name"]:
            refuse_twin(farm, farm.store.get(mo["parent"]), name)
            old = str(mo["name"])
            farm.store.set(mo, name=name)
            farm.record(mo, "Rename_Task", before=old)

    return farm.tasks.start(mo, "rename", work)


@changes(vim.Folder, "MoveIntoFolder_Task")
def move_into(call: Call, list: Sequence[Any]) -> Any:
    """Move VMs into this folder, from wherever in the datacenter they are; they keep their references."""
    farm, folder = call.farm, call.mo
    if vim.VirtualMachine not in folder["childType"]:
        raise not_supported("the folder takes no virtual machines")
    if any(not isinstance(ref, vim.VirtualMachine) for ref in list):
        raise not_supported("the lab moves nothing but virtual machines")
    demand(call, "VirtualMachine.Inventory.Move")

    def work(_task: TaskWork) -> None:
        farm.store.get(folder.ref)
        for vm in map(farm.store.get, list):
            old = farm.store.get(vm["parent"])
            if old is folder:
                continue
            refuse_twin(farm, folder, str(vm["name"]))
            farm.store.set(old, childEntity=[ref for ref in old["childEntity"] if ref != vm.ref])
            farm.store.set(folder, childEntity=[*folder["childEntity"], vm.ref])
            farm.store.set(vm, parent=folder.ref)
            farm.record(vm, "MoveIntoFolder_Task", before=str(old["name"]), folder=str(folder["name"]))

    return farm.tasks.start(folder, "moveInto", work)


def checked_name(name: str) -> str:
    """Return a name as the inventory keeps it; InvalidName when it is none."""
    escaped = _TO_ESCAPE.sub(lambda found: _ESCAPES[found[0]], name)
    if not escaped.strip() or len(escaped) > LONGEST:
        raise invalid_name(name)
    return escaped


def refuse_twin(farm: Farm, parent: ManagedObject, name: str) -> None:
    """Raise DuplicateName when something in a folder has this name."""
    for child in farm.store.children(parent):
        if child.props.get("name") == name:
            raise duplicate_name(name, child.ref)


def _refuse_system_folder(farm: Farm, mo: ManagedObject) -> None:
    if mo["parent"] is None or isinstance(mo["parent"], vim.Datacenter):
        raise not_supported("this folder belongs to vCenter or to a datacenter")


def _all_below(farm: Farm, mo: ManagedObject) -> list[ManagedObject]:
    found = [mo]
    for each in found:
        for child in farm.store.children(each):
            if not isinstance(child.ref, vim.Folder):
                raise not_supported(f"{child['name']} is in it, and the lab destroys nothing but folders")
            found.append(child)
    return found
