"""Devices of a VM: changes of them, and the whole PCI devices that a host has left for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from vsphere_ai.fabric import pci
from vsphere_ai.model.state import Target
from vsphere_ai.model.view import View
from vsphere_ai.resources.mixins import device_states


def lacking(
    vm: Target, view: View, kind: str, mine: Sequence[pci.Claim], more: Sequence[pci.Claim] = ()
) -> tuple[str, ...]:
    """Return who has the whole devices that a VM's host cannot give it, one name per device; empty when it can.

    `mine` are what a state of `kind` asks for, `more` what else it does. Counted besides are what the VM gets by other
    kinds, and the VMs there that run or to which the playbook gives devices.
    """
    on = view.estate.host_of(vm.ref)
    if on is None:
        return ()
    beside = [("other devices of the same list", claim) for claim in more]
    for other in view.estate.vms_on(on.ref):
        own = other == vm
        states = [(k, s) for k, s in device_states(view, other.ref) if not (own and k == kind)]
        claims = [(k, c) for k, s in states for c in s.whole_devices(other, view)]
        running = view.facts(other.ref).get("runtime.powerState") == "poweredOn"
        if own or running or any((other.ref, k) in view.stated for k, _ in claims):
            beside += [(f"its own {k}" if own else other.name, claim) for k, claim in claims]
    facts, theirs = view.facts(on.ref), [claim for _, claim in beside]
    if pci.has_room(facts, mine, theirs):
        return ()
    there = {a for possible in pci.choices(facts, mine) for a in possible}
    return tuple(by for (by, _), p in zip(beside, pci.choices(facts, theirs), strict=True) if there & {*p})


def device_change(operation: Literal["add", "edit", "remove"], device: Mapping[str, object]) -> dict[str, object]:
    """Return the change of one virtual device, as a reconfigure takes it."""
    return {"_typeName": "VirtualDeviceConfigSpec", "operation": operation, "device": device}
