"""The provisioning checker: whether a VM could be migrated or relocated, without doing it; CheckClone is with clones.

Its tests are those of the compatibility checker: rules, HA, free space and free places on GPUs are in none of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.managed import Call, reads
from vsphere_ai.lab.managed.refusals import invalid_argument
from vsphere_ai.lab.managed.vm_tasks import migration
from vsphere_ai.lab.managed.vm_tasks.compatibility_checker import asked, start
from vsphere_ai.lab.store import ManagedObject

Checker = vim.vm.check.ProvisioningChecker


@reads(Checker, "CheckMigrate_Task")
def check_migrate(call: Call, vm: Any, host: Any = None, pool: Any = None, **more: Any) -> Any:
    """Check whether a VM could come to a host, or with DRS to which hosts of a pool; nothing in another power state."""
    mo = call.farm.store.get(vm)
    if more.get("state") not in (None, mo["runtime"].powerState):
        return start(call, mo, [], lambda _target: iter(()))
    return _start(call, mo, host, pool, more.get("testType"))


@reads(Checker, "CheckRelocate_Task")
def check_relocate(call: Call, vm: Any, spec: Any, testType: Sequence[str] | None = None) -> Any:
    """Check whether a VM could be relocated; of storage only that the target reaches where it is."""
    return _start(call, call.farm.store.get(vm), spec.host, spec.pool, testType)


def _start(call: Call, mo: ManagedObject, host: Any, pool: Any, types: Sequence[str] | None) -> Any:
    farm, groups = call.farm, asked(types)
    into = farm.store.get(pool) if pool is not None else None

    def test(target: ManagedObject) -> Iterator[Exception]:
        yield from migration.faults(migration.arrival(farm, mo, target, into), groups)

    return start(call, mo, _targets(farm, mo, host, into), test)


def _targets(farm: Farm, mo: ManagedObject, host: Any, pool: ManagedObject | None) -> list[ManagedObject]:
    if host is not None:
        return [farm.store.get(host)]
    if pool is None:
        raise invalid_argument("host", "neither a host nor a resource pool is given")
    compute = farm.store.get(pool["owner"])
    if len(compute["host"]) > 1 and not compute["configurationEx"].drsConfig.enabled:
        raise invalid_argument("host", "a cluster without DRS chooses no host")
    return [farm.store.get(ref) for ref in compute["host"] if ref != mo["runtime"].host]
