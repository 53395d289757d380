"""Network adapters of a virtual machine: their port groups, addresses and connection, of four types."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Self

from vsphere_ai.fabric import dvs, nioc, virtual_functions
from vsphere_ai.fabric import route as fabric_route
from vsphere_ai.fabric.corrections import NearFunction, RdmaAdapterSettings
from vsphere_ai.model.estate.correction import Correction
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.finding import Problem
from vsphere_ai.model.plain import Plain
from vsphere_ai.model.privilege import Duty, connecting
from vsphere_ai.model.state import Change, KindName, State, Target, observed, setting
from vsphere_ai.model.steps import Query, Reconfigure, Step
from vsphere_ai.model.view import View
from vsphere_ai.resources._helpers import adapter_limits, ethernet, function_demands, nioc_fit, pool_use
from vsphere_ai.resources._helpers.adapter_changes import device_changes, in_words, order_notes
from vsphere_ai.resources._helpers.network_adapter import (
    HasAdapters,
    NetworkAdapter,
    is_statable,
    matched,
    new,
    read,
    updated,
)
from vsphere_ai.resources.adapters.checks import adapter_problems, bounded
from vsphere_ai.resources.adapters.export import for_playbook, for_rollback, named
from vsphere_ai.resources.base import Form, Resource, StateExport, Traits, kind_names
from vsphere_ai.resources.corrections import Corrects
from vsphere_ai.resources.mixins import AsksMore, Judged, RdmaAdapter, VmDevices
from vsphere_ai.resources.pvrdma import Pvrdma
from vsphere_ai.resources.topics import Topic


class Adapters(VmDevices, HasAdapters, AsksMore, Judged, Corrects, Resource):
    """Gives a VM the listed network adapters. The others are not changed, unless `exclusive` is true.

    An adapter is known by its type, its port group and its place among equals, never by its label.
    """

    kind = KindName("adapters")
    target = "vm"
    shorthand = "adapters"
    traits = Traits(
        duties=(
            Duty("`adapters`", "VMs", (), ("memoryReservationLockedToMax",), ("add", "remove", "edit")),
            connecting("`adapters`"),
        ),
        implies={"config.memoryReservationLockedToMax": "memory_locked"},
        topics=Topic.PVRDMA,
        after=kind_names("hardware", "vgpu", "pvrdma"),
        properties={
            "VirtualMachine": ("config.hardware.device", "config.memoryReservationLockedToMax", "runtime.powerState"),
            "HostSystem": (*fabric_route.HOST_PATHS, virtual_functions.DEVICES, "network"),
            "Network": ("name", "parent"),
            dvs.PORT_GROUP: (*fabric_route.PORT_GROUP_PATHS, nioc.POOL_KEY),
            **{switch: (*fabric_route.SWITCH_PATHS, *nioc.PATHS) for switch in dvs.SWITCHES},
        },
    )

    adapters: tuple[NetworkAdapter, ...] | None = setting("The VM's network adapters, in their order.")
    exclusive: bool | None = setting("`true` removes every adapter that is not listed; `false` where it is left out.")
    memory_locked: bool | None = observed("All guest memory is reserved; follows from an `sriov` or `pvrdma` adapter.")

    @classmethod
    def questions(cls, wanted: Mapping[Target, Sequence[State]], estate: Estate) -> Iterator[Query]:
        """Ask the clusters how many adapters such VMs can have."""
        return adapter_limits.questions(cls.kind, wanted, estate)

    @classmethod
    def related_vms(cls, targets: Collection[Target], estate: Estate) -> set[str]:
        """Look at the running VMs that may reserve of the pools of VMs that are named, or are on hosts that are."""
        homes = {h.ref for t in targets if t.kind == "vm" and (h := estate.host_of(t.ref))}
        return pool_use.neighbours(estate, homes | {t.ref for t in targets if t.kind == "host"})

    @classmethod
    def concerns(cls, state: object) -> Topic:
        """Those of PVRDMA, where one of the adapters is for it."""
        rdma = isinstance(state, Adapters) and any(n.type == "pvrdma" for n in state.adapters or ())
        return cls.traits.topics if rdma else Topic.NONE

    @classmethod
    def correcting(cls, corrections: Sequence[Correction]) -> Plain:
        """Settings of PVRDMA and SR-IOV adapters that a VM has: one entry of a port group is one adapter."""
        cards: list[Plain] = []
        for card in (c for c in corrections if isinstance(c, RdmaAdapterSettings)):
            entry: dict[str, Plain] = {"type": "pvrdma", "port_group": card.name}
            entry |= {"connected": True} if card.connected else {}
            entry |= {"protocol": card.protocol} if card.protocol else {}
            cards.append(entry)
        near = (c.name for c in corrections if isinstance(c, NearFunction))
        cards += ({"type": "sriov", "port_group": name, "physical_function": "auto"} for name in near)
        return tuple(cards)

    @classmethod
    def observe(cls, facts: Facts, estate: Estate) -> Self | None:
        """Read every adapter of the VM, in the order of their units."""
        devices = facts.get("config.hardware.device")
        if devices is None:
            return None
        on = facts.get("runtime.powerState") == "poweredOn"
        found = tuple(read(d, on) for d in ethernet.cards(devices))
        locked = bool(facts.get("config.memoryReservationLockedToMax"))
        return cls.model_construct(adapters=found, exclusive=None, memory_locked=locked)

    def settle(self, target: Target, view: View) -> Self:
        """List what there will be: what is there in its order, then what is added in the playbook's."""
        now = view.state(target.ref, self.kind)
        have: tuple[NetworkAdapter, ...] = (now.adapters if now else None) or ()
        locked = now.memory_locked if now else None
        if self.adapters is None:
            return self.model_copy(update={"adapters": have, "exclusive": None, "memory_locked": locked})
        entries = self._entries(target, view)
        found = matched(entries, have)
        kept = {have[at].device: updated(have[at], entries[i]) for i, at in found.items()}
        after = [kept.get(n.device, n) for n in have if n.device in kept or not self._removes(n, target, view)]
        after += [new(e) for i, e in enumerate(entries) if i not in found]
        needs = any(e.type in ethernet.COLD for e in entries)
        update = {"adapters": tuple(after), "exclusive": None, "memory_locked": True if needs else locked}
        return self.model_copy(update=update)

    def _entries(self, target: Target, view: View) -> list[NetworkAdapter]:
        found = {n: ethernet.found(target.ref, n, view) for n in {e.port_group for e in self.adapters or ()}}
        return [e.model_copy(update={"port_group": found[e.port_group]}) for e in self.adapters or ()]

    def _removes(self, nic: NetworkAdapter, target: Target, view: View) -> bool:
        # what `pvrdma` says of the same VM is its own business
        return bool(self.exclusive) and not (nic.type == "pvrdma" and (target.ref, Pvrdma.kind) in view.stated)

    def problems(self, target: Target, view: View) -> Iterator[Problem]:
        """What is there already is never in the way; of what is new or changed, every reason."""
        now = self.observe(view.facts(target.ref), view.estate)  # the view has the wanted state already
        if now is None:
            help_ = "connect its host to vCenter and grant System.Read on it"
            yield self.problem(target, "unreadable", "the devices of this VM cannot be read", help_)
            return
        yield from adapter_problems(target, view, self.adapters or (), now.adapters or (), self._said(target, view))

    def _said(self, target: Target, view: View) -> list[NetworkAdapter]:
        """Return the entries of the playbook itself."""
        said = view.said(Adapters, target.ref)
        return said._entries(target, view) if said else []

    def remarks(self, target: Target, view: View) -> Iterator[str]:
        """An order that only new adapters could have, and what SR-IOV takes from a VM."""
        there = self.adapters or ()
        yield from order_notes(view, self._said(target, view), there)
        if any(n.type == "pvrdma" and n.is_bounded for n in there):
            yield "shares, reservation and limit of a PVRDMA adapter are for its TCP/IP; RDMA is not held to them"
        now = self.observe(view.facts(target.ref), view.estate)
        was = (now.adapters if now else None) or ()
        yield from nioc_fit.adapter_notes(target, view, bounded(there, was))
        if any(n.type == "sriov" and n.device is None for n in there):
            yield "with an SR-IOV adapter it stays on its host while it runs: no vMotion, no snapshot with memory"

    def steps(self, change: Change, view: View) -> Iterator[Step]:
        """Remove, edit and add by device key, in one reconfigure; a running VM goes off only where it must."""
        devices = ethernet.cards(view.facts(change.target.ref).get("config.hardware.device", ()))
        have = (change.before.adapters if change.before else None) or ()
        changes, cold = device_changes(devices, have, self.adapters or (), view)
        locks = bool(self.memory_locked) and not (change.before and change.before.memory_locked)
        yield Reconfigure(
            target=change.target,
            kinds=(self.kind,),
            needs_power_off=cold,
            device_changes=tuple(changes),
            spec={"memoryReservationLockedToMax": True} if locks else {},
            summary=f"network adapters: {in_words(changes)}",
        )

    def export(self, target: Target, view: View, form: Form) -> StateExport:
        """Show port groups by name; PVRDMA adapters are stated by `pvrdma`."""
        there = self.adapters or ()
        if form == "shown":
            return StateExport(self.model_copy(update={"adapters": tuple(named(n, view) for n in there)}))
        if form == "playbook":
            found, left_out = for_playbook(there, view)
            state = type(self).model_construct(adapters=found, exclusive=None, memory_locked=None) if found else None
            return StateExport(state, left_out)
        own = (target.ref, Pvrdma.kind) not in view.stated
        kept = [n for n in there if n.type != "pvrdma" or own]
        # all adapters, so that added ones are removed; where one cannot be stated, nothing is removed
        exclusive = True if all(map(is_statable, kept)) else None
        found = for_rollback(kept, view, in_full=any(n.is_bounded for n in self._said(target, view)))
        return StateExport(type(self).model_construct(adapters=found, exclusive=exclusive, memory_locked=None))

    def rdma_adapters(self) -> tuple[RdmaAdapter, ...] | None:
        """Those of the type for PVRDMA."""
        cards = None if self.adapters is None else [n for n in self.adapters if n.type == "pvrdma"]
        return None if cards is None else tuple(RdmaAdapter(n.port_group.partition(":")[2], n.protocol) for n in cards)

    def cards(self) -> tuple[NetworkAdapter, ...] | None:
        """Return the adapters of the list."""
        return self.adapters

    def removes_others(self) -> bool:
        """Return whether adapters that are not listed go."""
        return bool(self.exclusive)

    @property
    def is_bound(self) -> bool:
        """Whether there are SR-IOV adapters."""
        return bool(function_demands.demands_of("", self.adapters or ()))

    def runs_on(self, host: Target, view: View) -> bool:
        """A VM with SR-IOV adapters runs where NICs behind their port groups have enough virtual functions."""
        wanted = function_demands.demands_of("", self.adapters or ())
        return not wanted or not virtual_functions.unserved(view.estate, view.facts(host.ref), wanted)

    def virtual_functions(self, vm: Target, view: View) -> tuple[virtual_functions.Demand, ...]:
        """Return those of its SR-IOV adapters, with those that stay beside the ones that a playbook lists."""
        only_stated = (vm.ref, self.kind) in view.stated and not view.is_planned(vm.ref, self.kind)
        cards = (self.settle(vm, view) if only_stated else self).adapters
        return function_demands.demands_of("", cards or ())

    def no_power_on(self, vm: Target, view: View) -> str:
        """Its network resource pools have what it and the other running VMs reserve."""
        return pool_use.no_power_on(view, self.adapters or ())
