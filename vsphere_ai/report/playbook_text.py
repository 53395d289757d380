"""Observed states as the text of a playbook."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from vsphere_ai.facts import Estate
from vsphere_ai.report.values import escaped, safe
from vsphere_ai.resources.base import Resource
from vsphere_ai.state import Target, is_observed

PLAIN = re.compile(r"[a-z][a-z0-9_-]*")
PATTERN_SIGNS = frozenset(",:;[]!&*? ")
PLAY_KEY = {"host": "hosts", "vm": "vms"}


def playbook_text(estate: Estate, states: Mapping[Target, Sequence[Resource]], remarks: Mapping[Target, str]) -> str:
    """Return a play per target. A VM whose name is not unique, or means something else, is named by its reference."""
    lines = [f"# {safe(f'{estate.about.name} {estate.about.version}')}, as it was read"]
    names = [(t.kind, t.name) for t in (*estate.hosts, *estate.vms)]
    for target, own in states.items():
        parts = [part for state in own for part in _state(state)]
        unique = names.count((target.kind, target.name)) == 1 and not _means_more(target.name)
        lines += [f"# {safe(target.name)}: {safe(remarks[target])}"] if target in remarks else []
        if parts:
            pattern = target.name if unique else target.ref
            lines += ["", f"- {PLAY_KEY[target.kind]}: {_scalar(pattern)}", *parts]
    return "\n".join(lines) + "\n"


def _means_more(name: str) -> bool:
    """Tell whether a pattern of this name would mean every object, an inventory path or several names."""
    return name == "all" or name.startswith("/") or bool(PATTERN_SIGNS & set(name))


def _state(state: Resource) -> Iterator[str]:
    values = {
        name: getattr(state, name)
        for name in type(state).model_fields
        if not is_observed(type(state), name) and getattr(state, name) is not None
    }
    if values:
        yield f"  {state.kind}: {_flow(values)}"


def _flow(value: Any) -> str:
    if isinstance(value, BaseModel):
        value = {k: getattr(value, k) for k in type(value).model_fields if getattr(value, k) is not None}
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_scalar(k)}: {_flow(v)}" for k, v in value.items()) + "}"
    if isinstance(value, tuple):
        return "[" + ", ".join(_flow(v) for v in value) + "]"
    return _scalar(value)


def _scalar(value: Any) -> str:
    """JSON strings are YAML strings; quoting all of them keeps PCI addresses and odd names what they are."""
    if isinstance(value, str) and PLAIN.fullmatch(value) and value not in ("true", "false", "null"):
        return value
    return escaped(json.dumps(value, ensure_ascii=False), yaml=True)
