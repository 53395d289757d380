"""Container and list views: the roots of bulk reads."""

from __future__ import annotations

from typing import Any

from pyVmomi import VmomiSupport as Vmomi
from pyVmomi import vim, vmodl

from vsphere_ai.lab.managed import Call, reads
from vsphere_ai.lab.store import ManagedObject

WITH_VMS = ("HostSystem", "ResourcePool", "VirtualApp")
CONTAINERS = ("Folder", "Datacenter", "ComputeResource", "ClusterComputeResource", *WITH_VMS)


@reads(vim.view.ViewManager, "CreateContainerView")
def create_container_view(call: Call, container: Any, recursive: bool, type: Any = None) -> Any:
    """Make a view of everything of some types below a container."""
    store, types = call.farm.store, tuple(type or ())
    root = store.get(container)
    if root.type_name not in CONTAINERS:
        raise vmodl.fault.InvalidArgument(invalidProperty="container", msg=f"{root.type_name} cannot contain objects")

    def walk(_session: Any) -> Any:
        found: dict[str, ManagedObject] = {}
        level = list(store.children(root))
        while level:
            found |= {mo.moid: mo for mo in level if mo.moid not in found}
            level = [child for mo in level for child in store.children(mo)] if recursive else []
        # what runs on hosts and in pools; below a folder with VMs these have been met already
        for owner in [mo for mo in ((root, *found.values()) if recursive else (root,)) if mo.type_name in WITH_VMS]:
            below = [store.objects.get(ref._moId) for ref in owner["vm"] or ()]
            found |= {vm.moid: vm for vm in below if vm is not None and vm.moid not in found}
        refs = [mo.ref for mo in found.values()]
        return Vmomi.GetVmodlType("vim.ManagedEntity[]")(r for r in refs if not types or isinstance(r, types))

    view = store.new(
        vim.view.ContainerView,
        prefix=f"session[{call.login.key}]",
        container=root.ref,
        type=list(types),
        recursive=bool(recursive),
        view=walk,
    )
    call.login.objects.append(view)
    return view.ref


@reads(vim.view.ViewManager, "CreateListView")
def create_list_view(call: Call, obj: Any = None) -> Any:
    """Make a view of the given objects."""
    view = call.farm.store.new(
        vim.view.ListView,
        prefix=f"session[{call.login.key}]",
        view=_list(call.farm.store.get(r).ref for r in obj or ()),
    )
    call.login.objects.append(view)
    return view.ref


@reads(vim.view.ListView, "ModifyListView")
def modify_list_view(call: Call, add: Any = None, remove: Any = None) -> Any:
    """Add to and remove from a list view; returns the references that do not exist."""
    store = call.farm.store
    gone = {r._moId for r in remove or ()}
    refs = [r for r in call.mo["view"] if r._moId not in gone]
    refs += [r for r in add or () if r._moId in store.objects]
    store.set(call.mo, view=_list(refs))
    return _list(r for r in add or () if r._moId not in store.objects)


@reads(vim.view.ListView, "ResetListView")
def reset_list_view(call: Call, obj: Any = None) -> Any:
    """Replace what a list view shows."""
    call.farm.store.set(call.mo, view=_list(()))
    return modify_list_view(call, obj)


@reads(vim.view.View, "DestroyView")
def destroy_view(call: Call) -> None:
    """Forget a view."""
    call.farm.store.delete(call.mo)


def _list(refs: Any) -> Any:
    return Vmomi.GetVmodlType("vmodl.ManagedObject[]")(refs)
