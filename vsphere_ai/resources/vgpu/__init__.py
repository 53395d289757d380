"""vGPU profiles attached to a virtual machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Self

from pydantic import Field

from vsphere_ai.gpu import window
from vsphere_ai.gpu.devices import is_vgpu
from vsphere_ai.gpu.live import why_unread
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.state import Change, Problem, Target, observed
from vsphere_ai.model.steps import Step
from vsphere_ai.model.view import View
from vsphere_ai.resources._helpers.vm_devices import device_change
from vsphere_ai.resources._helpers.vm_settings import (
    advanced_settings,
    firmware_notes,
    gpu_reconfigure,
    gpu_settings_seen,
    large_bar_settings,
)
from vsphere_ai.resources.base import Export, Form, Resource, Traits
from vsphere_ai.resources.mixins import Judged, VmDevices, vgpus_of
from vsphere_ai.resources.vgpu.checks import contradictions, count_problems
from vsphere_ai.resources.vgpu.offer import offers, parsed_name, why_not

BACKING = "VirtualPCIPassthroughVmiopBackingInfo"


class Vgpu(VmDevices, Judged, Resource):
    """Gives a VM vGPUs, exactly the listed profiles, each as often as it is listed.

    What a vGPU needs follows by itself: all memory reserved, EFI firmware, the 64-bit MMIO keys with a window that is
    large enough. One reconfigure in one power cycle; the VM's other devices keep their keys and addresses.
    """

    kind = "vgpu"
    target = "vm"
    shorthand = "profiles"
    traits = Traits(
        decides={"config.hardware.device": "profiles", "config.extraConfig": "uvm"},
        after=("graphics", "mig", "hardware"),
        properties={
            "VirtualMachine": (
                "config.hardware.device",
                "config.extraConfig",
                "config.firmware",
                "config.memoryReservationLockedToMax",
            ),
            "HostSystem": ("config.sharedPassthruGpuTypes", "config.graphicsInfo", "hardware.pciDevice"),
        },
    )

    profiles: tuple[str, ...] | None = Field(
        default=None, description="vGPU profile names as the host lists them, e.g. `grid_a100-3-20c`; `[]` removes all."
    )
    uvm: bool | None = Field(
        default=None, description="Unified memory, debugger and profiler for CUDA, for every vGPU of the VM."
    )
    memory_locked: bool | None = observed("All guest memory is reserved.")
    firmware: str | None = observed("Boot firmware.")
    mmio_64bit: bool | None = observed(f"`{window.MMIO_KEY}`.")
    mmio_size_gb: int | None = observed(
        f"`{window.MMIO_SIZE_KEY}`: memory of all GPUs of the VM, rounded up to a power of two, doubled."
    )

    @classmethod
    def is_fit(cls, facts: Facts) -> bool:
        """A VM with vGPUs."""
        return any(is_vgpu(d) for d in facts.get("config.hardware.device", ()))

    @classmethod
    def observe(cls, facts: Facts, estate: Estate) -> Self | None:
        """Read the vGPU devices and the settings that go with them."""
        devices = facts.get("config.hardware.device")
        if devices is None:
            return None
        extra = advanced_settings(facts)
        profiles = [d["backing"]["vgpu"].lower() for d in devices if _is_vgpu(d)]
        on = [extra.get(_uvm_key(i)) == "1" for i in range(sum(map(is_vgpu, devices)))]  # those of groups count too
        return cls.model_construct(
            profiles=tuple(sorted(profiles)),
            uvm=all(on) if len(set(on)) == 1 else None if on else False,  # None: on for some of its vGPUs only
            **gpu_settings_seen(facts),
        )

    def settle(self, target: Target, view: View) -> Self:
        """Sort the profiles (their order means nothing) and add what they imply."""
        now = view.state(target.ref, self.kind)
        profiles = now.profiles if self.profiles is None and now else self.profiles or ()
        wanted = tuple(sorted(p.lower() for p in profiles))
        if not wanted:
            return self.model_copy(update={"profiles": wanted, "uvm": None})
        settled = self.model_copy(update={"profiles": wanted})
        return settled.model_copy(
            update={"memory_locked": True, **large_bar_settings(target, view, settled, self.kind)}
        )

    def problems(self, target: Target, view: View) -> Iterator[Problem]:
        """Unknown profiles, profiles the VM's host will not offer, and how many one VM may have."""
        wanted = Counter(self.profiles or ())
        if not wanted:
            return
        host = view.estate.host_of(target.ref)
        if host is None:
            yield self.problem(target, "host-unknown", "the host of this VM cannot be read")
            return
        for profile in wanted:
            if not offers(host.ref, profile, view):
                yield self.problem(
                    target, "profile", f"{host.name} will not offer {profile}", why_not(target, host, profile, view)
                )
        yield from count_problems(target, view, wanted)
        yield from contradictions(target, view)

    def notes(self, target: Target, view: View) -> Iterator[str]:
        """What an operator wants to know before approving."""
        if self.profiles:
            yield from firmware_notes(target, view, "vGPUs need")
        yield from self._unread(target, view)

    def _unread(self, target: Target, view: View) -> Iterator[str]:
        """Whether a MIG-backed vGPU finds room depends on what stands on the GPUs, which only nvidia-smi shows."""
        host = view.estate.host_of(target.ref)
        mig = [p for p in dict.fromkeys(self.profiles or ()) if (parsed := parsed_name(p)) and parsed.is_mig]
        starts = view.is_planned(target.ref, self.kind) or not _is_on(view.facts(target.ref))
        if not mig or host is None or host.ref in view.rebooting or not starts:
            return
        why = why_unread(view.facts(host.ref))
        if why:
            yield (
                f"the GPU instances of {host.name} are not known ({why}): "
                f"room for {', '.join(mig)} there is assumed where vSphere usually makes instances"
            )

    def steps(self, change: Change, view: View) -> Iterator[Step]:
        """One reconfigure: devices that stay keep their key, a changed profile is one out and one in."""
        facts = view.facts(change.target.ref)
        devices = [d for d in facts.get("config.hardware.device", ()) if _is_vgpu(d)]
        missing = Counter(self.profiles or ())
        removed = []
        for device in devices:
            name = device["backing"]["vgpu"].lower()
            if missing[name]:
                missing[name] -= 1
            else:
                removed.append(device)
        added = sorted(missing.elements())
        changes = [device_change("remove", d) for d in removed]
        changes += [
            device_change("add", {"_typeName": "VirtualPCIPassthrough", "backing": {"_typeName": BACKING, "vgpu": p}})
            for p in added
        ]
        words = [f"remove {d['backing']['vgpu']}" for d in removed] + [f"add {p}" for p in added]
        yield gpu_reconfigure(
            change,
            "vGPU: " + (", ".join(words) or "settings a vGPU needs"),
            changes,
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

    def export(self, target: Target, view: View, form: Form) -> Export:
        """Most VMs have no vGPU."""
        return Export(self if self.profiles or form == "shown" else None)

    def vgpus(self, vm: Target, view: View) -> tuple[str, ...]:
        """Those of the list; where the playbook leaves it open, those that are there."""
        now = view.state(vm.ref, self.kind)
        listed = self.profiles if self.profiles is not None or now is None else now.profiles
        return tuple(p.lower() for p in listed or ())

    def gpu_memory_gb(self, vm: Target, view: View) -> int:
        """Each vGPU shows the large BAR of its whole board."""
        host = view.estate.host_of(vm.ref)
        return sum(window.of_vgpu(p, view.facts(host.ref) if host else None) for p in self.vgpus(vm, view))

    def runs_on(self, host: Target, view: View) -> bool:
        """A VM with vGPUs runs where every one of its profiles is offered."""
        return all(offers(host.ref, p, view) for p in self.profiles or ())


def _is_on(facts: Facts) -> bool:
    return bool(facts.get("runtime.powerState") == "poweredOn")


def _is_vgpu(device: Mapping[str, Any]) -> bool:
    """Return whether a device is a vGPU of the VM's own; members of a device group come and go with their group."""
    if device.get("deviceGroupInfo"):
        return False
    backing = device.get("backing") or {}
    return bool(backing.get("_typeName") == BACKING and backing.get("vgpu"))


def _uvm_key(index: int) -> str:
    return f"pciPassthru{index}.cfg.enable_uvm"
