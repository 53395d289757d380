"""VMkernel adapters of a host: the ones a playbook names by port group, with address, MTU and what they carry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Self

from vsphere_ai.fabric import dvs
from vsphere_ai.fabric import route as fabric_route
from vsphere_ai.fabric.api_types import Vnic
from vsphere_ai.fabric.corrections import KernelAdapter
from vsphere_ai.fabric.vmk import CARRIED, OPTION, OPTION_FACT, PROXIES, VNICS, Spot, by_group, carrying
from vsphere_ai.model.estate.correction import Correction
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.finding import Problem
from vsphere_ai.model.plain import Plain
from vsphere_ai.model.privilege import Duty, connecting
from vsphere_ai.model.state import Change, KindName, Target, setting
from vsphere_ai.model.steps import Step
from vsphere_ai.model.view import View
from vsphere_ai.resources._helpers.factories import set_option
from vsphere_ai.resources.base import After, Form, Projection, Resource, StateExport, Traits, kind_names
from vsphere_ai.resources.corrections import ADDRESS, Corrects
from vsphere_ai.resources.mixins import HasOwnValues
from vsphere_ai.resources.topics import Topic
from vsphere_ai.resources.vmkernel.adapter import (
    VmkernelAdapter,
    is_changed,
    nic_spec,
    observed_adapter,
    own_address,
    settled_adapter,
)
from vsphere_ai.resources.vmkernel.checks import (
    address_notes,
    address_problems,
    fit_problems,
    management_problems,
    place_problems,
    pvrdma_problems,
)
from vsphere_ai.resources.vmkernel.steps import adapter_step, beside_moves, service_steps

METHODS = (
    *("AddVirtualNic", "UpdateVirtualNic"),
    *("SelectVnicForNicType", "DeselectVnicForNicType", "UpdateOptions"),
)


class VmkernelAdapters(HasOwnValues, Corrects, Resource):
    """Makes and changes VMkernel adapters of a host, each named by its port group; the host numbers them itself.

    Adapters on port groups that are not named are never touched, and none is ever removed. Address and MTU of the
    adapter that carries management are never changed: vCenter would lose the host.
    """

    kind = KindName("vmkernel")
    target = "host"
    shorthand = "adapters"
    keyed = True
    traits = Traits(
        duties=(
            Duty("`vmkernel`", "hosts", METHODS),
            connecting("`vmkernel`"),
        ),
        after=kind_names("uplinks"),
        properties={
            "HostSystem": (VNICS, CARRIED, PROXIES, OPTION_FACT),
            dvs.PORT_GROUP: fabric_route.PORT_GROUP_PATHS,
            **{switch: fabric_route.SWITCH_PATHS for switch in dvs.SWITCHES},
        },
        affects=Topic.PVRDMA,
        in_profile="VMkernel adapters",
    )

    adapters: Mapping[str, VmkernelAdapter] | None = setting(
        "Port group, or `SWITCH/NAME` -> the host's VMkernel adapter on it: `{dvpg-rdma: {mtu: 9000}}`."
    )

    @classmethod
    def correcting(cls, corrections: Sequence[Correction]) -> Plain:
        """The MTU of adapters, and those of PVRDMA and vMotion; the operator chooses the address of a new one."""
        found: dict[str, Plain] = {}
        for adapter in (c for c in corrections if isinstance(c, KernelAdapter)):
            address: dict[str, Plain] = {"address": ADDRESS} if adapter.is_new else {}
            mtu: dict[str, Plain] = {} if adapter.mtu is None else {"mtu": adapter.mtu}
            services: dict[str, Plain] = {"services": ("vmotion",)} if adapter.for_vmotion else {}
            rdma: dict[str, Plain] = {"pvrdma": True} if adapter.for_pvrdma else {}
            found[adapter.name] = {**address, **rdma, **services, **mtu}
        return found

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
        adapters: dict[str, VmkernelAdapter] = {}
        for name, adapter in (self.adapters or {}).items():
            label = Spot(name, target, view).label
            label = name if label in adapters else label  # two names of one port group: `problems` says so
            adapters[label] = settled_adapter(adapter, have.get(label), target.name)
        return self.model_copy(update={"adapters": adapters})

    def problems(self, target: Target, view: View) -> Iterator[Problem]:
        """Port group, switch membership, address, MTU, management, and who else names an adapter for PVRDMA."""
        facts = view.facts(target.ref)
        if VNICS not in facts.properties:
            why = facts.unreadable.get(VNICS, "vCenter shows none")
            what = f"the VMkernel adapters of this host cannot be read: {why}"
            yield self.problem(target, "unreadable", what, "connect the host to vCenter and grant System.Read on it")
            return
        said = view.said(VmkernelAdapters, target.ref)
        given = {Spot(n, target, view).label: a for n, a in ((said.adapters if said else None) or {}).items()}
        for name, wanted in (self.adapters or {}).items():
            spot = Spot(name, target, view)
            if spot.label != name and spot.label in (self.adapters or {}):
                what = f"{name} and {spot.label} are the same port group on this host"
                yield self.problem(target, "several", what, "name it once")
                continue
            if len(spot.vnics) > 1:
                what = f"{name} has several adapters on this host: {', '.join(v['device'] for v in spot.vnics)}"
                yield self.problem(target, "several", what, "leave it out: which of them is meant cannot be said")
                continue
            yield from place_problems(spot) if spot.vnic is None else management_problems(spot, wanted)
            yield from address_problems(spot, wanted, given.get(name))
            yield from fit_problems(spot, wanted)
        yield from pvrdma_problems(target, view, self.adapters or {})

    def remarks(self, target: Target, view: View) -> Iterator[str]:
        """Say who numbers a new adapter, who else has its address, and where one for PVRDMA is off the path of RDMA."""
        for name, wanted in (self.adapters or {}).items():
            spot = Spot(name, target, view)
            yield from address_notes(spot, wanted)
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
        hosts = view.facts(change.target.ref), self.project(change.target, view, "plan").facts[0]
        for name, wanted in (self.adapters or {}).items():
            spot, now = Spot(name, change.target, view), before.get(name) or VmkernelAdapter()
            own = [adapter_step(change, spot, wanted)] if spot.vnic is None or is_changed(wanted, now) else []
            yield from beside_moves([*own, *service_steps(change, spot, wanted, now)], wanted, now, hosts)
            if wanted.pvrdma is not None and wanted.pvrdma != bool(now.pvrdma):
                tags[spot.device if wanted.pvrdma else ""] = name
        # naming another adapter is what takes the name off the first
        for device, name in sorted(tags.items(), reverse=True)[:1]:
            summary = f"set {OPTION} to the adapter on {name}" if device else f"set {OPTION} to no adapter"
            yield set_option(change, OPTION, device, summary)

    def project(self, target: Target, view: View, after: After) -> Projection:
        """Show the adapters as they will be; the name of a new one is looked up when it is needed."""
        if after == "reboot":
            return Projection(self)
        facts = view.facts(target.ref)
        vnics, option, selected = list(facts.get(VNICS, ())), facts.get(OPTION_FACT), facts.get(CARRIED)
        for name, wanted in (self.adapters or {}).items():
            spot = Spot(name, target, view)
            spec = {**(spot.vnic or {}).get("spec", {}), **nic_spec(spot, wanted)}
            new: Vnic = {"portgroup": ""}
            shown = {"_typeName": "HostVirtualNic", **(spot.vnic or new), "device": spot.device, "spec": spec}
            vnics = [*(v for v in vnics if v["device"] != spot.device), shown]
            if wanted.services is not None and selected is not None:
                selected = carrying(selected, spot.device, wanted.services)
            if wanted.pvrdma is not None and (wanted.pvrdma or option == spot.device):
                option = spot.device if wanted.pvrdma else ""
        more = {VNICS: tuple(vnics), **({} if option is None else {OPTION_FACT: option})}
        more |= {} if selected is None else {CARRIED: selected}
        return Projection(self, (facts.having(more),))

    def export(self, target: Target, view: View, form: Form) -> StateExport:
        """A port group with several adapters cannot be stated."""
        found = by_group(target.ref, view.estate) if form == "playbook" else {}
        several = [n for n, vnics in found.items() if len(vnics) > 1]
        left_out = f"vmkernel left out: several adapters on {', '.join(several)}" if several else ""
        return StateExport(self if self.adapters or form == "shown" else None, left_out)

    def shared(self) -> Self:
        """Addresses are those of one host."""
        adapters = {n: own_address(a, {}) for n, a in (self.adapters or {}).items()}
        return self.model_copy(update={"adapters": adapters})

    @classmethod
    def together(cls, states: Mapping[str, Self]) -> Self:
        """An address becomes a mapping of hosts."""
        first = next(iter(states.values()))
        every = {host: state.adapters or {} for host, state in states.items()}
        adapters = {
            name: own_address(adapter, {host: own[name].address for host, own in every.items()})
            for name, adapter in (first.adapters or {}).items()
        }
        return first.model_copy(update={"adapters": adapters})
