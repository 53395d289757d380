"""View of an estate while it is planned: observed states, and the planned ones laid over them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

from vsphere_ai.model.estate.observed import Key, Observed, laid_over
from vsphere_ai.model.estate.places import Places
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.state import KindName, State, Target

S = TypeVar("S", bound=State)


@dataclass(frozen=True)
class View:
    """The estate as it will be when the steps planned so far have run.

    `states` holds, per (reference, kind), the observed state, or what a reboot will leave of it; `planned` holds, per
    reference and kind, the states that are planned and not yet true. `rebooting` names the hosts this plan reboots,
    `emptied` those that enter maintenance, with or without a reboot: no VM of them keeps its devices;
    `stated` holds, by the keys of `states`, what the playbook itself says, planned yet or not: None = it leaves that
    open. `left_out` names the targets of the playbook that `--limit` leaves out.
    """

    estate: Estate
    states: Mapping[Key, Any] = field(default_factory=dict)
    rebooting: frozenset[str] = frozenset()
    planned: Mapping[str, Mapping[KindName, Any]] = field(default_factory=dict)
    stated: Mapping[Key, Any] = field(default_factory=dict)
    left_out: frozenset[str] = frozenset()
    emptied: frozenset[str] = frozenset()

    def state(self, ref: str, kind: KindName) -> Any:
        """Return the state of a kind on an object: planned if this plan changes it, else observed; None if unknown."""
        return self._state(ref, kind)

    def _state(self, ref: str, kind: KindName) -> object:
        planned = self.planned.get(ref)
        return planned[kind] if planned and kind in planned else self.states.get((ref, kind))

    def get(self, kind: type[S], ref: str) -> S | None:
        """Return what `state` does, typed by the class of its kind; None if unknown."""
        found = self.state(ref, kind.kind)
        return found if isinstance(found, kind) else None

    def said(self, kind: type[S], ref: str) -> S | None:
        """Return what the playbook itself says of a kind on an object, not settled; None if it says nothing."""
        found = self.stated.get((ref, kind.kind))
        return found if isinstance(found, kind) else None

    @cached_property
    def kinds(self) -> tuple[KindName, ...]:
        """Every kind that an object may have a state of, by name."""
        known = self.states.kinds if isinstance(self.states, Observed) else (kind for _, kind in self.states)
        return tuple(sorted({*known, *(kind for states in self.planned.values() for kind in states)}))

    def wanted(self, ref: str, kinds: Iterable[KindName] | None = None) -> Iterator[Any]:
        """Yield the states of an object as they will be: planned, else as the playbook states them, else observed.

        A state that is only stated may leave open (None) what is not settled yet. With `kinds`, of these kinds only.
        """
        planned = self.planned.get(ref, {})
        for kind in self.kinds if kinds is None else kinds:
            stated = self.stated.get((ref, kind)) if kind not in planned else None
            found = self._state(ref, kind) if stated is None else stated
            if found is not None:
                yield found

    def facts(self, ref: str) -> Facts:
        """Return what was read of an object."""
        return self.estate[ref]

    def is_planned(self, ref: str, kind: KindName) -> bool:
        """Return whether this plan changes that state (it is not true yet)."""
        return kind in self.planned.get(ref, ())

    def planned_kinds(self, ref: str) -> Collection[KindName]:
        """Return the kinds that this plan changes on an object."""
        return self.planned.get(ref, {}).keys()

    def with_planned(self, ref: str, state: State) -> View:
        """Return the view with one more planned state laid over it."""
        own = {**self.planned.get(ref, {}), state.kind: state}
        made = self._like(replace(self, planned=laid_over(self.planned, {ref: own})), new=state.kind)
        if ref.startswith("VirtualMachine:"):  # no host is another one for it: see `Placed.runs_on`
            made.__dict__["places"] = Places(made, self.places)
        return made

    def after_reboots(self, hosts: frozenset[str], states: Mapping[Key, object]) -> View:
        """Return the view in which hosts reboot, with what that leaves of observed states in their place."""
        return self._like(replace(self, rebooting=hosts, states=laid_over(self.states, states)))

    def emptying(self, hosts: frozenset[str]) -> View:
        """Return the view in which hosts enter maintenance, so that every VM on them is switched off or moved."""
        return self._like(replace(self, emptied=hosts))

    def with_facts(self, facts: Iterable[Facts]) -> View:
        """Return the view with objects as they will be read once what is planned so far is done."""
        changed = tuple(facts)
        return self._like(replace(self, estate=self.estate.with_objects(changed))) if changed else self

    def _like(self, made: View, *, new: str = "") -> View:
        """Return a view made of this one; its kinds are not counted again unless one is `new`."""
        if not new or new in self.kinds:
            made.__dict__["kinds"] = self.kinds
        return made

    def candidates(self, vm: str) -> tuple[Target, ...]:
        """Return the hosts a VM can run on once the plan is carried out: those all its states can run on."""
        return self.places.candidates(vm)

    @cached_property
    def places(self) -> Places:
        """Where VMs can run; found out once for what they have in common."""
        return Places(self)
