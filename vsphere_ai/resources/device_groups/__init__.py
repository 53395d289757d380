"""Vendor device groups of a VM (vSphere 8.0): GPUs and other devices that it gets and gives back together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Self

from vsphere_ai.fabric import pci
from vsphere_ai.fabric.api_types import VirtualDevice
from vsphere_ai.model.estate import api_fields
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.finding import Problem
from vsphere_ai.model.state import Change, KindName, State, Target, observed, setting
from vsphere_ai.model.steps import Query, Step
from vsphere_ai.model.view import View
from vsphere_ai.resources._helpers.gpu_devices import (
    DEVICES,
    IMPLIED,
    VM_PROPERTIES,
    VM_SETTINGS,
    DeviceEntry,
    GpuDevices,
    difference,
    duty_of,
)
from vsphere_ai.resources._helpers.vm_settings import firmware_notes
from vsphere_ai.resources.base import Traits, kind_names
from vsphere_ai.resources.device_groups.checks import offer_problems, room_problems, vm_problems
from vsphere_ai.resources.device_groups.group import (
    OFFER,
    VmDeviceGroup,
    groups_after,
    is_vgpu_name,
    lost_members,
    meaning,
    memory_gb,
    name_of,
    new_member,
    offer_of,
    present_groups,
    stray_members,
)
from vsphere_ai.resources.mixins import AsksMore
from vsphere_ai.resources.topics import Topic

FIRST_API = (8, 0, 0, 1)  # vSphere Web Services API reference: VirtualMachineVirtualDeviceGroups since 8.0.0.1


class DeviceGroups(AsksMore, GpuDevices):
    """Gives a VM vendor device groups, exactly the listed ones, each as often as it is listed.

    A host with ESXi 8.0 offers them: GPUs joined by NVLink or NVSwitch, or a GPU and the NIC next to it. All members
    come and go together. vGPUs and PCI devices that are in no group belong to `vgpu` and `pci_devices`.
    """

    kind = KindName("device_groups")
    shorthand = "groups"
    called, entry = "device groups", "a group"
    traits = Traits(
        topics=Topic.DEVICE_GROUPS | Topic.VGPU,
        implies=IMPLIED,
        decides={"config.hardware.device": "groups"},
        vm_settings=VM_SETTINGS,
        after=kind_names("graphics", "hardware", "mig", "passthrough", "pci_devices", "vgpu"),
        properties={
            "VirtualMachine": ("config.deviceGroups", *VM_PROPERTIES),
            "HostSystem": ("hardware.pciDevice", "config.pciPassthruInfo"),
        },
        duties=(duty_of("device_groups", "deviceGroups"),),
    )

    groups: tuple[str, ...] | None = setting(
        "Names as the host lists them, e.g. `Nvidia:2@nvidia_h100l-94c%NVLink`; their order means "
        "nothing, `[]` removes all."
    )
    members: tuple[str, ...] | None = observed("What the groups are made of: vGPU profiles, or vendor:device ids.")
    memory_locked: bool | None = observed("All guest memory is reserved; follows from having a group.")
    firmware: str | None = observed("Boot firmware; a GPU with a large BAR needs `efi`.")
    mmio_64bit: bool | None = observed("Large memory-mapped regions are allowed; follows from a GPU with a large BAR.")
    mmio_size_gb: int | None = observed(
        "Their size: twice the memory of all GPUs of the VM, a power of two; never lowered."
    )

    @classmethod
    def questions(cls, wanted: Mapping[Target, Sequence[State]], estate: Estate) -> Iterator[Query]:
        """Ask the hosts of such VMs what groups they offer; before vSphere 8.0 there is nothing to ask."""
        if estate.about.api_numbers < FIRST_API:
            return
        vms = [vm for vm, states in wanted.items() if any(s.kind == cls.kind for s in states)]
        for ref in dict.fromkeys(h.ref for vm in vms for h in estate.hosts_for(vm.ref)):
            yield Query(OFFER, "configManager.assignableHardwareManager", "RetrieveVendorDeviceGroupInfo", on=ref)

    @classmethod
    def concerns(cls, state: object) -> Topic:
        """Those of vGPUs only where a group has some."""
        vgpus = isinstance(state, DeviceGroups) and any(is_vgpu_name(m) for m in state.members or ())
        return super().concerns(state) & (cls.traits.topics if vgpus else ~Topic.VGPU)

    @classmethod
    def is_fit(cls, facts: Facts) -> bool:
        """A VM with a device group."""
        return any(d.get("deviceGroupInfo") for d in facts.get(DEVICES, ()))

    @classmethod
    def found(cls, facts: Facts, estate: Estate) -> Mapping[str, object]:
        """Read the groups that have members, and what these are."""
        have = present_groups(facts)
        members = sorted(name_of(d) for g in have for d in g.devices)
        return {"groups": tuple(sorted(g.name for g in have)), "members": tuple(members)}

    def settle(self, target: Target, view: View) -> Self:
        """Sort the names (their order does not matter) and add what the groups imply."""
        now = view.state(target.ref, self.kind)
        wanted = tuple(sorted(self.groups if self.groups is not None else (now.groups or ()) if now else ()))
        settled = self.model_copy(update={"groups": wanted})
        members = tuple(sorted(map(name_of, settled._devices(target, view))))
        return self.with_needs(target, view, groups=wanted, members=members)

    def _devices(self, vm: Target, view: View) -> tuple[VirtualDevice, ...]:
        """Return the members the VM will have: those of the groups it keeps, and the templates of new ones."""
        present = present_groups(view.facts(vm.ref))
        wanted = self.groups if self.groups is not None else [g.name for g in present]
        kept, _, new = difference(wanted, present, VmDeviceGroup.named)
        on = view.estate.host_of(vm.ref)
        offer = offer_of(view.facts(on.ref)) if on else {}
        return (*(d for g in kept for d in g.devices), *(c["device"] for n in sorted(new) for c in offer.get(n, ())))

    def vgpus(self, vm: Target, view: View) -> tuple[str, ...]:
        """The vGPUs among the members take room on GPUs like any other."""
        members = self.members if self.members is not None else map(name_of, self._devices(vm, view))
        return tuple(name for name in members if is_vgpu_name(name))

    def whole_devices(self, vm: Target, view: View) -> tuple[pci.Claim, ...]:
        """Members that are whole devices belong to no other VM; so do those of no known group, which stay."""
        kept = (*self._devices(vm, view), *lost_members(view.facts(vm.ref)))
        return tuple(c for c in map(pci.claim_of, kept) if c is not None)

    def joins(self) -> tuple[str, ...]:
        """The part of a group's name behind the sign %."""
        return tuple(link for name in self.groups or () if (link := name.partition("%")[2]))

    def needs_together(self, vm: Target, view: View) -> bool:
        """The members of a group do, and which GPUs are joined is not shown: single ones take what is left."""
        return bool(self._devices(vm, view))

    def gpu_memory_gb(self, vm: Target, view: View) -> int:
        """Count the whole boards of all GPUs among the members."""
        on = view.estate.host_of(vm.ref)
        host = view.facts(on.ref) if on else None
        return sum(memory_gb(d, host) for d in self._devices(vm, view))

    def problems_on(self, host: Target, target: Target, view: View) -> Iterator[Problem]:
        """VSphere before 8.0, names the host does not offer, members it cannot give, versions and memory."""
        about, facts = view.estate.about, view.facts(host.ref)
        if about.api_numbers < FIRST_API:
            found, help_ = api_fields.why_missing(about, FIRST_API)
            help_ = help_ or "list single devices with vgpu: or pci_devices:"
            yield self.problem(target, "vsphere", f"{found}; device groups came with vSphere 8.0", help_)
            return
        yield from vm_problems(target, view, self.firmware)
        _, _, new = difference(self.groups or (), present_groups(view.facts(target.ref)), VmDeviceGroup.named)
        unreadable = facts.unreadable.get(f"query:{OFFER}")
        if new and unreadable:
            text = f"the device groups of {host.name} cannot be read: {unreadable}"
            yield self.problem(target, "unreadable", text, "give the account System.Read on the host and its cluster")
            return
        yield from offer_problems(target, host, offer_of(facts), new)
        yield from room_problems(target, view, host, self._devices(target, view))

    def remarks(self, target: Target, view: View) -> Iterator[str]:
        """Say what a name means, what else of groups is on the VM, and what a changed firmware does."""
        if view.is_planned(target.ref, self.kind):
            yield from filter(None, (meaning(n) for n in dict.fromkeys(self.groups or ())))
        if strays := stray_members(view.facts(target.ref)):
            yield f"left as it is: {'; '.join(strays)}"
        if self.firmware == "efi":
            yield from firmware_notes(target, view, "these GPUs need")

    def steps(self, change: Change, view: View) -> Iterator[Step]:
        """One reconfigure: a group that stays keeps its key and its members."""
        facts, on = view.facts(change.target.ref), view.estate.host_of(change.target.ref)
        _, removed, missing = difference(self.groups or (), present_groups(facts), VmDeviceGroup.named)
        new = {-1 - n: name for n, name in enumerate(sorted(missing))}
        offer = offer_of(view.facts(on.ref)) if on else {}
        yield self.reconfigure(
            change,
            [DeviceEntry(g.name, g.devices) for g in removed],
            [
                DeviceEntry(name, tuple(new_member(c["device"], k) for c in offer.get(name, ())))
                for k, name in new.items()
            ],
            spec={"deviceGroups": groups_after(facts, removed, new)} if removed or new else None,
        )

    def not_stated(self, target: Target, view: View) -> str:
        """Devices that carry the mark of a group and are in none that can be stated."""
        strays = stray_members(view.facts(target.ref))
        return f"device_groups left out: {'; '.join(strays)}" if strays else ""

    @property
    def is_bound(self) -> bool:
        """Whether there are groups."""
        return bool(self.groups)

    def runs_on(self, host: Target, view: View) -> bool:
        """A VM with groups runs where all of them are offered, as far as the host was asked."""
        facts = view.facts(host.ref)
        return facts.get(f"query:{OFFER}") is None or all(g in offer_of(facts) for g in self.groups or ())
