"""References and keys of what an earlier step of the same plan makes: written by name, looked up when needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

PREFIX = "late"
CONFIG_TARGET = "configTarget"
"""Begins a path in what a host offers to VMs (QueryConfigTarget), which is no property: ``configTarget.sriov``."""
SEPARATOR, CHOICE, EQUALS, NESTED = "\x1f", "\x1e", "\x1d", "\x1c"  # no name in an inventory has them


@dataclass(frozen=True)
class Deferred:
    """What to look up: `path` of the object of a managed type and name in a datacenter; no path: its reference.

    A reference reads ``Type:late...``, so that it is known for one of that type before it is looked up. `path` is a
    property path, or what `inside` made.
    """

    datacenter: str
    managed: str
    name: str
    path: str = ""

    def __str__(self) -> str:
        head = "" if self.path else f"{self.managed}:"
        return head + SEPARATOR.join((PREFIX, self.datacenter, self.managed, self.name, self.path))


def inside(path: str, *more: str | tuple[str, str]) -> str:
    """Return a path that goes on inside a property: a pair chooses the element of a list whose field has that value.

    ``inside("config.network.proxySwitch", ("dvsName", "dvs-1"), "uplinkPort", ("value", "Uplink 1"), "key")``

    The field of a pair may be dotted, and its value may have to be looked up first (see `nested`).
    """
    steps = (step if isinstance(step, str) else EQUALS.join(step).replace(SEPARATOR, NESTED) for step in more)
    return CHOICE.join((path, *steps))


def nested(path: str, find: Callable[[Deferred], str]) -> str:
    """Return a path whose pairs name what they look for, where that had to be looked up itself."""
    if NESTED not in path:
        return path
    steps = [step.replace(NESTED, SEPARATOR).split(EQUALS) for step in path.split(CHOICE)]
    return CHOICE.join(EQUALS.join([head, *(replaced(v, find) for v in values)]) for head, *values in steps)


def chosen(value: Any, path: str) -> Any:
    """Follow what `inside` made behind its property path; None where that leads nowhere or to several elements."""
    for step in path.split(CHOICE)[1:]:
        field, pair, wanted = step.partition(EQUALS)
        if pair:
            found = [v for v in value or () if _at(v, field) == wanted]
            value = found[0] if len(found) == 1 else None
        else:
            value = value.get(field) if isinstance(value, Mapping) else None
    return value


def _at(value: Any, field: str) -> Any:
    for name in field.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def property_path(path: str) -> str:
    """Return the property path a path begins with."""
    return path.split(CHOICE)[0]


def spelled(path: str) -> str:
    """Return a path as an operator reads it."""
    return nested(path, lambda deferred: deferred.name).replace(CHOICE, " > ").replace(EQUALS, " ")


def read(text: str) -> Deferred | None:
    """Return what a string stands for (the type before it left out); None when it is what it says."""
    head, prefix, rest = text.partition(PREFIX + SEPARATOR)
    parts = rest.split(SEPARATOR)
    return Deferred(*parts) if prefix and len(parts) == 4 and (not head or head.endswith(":")) else None


def is_deferred(value: Any) -> bool:
    """Tell whether anything in a plain value has to be looked up."""
    if isinstance(value, str):
        return read(value) is not None
    if isinstance(value, Mapping):
        return any(is_deferred(v) for v in value.values())
    return isinstance(value, tuple | list) and any(is_deferred(v) for v in value)


def replaced(value: Any, find: Callable[[Deferred], str]) -> Any:
    """Return a plain value with everything looked up."""
    if isinstance(value, str):
        deferred = read(value)
        if deferred is None:
            return value
        head = value.partition(PREFIX + SEPARATOR)[0] if deferred.path else ""
        return head + find(deferred)
    if isinstance(value, Mapping):
        return {k: replaced(v, find) for k, v in value.items()}
    if isinstance(value, tuple | list):
        return tuple(replaced(v, find) for v in value)
    return value
