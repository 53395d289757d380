"""Mixins of a kind: what only some kinds have beside the contract, and functions that ask all states of an object."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, reduce
from operator import or_
from typing import ClassVar, NamedTuple, Self, TypeVar

from vsphere_ai.fabric import pci
from vsphere_ai.fabric.virtual_functions import Demand
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.state import KindName, Placed, State, Target
from vsphere_ai.model.steps import Probe, Query
from vsphere_ai.model.view import View
from vsphere_ai.resources import kinds
from vsphere_ai.resources.base import Resource, Traits
from vsphere_ai.resources.topics import Topic

M = TypeVar("M")


class RdmaAdapter(NamedTuple):
    """A PVRDMA adapter: the key (or name) of its port group and its RoCE version; whether a playbook chose that."""

    port_group: str
    protocol: str | None
    chosen: bool = False


class VmDevices(Placed):
    """A kind that gives a VM devices; the states it is asked for may not be settled yet."""

    kind: ClassVar[KindName]

    def vgpus(self, vm: Target, view: View) -> tuple[str, ...]:
        """Return the vGPU profiles this state gives a VM, one by one."""
        return ()

    def whole_devices(self, vm: Target, view: View) -> tuple[pci.Claim, ...]:
        """Return the whole PCI devices this state gives a VM."""
        return ()

    def virtual_functions(self, vm: Target, view: View) -> tuple[Demand, ...]:
        """Return the virtual functions of NICs this state gives a VM; a port group may be what a playbook calls it."""
        return ()

    def needs_together(self, vm: Target, view: View) -> bool:
        """Return whether devices of this state have to be free together; such VMs power on first."""
        return False

    def gpu_memory_gb(self, vm: Target, view: View) -> int:
        """Return what this state adds to the VM's 64-bit MMIO window: GB of whole GPUs."""
        return 0

    def rdma_adapters(self) -> tuple[RdmaAdapter, ...] | None:
        """Return the PVRDMA adapters of a planned state; None when it is not about them."""
        return None

    def joins(self) -> tuple[str, ...]:
        """Return by what GPUs of this state are joined, e.g. ``NVLink``."""
        return ()

    def mmio_window_gb(self) -> int:
        """Return the size of the 64-bit MMIO window that goes with the devices; 0: none goes with them."""
        return 0

    def no_power_on(self, vm: Target, view: View) -> str:
        """Say why a running VM could not power on again, for what other VMs have; empty when it could."""
        return ""

    def implied_fields(self) -> Mapping[str, object]:
        """Return what follows from this state in fields that are only shown, and in those of other kinds there."""
        return {}


class HasSockets:
    """A kind whose states may say how many cores each virtual socket of a VM has."""

    def cores_stated(self) -> int | None:
        """Return the cores of each socket; None where the state says nothing of it."""
        raise NotImplementedError


class HasOwnValues(State):
    """A kind with values that belong to one target, such as addresses, and that a play can state by its name."""

    @abstractmethod
    def shared(self) -> Self:
        """Return this state without such values: it is equal for all targets that one play can be for."""

    @classmethod
    @abstractmethod
    def together(cls, states: Mapping[str, Self]) -> Self:
        """Return one state that states for each name what is given for it; what they share is equal."""


class AsksMore:
    """A kind that asks more than properties: commands on hosts, managers of objects, VMs beside the playbook."""

    probes: ClassVar[tuple[Probe, ...]] = ()
    """Commands on the hosts whose output is read (host kinds only)."""
    queries: ClassVar[tuple[Query, ...]] = ()
    """Questions to managers of every host that is read in full (host kinds only)."""

    kind: ClassVar[KindName]

    @property
    def needs_commands(self) -> bool:
        """Return whether reading this state takes commands; False where they only serve a rule."""
        return bool(self.probes)

    @classmethod
    def questions(cls, wanted: Mapping[Target, Sequence[State]], estate: Estate) -> Iterator[Query]:
        """Yield questions that depend on what a playbook wants of which targets; `estate` is what was read so far."""
        return iter(())

    @classmethod
    def related_vms(cls, targets: Collection[Target], estate: Estate) -> Iterable[str]:
        """Return the VMs beside the targets whose states decide here too; of `estate` only outlines were read."""
        return ()


class ReadsStated(State):
    """A kind that reads of hosts what its states name, and nothing where no play names it."""

    def stated_paths(self) -> tuple[str, ...]:
        """Return property paths of hosts, ``option:KEY`` among them, that this state is about."""
        return ()

    def stated_queries(self) -> tuple[Query, ...]:
        """Return questions to managers of hosts that this state is about."""
        return ()


