"""CreateVM_Task, and templates made of VMs and back."""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.managed import Call, changes, datastores
from vsphere_ai.lab.managed.placement import newest_hardware
from vsphere_ai.lab.managed.refusals import invalid_argument, invalid_power_state, not_supported
from vsphere_ai.lab.managed.vcenter.folder import checked_name, refuse_twin
from vsphere_ai.lab.managed.vm_tasks.new_vms import (
    OWN,
    check_datastores,
    check_host,
    emptiest_host,
    host_in,
    refuse_other_folder,
    register,
    specify,
)
from vsphere_ai.lab.managed.vms.virtual_machine import bare_devices, config_of, draft, refresh, stamp
from vsphere_ai.lab.managed.vms.vm_states import refuse_lost
from vsphere_ai.lab.scenario import Vm
from vsphere_ai.lab.sessions import now
from vsphere_ai.lab.store import ManagedObject
from vsphere_ai.lab.tasks import TaskWork

NEW_MEMORY_MB = 32


@changes(vim.Folder, "CreateVM_Task", "VirtualMachine.Inventory.Create")
def create(call: Call, config: Any, pool: Any, host: Any = None) -> Any:
    """Create a VM in a folder, off."""
    farm, folder = call.farm, call.mo
    refuse_other_folder(folder)
    name = checked_name(config.name or "")
    store = datastores.at(farm, (config.files and config.files.vmPathName) or "", "config.files.vmPathName")
    into = farm.store.get(pool)
    target = host_in(farm, into, host) or emptiest_host(farm, into)

    def work(_task: TaskWork) -> Any:
        check_host(farm, target)
        check_datastores(farm, target, [store.ref])
        refuse_twin(farm, folder, name)
        made = draft(farm, name, target)
        spec = Vm(
            name=name,
            host="",
            datastore=str(store["name"]),
            guest=config.guestId or "otherGuest64",
            hardware=_version(farm, target, config.version),
            firmware="bios",
            cpus=1,
            tools="none",
        )
        first = config_of(farm, made, spec, bare_devices())
        first.hardware.memoryMB = NEW_MEMORY_MB
        first.uuid, first.instanceUuid = config.uuid or first.uuid, config.instanceUuid or first.instanceUuid
        specify(farm, made, first, config, OWN)
        mo = register(farm, made, folder, into, tools="none")
        farm.record(mo, "CreateVM_Task", host=str(target["name"]))
        return mo.ref

    return farm.tasks.start(folder, "createVm", work)


@changes(vim.VirtualMachine, "MarkAsTemplate", "VirtualMachine.Provisioning.MarkAsTemplate")
def mark_as_template(call: Call) -> None:
    """Make a template of a VM that is off."""
    farm, mo = call.farm, call.mo
    refuse_lost(farm, mo)
    if mo["runtime"].powerState != "poweredOff":
        raise invalid_power_state(mo["runtime"].powerState, "poweredOff")
    if not mo["config"].template:
        _mark(farm, mo, template=True)
        farm.record(mo, "MarkAsTemplate")


@changes(vim.VirtualMachine, "MarkAsVirtualMachine", "VirtualMachine.Provisioning.MarkAsVM")
def mark_as_vm(call: Call, pool: Any, host: Any = None) -> None:
    """Make a VM of a template."""
    farm, mo = call.farm, call.mo
    if not mo["config"].template:
        raise not_supported("it is no template")
    target = farm.host_of(mo) if host is None else farm.store.get(host)
    if farm.store.get(pool)["owner"] != target["parent"]:
        raise invalid_argument("pool", "host and resource pool are of different compute resources")
    _mark(farm, mo, template=False)
    farm.record(mo, "MarkAsVirtualMachine")


def _mark(farm: Farm, mo: ManagedObject, *, template: bool) -> None:
    config = mo["config"]
    config.template, config.changeVersion, config.modified = template, stamp(), now()
    refresh(farm, mo)


def _version(farm: Farm, host: ManagedObject, asked: str | None) -> int:
    newest = newest_hardware(farm.host(host).version)
    if not asked:
        return newest
    if not (asked.startswith("vmx-") and asked[4:].isdigit()):
        raise invalid_argument("config.version", asked)
    if int(asked[4:]) > newest:
        raise vim.fault.VirtualHardwareVersionNotSupported(
            hostName=str(host["name"]), host=host.ref, msg=f"The host does not support hardware version {asked[4:]}."
        )
    return int(asked[4:])
