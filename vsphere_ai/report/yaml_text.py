"""YAML of values: in flow style where it fits on a line of 100 columns, else its parts on lines below."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from pydantic import BaseModel

from vsphere_ai.model.state import State, is_observed
from vsphere_ai.model.text import escaped

WIDEST = 100
"""Columns of a line, where its value can be written on several."""
PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")
PLAIN_WORDS = re.compile(rf"{PLAIN.pattern}(?: [A-Za-z0-9_.-]+)*")
PLAIN_TERM = re.compile(r"[A-Za-z](?:[A-Za-z0-9_./-]|:(?=[A-Za-z0-9])|\[[0-9]+:[0-9]+\])*")
WORDS = frozenset(("true", "false", "null", "yes", "no", "y", "n"))
"""Words that are no text in YAML 1.2 or 1.1. `on` and `off` are values of settings: these are text in YAML 1.2."""


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
    value = _stated(value)
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
    stated = _stated(value)
    if len(line) <= WIDEST or not stated or not isinstance(stated, Mapping | tuple):
        yield line
        return
    if isinstance(stated, tuple):
        parts = [part for each in stated for part in _item(f"{inner}  ", each)]
    else:
        parts = [part for key, each in stated.items() for part in _entry(f"{inner}  {scalar(key)}:", each)]
    yield f"{inner}- {parts[0].lstrip()}"
    yield from parts[1:]


def _is_mapping(value: object) -> bool:
    return isinstance(_stated(value), Mapping)


def _stated(value: object) -> object:
    """Return a model as the mapping of what it states."""
    if not isinstance(value, BaseModel):
        return value
    return {k: getattr(value, k) for k in type(value).model_fields if getattr(value, k) is not None}


def flow(value: object) -> str:
    """Return a value as YAML on one line."""
    value = _stated(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{scalar(k)}: {flow(v)}" for k, v in value.items()) + "}"
    if isinstance(value, tuple):
        return "[" + ", ".join(flow(v) for v in value) + "]"
    return scalar(value)


def scalar(value: object) -> str:
    """Return a plain value as YAML that is the same inside of brackets.

    JSON strings are YAML strings; quoting all odd ones keeps PCI addresses and odd names what they are.
    """
    if isinstance(value, str) and PLAIN.fullmatch(value) and _is_text(value):
        return value
    return escaped(json.dumps(value, ensure_ascii=False), yaml=True)


def term(pattern: str) -> str:
    """Return a pattern as YAML outside of brackets: ranges and references need no quotes there."""
    return pattern if PLAIN_TERM.fullmatch(pattern) and _is_text(pattern) else scalar(pattern)


def prose(text: str) -> str:
    """Return a text of several words as YAML outside of brackets."""
    return text if PLAIN_WORDS.fullmatch(text) and _is_text(text) else scalar(text)


def _is_text(word: str) -> bool:
    return word.casefold() not in WORDS and (word in ("on", "off") or word.casefold() not in ("on", "off"))
