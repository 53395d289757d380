"""Whole PCI devices of a host in a VM: fixed ones by address, dynamic ones by vendor and device, device groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Self

from vsphere_ai.fabric import pci
from vsphere_ai.gpu.devices import is_whole
from vsphere_ai.gpu.vgpus import window
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.finding import Problem
from vsphere_ai.model.state import Change, KindName, Target, observed, setting
from vsphere_ai.model.steps import Step
from vsphere_ai.model.view import View
from vsphere_ai.model.vm_sets import member_of
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
from vsphere_ai.resources._helpers.maximums import passthrough_devices
from vsphere_ai.resources._helpers.vm_settings import (
    firmware_notes,
    firmware_problems,
    hardware_version,
    memory_problems,
    version_problems,
)
from vsphere_ai.resources.base import Traits, kind_names
from vsphere_ai.resources.pci_devices.checks import DevicePlace, dynamic_problems, fixed_problems
from vsphere_ai.resources.pci_devices.device import (
    DEVICE,
    PassthroughDevice,
    backing_of,
    claim_of,
    ids_of,
    passed_devices,
    stated_device,
)
from vsphere_ai.resources.topics import Topic

DYNAMIC_VERSION = 17  # Dynamic DirectPath I/O: vSphere 7.0, VM compatibility 17


class PciDevices(GpuDevices):
    """Gives a VM whole PCI devices, exactly the listed ones; vGPUs and network adapters are never touched.

    What such a device needs follows by itself: all memory reserved, and for a GPU with a large BAR EFI firmware and
    the 64-bit MMIO keys. A VM with a fixed device is tied to its host, one with dynamic devices to hosts that have
    enough of them.
    """

    kind = KindName("pci_devices")
    shorthand = "devices"
    called, entry = "PCI devices", "a device"
    traits = Traits(
        topics=Topic.WHOLE_DEVICES,
        implies=IMPLIED,
        decides={"config.hardware.device": "devices"},
        vm_settings=VM_SETTINGS,
        after=kind_names("hardware", "passthrough", "vgpu"),
        properties={"VirtualMachine": VM_PROPERTIES, "HostSystem": pci.PATHS},
        duties=(duty_of("pci_devices"),),
    )

    devices: tuple[PassthroughDevice, ...] | None = setting(
        "The VM's passthrough devices; their order does not matter, `[]` removes all."
    )
    host: str | None = observed("The host a fixed device ties the VM to.")
    memory_locked: bool | None = observed("All guest memory is reserved; follows from having a device.")
    firmware: str | None = observed("Boot firmware; a GPU with a large BAR needs `efi`.")
    mmio_64bit: bool | None = observed("Large memory-mapped regions are allowed; follows from a GPU with a large BAR.")
    mmio_size_gb: int | None = observed(
        "Their size: twice the memory of all GPUs of the VM, a power of two; never lowered."
    )

    @classmethod
    def is_fit(cls, facts: Facts) -> bool:
        """A VM with whole PCI devices."""
        return any(is_whole(d) for d in facts.get(DEVICES, ()))

    @classmethod
    def found(cls, facts: Facts, estate: Estate) -> Mapping[str, object]:
        """Read the passthrough devices, and the host that fixed ones tie the VM to: of a clone, that of its source."""
        found = tuple(d for p in passed_devices(facts) if (d := stated_device(p)) is not None)
        member = member_of(estate, facts.ref)
        source = "" if member is None or member.exists else member.place.source
        on = estate.host_of(source or facts.ref)
        return {"devices": found, "host": on.name if on and any(d.host_device for d in found) else None}

    def settle(self, target: Target, view: View) -> Self:
        """Keep the order that is there, and add what the devices imply."""
        now = view.state(target.ref, self.kind)
        have = (now.devices or ()) if now else ()
        wanted = have if self.devices is None or Counter(self.devices) == Counter(have) else self.devices
        on = view.estate.host_of(target.ref)
        fixed = any(d.host_device for d in wanted)
        return self.with_needs(target, view, devices=wanted, host=on.name if on and fixed else self.host)

    def gpu_memory_gb(self, vm: Target, view: View) -> int:
        """Count the GPUs with a large BAR among the devices; where the playbook leaves them open, among those there."""
        on, now = view.estate.host_of(vm.ref), view.state(vm.ref, self.kind)
        found = pci.devices(view.facts(on.ref)) if on else {}
        listed = self.devices if self.devices is not None or now is None else now.devices
        there = ((found.get(d.host_device or ""), d) for d in listed or ())
        return sum(window.of_device(*((f.vendor, f.device) if f else ids_of(d))) for f, d in there)

    def whole_devices(self, vm: Target, view: View) -> tuple[pci.Claim, ...]:
        """Return the devices listed, and those no playbook can state, which stay."""
        present = [d for d in passed_devices(view.facts(vm.ref)) if not d.get("deviceGroupInfo")]
        listed = [d for p in present if (d := stated_device(p))] if self.devices is None else self.devices
        _, removed, new = difference(listed, present, stated_device)
        claims = (*(pci.claim_of(d) for d in present if d not in removed), *map(claim_of, new))
        return tuple(c for c in claims if c is not None)

    def problems_on(self, host: Target, target: Target, view: View) -> Iterator[Problem]:
        """Devices the host does not have, does not pass through, or has given to another VM; versions and memory."""
        devices = self.devices or ()
        yield from self._vm_problems(target, view)
        now = view.get(PciDevices, target.ref)
        place = DevicePlace(target, view, host, (now.devices if now else None) or ())
        for address, count in Counter(d.host_device for d in devices if d.host_device).items():
            if count > 1:
                yield self.problem(target, "twice", f"{address} is listed {count} times", "a device is in a VM once")
            yield from fixed_problems(place, address)
        for model, count in Counter(d for d in devices if not d.host_device).items():
            yield from dynamic_problems(place, model, count)

    def _vm_problems(self, target: Target, view: View) -> Iterator[Problem]:
        version = hardware_version(target, view)
        most = passthrough_devices(version)
        if most is not None and len(self.devices or ()) > most:
            text = f"{len(self.devices or ())} devices are requested"
            yield self.problem(target, "count", text, f"name at most {most}, the limit of a VM of hardware {version}")
        if any(d.vendor for d in self.devices or ()):
            what = "a device by vendor and device id needs"
            for old in version_problems(target, view, "pci_devices.hardware-version", DYNAMIC_VERSION, what):
                yield replace(old, remedy=f"{old.remedy}, or name a host_device")
        yield from memory_problems(target, view, "pci_devices.memory", "a passthrough device needs")
        if self.firmware == "efi":
            yield from firmware_problems(target, view, "pci_devices.firmware", "this GPU needs")

    def remarks(self, target: Target, view: View) -> Iterator[str]:
        """Say what ties the VM to its host, and what a changed firmware does."""
        if self.host and view.is_planned(target.ref, self.kind):
            yield f"it can run on {self.host} only: neither vMotion nor a restart elsewhere by HA"
        if self.firmware == "efi":
            yield from firmware_notes(target, view, "this GPU needs")

    def steps(self, change: Change, view: View) -> Iterator[Step]:
        """One reconfigure: what stays keeps its key."""
        present = passed_devices(view.facts(change.target.ref))
        _, removed, added = difference(self.devices or (), present, stated_device)
        yield self.reconfigure(
            change,
            [DeviceEntry(str(stated_device(d)), (d,)) for d in removed],
            [
                DeviceEntry(str(d), ({"_typeName": DEVICE, "backing": backing_of(d, change.target, view)},))
                for d in added
            ],
        )

    def not_stated(self, target: Target, view: View) -> str:
        """Devices with a choice of models; those of a device group are of another kind."""
        present = [d for d in passed_devices(view.facts(target.ref)) if not d.get("deviceGroupInfo")]
        odd = sum(stated_device(d) is None for d in present)
        return f"pci_devices left out: {odd} with a choice of models" if odd else ""

    def implied_fields(self) -> Mapping[str, object]:
        """Without a device nothing ties the VM to a host."""
        return {} if self.devices else {"host": None}

    @property
    def is_bound(self) -> bool:
        """Whether there are devices, or they tie the VM to a host."""
        return bool(self.devices) or self.host is not None

    def runs_on(self, host: Target, view: View) -> bool:
        """Fixed devices tie the VM to its host, dynamic ones to hosts that pass enough of them through."""
        if self.host is not None and host.name != self.host:
            return False
        counted = Counter(d for d in self.devices or () if not d.host_device)
        return all(len(d.there(view.facts(host.ref))) >= n for d, n in counted.items())
