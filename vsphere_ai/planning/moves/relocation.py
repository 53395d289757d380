"""Relocation of VMs to other hosts for a time: whether a host takes a VM, and which parts of the host it gets.

Live moves carry vGPUs only (`vgpu.hotmigrate.enabled`); a VM with whole devices or SR-IOV adapters moves powered off,
and its devices then name parts of the other host. Source: vSphere Web Services API, VirtualMachine.MigrateVM_Task and
VirtualPCIPassthroughDeviceBackingInfo. That vCenter brings a VM with a fixed passthrough device to another host while
it is off, before the device names a part of that host, is unverified.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from vsphere_ai.admission.admit import admit, every_requirement
from vsphere_ai.admission.gpus import observed_profiles, question_of
from vsphere_ai.admission.machines import Machines
from vsphere_ai.admission.situation import Situation
from vsphere_ai.capacity.solve import solve
from vsphere_ai.capacity.verdict import Fit, GpuHosts, VmDemand
from vsphere_ai.compat.rules.driver import branch
from vsphere_ai.compat.vgpu_vmotion import hot_migration, why_not_carried
from vsphere_ai.fabric import pci
from vsphere_ai.fabric.api_types import VirtualDevice
from vsphere_ai.gpu.devices import found_gpus, is_vgpu
from vsphere_ai.model.deferred import Deferred, inside
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import DeviceChange
from vsphere_ai.model.view import View
from vsphere_ai.planning.moves.evacuation import PASSTHROUGH, SRIOV

DEVICES = "config.hardware.device"
PATHS = {
    "VirtualMachine": ("datastore", "disabledMethod", "guest.toolsRunningStatus", "snapshot"),
    "HostSystem": ("datastore",),
}
"""Properties that are looked at, beside those that arranging windows reads."""
ASKED = tuple(
    r for r in every_requirement() if r.id not in ("admission.gpu", "admission.devices", "admission.fixed-device")
)
RULES = ("admission.host-rule", "admission.vm-rule")
METHODS = {True: ("MigrateVM_Task",), False: ("MigrateVM_Task", "ReconfigVM_Task", "PowerOffVM_Task")}
"""Methods that a live move, and one of a VM that is powered off, call."""


@dataclass(frozen=True)
class Relocation:
    """A VM that goes from its host to another one, and what its devices name there (`devices`) and here (`back`).

    `gpus` are the PCI addresses of the GPUs that it is expected on.
    """

    vm: Target
    source: Target
    to: Target
    live: bool
    devices: tuple[DeviceChange, ...] = ()
    back: tuple[DeviceChange, ...] = ()
    gpus: tuple[str, ...] = ()


def why_not_moved(estate: Estate, vm: Target, *, live: bool) -> str:
    """Return why a VM is not moved to any host in this way, "" when nothing blocks it."""
    facts, source = estate[vm.ref], estate.host_of(vm.ref)
    if source is None or not estate.is_on(vm.ref):
        return "it does not run"
    if vm in estate.managed:
        return f"{estate.managed[vm]} looks after it"
    disabled = sorted({*METHODS[live]} & {*(facts.get("disabledMethod") or ())})
    if disabled:
        return f"vCenter has disabled {', '.join(disabled)} for it; wait until what did that, often a backup, has ended"
    if live:
        hot = not observed_profiles(facts) or hot_migration(estate)
        pinned = "" if hot else "it has a vGPU, and vgpu.hotmigrate.enabled is not set in vCenter"
        return next((why for d in _devices(facts) if (why := _why_pinned(d, estate[source.ref]))), pinned)
    if any(d.get("deviceGroupInfo") for d in _devices(facts)):
        return "it has a device group, of which it is not known whether another host has it free"
    if facts.get("guest.toolsRunningStatus") != "guestToolsRunning":
        return "it has to be powered off to be moved, and its VMware Tools do not run"
    return ""


def _why_pinned(device: VirtualDevice, source: Facts) -> str:
    if device["_typeName"] == SRIOV:
        return "it has an SR-IOV network adapter, which vMotion does not carry"
    if device["_typeName"] == PASSTHROUGH and not is_vgpu(device):
        return "it has a passthrough device, which vMotion does not carry"
    return why_not_carried(device, source)


def relocation(view: View, vm: Target, to: Target, *, live: bool, leaving: Collection[str] = ()) -> Relocation | str:
    """Return a VM's move to a host of its cluster, or why that host does not take it.

    `leaving` are references of VMs that have left that host by then.
    """
    estate = view.estate
    source = estate.host_of(vm.ref)
    if source is None:
        return "it is on no host"
    why = _why_not(estate, vm, source, to) or (_why_not_live(estate, vm, to) if live else "")
    why = why or _refused(view, vm, to, leaving, live=live)
    if why:
        return why
    gpus = _vgpu_places(view, vm, source, to, leaving)
    if isinstance(gpus, str):
        return gpus
    taken = _taken(estate, to, {vm.ref, *leaving})
    changes = _Devices(estate, vm, source, to, taken).changes()
    if isinstance(changes, str):
        return changes
    there, back = tuple(c for c, _ in changes), tuple(c for _, c in changes)
    whole = tuple(str(c["device"]["backing"]["id"]) for c in there if "backing" in c["device"])
    return Relocation(vm, source, to, live, there, back, gpus or whole)


def view_with(view: View, moved: Relocation) -> View:
    """Return a view in which a VM is on the host it has been moved to, on the GPUs it is expected on."""
    estate, ref, changed = view.estate, moved.vm.ref, []
    for host in (moved.source, moved.to):
        infos = estate[host.ref].get("config.graphicsInfo") or ()
        shown = tuple(
            {
                **g,
                "vm": (
                    *(r for r in g.get("vm") or () if r != ref),
                    *([ref] if host == moved.to and g["pciId"] in moved.gpus else []),
                ),
            }
            for g in infos
        )
        changed.append(estate[host.ref].having({"config.graphicsInfo": shown}))
    changed.append(estate[ref].having({"runtime.host": moved.to.ref}))
    return view.with_facts(changed)


def _why_not(estate: Estate, vm: Target, source: Target, to: Target) -> str:
    facts, host = estate[vm.ref], estate[to.ref]
    if to == source:
        return "it is on that host"
    if to not in estate.hosts_for(vm.ref):
        return "another cluster"
    if observed_profiles(facts):
        here, there = branch(estate[source.ref]), branch(host)
        if here != there:
            return f"NVIDIA host driver of branch {there or 'unknown'}, not {here or 'unknown'}"
    return ""


def _refused(view: View, vm: Target, to: Target, leaving: Collection[str], *, live: bool) -> str:
    """Return why a host does not take a VM, as it is, beside those that run there without `leaving`.

    Its GPUs and devices are looked at apart: a VM that is off gets those of the other host. A DRS rule of any strength
    is respected, as DRS might move the VM away again during the run.
    """
    situation = Situation.as_read(view, Machines(view)).copy()
    for ref in (vm.ref, *leaving):
        situation.leave(ref)
    machine = replace(situation.machines.present(vm.ref), tied_to="")
    answer = admit(machine, view.estate[to.ref], situation, "vmotion" if live else "power_on", ASKED)
    rules = (r for r in answer.reasons if r.verdict == "preferred" and r.rule in RULES)
    return "; ".join(r.message for r in (*answer.refusals, *rules))


def _why_not_live(estate: Estate, vm: Target, to: Target) -> str:
    return next((why for d in _devices(estate[vm.ref]) if (why := why_not_carried(d, estate[to.ref]))), "")


def _vgpu_places(view: View, vm: Target, source: Target, to: Target, leaving: Collection[str]) -> tuple[str, ...] | str:
    """Return the GPUs that a VM's vGPUs find on a host, or why they find none; empty for a VM without vGPUs."""
    estate = view.estate
    profiles = tuple(sorted(observed_profiles(estate[vm.ref])))
    if not profiles:
        return ()
    stay = frozenset(v.ref for v in estate.vms_on(to.ref) if estate.is_on(v.ref) and v.ref not in leaving)
    farm = question_of(view, stay, (to,)).farm
    if any(s.guessed for s in farm.slots):
        return "what stands on its GPUs is not known"
    mine = {d for pci_, d in _models(estate[source.ref]).items() if pci_ in _on_gpus(estate[source.ref], vm)}
    models = _models(estate[to.ref])
    able = tuple(s for s in farm.slots if not mine or models.get(s.pci) in mine)
    if not any(s.kind.takes(p) for s in able for p in profiles):
        return f"none of its GPUs gives {profiles[0]}" if able else "has no such GPU"
    answer = solve(GpuHosts(able, farm.policies), [VmDemand(vm.ref, profiles, frozenset({to.name}))])
    if not isinstance(answer, Fit) or answer.reordered:
        return f"no free place for {', '.join(profiles)}"
    return tuple(place.gpu for place in answer.assignment[vm.ref][1])


