"""Checks of whole PCI devices: whether the host has them, passes them through, and has them free."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from vsphere_ai.fabric import pci
from vsphere_ai.model.estate.remedies import play_for
from vsphere_ai.model.finding import Finding, Problem
from vsphere_ai.model.state import Target
from vsphere_ai.model.view import View
from vsphere_ai.resources._helpers.vm_devices import lacking
from vsphere_ai.resources.pci_devices.device import PassthroughDevice, claim_of, ids_of


class DevicePlace(NamedTuple):
    """A VM, the host it is on, and all devices that are listed for it."""

    target: Target
    view: View
    on: Target
    listed: tuple[PassthroughDevice, ...]


def fixed_problems(place: DevicePlace, address: str) -> Iterator[Problem]:
    """Yield the problems of a device by its address."""
    target, view, on, _ = place
    facts = view.facts(on.ref)
    found, states = pci.devices(facts), pci.passthroughs(facts)
    if address not in states:
        free = ", ".join(a for a, s in states.items() if s.enabled) or "none"
        help_ = f"devices it passes through: {free}"
        yield Finding.problem(target, "pci_devices.no-device", f"{on.name} has no device {address}", help_)
        return
    if not states[address].enabled:
        name = found[address].name if address in found else "device"
        what = f"{on.name} does not pass {address} ({name}) through"
        yield Finding.problem(target, "pci_devices.not-passed", what, _pass_through(view, on, address))
        return
    yield from _taken(place, [pci.Claim(address)], address)


def _pass_through(view: View, on: Target, address: str) -> str:
    """Say how a host passes a device through, where it can."""
    state = pci.passthroughs(view.facts(on.ref)).get(address)
    if state is not None and not state.capable:
        return f"{on.name} cannot pass {address} through: look at VT-d or AMD IOMMU in its BIOS"
    return play_for(on, view, f"passthrough: {{{address}: true}}")


def dynamic_problems(place: DevicePlace, model: PassthroughDevice, count: int) -> Iterator[Problem]:
    """Yield the problems of a number of devices of one model."""
    target, view, on, _ = place
    facts = view.facts(on.ref)
    there = model.there(facts)
    if len(there) < count:
        same = [a for a, d in pci.devices(facts).items() if ids_of(model) == (d.vendor, d.device)]
        help_ = f"{on.name} has {len(same)} of that model"
        left = [a for a in same if a not in there]
        if left:
            help_ = f"{help_}: {', '.join(same)}; {_pass_through(view, on, left[0])}"
        what = f"{on.name} passes {len(there)} of {model} through, {count} are wanted"
        yield Finding.problem(target, "pci_devices.not-passed", what, help_)
        return
    yield from _taken(place, [claim_of(model)] * count, str(model))


def _taken(place: DevicePlace, mine: list[pci.Claim], called: str) -> Iterator[Problem]:
    target, view, on, listed = place
    rivals = lacking(target, view, "pci_devices", mine, [c for c in map(claim_of, listed) if c not in mine])
    if not rivals:
        return
    there, by = len(pci.choices(view.facts(on.ref), mine)[0]), ", ".join(dict.fromkeys(rivals))
    what = f"{on.name} has {there} of {called}, {len(rivals)} belong to {by}"
    if mine[0].address:
        what = f"{called} of {on.name} belongs to {by}"
    help_ = "a device is in one running VM: remove it there, or take another one or another host"
    yield Finding.problem(target, "pci_devices.taken", what, help_)
