"""Deferred references and keys: of what an earlier step of the same plan makes, looked up when they are sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from vsphere_ai.model import plain
from vsphere_ai.model.plain import Plain

CONFIG_TARGET = "configTarget"
"""Begins a path in what a host offers to VMs (QueryConfigTarget), which is no property: ``configTarget.sriov``."""


@dataclass(frozen=True)
class ListChoice:
    """The element of a list whose field, which may be dotted, has a value; the value may itself be deferred."""

    field: str
    value: str


Path = tuple[str | ListChoice, ...]
"""A property path, and the steps that go on inside of its value: names of fields, and choices of elements."""


def inside(path: str, *more: str | tuple[str, str]) -> Path:
    """Return a path that goes on inside a property; a pair chooses the element whose field has that value.

    ``inside("config.network.proxySwitch", ("dvsName", "dvs-1"), "uplinkPort", ("value", "Uplink 1"), "key")``
    """
    return (path, *(step if isinstance(step, str) else ListChoice(*step) for step in more))


class Deferred(str):
    """A text that is not known yet: what is at `path` of the object of a managed type and name in a datacenter.

    With no path it stands for the reference of that object. As a text it is what an operator reads; a reference begins
    with its type, so that it is known for one before it is looked up. `head` comes before what is found.
    """

    datacenter: str
    managed: str
    name: str
    path: Path
    head: str

    def __new__(cls, datacenter: str, managed: str, name: str, path: str | Path = (), head: str = "") -> Deferred:
        """Make one of the name of an object that a plan makes."""
        steps = ((path,) if path else ()) if isinstance(path, str) else path
        what = f"{spelled(steps)} of {managed} {name}" if steps else name
        made = super().__new__(cls, f"{head if steps else f'{managed}:'}<{what} in {datacenter}>")
        made.datacenter, made.managed, made.name, made.path, made.head = datacenter, managed, name, steps, head
        return made

    def __str__(self) -> str:
        """Return this value itself: as a plain text it could not be looked up any more."""
        return self

    def __reduce__(self) -> tuple[type[Deferred], tuple[str, str, str, Path, str]]:
        return type(self), (self.datacenter, self.managed, self.name, self.path, self.head)

    def as_reference(self, managed: str) -> Deferred:
        """Return the reference of an object of a type whose key this is."""
        return Deferred(self.datacenter, self.managed, self.name, self.path, f"{managed}:")


def nested(path: Path, find: Callable[[Deferred], str]) -> Path:
    """Return a path with the values of its choices looked up, where they are deferred."""
    return tuple(
        ListChoice(step.field, find(step.value))
        if isinstance(step, ListChoice) and isinstance(step.value, Deferred)
        else step
        for step in path
    )


def chosen(value: Plain, path: Path) -> Plain:
    """Follow a path behind its property path; None where that leads nowhere or to several elements."""
    for step in path[1:]:
        if isinstance(step, ListChoice):
            found = [v for v in plain.objects(value) if plain.inside(v, step.field) == step.value]
            value = found[0] if len(found) == 1 else None
        else:
            value = plain.inside(value, step)
    return value


def property_path(path: Path) -> str:
    """Return the property path a path begins with; empty for that of a reference."""
    return str(path[0]) if path else ""


def spelled(path: Path) -> str:
    """Return a path as an operator reads it."""
    return " > ".join(step if isinstance(step, str) else f"{step.field} {_name(step.value)}" for step in path)


def _name(value: str) -> str:
    return value.name if isinstance(value, Deferred) else value


def is_deferred(value: object) -> bool:
    """Return whether anything in a plain value has to be looked up."""
    if isinstance(value, Mapping):
        return any(is_deferred(v) for v in value.values())
    return isinstance(value, Deferred) or (isinstance(value, tuple | list) and any(is_deferred(v) for v in value))


def replaced(value: object, find: Callable[[Deferred], str]) -> object:
    """Return a plain value with everything looked up."""
    if isinstance(value, Deferred):
        return value.head + find(value)
    if isinstance(value, Mapping):
        return {k: replaced(v, find) for k, v in value.items()}
    if isinstance(value, tuple | list):
        return tuple(replaced(v, find) for v in value)
    return value
