"""The VM compatibility checker: vCenter's own answer to "would this work?", without doing it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyVmomi import VmomiSupport as Vmomi
from pyVmomi import vim, vmodl

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.managed import Call, reads
from vsphere_ai.lab.managed.placement import can_take, hosts_of_cluster
from vsphere_ai.lab.managed.power import check_power_on, refuse_unless_off
from vsphere_ai.lab.managed.reconfigure import changed_config
from vsphere_ai.lab.managed.refusals import invalid_argument
from vsphere_ai.lab.managed.vm_states import refuse_change
from vsphere_ai.lab.store import ManagedObject
from vsphere_ai.lab.tasks import Task

Checker = vim.vm.check.CompatibilityChecker


@reads(Checker, "CheckVmConfig_Task")
def check_vm_config(call: Call, spec: Any, vm: Any = None, host: Any = None, **_options: Any) -> Any:
    """Check a ConfigSpec for a VM on its host, or on the host given; the VM's power state does not matter."""
    if vm is None:
        raise invalid_argument("vm", "the lab judges the configuration of existing virtual machines")
    mo = call.farm.store.get(vm)

    def test(target: ManagedObject) -> None:
        refuse_change(call.farm, mo, spec)
        changed_config(call.farm, mo, target, spec, powered_on=False)

    return _start(call, mo, _targets(call.farm, mo, host, all_hosts=False), test)


@reads(Checker, "CheckPowerOn_Task")
def check_power_on_task(call: Call, vm: Any, host: Any = None, **_options: Any) -> Any:
    """Check whether a VM could be powered on, on each host it may run on or on the one given."""
    mo = call.farm.store.get(vm)
    targets = _targets(call.farm, mo, host, all_hosts=True)

    def test(target: ManagedObject) -> None:
        refuse_unless_off(call.farm, mo)
        check_power_on(call.farm, mo, target)

    return _start(call, mo, targets, test)


@reads(Checker, "CheckCompatibility_Task")
def check_compatibility(call: Call, vm: Any, host: Any = None, **_options: Any) -> Any:
    """Check whether hosts have what a VM needs to be registered there."""
    mo = call.farm.store.get(vm)

    def test(target: ManagedObject) -> None:
        if not can_take(call.farm, target, mo):
            raise vim.fault.NoCompatibleHost(host=[target.ref], msg="The host does not fit the virtual machine.")

    return _start(call, mo, _targets(call.farm, mo, host, all_hosts=True), test)


def _targets(farm: Farm, mo: ManagedObject, host: Any, *, all_hosts: bool) -> list[ManagedObject]:
    if host is not None:
        return [farm.store.get(host)]
    return hosts_of_cluster(farm, mo) if all_hosts else [farm.host_of(mo)]


def _start(call: Call, mo: ManagedObject, targets: list[ManagedObject], test: Callable[[ManagedObject], None]) -> Any:
    def work(_task: Task) -> Any:
        results = Vmomi.GetVmodlType("vim.vm.check.Result[]")()
        for target in targets:
            result = vim.vm.check.Result(vm=mo.ref, host=target.ref)
            try:
                test(target)
            except vmodl.MethodFault as error:
                result.error = [error]
            results.append(result)
        return results

    return call.farm.tasks.start(mo, "check", work, read_only=True)