class TagsVms:
    """A kind that sets vSphere tags of VMs."""

    def tag_categories(self) -> frozenset[str]:
        """Return the names of the categories that the play sets tags of."""
        raise NotImplementedError


class Judged:
    """A kind that compatibility rules are about."""

    shorthand: ClassVar[str]
    traits: ClassVar[Traits]

    @classmethod
    def concerns(cls, state: object) -> Topic:
        """Return the topics whose rules a state (None: not known) makes relevant; a list of no devices needs none."""
        devices = getattr(state, cls.shorthand) if state is not None and cls.shorthand else None
        return Topic.NONE if devices == () else cls.traits.topics

    @classmethod
    def is_fit(cls, facts: Facts) -> bool:
        """Return whether a host or VM that is in no playbook has what the rules of this kind are about."""
        return False


def concerned(kind: type[Resource], state: object) -> Topic:
    """Return the topics whose compatibility rules a state of a kind (None: not known) makes relevant."""
    return kind.concerns(state) if issubclass(kind, Judged) else kind.traits.topics


def topics_of(names: Iterable[KindName]) -> Topic:
    """Return all topics that states of some kinds may touch."""
    return reduce(or_, (kinds()[name].traits.topics for name in names), Topic.NONE)


def affected_by(names: Iterable[KindName]) -> Topic:
    """Return the topics whose rules a change of some kinds may worsen on objects that no playbook is about."""
    return reduce(or_, (kinds()[name].traits.affects for name in names), Topic.NONE)


def probes_of(kind: type[Resource]) -> tuple[Probe, ...]:
    """Return the commands whose output a kind wants."""
    return kind.probes if issubclass(kind, AsksMore) else ()


_kinds_with: dict[type, tuple[KindName, ...]] = {}


def kinds_with(mixin: type) -> tuple[KindName, ...]:
    """Return the names of the kinds that have a mixin; of others no state needs to be observed."""
    if mixin not in _kinds_with:
        _kinds_with[mixin] = tuple(name for name, kind in kinds().items() if issubclass(kind, mixin))
    return _kinds_with[mixin]


def offered(view: View, ref: str, mixin: type[M]) -> Iterator[M]:
    """Yield the states of an object that have a mixin: planned, else observed."""
    found = (view.state(ref, kind) for kind in kinds_with(mixin))
    return (state for state in found if isinstance(state, mixin))


def stated(view: View, ref: str, mixin: type[M]) -> Iterator[M]:
    """Yield what the playbook itself says of an object, of the kinds that have a mixin."""
    found = (view.stated.get((ref, kind)) for kind in kinds_with(mixin))
    return (state for state in found if isinstance(state, mixin))


def settled(view: View, target: Target, mixin: type[M]) -> Iterator[M]:
    """Yield the states with a mixin that the plan gives a target, else those that the playbook says, in full."""
    for kind in kinds_with(mixin):
        planned = view.is_planned(target.ref, kind)
        state = view.state(target.ref, kind) if planned else view.stated.get((target.ref, kind))
        if isinstance(state, Resource) and not planned:
            state = state.settle(target, view)
        if isinstance(state, mixin):
            yield state


def is_changed(view: View, ref: str, mixin: type) -> bool:
    """Return whether the plan changes a state of an object that has a mixin."""
    return any(view.is_planned(ref, kind) for kind in kinds_with(mixin))


def is_stated(view: View, ref: str, mixin: type) -> bool:
    """Return whether the playbook states a kind of an object that has a mixin."""
    return any((ref, kind) in view.stated for kind in kinds_with(mixin))


def device_states(view: View, vm: str) -> Iterator[tuple[KindName, VmDevices]]:
    """Yield the states that may give a VM devices, with their kinds: planned, else as stated, else observed."""
    found = view.wanted(vm, kinds_with(VmDevices))
    return ((state.kind, state) for state in found if isinstance(state, VmDevices))


@cache
def giving(what: str) -> tuple[KindName, ...]:
    """Return the names of the kinds that have a method of `VmDevices` of their own, such as ``vgpus``."""
    return tuple(k for k in kinds_with(VmDevices) if what in vars(kinds()[k]))


def vgpus_of(vm: Target, view: View) -> tuple[str, ...]:
    """Return every vGPU profile a VM will have; only states of kinds that give some are looked at."""
    return tuple(profile for state in view.wanted(vm.ref, giving("vgpus")) for profile in state.vgpus(vm, view))
