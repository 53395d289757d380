"""UnregisterVM, Destroy_Task, Rename_Task: a VM leaves the inventory, with its files or without, or is called anew."""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.managed import Call, changes, datastores
from vsphere_ai.lab.managed.clusters import cluster_config
from vsphere_ai.lab.managed.refusals import invalid_power_state
from vsphere_ai.lab.managed.vcenter.folder import checked_name, refuse_twin
from vsphere_ai.lab.managed.vms.virtual_machine import refresh, stamp
from vsphere_ai.lab.sessions import now
from vsphere_ai.lab.store import ManagedObject
from vsphere_ai.lab.tasks import TaskWork

_LISTS = ("childEntity", "vm")


@changes(vim.VirtualMachine, "UnregisterVM", "VirtualMachine.Inventory.Unregister")
def unregister(call: Call) -> None:
    """Remove a powered-off VM from the inventory; its files stay."""
    _remove(call.farm, call.mo, "UnregisterVM")


@changes(vim.VirtualMachine, "Destroy_Task", "VirtualMachine.Inventory.Delete")
def destroy(call: Call) -> Any:
    """Delete a powered-off VM."""
    farm, mo = call.farm, call.mo
    return farm.tasks.start(mo, "destroy", lambda _task: _remove(farm, mo, "Destroy_Task"))


def _remove(farm: Farm, mo: ManagedObject, method: str) -> None:
    if mo["runtime"].powerState != "poweredOff":
        raise invalid_power_state(mo["runtime"].powerState, "poweredOff")
    above = (mo["parent"], mo["parentVApp"], mo["runtime"].host, mo["resourcePool"], *mo["datastore"], *mo["network"])
    for owner in (farm.store.get(ref) for ref in above if ref is not None):
        for name in _LISTS:
            refs = owner.props.get(name)
            if isinstance(refs, list) and mo.ref in refs:
                farm.store.set(owner, **{name: [r for r in refs if r != mo.ref]})
    held = datastores.let_go(farm, mo)
    cluster_config.forget(farm, mo)
    for snapshot in [s for s in farm.store.of(vim.vm.Snapshot) if s["vm"] == mo.ref]:
        farm.store.delete(snapshot)
    farm.note_removed(mo)
    gone, kept = datastores.delete(farm, held) if method == "Destroy_Task" else ([], sorted(held))
    farm.record(mo, method, instance_uuid=mo["config"].instanceUuid, disks=gone, kept=kept)
    farm.store.delete(mo)


@changes(vim.VirtualMachine, "Rename_Task", "VirtualMachine.Config.Rename")
def rename(call: Call, newName: str) -> Any:
    """Give a VM another name; nothing else of it changes, and it need not be off."""
    farm, mo = call.farm, call.mo
    name = checked_name(newName)

    def work(_task: TaskWork) -> None:
        config = farm.store.get(mo.ref)["config"]
        if name != config.name:
            refuse_twin(farm, farm.store.get(mo["parent"]), name)
            old = str(config.name)
            config.name, config.changeVersion, config.modified = name, stamp(), now()
            refresh(farm, mo)
            farm.record(mo, "Rename_Task", before=old)

    return farm.tasks.start(mo, "rename", work)
