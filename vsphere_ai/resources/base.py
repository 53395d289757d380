"""Contract of a kind: an instance is a state, the class reads it from facts and gives the steps that lead to it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal, NamedTuple, Self

from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.finding import Problem
from vsphere_ai.model.privilege import Duty
from vsphere_ai.model.state import Change, KindName, State, Target, TargetKind
from vsphere_ai.model.steps import Step
from vsphere_ai.model.view import View
from vsphere_ai.resources._helpers.factories import problem
from vsphere_ai.resources.topics import Topic

Form = Literal["shown", "playbook", "rollback"]
After = Literal["plan", "reboot"]


@dataclass(frozen=True, kw_only=True)
class Traits:
    """Facts about a kind that hold for all its states."""

    after: tuple[KindName, ...] = ()
    """Kinds that are planned before this one, because their planned state decides what is possible here."""
    properties: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Managed type -> property paths to read, of its targets and of the objects that it looks up."""
    duties: tuple[Duty, ...] = ()
    """Rows of the role in the documentation: the privileges that carrying out this kind takes."""
    replaces: Mapping[str, str] = field(default_factory=dict)
    """Methods that replace all there is -> the property path of it, which has to be what the plan was made with."""
    decides: Mapping[str, str] = field(default_factory=dict)
    """Property path that compatibility rules read -> the field that says what a plan makes of it."""
    implies: Mapping[str, str] = field(default_factory=dict)
    """Property path that such rules read -> the field, only shown, with the value it gets along with other settings."""
    topics: Topic = Topic.NONE
    """What compatibility rules are about that a state of this kind may touch."""
    affects: Topic = Topic.NONE
    """What rules are about that a change of this kind may worsen, also on hosts and VMs not in the playbook."""
    vm_settings: Mapping[str, str] = field(default_factory=dict)
    """Advanced settings of VMs that this kind writes (``*``: any text) -> what a play says instead of naming them."""
    in_profile: str = ""
    """The part of a vSphere Configuration Profile that holds the same settings; empty when none is known to."""


def kind_names(*names: str) -> tuple[KindName, ...]:
    """Return the names of kinds; that each exists is a test of all kinds together."""
    return tuple(map(KindName, names))


class StateExport(NamedTuple):
    """A state in one form; `left_out` says in a line what of it cannot be stated in a playbook."""

    state: State | None
    left_out: str = ""


class Projection(NamedTuple):
    """A state at a later time, and objects as they will be read then.

    An object that does not exist yet has a `Deferred` for its reference, and for keys that only the server gives.
    """

    state: State
    facts: tuple[Facts, ...] = ()


class Resource(State, ABC):
    """One kind of setting of datacenters, hosts or VMs. Its fields are the YAML keys and the columns of the plan.

    Required are `observe`, `problems` and `steps`. What only some kinds have is in `mixins`.
    """

    target: ClassVar[TargetKind]
    traits: ClassVar[Traits] = Traits()

    @classmethod
    @abstractmethod
    def observe(cls, facts: Facts, estate: Estate) -> Self | None:
        """Build the present state of a target from what was read of it; None when it is not known or not there."""

    @abstractmethod
    def problems(self, target: Target, view: View) -> Iterator[Problem]:
        """Yield every reason why this (settled) state cannot be reached, not only the first."""

    @abstractmethod
    def steps(self, change: Change, view: View) -> Iterator[Step]:
        """Yield the steps from ``change.before`` to this state, with flags for what they disrupt."""

    def settle(self, target: Target, view: View) -> Self:
        """Return the wanted state in full: what a playbook leaves out is taken from the present state."""
        return self.filled(view.get(type(self), target.ref))

    def remarks(self, target: Target, view: View) -> Iterator[str]:
        """Yield what an operator should know about this change before approving it."""
        return iter(())

    def project(self, target: Target, view: View, after: After) -> Projection:
        """Return this (settled) state once the plan is carried out, or what is left of it once its host rebooted."""
        return Projection(self)

    def export(self, target: Target, view: View, form: Form) -> StateExport:
        """Return this observed state as plans show it, as a playbook may state it, or as a rollback states it.

        Shown are names where the API has keys. None: the target has nothing of the kind. What a change adds has to go
        away again in a rollback.
        """
        return StateExport(self)

    def problem(self, target: Target, rule: str, message: str, help: str = "") -> Problem:
        """Return a problem of this kind: the rule ``no-gpu`` of the kind `mig` is ``mig.no-gpu``."""
        return problem(self.kind, target, rule, message, help)
