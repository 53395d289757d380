"""DirectPath I/O: which PCI devices of a host are given to VMs as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Self

from pydantic import BeforeValidator

from vsphere_ai.fabric import pci
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.finding import Problem
from vsphere_ai.model.names.pci_address import PciAddress, distinct
from vsphere_ai.model.privilege import Duty
from vsphere_ai.model.state import Change, KindName, Target, setting
from vsphere_ai.model.steps import Step
from vsphere_ai.model.view import View
from vsphere_ai.resources._helpers.entries import overlaid
from vsphere_ai.resources._helpers.factories import invoke, restart
from vsphere_ai.resources.base import After, Form, Projection, Resource, StateExport, Traits
from vsphere_ai.resources.passthrough.uses import GRAPHICS, HBAS, NICS, REBIND, SWITCHES, taken_problems, use_problems
from vsphere_ai.resources.topics import Topic

MANAGER = "configManager.pciPassthruSystem"
WAITS = {True: "on after a restart", False: "off after a restart"}


class Passthrough(Resource):
    """Gives whole PCI devices of a host to VMs (DirectPath I/O), or takes them back; others are never touched.

    A device is converged when it is passed through now, not when it is configured to be. Hosts that rebind devices
    without a restart do so at once; the others are restarted in maintenance mode.
    """

    kind = KindName("passthrough")
    target = "host"
    shorthand = "devices"
    keyed = True
    traits = Traits(
        topics=Topic.PASSTHROUGH,
        decides={pci.PASSTHRU: "devices"},
        properties={
            "HostSystem": (*pci.PATHS, HBAS, REBIND, GRAPHICS, "config.graphicsConfig", NICS, *SWITCHES),
            "VirtualMachine": ("config.hardware.device",),
        },
        duties=(Duty("`passthrough`", "hosts", ("UpdatePassthruConfig",)),),
    )

    devices: Annotated[Mapping[PciAddress, bool], BeforeValidator(distinct)] | None = setting(
        "PCI address -> whether VMs get the device: `{0000:3b:00.0: true}`."
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
        """No such device, one that cannot be passed through, or one that is in use now."""
        facts = view.facts(target.ref)
        if facts.get(pci.PASSTHRU) is None:
            message = "the PCI devices of this host cannot be read"
            yield self.problem(target, "unreadable", message, "connect the host to vCenter")
            return
        states, found = pci.passthroughs(facts), pci.devices(facts)
        for address, on in self._changing(facts).items():
            state = states.get(address)
            if state is None:
                able = ", ".join(a for a, s in states.items() if s.capable and not _is_virtual(a, found)) or "none"
                remedy = f"devices that can be passed through: {able}"
                yield self.problem(target, "device", f"this host has no device {address}", remedy)
            elif on and not state.capable:
                name = f"{address} ({found[address].name})" if address in found else address
                remedy = "switch the IOMMU (VT-d, AMD-Vi) on in the BIOS; some devices never can"
                yield self.problem(target, "not-capable", f"{name} cannot be passed through", remedy)
            elif on:
                yield from use_problems(target, view, address, state)
            else:
                yield from taken_problems(target, view, address)

    def _changing(self, facts: Facts) -> dict[str, bool]:
        """Return what is wanted of the devices that are not in the desired state: what stays is never in the way."""
        as_they_are = {a: s.enabled for a, s in pci.passthroughs(facts).items() if s.enabled == s.active}
        return {a: on for a, on in sorted((self.devices or {}).items()) if as_they_are.get(a) != on}

    def remarks(self, target: Target, view: View) -> Iterator[str]:
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
            args = {"config": tuple(_config(a, on, at_once) for a, on in sent.items())}
            step = invoke(change, MANAGER, "UpdatePassthruConfig", args, f"set passthrough: {words}")
            yield replace(step, needs_maintenance=not at_once, needs_reboot=not at_once)
        elif waiting:
            yield restart(change, f"restart, which makes passthrough active ({', '.join(waiting)})")

    def project(self, target: Target, view: View, after: After) -> Projection:
        """Lay the wanted passthrough over what was read, and what it makes of GPUs."""
        if after == "reboot":
            return Projection(self)
        facts, wanted = view.facts(target.ref), self.devices or {}
        passed = {a: {"passthruEnabled": on, "passthruActive": on} for a, on in wanted.items()}
        after_plan = {pci.PASSTHRU: overlaid(facts.get(pci.PASSTHRU), "id", passed)}
        if GRAPHICS in facts.properties:
            config = facts.get("config.graphicsConfig") or {}
            own = {d["deviceId"]: d["graphicsType"] for d in config.get("deviceType", ())}
            direct = {g["pciId"]: g["graphicsType"] == "direct" for g in facts.get(GRAPHICS) or ()}
            moved = {a: on for a, on in wanted.items() if direct.get(a) != on}
            types = {a: {"graphicsType": "direct" if on else own.get(a, "basic")} for a, on in moved.items()}
            after_plan[GRAPHICS] = overlaid(facts.get(GRAPHICS), "pciId", types)
        return Projection(self, (facts.having(after_plan),))

    def export(self, target: Target, view: View, form: Form) -> StateExport:
        """State what is passed through; virtual functions always are, and come with SR-IOV."""
        if form == "shown":
            return StateExport(self)
        devices = {a: on for a, on in (self.devices or {}).items() if isinstance(on, bool)}
        if form == "rollback":  # devices that are off have to be off again
            return StateExport(self.model_copy(update={"devices": devices}))
        found = pci.devices(view.facts(target.ref))
        on = {a: True for a, passed in devices.items() if passed and not _is_virtual(a, found)}
        waiting = [f"{a} is {state}" for a, state in (self.devices or {}).items() if a not in devices]
        left_out = f"passthrough left out: {', '.join(waiting)}" if waiting else ""
        return StateExport(self.model_copy(update={"devices": on}) if on else None, left_out)


def _config(address: str, on: bool, at_once: bool) -> dict[str, object]:
    config = {"_typeName": "HostPciPassthruConfig", "id": address, "passthruEnabled": on}
    return {**config, "applyNow": True} if at_once else config


def _is_virtual(address: str, found: Mapping[str, pci.PciFunction]) -> bool:
    return address in found and found[address].virtual
