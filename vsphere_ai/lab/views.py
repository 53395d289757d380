"""Container and list views: the roots of bulk reads."""

from __future__ import annotations

from typing import Any

from pyVmomi import VmomiSupport as Vmomi
from pyVmomi import vim, vmodl

from vsphere_ai.lab.managed import Call, handles


@handles(vim.view.ViewManager, "CreateContainerView")
def create_container_view(call: Call, container: Any, recursive: bool, type: Any = None) -> Any:
    """Make a view of everything of some types below a container."""
    store, types = call.farm.store, tuple(type or ())
    root = store.get(container)
    if root.type_name not in ("Folder", "Datacenter", "ComputeResource", "ClusterComputeResource", "ResourcePool"):
        raise vmodl.fault.InvalidArgument(invalidProperty="container", msg=f"{root.type_name} cannot contain objects")

    def walk(_session: Any) -> Any:
        out = Vmomi.GetVmodlType("vim.ManagedEntity[]")()
        level = list(store.children(root))
        while level:
            out += [mo.ref for mo in level if not types or isinstance(mo.ref, types)]
            level = [child for mo in level for child in store.children(mo)] if recursive else []
        return out

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


@handles(vim.view.ViewManager, "CreateListView")
def create_list_view(call: Call, obj: Any = None) -> Any:
    """Make a view of the given objects."""
    view = call.farm.store.new(
        vim.view.ListView,
        prefix=f"session[{call.login.key}]",
        view=_list(call.farm.store.get(r).ref for r in obj or ()),
    )
    call.login.objects.append(view)
    return view.ref


@handles(vim.view.ListView, "ModifyListView")
def modify_list_view(call: Call, add: Any = None, remove: Any = None) -> Any:
    """Add to and remove from a list view; returns the references that do not exist."""
    store = call.farm.store
    gone = {r._moId for r in remove or ()}
    refs = [r for r in call.mo["view"] if r._moId not in gone]
    refs += [r for r in add or () if r._moId in store.objects]
    store.set(call.mo, view=_list(refs))
    return _list(r for r in add or () if r._moId not in store.objects)


@handles(vim.view.ListView, "ResetListView")
def reset_list_view(call: Call, obj: Any = None) -> Any:
    """Replace what a list view shows."""
    call.farm.store.set(call.mo, view=_list(()))
    return modify_list_view(call, obj)


@handles(vim.view.View, "DestroyView")
def destroy_view(call: Call) -> None:
    """Forget a view."""
    call.farm.store.delete(call.mo)


def _list(refs: Any) -> Any:
    return Vmomi.GetVmodlType("vmodl.ManagedObject[]")(refs)
