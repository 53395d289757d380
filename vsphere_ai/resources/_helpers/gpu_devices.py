"""GPU devices of a VM as a list: what vGPUs, whole PCI devices and device groups do alike."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import ClassVar, NamedTuple, Self, TypeVar

from vsphere_ai.fabric.api_types import VirtualDevice
from vsphere_ai.gpu.vgpus import vgpu as names
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.finding import Problem
from vsphere_ai.model.privilege import Duty
from vsphere_ai.model.state import Change, Target
from vsphere_ai.model.steps import Reconfigure
from vsphere_ai.model.view import View
from vsphere_ai.resources._helpers.vm_devices import device_change
from vsphere_ai.resources._helpers.vm_settings import gpu_memory_of, window_keys, window_seen
from vsphere_ai.resources.base import Form, Resource, StateExport
from vsphere_ai.resources.mixins import Judged, VmDevices

DEVICES = "config.hardware.device"
VM_PROPERTIES = (DEVICES, "config.extraConfig", "config.firmware", "config.memoryReservationLockedToMax")
VM_SETTINGS = {"pciPassthru*": "vgpu, pci_devices, device_groups and gpudirect set it"}
"""Settings of the GPU devices of a VM; those of one device begin with its number, as ``pciPassthru0.``."""
P = TypeVar("P")
W = TypeVar("W", bound=Hashable)


class DeviceEntry(NamedTuple):
    """An entry of the list that is added or removed: its name for the operator, and its devices."""

    name: str
    devices: tuple[Mapping[str, object] | VirtualDevice, ...]


def difference(
    wanted: Iterable[W], present: Iterable[P], entry_of: Callable[[P], W | None]
) -> tuple[list[P], list[P], list[W]]:
    """Return of what is present what stays and what goes, and the entries that are missing.

    `entry_of` gives what a present one is in the list; one that cannot be in a list (None) neither stays nor goes. Of
    two alike the first stays.
    """
    missing = Counter(wanted)
    kept: list[P] = []
    removed: list[P] = []
    for each in present:
        entry = entry_of(each)
        if entry is not None:
            (kept if missing[entry] > 0 else removed).append(each)
            missing[entry] -= 1
    return kept, removed, list((+missing).elements())


def duty_of(kind: str, *spec: str) -> Duty:
    """Return the privileges that the reconfigure of a kind takes; `spec`: fields besides memory and firmware."""
    fields = (*spec, "memoryReservationLockedToMax", "firmware")
    return Duty(f"`{kind}`", "VMs", (), fields, ("add", "remove"), extra_config=True)


IMPLIED = {"config.memoryReservationLockedToMax": "memory_locked", "config.firmware": "firmware"}
"""Property path -> the field of each of these kinds that says what it becomes."""


class GpuDevices(VmDevices, Judged, Resource):
    """A kind that gives a VM exactly the listed GPU devices, in one reconfigure with the settings that they need.

    Fields besides the list are `memory_locked`, `firmware`, `mmio_64bit` and `mmio_size_gb`.
    """

    target = "vm"
    called: ClassVar[str]
    """What the list is called in a step."""
    entry: ClassVar[str]
    """What one entry is called, with its article."""

    @classmethod
    @abstractmethod
    def found(cls, facts: Facts, estate: Estate) -> Mapping[str, object]:
        """Return the fields that are read from the devices of a VM."""

    @abstractmethod
    def problems_on(self, host: Target, target: Target, view: View) -> Iterator[Problem]:
        """Yield the problems of a list that is not empty, on the host of the VM."""

    def mmio_window_gb(self) -> int:
        """The window that all GPUs of the VM need, where it is on."""
        own = vars(self)
        return own.get("mmio_size_gb") or 0 if own.get("mmio_64bit") else 0

    def not_stated(self, target: Target, view: View) -> str:
        """Say what of the VM's devices a playbook cannot state."""
        return ""

    @classmethod
    def observe(cls, facts: Facts, estate: Estate) -> Self | None:
        """Read the devices, and the settings of GPUs: memory, firmware, MMIO window."""
        if facts.get(DEVICES) is None:
            return None
        locked = bool(facts.get("config.memoryReservationLockedToMax"))
        settings = {"memory_locked": locked, "firmware": facts.get("config.firmware"), **window_seen(facts)}
        return cls.model_construct(None, **cls.found(facts, estate), **settings)

    def with_needs(self, vm: Target, view: View, *, large_bar: bool | None = None, **fields: object) -> Self:
        """Return the state with `fields`, its list among them, and with the settings that the list needs.

        GPUs with a large BAR (`large_bar`; None: if this state adds GPU memory) need EFI, and a window for all GPUs of
        the VM. A larger window stays: others may have asked for it.
        """
        settled = self.model_copy(update={**fields, "memory_locked": True if fields[self.shorthand] else None})
        if not (settled.gpu_memory_gb(vm, view) if large_bar is None else large_bar):
            return settled
        before = window_seen(view.facts(vm.ref))["mmio_size_gb"] or 0
        size = names.mmio_size_gb(max(1, gpu_memory_of(vm, view, settled, self.kind)))  # unreadable profiles count 0
        return settled.model_copy(update={"firmware": "efi", "mmio_64bit": True, "mmio_size_gb": max(size, before)})

    def problems(self, target: Target, view: View) -> Iterator[Problem]:
        """An empty list is always possible; any other needs a host that is known."""
        if not getattr(self, self.shorthand):
            return
        host = view.estate.host_of(target.ref)
        if host is None:
            yield self.problem(
                target,
                "host-unknown",
                "the host of this VM cannot be read",
                "connect its host to vCenter, or give the account System.Read there",
            )
        else:
            yield from self.problems_on(host, target, view)

    def export(self, target: Target, view: View, form: Form) -> StateExport:
        """Most VMs have no such device."""
        left_out = self.not_stated(target, view) if form == "playbook" else ""
        return StateExport(self if getattr(self, self.shorthand) or form == "shown" else None, left_out)

    def reconfigure(
        self,
        change: Change,
        removed: Iterable[DeviceEntry],
        added: Iterable[DeviceEntry],
        *,
        spec: Mapping[str, object] | None = None,
        extra: Iterable[tuple[str, str]] = (),
    ) -> Reconfigure:
        """Return the one reconfigure: devices that stay keep their key. `spec` and `extra` are what else is set."""
        removed, added = tuple(removed), tuple(added)
        words = [*(f"remove {p.name}" for p in removed), *(f"add {p.name}" for p in added)]
        fields = {f.name for f in change.fields}
        memory = {"memoryReservationLockedToMax": True} if "memory_locked" in fields else {}
        firmware = {"firmware": change.after.firmware} if "firmware" in fields else {}
        return Reconfigure(
            target=change.target,
            kinds=(self.kind,),
            needs_power_off=True,
            device_changes=(
                *(device_change("remove", d) for p in removed for d in p.devices),
                *(device_change("add", d) for p in added for d in p.devices),
            ),
            spec={**(spec or {}), **memory, **firmware},
            extra_config=(*window_keys(change).items(), *extra),
            summary=f"{self.called}: {', '.join(words) or f'settings {self.entry} needs'}",
        )
