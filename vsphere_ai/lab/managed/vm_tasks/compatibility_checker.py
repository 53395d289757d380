"""The VM compatibility checker: vCenter's own answer to "would this work?", without doing it.

It makes the tests of CheckTestType: of the source, the host, the resource pool, datastores and networks. Rules, HA
admission control, over-commitment of DRS, free space and free places on GPUs are in none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from pyVmomi import VmomiSupport as Vmomi
from pyVmomi import vim, vmodl

from vsphere_ai.lab.admission import CheckTests, Occasion, case_of, refusals
from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.managed import Call, reads
from vsphere_ai.lab.managed.placement import drs_level, hosts_of_cluster
from vsphere_ai.lab.managed.refusals import invalid_argument, invalid_state
from vsphere_ai.lab.managed.vm_tasks.power import refuse_unless_off
from vsphere_ai.lab.managed.vm_tasks.reconfigure import changed_config
from vsphere_ai.lab.managed.vms.vm_states import refuse_change
from vsphere_ai.lab.store import ManagedObject
from vsphere_ai.lab.tasks import TaskWork

Checker = vim.vm.check.CompatibilityChecker
Test = Callable[[ManagedObject], Iterator[Exception]]


@reads(Checker, "CheckVmConfig_Task")
def check_vm_config(call: Call, spec: Any, vm: Any = None, host: Any = None, **_options: Any) -> Any:
    """Check a ConfigSpec for a VM on its host, or on the host given; the VM's power state does not matter."""
    if vm is None:
        raise invalid_argument("vm", "the lab judges the configuration of existing virtual machines")
    mo = call.farm.store.get(vm)

    def test(target: ManagedObject) -> Iterator[Exception]:
        refuse_change(call.farm, mo, spec)
        changed_config(call.farm, mo, target, spec, powered_on=False)
        yield from ()

    return start(call, mo, [call.farm.store.get(host) if host is not None else call.farm.host_of(mo)], test)


@reads(Checker, "CheckPowerOn_Task")
def check_power_on_task(
    call: Call, vm: Any, host: Any = None, pool: Any = None, testType: Sequence[str] | None = None
) -> Any:
    """Check whether a VM could be powered on, on each host it may run on or on the one given, with every fault."""
    farm, mo = call.farm, call.farm.store.get(vm)
    groups, into = asked(testType), farm.store.get(pool) if pool is not None else None

    def test(target: ManagedObject) -> Iterator[Exception]:
        refuse_unless_off(farm, mo, resumes=True)
        case = case_of(farm, mo, target, Occasion.POWER_ON)
        yield from refusals(case if into is None else replace(case, pool=into), groups)

    return start(call, mo, _targets(farm, mo, host, into), test)


@reads(Checker, "CheckCompatibility_Task")
def check_compatibility(
    call: Call, vm: Any, host: Any = None, pool: Any = None, testType: Sequence[str] | None = None
) -> Any:
    """Check whether hosts have what a VM needs to be registered and to run there."""
    farm, mo = call.farm, call.farm.store.get(vm)
    groups = asked(testType) - {CheckTests.POOL}
    if host is not None and farm.host(farm.store.get(host)).in_maintenance:
        raise invalid_state("the host is in maintenance mode")

    def test(target: ManagedObject) -> Iterator[Exception]:
        yield from refusals(case_of(farm, mo, target, Occasion.POWER_ON), groups)

    return start(call, mo, _targets(farm, mo, host, farm.store.get(pool) if pool is not None else None), test)


def asked(types: Sequence[str] | None) -> frozenset[CheckTests]:
    """Return the tests of a list of CheckTestType; all that there are without one."""
    known = {group.value: group for group in CheckTests if group is not CheckTests.NONE}
    unknown = [name for name in types or () if name not in known]
    if unknown:
        raise invalid_argument("testType", str(unknown[0]))
    return frozenset(known[name] for name in types or known)


def _targets(farm: Farm, mo: ManagedObject, host: Any, pool: ManagedObject | None) -> list[ManagedObject]:
    """Return the hosts to look at; where DRS does not choose one it has to be named."""
    if host is not None:
        return [farm.store.get(host)]
    if pool is not None and pool["owner"] != farm.host_of(mo)["parent"]:
        return [farm.store.get(ref) for ref in farm.store.get(pool["owner"])["host"]]
    hosts = hosts_of_cluster(farm, mo)
    alone = not isinstance(farm.host_of(mo)["parent"], vim.ClusterComputeResource)
    if not alone and not drs_level(farm, mo):
        raise invalid_argument("host", "a cluster without DRS chooses no host")
    return hosts


def start(call: Call, mo: ManagedObject, targets: list[ManagedObject], test: Test) -> Any:
    """Start the task that tests a VM on hosts and returns a result, with every error, for each of them."""
    doom = call.farm.tasks.doom
    finds = doom.finds if doom is not None else None

    def work(_task: TaskWork) -> Any:
        results = Vmomi.GetVmodlType("vim.vm.check.Result[]")()
        for target in targets:
            result = vim.vm.check.Result(vm=mo.ref, host=target.ref)
            try:
                result.error = list(test(target) if finds is None else finds)
            except vmodl.MethodFault as error:
                result.error = [error]
            results.append(result)
        return results

    return call.farm.tasks.start(mo, "check", work, read_only=True)
