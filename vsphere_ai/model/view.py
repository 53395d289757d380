"""View of an estate while it is planned: observed states, and the planned ones laid over them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.observed import kinds_of, laid_over
from vsphere_ai.model.state import Placed, State, Target

S = TypeVar("S", bound=State)


@dataclass(frozen=True)
class View:
    """The estate as it will be when the steps planned so far have run.

    `states` holds, per (reference, kind), the observed state or, once planned, the wanted one.
    `rebooting` names the hosts this plan reboots; `planned` says which states are planned and not yet true;
    `stated` holds, by the same keys, what the playbook itself says, planned yet or not: None = it leaves that open.
    `left_out` names the targets of the playbook that `--limit` leaves out.
    """

    estate: Estate
    states: Mapping[tuple[str, str], Any] = field(default_factory=dict)
    rebooting: frozenset[str] = frozenset()
    planned: frozenset[tuple[str, str]] = frozenset()
    stated: Mapping[tuple[str, str], Any] = field(default_factory=dict)
    left_out: frozenset[str] = frozenset()

    def state(self, ref: str, kind: str) -> Any:
        """Return the state of a kind on an object: planned if this plan changes it, else observed; None if unknown."""
        return self.states.get((ref, kind))

    def get(self, kind: type[S], ref: str) -> S | None:
        """Return what `state` does, typed by the class of its kind; None if unknown."""
        found = self.states.get((ref, kind.kind))
        return found if isinstance(found, kind) else None

    def said(self, kind: type[S], ref: str) -> S | None:
        """Return what the playbook itself says of a kind on an object, not settled; None if it says nothing."""
        found = self.stated.get((ref, kind.kind))
        return found if isinstance(found, kind) else None

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """Every kind there is a state of, by name."""
        return tuple(sorted(kinds_of(self.states)))

    def wanted(self, ref: str) -> Iterator[Any]:
        """Yield the states of an object as they will be: planned, else as the playbook states them, else observed.

        A state that is only stated may leave open (None) what is not settled yet.
        """
        for kind in self.kinds:
            key = (ref, kind)
            stated = self.stated.get(key) if key not in self.planned else None
            found = self.states.get(key) if stated is None else stated
            if found is not None:
                yield found

    def facts(self, ref: str) -> Facts:
        """Return what was read of an object."""
        return self.estate[ref]

    def is_planned(self, ref: str, kind: str) -> bool:
        """Tell whether this plan changes that state (it is not true yet)."""
        return (ref, kind) in self.planned

    def with_planned(self, ref: str, state: State) -> View:
        """Return the view with one more planned state laid over it."""
        key = (ref, state.kind)
        made = replace(self, states=laid_over(self.states, {key: state}), planned=self.planned | {key})
        if state.kind in self.kinds:
            made.__dict__["kinds"] = self.kinds  # counting them again for every VM would take the longer, the more
        return made

    def with_facts(self, facts: Iterable[Facts]) -> View:
        """Return the view with objects as they will be read once what is planned so far is done."""
        changed = {f.ref: f for f in facts}
        return replace(self, estate=Estate(self.estate.about, {**self.estate.objects, **changed})) if changed else self

    def candidates(self, vm: str) -> tuple[Target, ...]:
        """Return the hosts a VM can run on once the plan is carried out: those all its states can run on."""
        states = [s for kind in self.kinds if isinstance(s := self.states.get((vm, kind)), Placed)]
        return tuple(h for h in self.estate.hosts_for(vm) if all(s.runs_on(h, self) for s in states))
