"""Kinds and their keys, explained from the descriptions of their fields; the tables of their pages say the same."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from vsphere_ai.app.project.explanations import pages
from vsphere_ai.model.records.explained import ExplanationPart, NameExplained
from vsphere_ai.model.state import is_observed
from vsphere_ai.resources import kinds
from vsphere_ai.resources.base import Resource

SCALARS = {"string": "text", "integer": "whole number", "boolean": "`true` or `false`", "number": "number"}
TARGETS = {"host": "hosts", "vm": "VMs", "datacenter": "datacenters"}
Schema = Mapping[str, Any]
"""A JSON schema, or its models by name."""
_STEPS = re.compile(r"\[\]|\.\*")


@dataclass(frozen=True)
class Key:
    """A key of a kind: its name with the steps into lists (`[]`) and mappings (`.*`), values, and meaning.

    `default` is what counts without it, empty where it is not changed then; `observed`: shown, but not set.
    """

    name: str
    value: str
    meaning: str
    default: str
    observed: bool


@cache
def keys_of(kind: type[Resource]) -> tuple[Key, ...]:
    """Return every described key of a kind, those of nested mappings below their parent."""
    schema = kind.model_json_schema()
    return tuple(_keys(kind, schema, schema.get("$defs", {})))


def _keys(kind: type[Resource], schema: Schema, models: Schema, prefix: str = "") -> Iterator[Key]:
    for name, given in schema["properties"].items():
        full = f"{prefix}{name}"
        if given.get("description"):
            shown = full in kind.model_fields and is_observed(kind, full)
            yield Key(full, _value(given, models), given["description"], _default(given.get("default")), shown)
        for nested, step in _nested(given, models):
            yield from _keys(kind, nested, models, f"{full}{step}.")


def _default(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else "" if value in (None, (), [], {}) else str(value)


def _nested(given: Schema, models: Schema) -> Iterator[tuple[Schema, str]]:
    for each in given.get("anyOf", (given,)):
        for key, step in (("items", "[]"), ("additionalProperties", ".*")):
            inside = each.get(key)
            if isinstance(inside, dict) and "$ref" in inside:
                yield _model(inside, models), step


def _model(given: Schema, models: Schema) -> Schema:
    found: Schema = models[given["$ref"].rpartition("/")[2]]
    return found


def _value(given: Schema, models: Schema) -> str:
    if "anyOf" in given:
        return " or ".join(_value(each, models) for each in given["anyOf"] if each.get("type") != "null")
    if "$ref" in given:
        fields = _model(given, models)["properties"].items()
        return "mapping with " + ", ".join(f"`{name}`" for name, field in fields if not field.get("observed"))
    if "enum" in given or "const" in given:
        return " or ".join(f"`{choice}`" for choice in given.get("enum", (given.get("const"),)))
    if given["type"] == "array":
        return f"list of {_value(given['items'], models)}"
    if given["type"] == "object":
        # keys with a pattern of their own: PCI addresses
        inside = given.get("additionalProperties") or next(iter(given["patternProperties"].values()))
        return f"mapping to {_value(inside, models)}"
    return SCALARS[given["type"]] + _limits(given)


def _limits(given: Schema) -> str:
    low, high = given.get("minimum"), given.get("maximum")
    if low is not None and high is not None:
        return f", {low} to {high}"
    if low is not None:
        return f", at least {low}"
    return f" like `{given['pattern'].strip('^$')}`" if "pattern" in given else ""


def explained() -> Iterator[NameExplained]:
    """Yield every kind, and every key as `KIND.KEY`."""
    for name, kind in kinds().items():
        yield _kind(name, kind)
        for key in keys_of(kind):
            yield _key(name, key)


def _kind(name: str, kind: type[Resource]) -> NameExplained:
    page = f"kinds/{name}"
    own = keys_of(kind)
    settable = tuple((k.name, f"{k.value}. {k.meaning}") for k in own if not k.observed)
    shown = tuple((k.name, f"{k.value}. {k.meaning}") for k in own if k.observed)
    refusals = tuple((each, row.cells[0][1]) for row in pages.rows(page) if row.group == "rule" for each in row.names)
    disrupts = pages.section(page, "What it disrupts")
    parts = (
        ExplanationPart("Example", code=pages.example(page)),
        ExplanationPart("Keys", settable),
        ExplanationPart("Shown in plans, but not set in a playbook", shown),
        ExplanationPart("What it disrupts", tuple(("", text) for text in disrupts)),
        ExplanationPart("When it refuses", refusals),
    )
    order = f"Planned after {', '.join(sorted(kind.traits.after))}." if kind.traits.after else ""
    text = (f"A resource type of {TARGETS[kind.target]}.", *filter(None, (_written(kind), order)))
    filled = tuple(p for p in parts if p.pairs or p.code)
    return NameExplained(name, "kind", pages.title(page).partition(": ")[2], text, filled, page=f"docs/{page}.md")


def _written(kind: type[Resource]) -> str:
    if kind.keyed:
        return f"Written as `{kind.kind}: {{NAME: ...}}`."
    return f"`{kind.kind}: [...]` is short for `{kind.kind}: {{{kind.shorthand}: [...]}}`." if kind.shorthand else ""


def _key(kind: str, key: Key) -> NameExplained:
    page, last = f"kinds/{kind}", _STEPS.sub("", key.name).rpartition(".")[2]
    without = "shown in plans, not set in a playbook" if key.observed else "not changed"
    pairs = (("value", key.value), ("without it", key.default or without), ("of the resource type", kind))
    code = pages.example(page, last)
    parts = (ExplanationPart("", pairs), *((ExplanationPart("Example", code=code),) if code else ()))
    name = f"{kind}.{_STEPS.sub('', key.name)}"
    return NameExplained(name, "key", key.meaning, parts=parts, page=f"docs/{page}.md")
