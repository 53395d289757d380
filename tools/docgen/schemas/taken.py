"""Values that a file may hold where a validator changes or checks them, by the name of the validator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Schema = dict[str, Any]
Widened = Callable[[Schema], Schema]
TEXT = {"type": "string"}
NUMBER = {"type": "number"}
SHARE = {"type": "string", "pattern": "^([1-9][0-9]?|100)%$"}
HOSTS = {"anyOf": [{"type": "integer", "minimum": 1}, SHARE]}
DURATION = {"type": "string", "pattern": "^(?=[0-9])([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$"}
SECRET = {
    "type": "string",
    "pattern": "^(env:[A-Za-z_][A-Za-z0-9_]*|file:.*[^/]|cmd:.*\\S|keyring:[^/]+/.+|prompt:)$",
    "description": "Where the secret is: env:NAME, file:PATH, cmd:PROGRAM ARGUMENTS, keyring:SERVICE/USER or prompt:",
}
ARGUMENT = {"anyOf": [{"type": "string", "pattern": "^[^\\n]*$"}, NUMBER]}
LAYOUT = {"anyOf": [{"type": "array", "items": {"anyOf": [TEXT, {"type": "integer"}]}}, TEXT, {"type": "integer"}]}
VLANS = {
    "type": "array",
    "minItems": 1,
    "items": {
        "anyOf": [
            {"type": "integer", "minimum": 0, "maximum": 4094},
            {"type": "string", "pattern": "^[0-9]+(-[0-9]+)?$"},
        ]
    },
}
VARIABLES = {
    "type": "object",
    "patternProperties": {"^[A-Za-z_][A-Za-z0-9_]{0,127}$": ARGUMENT},
    "additionalProperties": False,
}


def _always(taken: Schema) -> Widened:
    return lambda _: taken


def _or(*others: Schema) -> Widened:
    return lambda inner: {"anyOf": [inner, *others]}


def _as_is(inner: Schema) -> Schema:
    return inner


def _limited(inner: Schema) -> Schema:
    return {**inner, "minimum": 0, "maximum": 64}


def _selectors(inner: Schema) -> Schema:
    names = {"type": "array", "items": TEXT}
    return {"anyOf": [TEXT, inner["items"], {**inner, "items": {"anyOf": [TEXT, names, inner["items"]]}}]}


_MODEL = "vsphere_ai.model"
_LANGUAGE, _RESOURCES, _JOB = "vsphere_ai.language", "vsphere_ai.resources", "vsphere_ai.training.job"
TAKEN: Mapping[str, Widened] = {
    f"{_LANGUAGE}.playbooks.play._share": _always(HOSTS),
    f"{_LANGUAGE}.playbooks.play._batches": _always(
        {"anyOf": [*HOSTS["anyOf"], {"type": "array", "minItems": 1, "items": HOSTS}]}
    ),
    f"{_LANGUAGE}.playbooks.play._failures": _always({"anyOf": [{"type": "integer", "minimum": 0}, SHARE]}),
    f"{_LANGUAGE}.playbooks.play.seconds": _always(DURATION),
    f"{_LANGUAGE}.playbooks.play_reader._text": _as_is,
    f"{_LANGUAGE}.playbooks.play_reader._spare": _limited,
    f"{_LANGUAGE}.inventories.inventory_fields._reference": _always(SECRET),
    f"{_LANGUAGE}.inventories.inventory_fields._secret": _always(SECRET),
    f"{_LANGUAGE}.inventories.inventory_leaves._listed": _or(TEXT),
    f"{_LANGUAGE}.inventories.selectors.listed": _or(TEXT),
    f"{_LANGUAGE}.inventories.selectors.as_selectors": _selectors,
    f"{_MODEL}.names.pci_address.distinct": _as_is,
    f"{_RESOURCES}.mig.gpu._readable": _always(LAYOUT),
    f"{_RESOURCES}.mig.gpu.as_gpu": _or(LAYOUT),
    f"{_RESOURCES}.pci_devices.device._hex": _always(
        {"anyOf": [{"type": "string", "pattern": "^(0[xX])?[0-9a-fA-F]{4}$"}, {"type": "integer", "maximum": 9999}]}
    ),
    f"{_RESOURCES}.port_groups.settings.ranges": _always(VLANS),
    f"{_RESOURCES}.tuning.settings.as_nodes": _or({"type": "integer"}),
    f"{_RESOURCES}.tuning.settings.as_text": _or({"type": "boolean"}, {"type": "integer"}),
    f"{_RESOURCES}.vm_set.placement.listed": _or(TEXT),
    f"{_RESOURCES}.vm_set.user_data.as_user_data": _or(TEXT),
    f"{_RESOURCES}.vm_set.user_data.SetUserData._with_tuples": _as_is,
    f"{_RESOURCES}.vm_set.settings._reference": _always(SECRET),
    f"{_JOB}._argument": _always(ARGUMENT),
    f"{_JOB}._items": _as_is,
    f"{_JOB}._seconds": _always(DURATION),
    f"{_JOB}._variables": _always(VARIABLES),
}
"""Validators before a type: they take more than the type, or less. One that is missing here stops `make docs`."""

_PORT = "[0-9]{1,5}"
CHECKED: Mapping[str, Schema] = {
    f"{_LANGUAGE}.inventories.inventory_fields._address": {
        "pattern": "^([A-Za-z0-9_][A-Za-z0-9_.-]*|[0-9A-Fa-f:.]+(%[^%/@\\s]+)?)$"
    },
    f"{_LANGUAGE}.inventories.inventory_fields._peer": {
        "pattern": f"^([A-Za-z0-9_.-]+(:{_PORT})?|\\[[^\\]]+\\](:{_PORT})?|[^@/]+)$"
    },
    f"{_LANGUAGE}.inventories.inventory._fingerprint": {"pattern": "^([sS][hH][aA]256:)?[0-9A-Fa-f:]{64,}$"},
    f"{_LANGUAGE}.inventories.selectors.tag_name": {"pattern": "^[^/]+/.+$"},
    f"{_LANGUAGE}.inventories.selectors._host_power": {"enum": ["on", "off", "standby"]},
    f"{_LANGUAGE}.inventories.selectors._vm_power": {"enum": ["on", "off", "suspended"]},
    f"{_RESOURCES}.mig.gpu._mode": {"enum": ["enabled", "disabled"]},
    f"{_RESOURCES}.vm_set.settings._few": {"maxItems": 10},
    f"{_RESOURCES}.nics.nic._name": {"pattern": "^vmnic[0-9]{1,4}$"},
    f"{_JOB}._path": {"pattern": "^/[^\\n]*$"},
    f"{_JOB}._elastic": {"pattern": "^[1-9][0-9]{0,3}:[1-9][0-9]{0,3}$"},
    f"{_JOB}._command": {"minItems": 1},
}
"""Validators after a type: what of their checks a schema can say. The others are not listed."""
