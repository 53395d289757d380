"""The VMs of an estate as they take of their hosts: as they were read, and as the steps of a plan leave them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from vsphere_ai.admission.machine import DEVICES, Machine, facts_after, has_fixed, machine_of
from vsphere_ai.fabric import pci
from vsphere_ai.fabric.virtual_functions import Demand
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import Step
from vsphere_ai.model.view import View
from vsphere_ai.model.vm_sets import member_of
from vsphere_ai.resources.mixins import device_states, vgpus_of


class Machines:
    """VMs by reference, each made once. `steps` are what a plan does, by the reference of its target."""

    def __init__(self, view: View, steps: Mapping[str, Sequence[Step]] | None = None) -> None:
        self._view, self.steps = view, steps or {}
        self._present: dict[str, Machine] = {}
        self._planned: dict[str, Machine] = {}

    @cached_property
    def on(self) -> tuple[str, ...]:
        """References of all VMs that ran when they were read, those included that the user does not manage."""
        estate = self._view.estate
        refs = dict.fromkeys((*(v.ref for v in estate.vms), *(v.ref for v in estate.managed)))
        return tuple(ref for ref in refs if estate.is_on(ref))

    def present(self, ref: str) -> Machine:
        """Return a VM as it was read."""
        if ref not in self._present:
            facts = self._view.estate[ref]
            tied = str(facts.get("runtime.host") or "") if has_fixed(facts.get(DEVICES) or ()) else ""
            self._present[ref] = replace(machine_of(facts), tied_to=tied)
        return self._present[ref]

    def planned(self, ref: str) -> Machine:
        """Return a VM as the plan leaves it: with the devices of its planned states, and the changes of its steps."""
        if ref not in self._planned:
            view, facts = self._view, self._view.estate[ref]
            steps = self.steps.get(ref, ())
            if not steps and not view.planned_kinds(ref) and not _is_stated(view, ref):
                self._planned[ref] = self.present(ref)
            else:
                vm, after = Target("vm", facts.name, ref), facts_after(facts, steps)
                made = machine_of(after, vgpus_of(vm, view), claims_of(vm, view), functions_of(vm, view))
                self._planned[ref] = replace(made, tied_to=self._tied(facts, after))
        return self._planned[ref]

    def _tied(self, before: Facts, after: Facts) -> str:
        """Return the host of a fixed device that a VM keeps: its own host, for a clone that of its source."""
        keys = {d.get("key") for d in before.get(DEVICES) or ()}
        if not has_fixed(d for d in after.get(DEVICES) or () if d.get("key") in keys):
            return ""
        member = member_of(self._view.estate, before.ref)
        new = member is not None and not member.exists
        source = self._view.estate.get(member.place.source) if member is not None and new else before
        return str((source.get("runtime.host") if source else "") or "")

    def cluster(self, vm: Machine) -> str:
        """Return the reference of the cluster or compute resource that a VM is in, "" where that is not known."""
        facts = self._view.estate.get(vm.ref)
        host = self._view.estate.get(facts.get("runtime.host")) if facts else None
        return str(host.get("parent") or "") if host else ""


def claims_of(vm: Target, view: View) -> tuple[pci.Claim, ...]:
    """Return the whole PCI devices that a VM will have: planned, else as stated, else those of its configuration."""
    return tuple(c for _, state in device_states(view, vm.ref) for c in state.whole_devices(vm, view))


def functions_of(vm: Target, view: View) -> tuple[Demand, ...]:
    """Return the virtual functions that a VM will have, as `claims_of` has its devices."""
    return tuple(d for _, state in device_states(view, vm.ref) for d in state.virtual_functions(vm, view))


def _is_stated(view: View, ref: str) -> bool:
    return any((ref, kind) in view.stated for kind in view.kinds)


def planned_steps(steps: Iterable[Step]) -> Mapping[str, Sequence[Step]]:
    """Return steps by the reference of their target."""
    found: dict[str, list[Step]] = {}
    for step in steps:
        found.setdefault(step.target.ref, []).append(step)
    return found
