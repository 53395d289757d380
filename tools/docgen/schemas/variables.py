"""JSON Schema of variables: their declarations, their values, files that are included, and anchors."""

from __future__ import annotations

from collections.abc import Mapping

from tools.docgen.schemas.draft7 import DRAFT, Schema
from vsphere_ai.language.playbooks.variables import KEY as VARS
from vsphere_ai.language.yaml_files.include import KEY as INCLUDE
from vsphere_ai.language.yaml_files.variable_values import FOR_ANCHORS, NAME, TYPES

_SCALAR: Schema = {"type": ["string", "number", "boolean"]}
_VALUE: Schema = {"anyOf": [_SCALAR, {"type": "array", "items": _SCALAR}]}
_NAMES: Schema = {"pattern": f"^{NAME.pattern}$"}
_FILE: Schema = {"type": "string", "minLength": 1}
_ABOUT: Schema = {"name": {"description": "A name for readers."}}
VALUES: Schema = {"type": "object", "propertyNames": _NAMES, "additionalProperties": _VALUE}
"""Values of variables by name."""

_DECLARED: Schema = {
    "type": "object",
    "properties": {
        "type": {"enum": list(TYPES), "description": "What its values are; by default what the default is."},
        "default": {"description": "Its value where nothing gives another one.", **_VALUE},
        "description": {"type": "string", "description": "What it is for."},
        "allowed": {"type": "array", "minItems": 1, "items": _SCALAR, "description": "The values it may have."},
    },
    "anyOf": [{"required": ["type"]}, {"required": ["default"]}, {"required": ["allowed"]}],
    "additionalProperties": False,
}
_VARIABLES: Schema = {
    "type": "object",
    "description": "Variables that values of the playbook name as `${NAME}`.",
    "properties": {
        **_ABOUT,
        VARS: {
            "type": "object",
            "description": "Name of a variable: its default, or type, default, description and allowed values.",
            "minProperties": 1,
            "propertyNames": _NAMES,
            "additionalProperties": {"anyOf": [*_VALUE["anyOf"], _DECLARED]},
        },
    },
    "required": [VARS],
    "additionalProperties": False,
}
_INCLUDE: Schema = {
    "type": "object",
    "description": "Items of other files, in the place of this one.",
    "properties": {
        **_ABOUT,
        INCLUDE: {
            "description": "A file, or several, relative to this one.",
            "anyOf": [_FILE, {"type": "array", "minItems": 1, "items": _FILE}],
        },
    },
    "required": [INCLUDE],
    "additionalProperties": False,
}
_ANCHORS: Schema = {
    "type": "object",
    "description": "Keys that begin with `x-` only hold anchors, for aliases below them in the same file.",
    "patternProperties": {"^x-": {}},
    "additionalProperties": False,
    "minProperties": 1,
}
ITEMS: Mapping[str, Schema] = {"variables": _VARIABLES, "include": _INCLUDE, "anchors": _ANCHORS}
"""Items of a playbook that are no plays."""


def values_schema() -> Schema:
    """Return the schema of files of values, which `--vars-file` takes."""
    return {
        "$schema": DRAFT,
        "title": "Values of variables of vsphere-ai",
        "description": "A file for --vars-file: values of the variables of a playbook, by name.",
        "type": "object",
        "patternProperties": {f"^{FOR_ANCHORS}": {}, f"^{NAME.pattern}$": _VALUE},
        "additionalProperties": False,
    }
