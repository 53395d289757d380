"""Advanced options of a host that no other resource type sets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Annotated, Self

from pydantic import AfterValidator

from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.finding import Problem
from vsphere_ai.model.privilege import Duty
from vsphere_ai.model.state import Change, KindName, Target, setting
from vsphere_ai.model.steps import Step
from vsphere_ai.model.view import View
from vsphere_ai.resources import kinds
from vsphere_ai.resources._helpers.factories import set_option
from vsphere_ai.resources.base import Resource, Traits
from vsphere_ai.resources.mixins import ReadsStated

OPTION, SETS = "option:", "UpdateOptions"
LARGEST = 2**63 - 1
"""Of a LongOption, which is what options of hosts with a number are (vSphere Web Services API reference)."""
Value = bool | int | str


def _numbers_fit(options: Mapping[str, Value]) -> Mapping[str, Value]:
    """Return the options; ValueError where a name is none, or a number does not fit."""
    for name, value in options.items():
        if not name or name != name.strip() or name.startswith(".") or name.endswith("."):
            raise ValueError(f"'{name}' is no name of an advanced option\nwrite it in full, such as Net.TcpipHeapMax")
        if isinstance(value, int) and not -LARGEST <= value <= LARGEST:
            raise ValueError(f"{name}: {value} is too large a number\nan option holds at most {LARGEST}")
    return options


class AdvancedOptions(ReadsStated, Resource):
    """Sets advanced options of a host, one call each; it needs neither maintenance mode nor a restart.

    Options that another resource type sets are refused, with its name.
    """

    kind = KindName("advanced")
    target = "host"
    shorthand = "options"
    keyed = True
    traits = Traits(duties=(Duty("`advanced`", "hosts", (SETS,)),), in_profile="advanced options")

    options: Annotated[Mapping[str, Value], AfterValidator(_numbers_fit)] | None = setting(
        "Name of an option -> its value, a number, a text, `true` or `false`."
    )

    def stated_paths(self) -> tuple[str, ...]:
        """Return the paths of the options that a play names: there are more than a thousand on a host."""
        return tuple(f"{OPTION}{name}" for name in self.options or ())

    @classmethod
    def observe(cls, facts: Facts, estate: Estate) -> Self | None:
        """Return the options that were read and that no other kind sets; None where there is none."""
        owned = owners()
        read = {path.removeprefix(OPTION): facts.get(path) for path in facts.properties if path.startswith(OPTION)}
        options = {name: value for name, value in sorted(read.items()) if name.casefold() not in owned}
        return cls.model_construct(options=options) if options else None

    def settle(self, target: Target, view: View) -> Self:
        """What is not named is not compared."""
        return self

    def problems(self, target: Target, view: View) -> Iterator[Problem]:
        """An option is another kind's, cannot be read, is not there, or has values of another type."""
        facts = view.facts(target.ref)
        for name, value in (self.options or {}).items():
            path, owner = f"{OPTION}{name}", owners().get(name.casefold())
            now = facts.get(path)
            if owner is not None:
                message = f"the advanced option {name} is set by the resource type {owner}"
                yield self.problem(target, "owned", message, f"write it as {owner}: {{...}} in the play")
            elif path in facts.unreadable:
                message = f"the advanced option {name} cannot be read: {facts.unreadable[path]}"
                yield self.problem(target, "unreadable", message, "System.Read on the host; a host that is connected")
            elif now is None:
                message = f"this host has no advanced option {name}"
                yield self.problem(target, "unknown", message, "write the name as the vSphere Client shows it")
            elif _type(now) != _type(value):
                message = f"{name} is {_type(now)} on this host ({now}), not {_type(value)} ({value})"
                yield self.problem(target, "type", message, f"write {_type(now)}")

    def steps(self, change: Change, view: View) -> Iterator[Step]:
        """Set each option that differs."""
        for field in change.fields:
            yield set_option(change, field.name, field.after, f"set {field.name} to {field.after}")


@cache
def owners() -> Mapping[str, KindName]:
    """Return the options that other kinds set, in lower case, with the kind: those it reads and has a call for."""
    found: dict[str, KindName] = {}
    for name, kind in kinds().items():
        if any(SETS in duty.methods for duty in kind.traits.duties):
            read = (p for p in kind.traits.properties.get("HostSystem", ()) if p.startswith(OPTION))
            for path in read:
                found.setdefault(path.removeprefix(OPTION).casefold(), name)
    return found


def _type(value: object) -> str:
    if isinstance(value, bool):
        return "true or false"
    return "a number" if isinstance(value, int) else "a text"
