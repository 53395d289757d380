"""Datacenter: powering on many VMs at once, the way vCenter wants it in DRS clusters."""

from __future__ import annotations

from typing import Any

from pyVmomi import vim, vmodl

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.managed import Call, changes
from vsphere_ai.lab.managed.placement import drs_level
from vsphere_ai.lab.managed.vm_tasks.power import place, power_on_now, refuse_unless_off
from vsphere_ai.lab.sessions import now
from vsphere_ai.lab.store import ManagedObject, fill
from vsphere_ai.lab.tasks import TaskWork


@changes(vim.Datacenter, "PowerOnMultiVM_Task", "VirtualMachine.Interact.PowerOn")
def power_on_many(call: Call, vm: Any, option: Any = None) -> Any:
    """Power VMs on where DRS places them; the task succeeds even when no VM could be placed.

    In manual mode DRS only recommends where; nothing applies that in the lab.
    """
    farm = call.farm
    vms = [farm.store.get(ref) for ref in vm]
    level = next((str(o.value) for o in option or () if o.key == "OverrideAutomationLevel"), "")

    def work(_task: TaskWork) -> Any:
        attempted, refused, recommended = [], [], []
        for mo in vms:
            try:
                refuse_unless_off(farm, mo, resumes=True)
                host = place(farm, mo)
                if (level or drs_level(farm, mo)) == "manual":
                    recommended.append(_recommendation(farm, mo, host))
                    continue
                task = farm.tasks.start(mo, "powerOn", _on_placed_host(farm, mo))
                attempted.append(vim.cluster.AttemptedVmInfo(vm=mo.ref, task=task))
            except vmodl.MethodFault as error:
                refused.append(vim.cluster.NotAttemptedVmInfo(vm=mo.ref, fault=error))
        return vim.cluster.PowerOnVmResult(attempted=attempted, notAttempted=refused, recommendations=recommended)

    return farm.tasks.start(call.mo, "powerOnVm", work)


def _recommendation(farm: Farm, mo: ManagedObject, host: ManagedObject) -> Any:
    action = vim.cluster.InitialPlacementAction(type="MigrationV1", target=mo.ref, targetHost=host.ref)
    return fill(
        vim.cluster.Recommendation(
            key=str(farm.store.next_id()), type="V1", time=now(), rating=5, reason="powerOnVm",
            reasonText="Power on virtual machine", action=[action], target=farm.store.get(host["parent"]).ref,
        )
    )  # fmt: skip


def _on_placed_host(farm: Farm, mo: ManagedObject) -> Any:
    def work(_task: TaskWork) -> None:
        refuse_unless_off(farm, mo, resumes=True)
        power_on_now(farm, mo, place(farm, mo), "PowerOnMultiVM_Task")

    return work
