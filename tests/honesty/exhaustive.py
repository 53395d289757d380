"""Looks for a way to do a job on a farm of the lab: every order, every host, and what vCenter then refuses.

The program goes one way at a time: `choose` forks a process per option, and the first one that comes to its end has
found a way. What can be done is what the lab does; nothing of the product is used. DRS moves what it moves by itself.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

FOUND, NONE, TIRED, BROKEN = 0, 1, 3, 70
SECONDS = 30.0
T = TypeVar("T")


def can_be_done(scenario: Path, job: dict[str, Any]) -> bool | None:
    """Return whether there is a way; None where the time is over before one is found. Called in a forked process."""
    child = os.fork()
    if not child:
        try:
            _Way(scenario, job).go()
        except BaseException:
            import traceback

            traceback.print_exc()
            os._exit(BROKEN)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code not in (FOUND, NONE, TIRED):
        raise RuntimeError(f"the search for a way broke: {code}")
    return {FOUND: True, NONE: False, TIRED: None}[code]


class _Way:
    """One way through a job; every choice is a fork."""

    def __init__(self, scenario: Path, job: dict[str, Any]):
        from vsphere_ai.lab.build import build
        from vsphere_ai.lab.scenario_file import load

        # a thread of the lab could hold a lock while a fork is made, which no thread would release then
        threading.Thread.start = lambda _thread: None  # type: ignore[method-assign]
        self.farm, self.job = build(load(scenario), "judge"), job
        self.end = time.monotonic() + SECONDS
        self.changes: dict[str, Any] = dict(job["changes"])
        self.moved: set[str] = set()

    # -- choices

    def choose(self, options: Iterable[T]) -> T:
        """Return each option in a process of its own, until one of them has found a way."""
        tired = time.monotonic() > self.end
        for option in () if tired else options:
            child = os.fork()
            if not child:
                return option
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            if code not in (NONE, TIRED):
                os._exit(code)
            tired = tired or code == TIRED
        os._exit(TIRED if tired else NONE)

    def go(self) -> None:
        """Do all of the job, in any order, and end the process."""
        from pyVmomi import vmodl

        left: list[Any] = [*self.job["windows"]]
        left += [name for name in ("changes", "set") if self.job.get(name)]
        try:
            while left:
                at = self.choose(range(len(left)))
                work = left.pop(at)
                if work == "changes":
                    self._cycle([n for n in self.changes if self._on(n)])
                    for name in [*self.changes]:
                        self._reconfigure(name)
                elif work == "set":
                    self._make(self.job["set"])
                else:
                    self._window(**work)
        except vmodl.MethodFault:
            os._exit(NONE)
        os._exit(FOUND)

    # -- work

    def _window(self, host: str, way: str, vgpu_mode: str = "", mig: bool | None = None) -> None:
        from vsphere_ai.lab.managed.drs import evacuation
        from vsphere_ai.lab.managed.placement import drs_level
        from vsphere_ai.lab.managed.running_vms import powered_on
        from vsphere_ai.lab.managed.vm_tasks import migration
        from vsphere_ai.lab.managed.vm_tasks.power import power_off_now

        at = self.farm.named[f"host:{host}"]
        running = powered_on(self.farm, at)
        # what moves while it runs, as the play of its host has it, is not powered off with a host where it comes to be
        off = [
            vm for vm in running if vm["name"] in self.changes or (way == "power_off" and vm["name"] not in self.moved)
        ]
        for vm in off:
            power_off_now(self.farm, vm, "off")
        staying = powered_on(self.farm, at)
        if any(drs_level(self.farm, vm) != "fullyAutomated" for vm in staying):
            os._exit(NONE)
        found = evacuation.search(self.farm, [at])
        if found.stuck:
            os._exit(NONE)
        for vm, target in found.targets:
            migration.carry(self.farm, vm, target)
            self.moved.add(vm["name"])
        self.farm.host(at).set_maintenance(True)
        self._gpus_changed(self.farm.host(at), vgpu_mode, mig)
        self.farm.host(at).set_maintenance(False)
        self.farm.settle()
        self._back([vm["name"] for vm in off])

    def _gpus_changed(self, machine: Any, vgpu_mode: str, mig: bool | None) -> None:
        """Change what an empty host's GPUs are set to."""
        with machine.changing():
            for gpu in machine.gpus:
                if vgpu_mode and not (gpu.mig_current and any(not other.mig_current for other in machine.gpus)):
                    gpu.vgpu_mode = vgpu_mode
                if mig is not None:
                    gpu.set_mig(mig)

    def _cycle(self, names: list[str]) -> None:
        from vsphere_ai.lab.managed.vm_tasks.power import power_off_now

        for name in names:
            power_off_now(self.farm, self._vm(name), "off")
        self._back(names)

    def _back(self, names: list[str]) -> None:
        """Reconfigure VMs that are off and power them on, in any order."""
        from vsphere_ai.lab.managed.placement import drs_level
        from vsphere_ai.lab.managed.vm_tasks.power import check_power_on, power_on_now

        for name in names:
            self._reconfigure(name)
        for name in self.choose(itertools.permutations(names)) if len(names) > 1 else names:
            vm = self._vm(name)
            at = self.farm.host_of(vm)
            check_power_on(self.farm, vm, at, by_drs=bool(drs_level(self.farm, vm)))
            power_on_now(self.farm, vm, at, "on")

    def _reconfigure(self, name: str) -> None:
        from pyVmomi import vim

        from vsphere_ai.lab.managed.vm_tasks.reconfigure import changed_config
        from vsphere_ai.lab.managed.vms.virtual_machine import refresh

        wanted = self.changes.pop(name, None)
        if wanted is None:
            return
        vm = self._vm(name)
        spec = vim.vm.ConfigSpec()
        if "cpus" in wanted:
            spec.numCPUs = wanted["cpus"]
        kept = wanted.get("memory_reservation")
        if kept is not None:
            spec.memoryReservationLockedToMax = kept == "full"
            size = vm["config"].hardware.memoryMB if kept == "full" else kept
            spec.memoryAllocation = vim.ResourceAllocationInfo(reservation=size)
        if "vgpu" in wanted:
            spec.deviceChange = _other_vgpus(vm["config"], wanted["vgpu"])
        config, _ = changed_config(self.farm, vm, self.farm.host_of(vm), spec, powered_on=False)
        if "version" in wanted:
            config.version = f"vmx-{wanted['version']:02d}"
        vm.props["config"] = config
        refresh(self.farm, vm)

    def _make(self, of: dict[str, Any]) -> None:
        """Clone the VMs of a set, each on some host, and power them on."""
        from vsphere_ai.lab.admission import Occasion, case_of, check
        from vsphere_ai.lab.managed.clusters import resource_pools
        from vsphere_ai.lab.managed.vm_tasks.power import power_on_now
        from vsphere_ai.lab.managed.vms import virtual_machine
        from vsphere_ai.lab.scenario import Vm, expand

        hosts = of["hosts"] or [n.removeprefix("host:") for n in self.farm.named if n.startswith("host:")]
        folder = self.farm.store.get(self._vm("image")["parent"])
        taken: set[str] = set()
        for name in expand(of["names"]):
            self._copies(of.get("datastore", ""))
            host = self.choose([h for h in hosts if not (of.get("apart") and h in taken)])
            taken.add(host)
            at = self.farm.named[f"host:{host}"]
            spec = Vm(
                name, host, cpus=of["cpus"], memory_gb=of["memory_gb"], disk_gb=20, network="dvpg-lan",
                datastore=of.get("datastore", ""), memory_reservation_locked=bool(of.get("locked")), hardware=17,
            )  # fmt: skip
            vm = virtual_machine.add_vm(self.farm, folder, at, name, spec)
            vm.extra["spec"] = spec
            if of.get("pool"):
                resource_pools.into(self.farm, vm, of["pool"])
            check(case_of(self.farm, vm, at, Occasion.COLD))
            power_on_now(self.farm, vm, at, "on")

    def _copies(self, name: str) -> None:
        """End this way where a datastore has no room for the disks of a clone; else that of the image."""
        from vsphere_ai.lab.managed import datastores

        disks = datastores.disks_of(self._vm("image")["config"])
        ref = self.farm.store.get(disks[0].backing.datastore)
        store = datastores.at(self.farm, f"[{name}]", "datastore") if name else ref
        if sum(datastores.used_bytes(self.farm, disk) for disk in disks) > store["summary"].freeSpace:
            os._exit(NONE)

    # -- state of the lab

    def _vm(self, name: str) -> Any:
        from pyVmomi import vim

        return next(vm for vm in self.farm.store.of(vim.VirtualMachine) if vm["name"] == name)

    def _on(self, name: str) -> bool:
        return bool(self._vm(name)["runtime"].powerState == "poweredOn")


def _other_vgpus(config: Any, types: list[str]) -> list[Any]:
    """Return what takes the vGPUs out of a configuration and puts those of other types in."""
    from pyVmomi import vim

    pci, change = vim.vm.device.VirtualPCIPassthrough, vim.vm.device.VirtualDeviceSpec
    old = [d for d in config.hardware.device if isinstance(d, pci) and isinstance(d.backing, pci.VmiopBackingInfo)]
    new = [pci(key=-1 - n, backing=pci.VmiopBackingInfo(vgpu=name)) for n, name in enumerate(types)]
    return [*(change(operation="remove", device=d) for d in old), *(change(operation="add", device=d) for d in new)]
