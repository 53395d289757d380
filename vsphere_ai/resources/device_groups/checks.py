"""Checks of device groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from difflib import get_close_matches

from vsphere_ai.fabric import pci
from vsphere_ai.fabric.api_types import GroupMember, VirtualDevice
from vsphere_ai.model.estate.remedies import play_for
from vsphere_ai.model.finding import Finding, Problem
from vsphere_ai.model.state import Target
from vsphere_ai.model.view import View
from vsphere_ai.resources._helpers.vm_devices import lacking
from vsphere_ai.resources._helpers.vm_settings import firmware_problems, memory_problems, version_problems
from vsphere_ai.resources.device_groups.group import name_of

HARDWARE_VERSION = 20  # VMware "vSphere 8 Expands Machine Learning Support: Device Groups"; unverified by a vCenter


SIMPLE = ("nvidiaVgpu", "pciPassthru")
"""Types of members whose template says all there is; a NIC of a group would need a network."""


def offer_problems(
    target: Target, host: Target, offer: Mapping[str, tuple[GroupMember, ...]], new: Iterable[str]
) -> Iterator[Problem]:
    """Yield the new groups that a host does not offer, and those whose members need more than their templates."""
    for name in sorted({*new}):
        if name not in offer:
            yield _unknown(target, host, name, offer)
        elif odd := sorted({c["type"] for c in offer[name]} - {*SIMPLE}):
            what = f"{name} has members of type {', '.join(odd)}, which need settings of their own"
            help_ = "add this group in the vSphere Client; from then on it is left as it is"
            yield Finding.problem(target, "device_groups.member", what, help_)


def _unknown(target: Target, on: Target, name: str, offer: Mapping[str, object]) -> Problem:
    spelled = {o.lower(): o for o in offer}
    near = [spelled[n] for n in get_close_matches(name.lower(), spelled, 1)]
    help_ = f"did you mean {near[0]}? " if near else ""
    needs = "ESXi 8.0, GPUs that are joined, and NVIDIA's host driver with graphics: {default_type: shared_direct}"
    listed = f"it offers {', '.join(sorted(offer))}" if offer else f"it offers none: that takes {needs}"
    return Finding.problem(target, "device_groups.unknown", f"{on.name} offers no device group {name}", help_ + listed)


def room_problems(target: Target, view: View, on: Target, devices: Iterable[VirtualDevice]) -> Iterator[Problem]:
    """Whole devices are counted here; room for vGPUs is a matter of all VMs of the host (see `capacity`)."""
    wanted: dict[str, list[pci.Claim]] = {}
    for device in devices:
        if (claim := pci.claim_of(device)) is not None:
            wanted.setdefault(name_of(device), []).append(replace(claim, address="") if claim.models else claim)
    for model, mine in wanted.items():
        there = {a for possible in pci.choices(view.facts(on.ref), mine) for a in possible}
        if len(there) < len(mine):
            what = f"{on.name} passes {len(there)} of {model} through, the groups need {len(mine)}"
            help_ = f"{play_for(on, view, 'passthrough: {ADDRESS: true}')}, or list fewer groups"
            yield Finding.problem(target, "device_groups.room", what, help_)
        elif rivals := lacking(target, view, "device_groups", mine):
            by = f"{len(rivals)} belong to {', '.join(dict.fromkeys(rivals))}"
            what = f"{on.name} has {len(there)} of {model}, the groups need {len(mine)}, and {by}"
            help_ = "a device is in one running VM: remove it there, or list fewer groups"
            yield Finding.problem(target, "device_groups.taken", what, help_)


def vm_problems(target: Target, view: View, firmware: str | None) -> Iterator[Problem]:
    """Yield settings of the VM that a device group does not work with."""
    needs = "a device group needs"
    yield from version_problems(target, view, "device_groups.hardware-version", HARDWARE_VERSION, needs)
    yield from memory_problems(target, view, "device_groups.memory", needs)
    if firmware == "efi":
        yield from firmware_problems(target, view, "device_groups.firmware", "the GPUs of a group need")
