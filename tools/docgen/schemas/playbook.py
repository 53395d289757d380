"""JSON Schema of playbooks: plays of hosts, VMs and datacenters with their kinds, and outputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from tools.docgen.schemas.draft7 import DRAFT, Schema, schema_of, without_null
from tools.docgen.schemas.variables import ITEMS, VALUES
from vsphere_ai.language.inventories.selectors import SELECTORS
from vsphere_ai.language.playbooks.play import TARGETS
from vsphere_ai.language.playbooks.play_reader import PlaySettings
from vsphere_ai.language.playbooks.variables import KEY as VARS
from vsphere_ai.language.yaml_files.include import KEY as INCLUDE
from vsphere_ai.language.yaml_files.variable_values import NAME
from vsphere_ai.model.state import TargetKind
from vsphere_ai.resources import kinds
from vsphere_ai.resources.base import Resource

_WHOLE, _INSIDE = "reference", "text_with_reference"
_REFERENCE = rf"\$\{{(ref:[^{{}}]+|{NAME.pattern})\}}"
_WORDS: Mapping[str, str] = {
    "datacenters": "Datacenters: names, a pattern with `*`, `,`, `:!` and ranges, or conditions.",
    "hosts": "Hosts: names, groups of the inventory, a pattern such as `gpu_hosts:!esx-[01:16]`, or conditions.",
    "vms": "VMs: names, groups of the inventory, a pattern such as `train-[01:04]`, or conditions.",
}
_NOT_OF: Mapping[TargetKind, tuple[str, ...]] = {
    "host": (),
    "vm": ("rolling",),
    "datacenter": ("rolling", "power", "spare_hosts"),
}
_CONSTRAINED = ("pattern", "enum", "const", "maxLength")
_NAME = {"type": "string", "minLength": 1, "pattern": r"\S"}
_CONSTANT = {"type": ["string", "number", "boolean"]}


def playbook_schema() -> Schema:
    """Return the schema of playbooks."""
    definitions: dict[str, Schema] = {}
    settings = schema_of(PlaySettings, definitions)["properties"]
    plays = {key: _play(key, target, settings, definitions) for key, target in TARGETS.items()}
    definitions = {name: with_references(each) for name, each in definitions.items()}
    definitions |= {f"play_of_{key}": with_references(play) for key, play in plays.items()}
    definitions |= {"outputs": _outputs(), **ITEMS}
    definitions[_WHOLE] = {
        "type": "string",
        "pattern": f"^{_REFERENCE}$",
        "description": "A variable, or an output of another playbook.",
    }
    definitions[_INSIDE] = {
        "type": "string",
        "pattern": _REFERENCE,
        "description": "Text with variables, or outputs of other playbooks.",
    }
    forms = [*(f"play_of_{key}" for key in plays), "outputs", *ITEMS]
    return {
        "$schema": DRAFT,
        "title": "Playbook of vsphere-ai",
        "description": "A list of plays: each says what some hosts, VMs or datacenters should be.",
        "type": "array",
        "items": {"anyOf": [{"$ref": f"#/definitions/{name}"} for name in forms]},
        "contains": {"anyOf": [{"required": [key]} for key in (*TARGETS, VARS, INCLUDE)]},
        "definitions": dict(sorted(definitions.items())),
    }


def _play(key: str, target: TargetKind, settings: Mapping[str, Schema], definitions: dict[str, Schema]) -> Schema:
    own = {name: kind for name, kind in kinds().items() if kind.target == target}
    selector = selector_of(SELECTORS[target], definitions)
    several = {"type": "array", "minItems": 1, "items": {"anyOf": [_NAME, selector]}}
    pattern = {"description": _WORDS[key], "anyOf": [_NAME, selector, several]}
    return {
        "type": "object",
        "description": f"A play of {key}.",
        "properties": {
            key: pattern,
            VARS: {"description": "Values of variables in this play.", **VALUES},
            **{name: each for name, each in settings.items() if name not in _NOT_OF[target]},
            **{name: _kind(kind, definitions) for name, kind in own.items()},
        },
        "required": [key],
        "anyOf": [{"required": [name]} for name in own],
        "additionalProperties": False,
    }


def selector_of(model: type[BaseModel], definitions: dict[str, Schema]) -> Schema:
    """Return the schema of conditions, of which there is at least one; it is kept among the definitions."""
    schema_of(model, definitions)
    definitions[model.__name__]["minProperties"] = 1
    return {"$ref": f"#/definitions/{model.__name__}"}


def _kind(kind: type[Resource], definitions: dict[str, Schema]) -> Schema:
    """Return the schema of what a play says of a kind: its mapping, or the value of its shorthand."""
    whole = schema_of(kind, definitions, f"{kind.kind}.")
    description = whole.pop("description", "")
    if not kind.shorthand:
        return {"description": description, **whole}
    bare = without_null(whole["properties"][kind.shorthand])
    about = {"description": "\n\n".join(filter(None, (description, bare.pop("description", ""))))}
    return {**about, **bare} if kind.keyed else {**about, "anyOf": [bare, whole]}


def with_references(node: Any, *, inside: bool = False) -> Any:
    """Return a schema whose numbers, lists and limited texts may be references to outputs of other playbooks."""
    if not isinstance(node, dict):
        return node
    found = dict(node)
    for key in ("properties", "patternProperties"):
        if key in found:
            found[key] = {name: with_references(each) for name, each in found[key].items()}
    for key in ("items", "additionalProperties"):
        if key in found:
            items = found[key]
            found[key] = (
                [with_references(each) for each in items] if isinstance(items, list) else with_references(items)
            )
    if inside or "$ref" in found or "allOf" in found:
        return found
    if "anyOf" in found and found.get("type") != "object":
        several = [with_references(each, inside=True) for each in found["anyOf"]]
        wanted = {name for each in found["anyOf"] for name in _references(each)}
        free = any(each.get("type") == "string" and not _limited(each) for each in found["anyOf"])
        more = [] if free else [{"$ref": f"#/definitions/{name}"} for name in sorted(wanted)]
        return {**found, "anyOf": [*several, *more]}
    more = [{"$ref": f"#/definitions/{name}"} for name in _references(node)]
    if not more:
        return found
    about = {"description": found.pop("description")} if "description" in found else {}
    return {**about, "anyOf": [found, *more]}


def _limited(node: Schema) -> bool:
    return any(key in node for key in _CONSTRAINED)


def _references(node: Schema) -> tuple[str, ...]:
    if "anyOf" in node and "type" not in node:
        return tuple(name for each in node["anyOf"] for name in _references(each))
    kind = node.get("type")
    if kind == "string":
        return (_INSIDE,) if _limited(node) else ()
    return (_WHOLE,) if kind in ("integer", "number", "boolean", "array") else ()


def _outputs() -> Schema:
    value = {"anyOf": [_CONSTANT, {"type": "array", "items": _CONSTANT}]}
    return {
        "type": "object",
        "description": "Values of VMs that the playbook gives to others.",
        "properties": {
            "name": {"description": "A name for readers."},
            "outputs": {
                "type": "object",
                "description": "Name of an output: text with values of VMs, such as `${train[1].nics.mgmt.address}`.",
                "patternProperties": {"^[a-z][a-z0-9_]{0,39}$": value},
                "additionalProperties": False,
                "minProperties": 1,
            },
        },
        "required": ["outputs"],
        "additionalProperties": False,
    }
