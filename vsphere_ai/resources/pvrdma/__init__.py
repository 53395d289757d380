"""PVRDMA network adapters of a virtual machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Self

from vsphere_ai.fabric import dvs, networks
from vsphere_ai.fabric import route as fabric_route
from vsphere_ai.fabric.api_types import VirtualDevice
from vsphere_ai.fabric.corrections import NewRdmaAdapter
from vsphere_ai.model.estate.correction import Correction
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.finding import Problem
from vsphere_ai.model.plain import Plain
from vsphere_ai.model.privilege import Duty, connecting
from vsphere_ai.model.state import Change, KindName, State, Target, observed, setting
from vsphere_ai.model.steps import Query, Reconfigure, Step
from vsphere_ai.model.view import View
from vsphere_ai.resources._helpers import adapter_changes, adapter_limits, ethernet, pvrdma_fit
from vsphere_ai.resources._helpers.network_adapter import NetworkAdapter, matched, updated
from vsphere_ai.resources._helpers.vm_settings import memory_problems
from vsphere_ai.resources.base import Form, Resource, StateExport, Traits, kind_names
from vsphere_ai.resources.corrections import Corrects
from vsphere_ai.resources.mixins import AsksMore, Judged, RdmaAdapter, VmDevices
from vsphere_ai.resources.pvrdma.adapter import (
    PvrdmaAdapter,
    card,
    card_there,
    devices_of,
    in_words,
    key_of,
    observed_adapter,
    ref_of,
)
from vsphere_ai.resources.remedies import leave_some_out
from vsphere_ai.resources.topics import Topic


class Pvrdma(VmDevices, AsksMore, Judged, Corrects, Resource):
    """Gives a VM paravirtual RDMA adapters, exactly the listed ones; adapters of other types are never touched.

    The port group is proved RDMA-capable on every host the VM can run on, because PVRDMA falls back to TCP without
    a warning. All guest memory is reserved with it.
    """

    kind = KindName("pvrdma")
    target = "vm"
    shorthand = "adapters"
    traits = Traits(
        duties=(
            Duty("`pvrdma`", "VMs", (), ("memoryReservationLockedToMax",), ("add", "remove", "edit")),
            connecting("`pvrdma`"),
        ),
        implies={"config.memoryReservationLockedToMax": "memory_locked"},
        topics=Topic.PVRDMA,
        decides={"config.hardware.device": "adapters"},
        after=kind_names("hardware", "vgpu", "pvrdma_host"),
        properties={
            "VirtualMachine": ("config.hardware.device", "config.memoryReservationLockedToMax"),
            "HostSystem": fabric_route.HOST_PATHS,
            dvs.PORT_GROUP: fabric_route.PORT_GROUP_PATHS,
            **{switch: fabric_route.SWITCH_PATHS for switch in dvs.SWITCHES},
        },
    )

    adapters: tuple[PvrdmaAdapter, ...] | None = setting(
        "The VM's PVRDMA adapters: port group and RoCE version of each; `[]` removes all."
    )
    memory_locked: bool | None = observed("All guest memory is reserved; follows from having an adapter.")

    @classmethod
    def questions(cls, wanted: Mapping[Target, Sequence[State]], estate: Estate) -> Iterator[Query]:
        """Ask the clusters how many adapters such VMs can have."""
        return adapter_limits.questions(cls.kind, wanted, estate)

    @classmethod
    def is_fit(cls, facts: Facts) -> bool:
        """A VM with PVRDMA adapters."""
        return bool(devices_of(facts))

    @classmethod
    def correcting(cls, corrections: Sequence[Correction]) -> Plain:
        """An adapter on each port group that a VM is to have one on."""
        new = (c for c in corrections if isinstance(c, NewRdmaAdapter))
        return tuple({"port_group": c.name, **({"protocol": c.protocol} if c.protocol else {})} for c in new)

    @classmethod
    def observe(cls, facts: Facts, estate: Estate) -> Self | None:
        """Read the adapters of the VM; a port group that was not read is shown by its key."""
        if facts.get("config.hardware.device") is None:
            return None
        locked = bool(facts.get("config.memoryReservationLockedToMax"))
        return cls.model_construct(adapters=tuple(map(observed_adapter, devices_of(facts))), memory_locked=locked)

    def settle(self, target: Target, view: View) -> Self:
        """Name what is there by port group, keep its order, and lock the memory when there is an adapter."""
        now = view.state(target.ref, self.kind)
        have = now.adapters if now else ()
        wanted = have if self.adapters is None else self._with_keys(target, have, view)
        locked = True if wanted else (now.memory_locked if now else None)
        same = Counter(wanted) == Counter(have)
        return self.model_copy(update={"adapters": have if same else wanted, "memory_locked": locked})

    def _with_keys(self, target: Target, have: Sequence[PvrdmaAdapter], view: View) -> tuple[PvrdmaAdapter, ...]:
        """Identity is the port group's key; an unset protocol takes that of an adapter which is there already."""
        keys = {a.port_group: key_of(a.port_group, target.ref, view) for a in self.adapters or ()}
        keyed = [a.model_copy(update={"port_group": keys[a.port_group]}) for a in self.adapters or ()]
        pairs = _pairs(keyed, [card(a) for a in have])
        return tuple(a.model_copy(update={"protocol": a.protocol or (nic and nic.protocol)}) for a, nic in pairs)

    def problems(self, target: Target, view: View) -> Iterator[Problem]:
        """Hardware version, protocol, port group, and the chain to an RDMA device on every host in question."""
        if not self.adapters:
            return
        there = [observed_adapter(d) for d in devices_of(view.facts(target.ref))]
        chosen = {a.protocol for a in self.adapters if a.protocol and a not in there}
        yield from pvrdma_fit.version_problems(target, view, chosen)
        yield from self._count_problems(target, view, len(there))
        yield from memory_problems(target, view, "pvrdma.memory", "PVRDMA needs")
        for adapter in dict.fromkeys(self.adapters):
            group = view.estate.get(ref_of(adapter))
            if group is None:
                yield self._no_group(target, adapter, view)
            else:
                yield from pvrdma_fit.host_problems(target, view, group, adapter.protocol)

    def _count_problems(self, target: Target, view: View, there: int) -> Iterator[Problem]:
        count, most = len(self.adapters or ()), adapter_limits.limits(target, view)
        if count > most.pvrdma:
            what = f"{count} PVRDMA adapters; {most.pvrdma} at most ({most.source})"
            yield self.problem(target, "count", what, leave_some_out(target, view))
            return
        if count <= there or (target.ref, "adapters") in view.stated:  # which counts all of them
            return
        cards = ethernet.cards(view.facts(target.ref).get("config.hardware.device", ()))
        total = count + sum(ethernet.type_of(d) != "pvrdma" for d in cards)
        if total > most.cards:
            what = f"{total} network adapters of all types; {most.cards} at most"
            help_ = "leave some out, or remove others with adapters: {exclusive: true, ...}"
            yield self.problem(target, "count", what, help_)

    def _no_group(self, target: Target, adapter: PvrdmaAdapter, view: View) -> Problem:
        name = adapter.port_group
        meant = networks.for_vm(view.estate, target.ref, name)
        message, help_ = meant.ambiguity(view.estate)
        if message:
            return self.problem(target, "port-group", message, help_)
        what = (
            "there is no distributed port group of that name"
            if not meant.networks
            else "is not a distributed port group"
        )
        return self.problem(target, "port-group", f"{name}: {what}", networks.distributed_in_words(view.estate))

    def remarks(self, target: Target, view: View) -> Iterator[str]:
        """Name the adapters that go: an operator who adds one may not know of them."""
        if self.adapters is None:
            return
        there = devices_of(view.facts(target.ref))
        kept = {n.device for n in self._cards(there, view)}
        gone = [d for d in there if d["key"] not in kept]
        named = ", ".join(in_words(d, view) for d in gone)
        if gone and self.adapters:
            yield f"REMOVES {named}: not in the list, which is all PVRDMA adapters of the VM; list what is to stay"
        elif gone:
            yield f"REMOVES {named}: the list is empty"

    def rdma_adapters(self) -> tuple[RdmaAdapter, ...] | None:
        """All of the list; what a playbook leaves open of them is what is there."""
        found = self.adapters
        return None if found is None else tuple(RdmaAdapter(a.port_group, a.protocol, bool(a.protocol)) for a in found)

    def export(self, target: Target, view: View, form: Form) -> StateExport:
        """Show port groups by name; most VMs have no such adapter."""
        if not self.adapters and form != "shown":
            return StateExport(None)
        names = [ethernet.named(view.estate, ref_of(a)) for a in self.adapters or ()]
        named = (a.model_copy(update={"port_group": n}) for a, n in zip(self.adapters or (), names, strict=True))
        return StateExport(self.model_copy(update={"adapters": tuple(named)}))

    def steps(self, change: Change, view: View) -> Iterator[Step]:
        """Remove, change and add adapters by device key; what stays keeps its key and its MAC address."""
        devices = devices_of(view.facts(change.target.ref))
        there, after = map(card_there, devices), self._cards(devices, view)
        changes, _ = adapter_changes.device_changes(devices, there, after, view)
        yield Reconfigure(
            target=change.target,
            kinds=(self.kind,),
            needs_power_off=True,
            device_changes=tuple(changes),
            spec={} if self.memory_locked == change.before.memory_locked else {"memoryReservationLockedToMax": True},
            summary=f"PVRDMA: {adapter_changes.in_words(changes)}",
        )

    def _cards(self, devices: Sequence[VirtualDevice], view: View) -> list[NetworkAdapter]:
        """Return the list as `adapters` compares it: those that are there, and new ones whose port group is."""
        pairs = _pairs(self.adapters or (), [card_there(d) for d in devices])
        there = [(card(a), nic) for a, nic in pairs if nic is not None or ref_of(a) in view.estate.objects]
        return [entry if nic is None else updated(nic, entry) for entry, nic in there]


def _pairs(
    wanted: Iterable[PvrdmaAdapter], there: Sequence[NetworkAdapter]
) -> list[tuple[PvrdmaAdapter, NetworkAdapter | None]]:
    """Return each entry with the adapter that it means, None for a new one; those with a protocol choose first."""
    ordered = sorted(wanted, key=lambda a: a.protocol is None)
    found = matched([card(a) for a in ordered], there)
    return [(entry, there[found[i]] if i in found else None) for i, entry in enumerate(ordered)]
