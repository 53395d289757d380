"""DirectPath I/O: which PCI devices of a host are given to VMs as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any, Self

from pydantic import Field

from vsphere_ai.fabric import pci
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.privilege import Duty
from vsphere_ai.model.state import Change, Problem, Target
from vsphere_ai.model.steps import Invoke, Step
from vsphere_ai.model.view import View
from vsphere_ai.resources.base import After, Export, Form, Projection, Resource, Traits
from vsphere_ai.resources.mixins import vgpus_of

Address = Annotated[str, Field(pattern=r"^[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$")]
HBAS, REBIND = "config.storageDevice.hostBusAdapter", "capability.deviceRebindWithoutRebootSupported"
GRAPHICS = "config.graphicsInfo"
WAITS = {True: "on after a restart", False: "off after a restart"}


class Passthrough(Resource):
    """Gives whole PCI devices of a host to VMs (DirectPath I/O), or takes them back; others are never touched.

    A device is converged when it is passed through now, not when it is configured to be. Hosts that rebind devices
    without a restart do so at once; the others are restarted in maintenance mode.
    """

    kind = "passthrough"
    target = "host"
    shorthand = "devices"
    keyed = True
    traits = Traits(
        properties={
            "HostSystem": (
                *pci.PATHS,
                HBAS,
                REBIND,
                GRAPHICS,
                "config.graphicsConfig",
                "config.network.pnic",
                "config.network.proxySwitch",
                "config.network.vswitch",
            ),
            "VirtualMachine": ("config.hardware.device",),
        },
        duties=(Duty("`passthrough`", "hosts", ("UpdatePassthruConfig",)),),
    )

    devices: Mapping[Address, bool] | None = Field(
        default=None, description="PCI address -> whether VMs get the device: `{0000:3b:00.0: true}`."
    )

    @classmethod
    def observe(cls, facts: Facts, estate: Estate) -> Self | None:
        """Read every device that can be passed through; one that waits for a restart says so."""
        if facts.get(pci.PASSTHRU) is None:
            return None
        states = pci.passthroughs(facts)
        shown = {a: p.enabled if p.enabled == p.active else WAITS[p.enabled] for a, p in states.items()}
        return cls.model_construct(devices=shown)

    def problems(self, target: Target, view: View) -> Iterator[Problem]:
        """No such device, one that cannot be passed through, or one that somebody uses now."""
        facts = view.facts(target.ref)
        if facts.get(pci.PASSTHRU) is None:
            yield Problem(target, "passthrough.unreadable", "the PCI devices of this host cannot be read",
                          "connect the host to vCenter")  # fmt: skip
            return
        states, found = pci.passthroughs(facts), pci.devices(facts)
        for address, on in self._changing(facts).items():
            state = states.get(address)
            if state is None:
                able = ", ".join(a for a, s in states.items() if s.capable and not _is_virtual(a, found)) or "none"
                yield Problem(target, "passthrough.device", f"this host has no device {address}",
                              f"devices that can be passed through: {able}")  # fmt: skip
            elif on and not state.capable:
                yield Problem(target, "passthrough.not-capable", f"{_named(address, found)} cannot be passed through",
                              "switch the IOMMU (VT-d, AMD-Vi) on in the BIOS; some devices never can")  # fmt: skip
            elif on:
                yield from _uses(target, view, address, state)
            else:
                yield from _taken(target, view, address)

    def _changing(self, facts: Facts) -> dict[str, bool]:
        """Return what is wanted of the devices that are not as wanted: what stays is never in the way."""
        states = pci.passthroughs(facts)
        return {
            a: on
            for a, on in sorted((self.devices or {}).items())
            if a not in states or not (states[a].enabled == states[a].active == on)
        }

    def notes(self, target: Target, view: View) -> Iterator[str]:
        """Name functions that are reset together with a device."""
        facts = view.facts(target.ref)
        states, stated = pci.passthroughs(facts), self.devices or {}
        for address in self._changing(facts):
            group = states[address].together if address in states else ""
            others = [a for a, s in states.items() if group and s.together == group and a not in stated and a != group]
            if others:
                yield f"{', '.join(others)} may move together with {address}: they are reset as one"

    def steps(self, change: Change, view: View) -> Iterator[Step]:
        """Send the devices whose configuration differs; restart the host where that is what it takes."""
        facts = view.facts(change.target.ref)
        states = pci.passthroughs(facts)
        waiting = self._changing(facts)
        sent = {a: on for a, on in waiting.items() if states[a].enabled != on}
        at_once = facts.get(REBIND) is True and len(sent) == len(waiting)
        words = ", ".join(f"{a} {'on' if on else 'off'}" for a, on in sent.items())
        if sent:
            yield Invoke(
                target=change.target,
                kinds=(self.kind,),
                path="configManager.pciPassthruSystem",
                method="UpdatePassthruConfig",
                args={"config": tuple(_config(a, on, at_once) for a, on in sent.items())},
                needs_maintenance=not at_once,
                needs_reboot=not at_once,
                summary=f"set passthrough: {words}",
            )
        elif waiting:
            yield Step(
                target=change.target,
                kinds=(self.kind,),
                needs_maintenance=True,
                needs_reboot=True,
                summary=f"restart, which makes passthrough active ({', '.join(waiting)})",
            )

    def project(self, target: Target, view: View, after: After) -> Projection:
        """Lay the wanted passthrough over what was read, and what it makes of GPUs."""
        if after == "reboot":
            return Projection(self)
        facts = view.facts(target.ref)
        wanted = self.devices or {}
        infos = tuple(
            {**p, "passthruEnabled": wanted[p["id"]], "passthruActive": wanted[p["id"]]} if p["id"] in wanted else p
            for p in facts.get(pci.PASSTHRU) or ()
        )
        types = {
            d["deviceId"]: d["graphicsType"] for d in (facts.get("config.graphicsConfig") or {}).get("deviceType", ())
        }
        graphics = tuple(
            {**g, "graphicsType": "direct" if wanted[g["pciId"]] else types.get(g["pciId"], "basic")}
            if g["pciId"] in wanted and wanted[g["pciId"]] != (g["graphicsType"] == "direct")
            else g
            for g in facts.get(GRAPHICS) or ()
        )
        more = {GRAPHICS: graphics} if GRAPHICS in facts.properties else {}
        return Projection(self, (replace(facts, properties={**facts.properties, pci.PASSTHRU: infos, **more}),))

    def export(self, target: Target, view: View, form: Form) -> Export:
        """State what is passed through; virtual functions always are, and come with SR-IOV."""
        if form == "shown":
            return Export(self)
        devices = {a: on for a, on in (self.devices or {}).items() if isinstance(on, bool)}
        if form == "rollback":  # devices that are off have to be off again
            return Export(self.model_copy(update={"devices": devices}))
        found = pci.devices(view.facts(target.ref))
        on = {a: True for a, passed in devices.items() if passed and not _is_virtual(a, found)}
        waiting = [f"{a} is {state}" for a, state in (self.devices or {}).items() if a not in devices]
        left_out = f"passthrough left out: {', '.join(waiting)}" if waiting else ""
        return Export(self.model_copy(update={"devices": on}) if on else None, left_out)


def _config(address: str, on: bool, at_once: bool) -> dict[str, Any]:
    config = {"_typeName": "HostPciPassthruConfig", "id": address, "passthruEnabled": on}
    return {**config, "applyNow": True} if at_once else config


def _is_virtual(address: str, found: Mapping[str, pci.Device]) -> bool:
    return address in found and found[address].virtual


def _named(address: str, found: Mapping[str, pci.Device]) -> str:
    return f"{address} ({found[address].name})" if address in found else address


def _uses(target: Target, view: View, address: str, state: pci.Passthrough) -> Iterator[Problem]:
    """The host itself needs it, a vGPU or a GPU instance lives on it, or it is cut into virtual functions."""
    facts = view.facts(target.ref)
    for use in _of_host(facts, address):
        yield Problem(target, "passthrough.in-use", f"{address} is {use}", "take it out of use first, or leave it out")
    if state.functions:
        yield Problem(target, "passthrough.sriov", f"{address} has {state.functions} SR-IOV virtual functions",
                      f"write sriov: {{{address}: 0}} in a play that is applied before")  # fmt: skip
    for gpu in facts.get(GRAPHICS) or ():
        users = [r for r in gpu.get("vm", ()) if gpu["pciId"] == address and gpu["graphicsType"] != "direct"]
        keeping = [r for r in users if _keeps_vgpus(r, view)]
        if keeping:
            names = ", ".join(f.name if (f := view.estate.get(r)) else r for r in keeping)
            yield Problem(target, "passthrough.vgpu", f"GPU {address} carries vGPUs of {names}",
                          "write vgpu: [], or device_groups: [] where they are of a group, for them in a play that is "
                          "applied before")  # fmt: skip
    mig = (getattr(view.state(target.ref, "mig"), "gpus", None) or {}).get(address)
    if mig is not None and (mig.mode != "disabled" or mig.layout):
        yield Problem(target, "passthrough.mig", f"GPU {address} has MIG mode {mig.mode}",
                      f"apply mig: {{gpus: {{{address}: {{mode: disabled}}}}}} to the host before")  # fmt: skip


def _of_host(facts: Facts, address: str) -> Iterator[str]:
    for nic in facts.get("config.network.pnic") or ():
        if nic.get("pci") == address:
            switches = [
                str(s.get("dvsName") or s.get("name")) for s in _switches(facts) if nic["key"] in s.get("pnic", ())
            ]
            yield from (f"{nic['device']}, an uplink of {switch}" for switch in switches)
    for hba in facts.get(HBAS) or ():
        if str(hba.get("pci", "")).lower() == address:
            yield f"{hba.get('device', 'a storage adapter')}, a storage adapter of the host"


def _switches(facts: Facts) -> Iterator[Mapping[str, Any]]:
    for path in ("config.network.proxySwitch", "config.network.vswitch"):
        yield from facts.get(path) or ()


def _keeps_vgpus(ref: str, view: View) -> bool:
    """A VM that takes its own vGPUs away may still have some of a device group."""
    facts = view.estate.get(ref)
    listed = getattr(view.stated.get((ref, "vgpu")), "profiles", None)
    return listed != () or bool(facts and vgpus_of(Target("vm", facts.name, ref), view))


def _taken(target: Target, view: View, address: str) -> Iterator[Problem]:
    """A VM that has the device cannot power on again without it."""
    for vm in view.estate.vms_on(target.ref):
        having = [
            d
            for d in view.facts(vm.ref).get("config.hardware.device", ())
            if address in ((b := d.get("backing") or {}).get("id"), b.get("assignedId"))
        ]
        stated = view.stated.get((vm.ref, "pci_devices"))
        keeps = stated is None or any(d.host_device == address for d in stated.devices or ())
        if keeps and any(not d.get("deviceGroupInfo") for d in having):
            yield Problem(target, "passthrough.vm", f"{address} belongs to VM {vm.name}",
                          "write pci_devices without it for that VM in a play that is applied before")  # fmt: skip
        grouped = getattr(view.stated.get((vm.ref, "device_groups")), "groups", None) != ()
        if grouped and any(d.get("deviceGroupInfo") for d in having):
            yield Problem(target, "passthrough.vm", f"{address} belongs to a device group of VM {vm.name}",
                          "write device_groups: [] for that VM in a play that is applied before")  # fmt: skip
