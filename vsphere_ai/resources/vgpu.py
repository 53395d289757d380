"""vGPU profiles attached to a virtual machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

from pydantic import Field

from vsphere_ai.gpu import vgpu as names
from vsphere_ai.gpu import window
from vsphere_ai.gpu.catalog import Board
from vsphere_ai.gpu.devices import is_vgpu
from vsphere_ai.gpu.inventory import nvidia_gpus
from vsphere_ai.gpu.listed_board import boards_as_listed
from vsphere_ai.gpu.live import readable, why_unread
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.remedies import play_for, upgrade_for
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
    memory_problems,
)
from vsphere_ai.resources.base import Export, Form, Resource, Traits
from vsphere_ai.resources.mixins import Judged, VmDevices, vgpus_of

BACKING = "VirtualPCIPassthroughVmiopBackingInfo"
MAX_BEFORE_8 = 4  # vSphere 7.0: up to four vGPUs a VM, of one profile
SHARED_INSTANCES_ESXI, SHARED_INSTANCES_DRIVER = (9, 0, 1), 580  # time-sliced vGPUs in a GPU instance: vGPU 19
MULTI_VGPU_VERSION = 15  # several vGPUs in one VM need compatibility ESXi 6.7 U2


class Vgpu(VmDevices, Judged, Resource):
    """Gives a VM vGPUs, exactly the listed profiles, each as often as it is listed.

    What a vGPU needs follows by itself: all memory reserved, EFI firmware, the 64-bit MMIO keys with a window that is
    large enough. One reconfigure in one power cycle; the VM's other devices keep their keys and addresses.
    """

    kind = "vgpu"
    target = "vm"
    shorthand = "profiles"
    traits = Traits(
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
            yield Problem(target, "vgpu.host-unknown", "the host of this VM cannot be read")
            return
        for profile in wanted:
            if not offers(host.ref, profile, view):
                yield Problem(
                    target, "vgpu.profile", f"{host.name} will not offer {profile}", _why(target, host, profile, view)
                )
        yield from self._count_problems(target, view, wanted)
        yield from _contradictions(target, view)

    def _count_problems(self, target: Target, view: View, wanted: Counter[str]) -> Iterator[Problem]:
        total = sum(wanted.values())
        if total > 1 and view.estate.about.api_numbers < (8,):
            if total > MAX_BEFORE_8:
                yield Problem(target, "vgpu.count", f"{total} vGPUs; vSphere 7.0 allows {MAX_BEFORE_8} in a VM")
            if len(wanted) > 1:
                yield Problem(
                    target,
                    "vgpu.mixed",
                    "vSphere 7.0 wants all vGPUs of a VM to have the same profile",
                    f"given: {', '.join(sorted(wanted))}",
                )
            host = view.estate.host_of(target.ref)
            partial = sorted(p for p in wanted if not _whole(p, host, view))
            if partial:
                yield Problem(
                    target,
                    "vgpu.partial",
                    f"vSphere 7.0 gives a VM several vGPUs only of whole GPUs, not {', '.join(partial)}",
                    "use profiles with the GPU's full framebuffer, or vSphere 8.0",
                )
        version = getattr(view.state(target.ref, "hardware"), "version", None)
        if total > 1 and version is not None and version < MULTI_VGPU_VERSION:
            yield Problem(
                target,
                "vgpu.hardware-version",
                f"hardware version {version}; several vGPUs need {MULTI_VGPU_VERSION}",
                upgrade_for(target, view, MULTI_VGPU_VERSION),
            )
        boards = {p.board for p in map(_parsed, wanted) if p}
        if len(boards) > 1:
            yield Problem(target, "vgpu.boards", f"vGPUs of one VM come from one type of board, not {sorted(boards)}")

    def notes(self, target: Target, view: View) -> Iterator[str]:
        """What an operator wants to know before approving."""
        if self.profiles:
            yield from firmware_notes(target, view, "vGPUs need")
        yield from self._unread(target, view)

    def _unread(self, target: Target, view: View) -> Iterator[str]:
        """Whether a MIG-backed vGPU finds room depends on what stands on the GPUs, which only nvidia-smi tells."""
        host = view.estate.host_of(target.ref)
        mig = [p for p in dict.fromkeys(self.profiles or ()) if (parsed := _parsed(p)) and parsed.is_mig]
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


def offers(host: str, profile: str, view: View) -> bool:
    """Tell whether a host offers a profile once this plan is carried out.

    The host's own list is the truth; it is predicted, GPU by GPU, only when this plan changes what decides it.
    """
    facts = view.facts(host)
    if not _is_changed(host, view):
        return profile in {t.lower() for t in facts.get("config.sharedPassthruGpuTypes", ())}
    parsed = _parsed(profile)
    return parsed is not None and any(
        _gpu_offers(host, pci, listed.board, parsed, view) for pci, listed in boards_as_listed(facts).items()
    )


def _is_changed(host: str, view: View) -> bool:
    """Tell whether this plan changes what decides a host's list: graphics type or MIG mode, also by a reboot alone."""
    if view.is_planned(host, "graphics") or view.is_planned(host, "mig"):
        return True
    gpus = getattr(view.state(host, "mig"), "gpus", None) or {}
    lost = any(gpu.mode != "enabled" for gpu in gpus.values()) and _lists_mig(view.facts(host))
    return host in view.rebooting and lost  # Hopper boards and later come back with MIG off