def _models(host: Facts) -> dict[str, str | int | None]:
    return {g.pci: g.device_id for g in found_gpus(host.get("hardware.pciDevice", ()))}


def _on_gpus(host: Facts, vm: Target) -> set[str]:
    return {g["pciId"] for g in host.get("config.graphicsInfo") or () if vm.ref in (g.get("vm") or ())}


def _taken(estate: Estate, host: Target, without: Collection[str]) -> set[str]:
    """Return the devices of a host that other running VMs have."""
    found = set()
    for vm in estate.vms_on(host.ref):
        if estate.is_on(vm.ref) and vm.ref not in without:
            claims = (pci.claim_of(d) for d in _devices(estate[vm.ref]))
            found |= {c.address for c in claims if c is not None and c.address}
    return found


class _Devices:
    """Devices of a VM that name a part of its host, or take one there when it powers on."""

    def __init__(self, estate: Estate, vm: Target, source: Target, to: Target, taken: set[str]) -> None:
        self._estate, self._vm, self._to, self._taken = estate, vm, to, taken
        self._here, self._there = pci.devices(estate[source.ref]), pci.devices(estate[to.ref])
        self._states = pci.passthroughs(estate[to.ref])

    def changes(self) -> list[tuple[DeviceChange, DeviceChange]] | str:
        """Return per device its change for the other host and the one back, or why the host does not do."""
        devices = [d for d in _devices(self._estate[self._vm.ref]) if not is_vgpu(d)]
        found: list[tuple[DeviceChange, DeviceChange]] = []
        for device in devices:
            claim = pci.claim_of(device)
            if claim is not None and device["backing"].get("_typeName") == pci.FIXED:
                own = self._here.get(claim.address)
                free = [a for a in self._free({(own.vendor, own.device)} if own else set())]
                if own is None or not free:
                    return f"has no free {own.name if own else 'device'} that is passed through"
                address = claim.address if claim.address in free else free[0]
                self._taken.add(address)
                found.append((self._edit(device, self._backing(address)), self._edit(device, device["backing"])))
        for device in devices:
            claim = pci.claim_of(device)
            if claim is not None and device["backing"].get("_typeName") == pci.DYNAMIC:
                free = [a for a in self._free(claim.models) if self._states[a].label == claim.label]
                if not free:
                    return "has no free device of the model that it takes"
                self._taken.add(free[0])
        return found

    def _free(self, models: Collection[tuple[int, int]]) -> list[str]:
        return [
            a
            for a, d in self._there.items()
            if (d.vendor, d.device) in models and a in self._states and self._states[a].active and a not in self._taken
        ]

    def _edit(self, device: VirtualDevice, backing: object) -> DeviceChange:
        changed = {"_typeName": device["_typeName"], "key": device["key"], "backing": backing}
        return {"_typeName": "VirtualDeviceConfigSpec", "operation": "edit", "device": changed}

    def _backing(self, address: str) -> dict[str, object]:
        there, center = self._there[address], self._estate.datacenter_of(self._vm.ref)
        path = inside("configTarget.pciPassthrough", ("pciDevice.id", address), "systemId")
        return {
            "_typeName": pci.FIXED,
            "id": address,
            "deviceName": there.name,
            "deviceId": f"{there.device:04x}",
            "vendorId": pci.signed(there.vendor),
            "systemId": Deferred(center.ref if center else "", "HostSystem", self._to.name, path),
        }


def _devices(facts: Facts) -> Iterator[VirtualDevice]:
    yield from facts.get(DEVICES) or ()
