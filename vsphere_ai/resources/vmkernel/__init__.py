"""VMkernel adapters of a host: the ones a playbook names by port group, with address, MTU and what they carry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Self

from pydantic import Field

from vsphere_ai.fabric import dvs
from vsphere_ai.fabric import route as fabric_route
from vsphere_ai.fabric.vmk import (
    CARRIED,
    DHCP,
    OPTION,
    OPTION_FACT,
    PROXIES,
    VNICS,
    Spot,
    by_group,
)  # fmt: skip
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.state import Change, Problem, Target
from vsphere_ai.model.steps import Invoke, Step
from vsphere_ai.model.view import View
from vsphere_ai.resources.base import After, Export, Form, Projection, Resource, Traits
from vsphere_ai.resources.pvrdma_host import PvrdmaHost
from vsphere_ai.resources.vmkernel.adapter import (
    Adapter,
    is_changed,
    nic_spec,
    observed_adapter,
    settled_adapter,
)
from vsphere_ai.resources.vmkernel.checks import fit_problems, management_problems, place_problems

NETWORK = "configManager.networkSystem"


class VmkernelAdapters(Resource):
    """Makes and changes VMkernel adapters of a host, each named by its port group; the host numbers them itself.

    Adapters on port groups that are not named are never touched, and none is ever removed. Address and MTU of the
    adapter that carries management are never changed: vCenter would lose the host.
    """

    kind = "vmkernel"
    target = "host"
    shorthand = "adapters"
    keyed = True
    traits = Traits(
        after=("uplinks",),
        properties={
            "HostSystem": (VNICS, CARRIED, PROXIES, OPTION_FACT),
            dvs.PORT_GROUP: fabric_route.PORT_GROUP_PATHS,
            **{switch: fabric_route.SWITCH_PATHS for switch in dvs.SWITCHES},
        },
        affects=frozenset({"pvrdma"}),
        in_profile="VMkernel adapters",
    )

    adapters: Mapping[str, Adapter] | None = Field(
        default=None, description="Port group -> the host's VMkernel adapter on it: `{dvpg-rdma: {mtu: 9000}}`."
    )

    @classmethod
    def observe(cls, facts: Facts, estate: Estate) -> Self | None:
        """Read the adapters of a host by the names of their port groups; several on one port group are left out."""
        if VNICS not in facts.properties:
            return None
        found = {name: vnics[0] for name, vnics in by_group(facts.ref, estate).items() if len(vnics) == 1}
        return cls.model_construct(adapters={name: observed_adapter(vnic, facts) for name, vnic in found.items()})

    def settle(self, target: Target, view: View) -> Self:
        """Take the address of this host, and services in the order in which they are read."""
        now = view.state(target.ref, self.kind)
        have = now.adapters if now else {}
        return self.model_copy(
            update={
                "adapters": {n: settled_adapter(a, have.get(n), target.name) for n, a in (self.adapters or {}).items()}
            }
        )

    def problems(self, target: Target, view: View) -> Iterator[Problem]:
        """Port group, switch membership, address, MTU, management, and who else names an adapter for PVRDMA."""
        if VNICS not in view.facts(target.ref).properties:
            why = view.facts(target.ref).unreadable.get(VNICS, "vCenter shows none")
            yield Problem(target, "vmkernel.unreadable", f"the VMkernel adapters of this host cannot be read: {why}",
                          "connect the host to vCenter and grant System.Read on it")  # fmt: skip
            return
        for name, wanted in (self.adapters or {}).items():
            spot = Spot(name, target, view)
            if len(spot.vnics) > 1:
                devices = ", ".join(v["device"] for v in spot.vnics)
                yield Problem(target, "vmkernel.several", f"{name} has several adapters on this host: {devices}",
                              "leave it out: which of them is meant cannot be said")  # fmt: skip
                continue
            yield from place_problems(spot) if spot.vnic is None else management_problems(spot, wanted)
            yield from self._address_problems(spot, wanted)
            yield from fit_problems(spot, wanted)
        yield from self._pvrdma_problems(target, view)

    def _address_problems(self, spot: Spot, wanted: Adapter) -> Iterator[Problem]:
        target = spot.target
        said = spot.view.said(VmkernelAdapters, target.ref)
        given = ((said.adapters if said else None) or {}).get(spot.name)
        address = given.address if given else None
        if isinstance(address, Mapping) and target.name not in address:
            yield Problem(target, "vmkernel.address", f"{spot.name}: the playbook has no address for {target.name}",
                          f"it has one for {', '.join(sorted(address)) or 'no host'}")  # fmt: skip
        elif spot.vnic is None and wanted.address is None:
            yield Problem(target, "vmkernel.address", f"{spot.name}: a new adapter needs an address",
                          "write address: dhcp, or for each host an address such as 10.20.0.1/24")  # fmt: skip
        if isinstance(wanted.address, str) and wanted.address != DHCP:
            taken = tuple(spot.same_address(wanted.address))
            if taken:
                yield Problem(target, "vmkernel.address-taken",
                              f"{spot.name}: {wanted.address} is the address of {', '.join(taken)}",
                              "give every host an address of its own: address: {HOST: ADDRESS}")  # fmt: skip

    def _pvrdma_problems(self, target: Target, view: View) -> Iterator[Problem]:
        chosen = [n for n, a in (self.adapters or {}).items() if a.pvrdma]
        if len(chosen) > 1:
            yield Problem(target, "vmkernel.pvrdma", f"PVRDMA uses one adapter of a host, not {', '.join(chosen)}",
                          "write pvrdma: true for one of them")  # fmt: skip
        facts = view.facts(target.ref)
        states = [a.pvrdma is not None for a in (self.adapters or {}).values()]
        if any(states) and OPTION_FACT in facts.unreadable:
            yield Problem(target, "vmkernel.pvrdma-option",
                          f"the advanced option {OPTION} cannot be read: {facts.unreadable[OPTION_FACT]}",
                          "grant Host.Config.AdvancedConfig on the host")  # fmt: skip
        host = view.said(PvrdmaHost, target.ref)
        other = host.vmknic if host else None
        for name in chosen if other else ():
            vnic = Spot(name, target, view).vnic
            device = vnic["device"] if vnic else "one that this plan makes"
            if device != other:
                yield Problem(target, "vmkernel.pvrdma-conflict",
                              f"the adapter on {name} is {device}, and pvrdma_host names {other} for PVRDMA",
                              "say it once: pvrdma: true here, or vmknic there")  # fmt: skip

    def notes(self, target: Target, view: View) -> Iterator[str]:
        """Say who numbers a new adapter, and where a PVRDMA adapter is off the path of RDMA."""
        for name, wanted in (self.adapters or {}).items():
            spot = Spot(name, target, view)
            if spot.vnic is None:
                yield f"{name}: a new adapter takes the first free number, vmkN, on {target.name}"
            if wanted.pvrdma and spot.group is not None:
                link = fabric_route.broken_link(view.estate, target.ref, spot.group)
                if link is not None:
                    yield f"{name}: PVRDMA is to use it, and it carries no RDMA: broken at {link.name} ({link.seen})"

    def steps(self, change: Change, view: View) -> Iterator[Step]:
        """Make or change each adapter, then what it carries; the adapter for PVRDMA is named last."""
        before = change.before.adapters if change.before else {}
        tags: dict[str, str] = {}
        for name, wanted in (self.adapters or {}).items():
            spot, now = Spot(name, change.target, view), before.get(name) or Adapter()
            if spot.vnic is None or is_changed(wanted, now):
                yield self._adapter_step(spot, wanted)
            yield from self._service_steps(spot, wanted, now)
            if wanted.pvrdma is not None and wanted.pvrdma != bool(now.pvrdma):
                tags[spot.device if wanted.pvrdma else ""] = name
        # naming another adapter is what takes the name off the first
        for device, name in sorted(tags.items(), reverse=True)[:1]:
            yield Invoke(
                target=change.target,
                kinds=(self.kind,),
                path="configManager.advancedOption",
                method="UpdateOptions",
                args={"changedValue": ({"_typeName": "OptionValue", "key": OPTION, "value": device},)},
                summary=f"set {OPTION} to the adapter on {name}" if device else f"set {OPTION} to no adapter",
            )

    def _adapter_step(self, spot: Spot, wanted: Adapter) -> Step:
        spec, new = nic_spec(spot, wanted), spot.vnic is None
        words = [str(wanted.address or ""), f"MTU {wanted.mtu}" if wanted.mtu else ""]
        what = f"make a VMkernel adapter on {spot.name}" if new else f"change {spot.device} on {spot.name}"
        return Invoke(
            target=spot.target,
            kinds=(self.kind,),
            path=NETWORK,
            method="AddVirtualNic" if new else "UpdateVirtualNic",
            args={"portgroup" if new else "device": "" if new else spot.device, "nic": spec},
            # the host leaves the storage cluster while its adapter for vSAN changes
            needs_maintenance="vsan" in spot.services,
            summary=f"{what}: {', '.join(w for w in words if w)}",
        )

    def _service_steps(self, spot: Spot, wanted: Adapter, now: Adapter) -> Iterator[Step]:
        have, want = (
            set(now.services or ()),
            set(wanted.services if wanted.services is not None else now.services or ()),
        )
        for service in sorted(have ^ want):
            selected = service in want
            yield Invoke(
                target=spot.target,
                kinds=(self.kind,),
                path="configManager.virtualNicManager",
                method="SelectVnicForNicType" if selected else "DeselectVnicForNicType",
                args={"nicType": service, "device": spot.device},
                needs_maintenance="vsan" in (service, *spot.services),
                summary=f"{'let' if selected else 'no longer let'} the adapter on {spot.name} carry {service}",
            )

    def project(self, target: Target, view: View, after: After) -> Projection:
        """Show the adapters as they will be; the name of a new one is looked up when it is needed."""
        if after == "reboot":
            return Projection(self)
        facts = view.facts(target.ref)
        vnics, option = list(facts.get(VNICS, ())), facts.get(OPTION_FACT)
        for name, wanted in (self.adapters or {}).items():
            spot = Spot(name, target, view)
            spec = {**(spot.vnic or {}).get("spec", {}), **nic_spec(spot, wanted)}
            shown = {**(spot.vnic or {"_typeName": "HostVirtualNic", "portgroup": ""}), "device": spot.device,
                     "spec": spec}  # fmt: skip
            vnics = [*(v for v in vnics if v["device"] != spot.device), shown]
            if wanted.pvrdma is not None and (wanted.pvrdma or option == spot.device):
                option = spot.device if wanted.pvrdma else ""
        more = {VNICS: tuple(vnics), **({} if option is None else {OPTION_FACT: option})}
        return Projection(self, (replace(facts, properties={**facts.properties, **more}),))

    def export(self, target: Target, view: View, form: Form) -> Export:
        """A port group with several adapters cannot be stated."""
        several = (
            []
            if form != "playbook"
            else [n for n, vnics in by_group(target.ref, view.estate).items() if len(vnics) > 1]
        )
        left_out = f"vmkernel left out: several adapters on {', '.join(several)}" if several else ""
        return Export(self if self.adapters or form == "shown" else None, left_out)
