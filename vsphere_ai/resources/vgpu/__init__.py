"""vGPU profiles attached to a virtual machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Self

from vsphere_ai.fabric.api_types import VirtualDevice
from vsphere_ai.gpu.corrections import UnifiedMemory, VgpuProfiles
from vsphere_ai.gpu.devices import VGPU_BACKING, is_vgpu
from vsphere_ai.gpu.smi.live import why_unread
from vsphere_ai.gpu.vgpus import window
from vsphere_ai.model.estate.correction import Correction
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.finding import Problem
from vsphere_ai.model.plain import Plain
from vsphere_ai.model.state import Change, KindName, Target, observed, setting
from vsphere_ai.model.steps import Step
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
from vsphere_ai.resources._helpers.vm_settings import advanced_settings, firmware_notes
from vsphere_ai.resources.base import Traits, kind_names
from vsphere_ai.resources.corrections import Corrects
from vsphere_ai.resources.mixins import vgpus_of
from vsphere_ai.resources.topics import Topic
from vsphere_ai.resources.vgpu.checks import contradictions, count_problems
from vsphere_ai.resources.vgpu.offer import offers, parsed_name, why_not


class Vgpu(Corrects, GpuDevices):
    """Gives a VM vGPUs, exactly the listed profiles, each as often as it is listed.

    What a vGPU needs follows by itself: all memory reserved, EFI firmware, the 64-bit MMIO keys with a window that is
    large enough. One reconfigure in one power cycle; the VM's other devices keep their keys and addresses.
    """

    kind = KindName("vgpu")
    shorthand = "profiles"
    called, entry = "vGPU", "a vGPU"
    traits = Traits(
        duties=(duty_of("vgpu"),),
        topics=Topic.VGPU,
        implies=IMPLIED,
        decides={"config.hardware.device": "profiles", "config.extraConfig": "uvm"},
        vm_settings=VM_SETTINGS,
        after=kind_names("graphics", "mig", "hardware"),
        properties={
            "VirtualMachine": VM_PROPERTIES,
            "HostSystem": ("config.sharedPassthruGpuTypes", "config.graphicsInfo", "hardware.pciDevice"),
        },
    )

    profiles: tuple[str, ...] | None = setting(
        "vGPU profile names as the host lists them, e.g. `grid_a100-3-20c`; `[]` removes all."
    )
    uvm: bool | None = setting("Unified memory, debugger and profiler for CUDA, for every vGPU of the VM.")
    memory_locked: bool | None = observed("All guest memory is reserved.")
    firmware: str | None = observed("Boot firmware.")
    mmio_64bit: bool | None = observed(f"`{window.MMIO_KEY}`.")
    mmio_size_gb: int | None = observed(
        f"`{window.MMIO_SIZE_KEY}`: memory of all GPUs of the VM, rounded up to a power of two, doubled."
    )

    @classmethod
    def correcting(cls, corrections: Sequence[Correction]) -> Plain:
        """The profiles of its vGPUs, and whether they have unified memory; profiles alone are a list."""
        profiles = [name for c in corrections if isinstance(c, VgpuProfiles) for name in c.profiles]
        memory = [c.is_on for c in corrections if isinstance(c, UnifiedMemory)]
        if not memory:
            return tuple(profiles)
        return {**({"profiles": tuple(profiles)} if profiles else {}), "uvm": memory[-1]}

    @classmethod
    def is_fit(cls, facts: Facts) -> bool:
        """A VM with vGPUs."""
        return any(is_vgpu(d) for d in facts.get(DEVICES, ()))

    @classmethod
    def found(cls, facts: Facts, estate: Estate) -> Mapping[str, object]:
        """Read the profiles, and whether unified memory is on; None: for some of the vGPUs only."""
        devices, extra = facts.get(DEVICES, ()), advanced_settings(facts)
        on = {extra.get(_uvm_key(i)) == "1" for i in range(sum(map(is_vgpu, devices)))}  # those of groups count too
        return {"profiles": tuple(sorted(map(_profile, _own(facts)))), "uvm": on == {True} if len(on) < 2 else None}

    def settle(self, target: Target, view: View) -> Self:
        """Sort the profiles (their order does not matter) and add what they imply."""
        now = view.state(target.ref, self.kind)
        profiles = now.profiles if self.profiles is None and now else self.profiles or ()
        wanted = tuple(sorted(p.lower() for p in profiles))
        if not wanted:
            return self.model_copy(update={"profiles": wanted, "uvm": None})
        return self.with_needs(target, view, large_bar=True, profiles=wanted)

    def problems_on(self, host: Target, target: Target, view: View) -> Iterator[Problem]:
        """Unknown profiles, profiles that the VM's host does not support, and how many one VM may have."""
        wanted = Counter(self.profiles or ())
        for profile in wanted:
            if not offers(host.ref, profile, view):
                message, help_ = (
                    f"{host.name} does not support vGPU profile {profile}",
                    why_not(target, host, profile, view),
                )
                yield self.problem(target, "profile", message, help_)
        yield from count_problems(target, view, wanted)
        yield from contradictions(target, view)

    def remarks(self, target: Target, view: View) -> Iterator[str]:
        """What an operator wants to know before approving."""
        if self.profiles:
            yield from firmware_notes(target, view, "vGPUs need")
        yield from self._unread(target, view)

    def _unread(self, target: Target, view: View) -> Iterator[str]:
        """Whether a MIG-backed vGPU finds room depends on what stands on the GPUs, which only nvidia-smi shows."""
        host = view.estate.host_of(target.ref)
        mig = [p for p in dict.fromkeys(self.profiles or ()) if (parsed := parsed_name(p)) and parsed.is_mig]
        is_on = view.facts(target.ref).get("runtime.powerState") == "poweredOn"
        starts = view.is_planned(target.ref, self.kind) or not is_on
        if not mig or host is None or host.ref in view.rebooting or not starts:
            return
        why = why_unread(view.facts(host.ref))
        if why:
            yield (
                f"the GPU instances of {host.name} are not known ({why}): "
                f"room for {', '.join(mig)} there is assumed where vSphere usually makes instances"
            )

    def steps(self, change: Change, view: View) -> Iterator[Step]:
        """A changed profile is one out and one in."""
        facts = view.facts(change.target.ref)
        _, removed, added = difference(self.profiles or (), _own(facts), _profile)
        yield self.reconfigure(
            change,
            [DeviceEntry(d["backing"]["vgpu"], (d,)) for d in removed],
            [DeviceEntry(p, (_device(p),)) for p in sorted(added)],
            extra=self._uvm_keys(facts, len(vgpus_of(change.target, view))),
        )

    def _uvm_keys(self, facts: Facts, vgpus: int) -> Iterator[tuple[str, str]]:
        if self.uvm is None:
            return
        have = advanced_settings(facts)
        for index in range(vgpus):
            value = "1" if self.uvm else ""  # an empty value removes the key
            if have.get(_uvm_key(index), "") != value:
                yield _uvm_key(index), value

    def vgpus(self, vm: Target, view: View) -> tuple[str, ...]:
        """Those of the list; where the playbook leaves it open, those that are there."""
        now = view.state(vm.ref, self.kind)
        listed = self.profiles if self.profiles is not None or now is None else now.profiles
        return tuple(p.lower() for p in listed or ())

    def gpu_memory_gb(self, vm: Target, view: View) -> int:
        """Each vGPU shows the large BAR of its whole board."""
        host = view.estate.host_of(vm.ref)
        return sum(window.of_vgpu(p, view.facts(host.ref) if host else None) for p in self.vgpus(vm, view))

    @property
    def is_bound(self) -> bool:
        """Whether there are profiles."""
        return bool(self.profiles)

    def runs_on(self, host: Target, view: View) -> bool:
        """A VM with vGPUs runs where every one of its profiles is offered."""
        return all(offers(host.ref, p, view) for p in self.profiles or ())


def _own(facts: Facts) -> list[VirtualDevice]:
    """Return the vGPUs of the VM's own; members of a device group come and go with their group."""
    devices: tuple[VirtualDevice, ...] = facts.get(DEVICES, ())
    return [d for d in devices if is_vgpu(d) and d["backing"].get("vgpu") and not d.get("deviceGroupInfo")]


def _device(profile: str) -> VirtualDevice:
    return {"_typeName": "VirtualPCIPassthrough", "backing": {"_typeName": VGPU_BACKING, "vgpu": profile}}


def _profile(device: VirtualDevice) -> str:
    return device["backing"]["vgpu"].lower()


def _uvm_key(index: int) -> str:
    return f"pciPassthru{index}.cfg.enable_uvm"
