"""Hosts that VMs can run on, and what is found of those hosts: once for what many VMs have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar, TypeVarTuple, cast

from vsphere_ai.model.facts import Estate
from vsphere_ai.model.state import KindName, Placed, Target

About = TypeVarTuple("About")
T = TypeVar("T")
Hosts = tuple[Target, ...]


class SeenEstate(Protocol):
    """What is seen of an estate, as a `View` has it."""

    @property
    def estate(self) -> Estate:
        """Everything that was read."""

    @property
    def kinds(self) -> tuple[KindName, ...]:
        """Every kind, by name."""

    def state(self, ref: str, kind: KindName) -> object:
        """Return the state of a kind on an object, None if unknown."""


class Places:
    """Where VMs can run in a view, which does not change."""

    def __init__(self, view: SeenEstate, like: Places | None = None) -> None:
        """Begin with what is found of hosts in another view: `like`, in which they are the same."""
        self._view = view
        self._deciding: dict[str, bool] = like._deciding if like is not None else {}
        self._found: dict[object, tuple[Hosts, object]] = like._found if like is not None else {}
        self._candidates: dict[str, Hosts] = {}

    def candidates(self, vm: str) -> Hosts:
        """Return the hosts all states of a VM can run on; where none of them decides, those of its cluster as such."""
        if vm not in self._candidates:
            view, hosts = self._view, self._view.estate.hosts_for(vm)
            states = tuple(s for s in self._placing(vm) if s.is_bound)
            able = lambda: tuple(h for h in hosts if all(s.runs_on(h, view) for s in states))  # noqa: E731
            self._candidates[vm] = self._once(hosts, states, able) if states else hosts
        return self._candidates[vm]

    def _placing(self, vm: str) -> Iterator[Placed]:
        for kind in self._view.kinds:
            state = self._view.state(vm, kind) if self._deciding.get(kind, True) else None
            if state is not None and self._deciding.setdefault(kind, isinstance(state, Placed)):
                yield cast(Placed, state)

    def of_hosts(self, hosts: Hosts, find: Callable[[Estate, Hosts, *About], T], *about: *About) -> T:
        """Return what is found of hosts in the estate; once for those that many VMs can run on, for each `about`."""
        return self._once(hosts, (find, about), lambda: find(self._view.estate, hosts, *about))

    def _once(self, hosts: Hosts, what: object, find: Callable[[], T]) -> T:
        known = self._found.get((id(hosts), what))
        if known is None:  # the hosts are kept, so that no others get their identity
            known = self._found[id(hosts), what] = (hosts, find())
        return cast(T, known[1])
