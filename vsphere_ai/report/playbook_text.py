"""Playbook text of observed states."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pydantic import BaseModel

from vsphere_ai.model.facts import Estate
from vsphere_ai.model.state import State, Target, is_observed
from vsphere_ai.model.text import escaped, safe

PLAIN = re.compile(r"[a-z][a-z0-9_-]*")
PATTERN_SIGNS = frozenset(",:;[]!&*? ")
WIDEST = 100
"""Columns of a line, where its value can be written on several."""
PLAY_KEY = {"datacenter": "datacenters", "host": "hosts", "vm": "vms"}


def playbook_text(estate: Estate, states: Mapping[Target, Sequence[State]], remarks: Mapping[Target, str]) -> str:
    """Return a play per target. A VM whose name is not unique, or means something else, is named by its reference."""
    lines = [f"# {safe(f'{estate.about.name} {estate.about.version}')}, as it was read"]
    heads = play_heads(estate, states)
    for target, own in states.items():
        parts = [part for state in own for part in _state(state)]
        lines += [f"# {safe(target.name)}: {safe(remarks[target])}"] if target in remarks else []
        if parts:
            lines += ["", heads[target], *parts]
    return "\n".join(lines) + "\n"


def play_heads(estate: Estate, targets: Iterable[Target]) -> dict[Target, str]:
    """Return the first line of a play for each target; one without a unique, plain name is named by its reference."""
    count = Counter((t.kind, t.name) for t in (*estate.datacenters, *estate.hosts, *estate.vms))
    heads = {}
    for target in targets:
        unique = count[target.kind, target.name] == 1 and not _means_more(target.name)
        heads[target] = f"- {PLAY_KEY[target.kind]}: {scalar(target.name if unique else target.ref)}"
    return heads


def _means_more(name: str) -> bool:
    """Return whether a pattern of this name would mean every object, an inventory path or several names."""
    return name == "all" or name.startswith("/") or bool(PATTERN_SIGNS & set(name))


def _state(state: State) -> Iterator[str]:
    values = {
        name: getattr(state, name)
        for name in type(state).model_fields
        if not is_observed(type(state), name) and getattr(state, name) is not None
    }
    if values:
        yield from _entry(f"  {state.kind}:", values[state.shorthand] if state.keyed else values)


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
    """Return a plain value as YAML.

    JSON strings are YAML strings; quoting all of them keeps PCI addresses and odd names what they are.
    """
    if isinstance(value, str) and PLAIN.fullmatch(value) and value not in ("true", "false", "null"):
        return value
    return escaped(json.dumps(value, ensure_ascii=False), yaml=True)