def _gpu_offers(host: str, pci: str, board: Board | None, profile: names.VgpuProfile, view: View) -> bool:
    graphics, mig = view.state(host, "graphics"), view.state(host, "mig")
    if board is None or graphics is None or (graphics.gpus or {}).get(pci) != "shared_direct":
        return False
    if profile.stem not in board.vgpu_names:
        return False
    gpu = (mig.gpus or {}).get(pci) if mig is not None else None
    divided = gpu.mode == "enabled" if gpu else _lists_mig(view.facts(host))
    listed = profile.name in {t.lower() for t in view.facts(host).get("config.sharedPassthruGpuTypes", ())}
    if profile.is_mig:
        return (
            divided and names.mig_profile(board, profile) is not None and (listed or not _too_old(host, profile, view))
        )
    return not divided and (listed or names.time_sliced(board, profile))


def _too_old(host: str, profile: names.VgpuProfile, view: View) -> str:
    """Return what is too old for a time-sliced vGPU in a shared GPU instance; empty when nothing is."""
    facts = view.facts(host)
    if not any(e.board and names.share_of(e.board, profile) for e in boards_as_listed(facts).values()):
        return ""
    version = (facts.get("config.product") or {}).get("version", "")
    numbers = tuple(int(n) for n in version.split(".") if n.isdigit())
    if numbers and numbers < SHARED_INSTANCES_ESXI:
        return f"ESXi {version}"
    drivers = [major for gpu in readable(facts).gpus if (major := gpu.driver_major) is not None]
    return f"driver R{min(drivers)}" if drivers and min(drivers) < SHARED_INSTANCES_DRIVER else ""


def _lists_mig(facts: Facts) -> bool:
    parsed = [_parsed(t.lower()) for t in facts.get("config.sharedPassthruGpuTypes", ())]
    return any(p is not None and p.is_mig for p in parsed)


def _why(vm: Target, host: Target, profile: str, view: View) -> str:
    parsed = _parsed(profile)
    if parsed is None:
        return "a profile is spelled like grid_a100-3-20c or nvidia_h100-40c"
    listed = sorted(t.lower() for t in view.facts(host.ref).get("config.sharedPassthruGpuTypes", ()))
    planned = _is_changed(host.ref, view)
    if listed and not planned:
        right = sorted(t for t in listed if (p := _parsed(t)) and p.ending == parsed.ending)
        return f"{f'write {right[0]}; ' if right else ''}it lists {', '.join(listed)}"
    if not nvidia_gpus(view.facts(host.ref)) and not boards_as_listed(view.facts(host.ref)):
        return f"{host.name} has no NVIDIA GPU: {_elsewhere(vm, host, profile, view)}"
    if not listed and not planned:
        return f"it lists no profiles: {play_for(host, view, 'graphics: {default_type: shared_direct}')}"
    here = list(_boards(host, view))
    if not any(parsed.stem in b.vgpu_names for b in here):
        return _misnamed(host, parsed, here)
    old = _too_old(host.ref, parsed, view)
    if old:
        needs = f"ESXi {'.'.join(map(str, SHARED_INSTANCES_ESXI))} and driver R{SHARED_INSTANCES_DRIVER} (vGPU 19)"
        return f"several vGPUs in one GPU instance need {needs}; {host.name} has {old}"
    own = [b for b in here if parsed.stem in b.vgpu_names]
    if not any(names.renamed(parsed, b) for b in own):
        return f"{own[0].title} has no such type: vsphere-ai vgpu list {own[0].key}"
    divided = "MIG mode enabled" if parsed.is_mig else "MIG mode disabled"
    how = play_for(host, view, f"mig: {{mode: {'enabled' if parsed.is_mig else 'disabled'}}}")
    return f"{profile} needs a {parsed.board} GPU in shared direct mode with {divided}; {how}"


