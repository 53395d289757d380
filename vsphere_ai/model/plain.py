"""Plain values: what JSON can hold, as read from vCenter, sent to it, and written into documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

Plain: TypeAlias = "bool | int | float | str | Sequence[Plain] | Mapping[str, Plain] | None"
"""A plain value. Lists are tuples; a managed object is its reference ``Type:moid``; a time is ISO 8601 in UTC."""
PlainObject: TypeAlias = Mapping[str, Plain]
"""A data object of the vSphere API: its fields in VMware's spelling, its type under ``_typeName``."""


def objects(value: Plain) -> tuple[PlainObject, ...]:
    """Return the data objects of a list; none where the value is no list."""
    return tuple(v for v in value if isinstance(v, Mapping)) if isinstance(value, list | tuple) else ()


def as_tuples(value: object) -> object:
    """Return a value of JSON, whose lists become tuples, as models have them."""
    if isinstance(value, Mapping):
        return {key: as_tuples(item) for key, item in value.items()}
    return tuple(map(as_tuples, value)) if isinstance(value, list | tuple) else value


def inside(value: Plain, path: str) -> Plain:
    """Return the value at a path of field names, such as ``spec.ip``; None where it does not lead to one."""
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def named(value: Plain) -> dict[str, PlainObject]:
    """Return the data objects of a mapping by their names; none where the value is no mapping."""
    items = value.items() if isinstance(value, Mapping) else ()
    return {name: v for name, v in items if isinstance(v, Mapping)}
