"""YAML of a state in a play: in flow style where it fits on a line of 100 columns, else its parts on lines below."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vsphere_ai.model.names.yaml_text import flow, scalar, stated
from vsphere_ai.model.state import State, is_observed

WIDEST = 100
"""Columns of a line, where its value can be written on several."""


def state_lines(state: State) -> Iterator[str]:
    """Yield a state as a key of a play: what it states, and nothing that is only observed."""
    values = {
        name: getattr(state, name)
        for name in type(state).model_fields
        if not is_observed(type(state), name) and getattr(state, name) is not None
    }
    if values:
        short = state.keyed or (list(values) == [state.shorthand] and not _is_mapping(values[state.shorthand]))
        yield from _entry(f"  {state.kind}:", values[state.shorthand] if short else values)


def _entry(head: str, value: object) -> Iterator[str]:
    """Yield a key or the sign of an entry with its value: on one line where it fits, else its parts on lines below."""
    line = f"{head} {flow(value)}"
    value = stated(value)
    if len(line) <= WIDEST or not value or not isinstance(value, Mapping | tuple):
        yield line
        return
    yield head
    inner = " " * (len(head) - len(head.lstrip()) + 2)
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from _entry(f"{inner}{scalar(key)}:", each)
    else:
        for each in value:
            yield from _item(inner, each)


def _item(inner: str, value: object) -> Iterator[str]:
    """Yield an entry of a list; of a mapping that does not fit on a line, its first key stands beside the sign."""
    line = f"{inner}- {flow(value)}"
    parts_of = stated(value)
    if len(line) <= WIDEST or not parts_of or not isinstance(parts_of, Mapping | tuple):
        yield line
        return
    if isinstance(parts_of, tuple):
        parts = [part for each in parts_of for part in _item(f"{inner}  ", each)]
    else:
        parts = [part for key, each in parts_of.items() for part in _entry(f"{inner}  {scalar(key)}:", each)]
    yield f"{inner}- {parts[0].lstrip()}"
    yield from parts[1:]


def _is_mapping(value: object) -> bool:
    return isinstance(stated(value), Mapping)