def _elsewhere(vm: Target, host: Target, profile: str, view: View) -> str:
    others = [h for h in view.estate.hosts_for(vm.ref) if h != host]
    offering = [h.name for h in others if offers(h.ref, profile, view)]
    fitted = offering or [h.name for h in others if nvidia_gpus(view.facts(h.ref))]
    if not fitted:
        return "no other host of its cluster has one, either"
    return f"move {vm.name} to a host that {'offers it' if offering else 'has one'}: {', '.join(fitted)}"


def _misnamed(host: Target, wanted: names.VgpuProfile, here: Sequence[Board]) -> str:
    """Say what the type is called on the GPUs of the host: vSphere names types by product, not by family."""
    for board in here:
        right = names.renamed(wanted, board)
        if right:
            title = ", ".join(p.name for p in board.products) or board.title
            return f"write {' or '.join(right)}: its GPUs are {title}"
    unnamed = [b.title for b in here if not b.vgpu_names]
    if unnamed and names.board_of(wanted) is None:
        return f"vGPU names of {unnamed[0]} are not published: apply the play for {host.name}, then it lists its own"
    known = dict.fromkeys(name for b in here for name in b.vgpu_names)
    if not known:
        return f"no GPU of {host.name} is known to have vGPU types"
    begin = " or ".join(f"{name}-" for name in known)
    return f"the types of its GPUs begin with {begin}: vsphere-ai vgpu list {next(b.key for b in here if b.vgpu_names)}"


def _boards(host: Target, view: View) -> Iterator[Board]:
    return (listed.board for listed in boards_as_listed(view.facts(host.ref)).values() if listed.board)


def _contradictions(target: Target, view: View) -> Iterator[Problem]:
    """Two settings of one play that would undo each other at every run."""
    yield from memory_problems(target, view, "vgpu.memory", "a vGPU needs")
    firmware = getattr(view.state(target.ref, "hardware"), "firmware", None)
    if firmware == "bios" != view.facts(target.ref).get("config.firmware"):
        yield Problem(
            target,
            "vgpu.firmware",
            "hardware sets firmware bios, a vGPU needs efi",
            "write hardware: {firmware: efi}, or leave it out",
        )


def _parsed(name: str) -> names.VgpuProfile | None:
    try:
        return names.parse(name)
    except names.VgpuNameError:
        return None


def _board_of(profile: names.VgpuProfile, host: Target | None, view: View) -> Board | None:
    """Return the board behind a vGPU name: the catalogue's, else the one whose names the VM's host lists."""
    listed = _boards(host, view) if host else iter(())
    return next((b for b in listed if profile.stem in b.vgpu_names), None) or names.board_of(profile)


def _whole(name: str, host: Target | None, view: View) -> bool:
    """Tell whether a profile has its board's full framebuffer; one of a board nobody knows gets the doubt."""
    profile = _parsed(name)
    board = _board_of(profile, host, view) if profile else None
    return profile is None or board is None or profile.fb_gb >= board.memory_gb


def _is_on(facts: Facts) -> bool:
    return bool(facts.get("runtime.powerState") == "poweredOn")


def _is_vgpu(device: Mapping[str, Any]) -> bool:
    """Tell whether a device is a vGPU of the VM's own; members of a device group come and go with their group."""
    if device.get("deviceGroupInfo"):
        return False
    backing = device.get("backing") or {}
    return bool(backing.get("_typeName") == BACKING and backing.get("vgpu"))


def _uvm_key(index: int) -> str:
    return f"pciPassthru{index}.cfg.enable_uvm"
