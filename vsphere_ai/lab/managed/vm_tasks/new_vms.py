"""Drafts of new VMs: where one goes, what its specification makes of it, and the VM that comes of it.

A VM is new in full or not at all: its draft is in no inventory, so that whatever refuses it leaves nothing behind.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Sequence
from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.admission import CheckTests, Occasion, admits, case_of, refusals
from vsphere_ai.lab.admission.supply import free_memory, memory_need
from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.managed import datastores
from vsphere_ai.lab.managed.refusals import (
    host_not_connected,
    invalid_argument,
    invalid_host_state,
    no_compatible_host,
    not_supported,
)
from vsphere_ai.lab.managed.vcenter.custom_fields import offer
from vsphere_ai.lab.managed.vm_tasks.reconfigure import changed_config
from vsphere_ai.lab.managed.vms.virtual_machine import enroll, equip, publish, refresh
from vsphere_ai.lab.store import ManagedObject, fill, given

MOST_MEMORY_MB = 24576 * 1024
OWN = ("name", "version", "files", "guestId", "uuid", "instanceUuid")
"""Fields of a specification that a new VM has from the start."""


def specify(farm: Farm, mo: ManagedObject, config: Any, spec: Any, own: tuple[str, ...]) -> None:
    """Give a draft its configuration, changed as a specification says; raise the fault a reconfigure would.

    `own` are the fields of the specification that the configuration has already.
    """
    mo.props["config"] = fill(config)
    if spec is not None:
        asked = copy.copy(spec)
        for name in (*own, "changeVersion"):
            setattr(asked, name, None)
        if given(asked):
            mo.props["config"], _detail = changed_config(farm, mo, farm.host_of(mo), asked, powered_on=False)
    if mo["config"].hardware.memoryMB > MOST_MEMORY_MB:
        raise invalid_argument("spec.memoryMB", str(mo["config"].hardware.memoryMB))
    datastores.check_space(farm, mo["config"], mo.extra.get(datastores.SIZES, {}))


class Announced:
    """Object that stands for a VM while it is made: it has a name and a folder, and neither configuration nor host.

    It goes when the VM comes, which has another reference. Source: kubev2v/forklift pull request 7106.
    """

    def __init__(self, farm: Farm, folder: ManagedObject, mo: ManagedObject | None) -> None:
        self._farm, self._folder, self._mo = farm, folder, mo

    def withdraw(self) -> None:
        """Take the object away, if it is there."""
        if self._mo is not None:
            store, ref = self._farm.store, self._mo.ref
            store.set(self._folder, childEntity=[each for each in self._folder["childEntity"] if each != ref])
            store.delete(self._mo)
            self._mo = None


def announce(farm: Farm, folder: ManagedObject, name: str) -> Announced:
    """Show in a folder that a VM is being made; not where the name is taken, which the task will be refused for."""
    if any(child.props.get("name") == name for child in farm.store.children(folder)):
        return Announced(farm, folder, None)
    mo = ManagedObject(vim.VirtualMachine(f"vm-{farm.store.next_id()}"))
    runtime = vim.vm.RuntimeInfo(connectionState="connected", powerState="poweredOff")
    mo.props.update(name=name, parent=folder.ref, runtime=fill(runtime), recentTask=[], disabledMethod=[])
    farm.store.show(mo)
    farm.store.set(folder, childEntity=[*folder["childEntity"], mo.ref])
    return Announced(farm, folder, mo)


def register(
    farm: Farm, made: ManagedObject, folder: ManagedObject, pool: ManagedObject, *, tools: str
) -> ManagedObject:
    """Make a VM of a draft, off, and show it."""
    config = made["config"]
    mo = enroll(farm, folder, made, tools=tools)
    mo.extra[datastores.SIZES] = made.extra.get(datastores.SIZES, {})
    equip(farm, mo, config)
    refresh(farm, mo)
    farm.store.set(mo, resourcePool=pool.ref)
    offer(farm, mo)
    publish(farm, mo)
    farm.note_power(mo, on=False)
    return mo


def host_in(farm: Farm, pool: ManagedObject, host: Any) -> ManagedObject | None:
    """Return the host that is asked for, or the only one there is; None where DRS has to choose one."""
    compute = farm.store.get(pool["owner"])
    if host is not None:
        target = farm.store.get(host)
        if target["parent"] != compute.ref:
            raise invalid_argument("host", "host and resource pool are of different compute resources")
        return target
    if len(compute["host"]) == 1:
        return farm.store.get(compute["host"][0])
    if not compute["configurationEx"].drsConfig.enabled:
        raise invalid_argument("host", "a cluster without DRS chooses no host")
    return None


def emptiest_host(farm: Farm, pool: ManagedObject) -> ManagedObject:
    """Return the host of a pool's cluster with the fewest VMs."""
    hosts = [farm.store.get(ref) for ref in farm.store.get(pool["owner"])["host"]]
    fitting = [h for h in hosts if farm.host(h).up and not farm.host(h).in_maintenance]
    if not fitting:
        raise no_compatible_host([h.ref for h in hosts])
    return min(fitting, key=lambda h: len(h["vm"]))


def any_host(farm: Farm, pool: ManagedObject, source: ManagedObject, name: str, stores: Sequence[Any]) -> ManagedObject:
    """Return a host by chance that fits the source of a clone as it is; the same one for the same name.

    It reaches the datastores of the clone.
    """
    hosts = [farm.store.get(ref) for ref in farm.store.get(pool["owner"])["host"]]
    fitting = [h for h in hosts if fits(farm, h, source)]
    fitting = [h for h in fitting if datastores.reaches(h, stores)]
    if not fitting:
        raise no_compatible_host([h.ref for h in hosts])
    return random.Random(f"{farm.scenario.name}/{name}").choice(fitting)  # noqa: S311 - a replayable choice, no secret


def fits(farm: Farm, host: ManagedObject, source: ManagedObject) -> bool:
    """Return whether a host has what the source of a clone needs, its devices aside.

    DRS looks at the memory that the source has reserved, though the clone does not run (unverified).
    """
    if not admits(case_of(farm, source, host, Occasion.COLD)):
        return False
    connected = refusals(case_of(farm, source, host, Occasion.POWER_ON), frozenset({CheckTests.NETWORK}))
    return next(connected, None) is None and memory_need(source) <= free_memory(farm, host)


def check_host(farm: Farm, host: ManagedObject) -> None:
    """Refuse a host that takes no VM just now."""
    machine = farm.host(host)
    if not machine.up:
        raise host_not_connected()
    if machine.in_maintenance or "entering" in host.extra:
        raise invalid_host_state(host.ref, "the host is in maintenance mode")


def check_datastores(farm: Farm, host: ManagedObject, stores: Sequence[Any]) -> None:
    """Refuse datastores that nothing can be written to just now, or that the host has not mounted."""
    for store in map(farm.store.get, stores):
        name = str(store["name"])
        if not store["summary"].accessible:
            raise vim.fault.InaccessibleDatastore(
                datastore=store.ref, name=name, msg=f"Unable to access datastore '{name}'."
            )
        if not datastores.reaches(host, [store.ref]):
            raise vim.fault.InvalidDatastore(
                datastore=store.ref, name=name, msg=f"Datastore '{name}' is not accessible from {host['name']}."
            )


def refuse_other_folder(folder: ManagedObject) -> None:
    """Refuse a folder of another kind than that of VMs."""
    if vim.VirtualMachine not in (folder["childType"] or ()):
        raise not_supported("the folder takes no virtual machines")
