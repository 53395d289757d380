"""JSON Schema of inventories: vCenters, groups, access to hosts and guests, address pools, leaf switches."""

from __future__ import annotations

from pydantic import BaseModel

from tools.docgen.schemas.draft7 import DRAFT, Schema, schema_of
from tools.docgen.schemas.playbook import selector_of
from tools.docgen.schemas.variables import VALUES
from vsphere_ai.addresses.pool import AUTO, DHCP, AddressPool
from vsphere_ai.language.inventories.inventory import NAME, SshSettings, VCenterSettings
from vsphere_ai.language.inventories.inventory_guests import GuestsSettings
from vsphere_ai.language.inventories.inventory_leaves import Leaf
from vsphere_ai.language.inventories.inventory_notify import NotifySettings
from vsphere_ai.language.inventories.selectors import HostGroup, VmSelector

_NAMES = {"pattern": f"^{NAME.pattern}$"}
_TEXT = {"type": "string"}
_TEXTS = {"anyOf": [_TEXT, {"type": "array", "items": _TEXT}]}


def inventory_schema() -> Schema:
    """Return the schema of inventories."""
    definitions: dict[str, Schema] = {}
    pool = {"anyOf": [{"type": "string", "description": "Its subnet."}, _model(AddressPool, definitions)]}
    leaf = {"anyOf": [*_TEXTS["anyOf"], _model(Leaf, definitions)]}
    vcenters = _named(_vcenter(definitions), "vCenters by the names that plays and `--vcenter` use.")
    access = {"ssh": _model(SshSettings, definitions), "guests": _model(GuestsSettings, definitions)}
    definitions["SshSettings"]["oneOf"] = [_given(password=_TEXT), _given(key_file=_TEXT)]
    definitions["GuestsSettings"]["oneOf"] = [_given(key_file=_TEXT), _given(agent={"const": True})]
    notify = _model(NotifySettings, definitions)
    definitions["NotifySettings"]["anyOf"] = [_given(command=_TEXT), _given(webhook=_TEXT)]
    definitions["NotifySettings"]["dependencies"] = {"secret": ["webhook"]}
    definitions["Tls"]["not"] = _given(ca_file=_TEXT, fingerprint=_TEXT)
    return {
        "$schema": DRAFT,
        "title": "Inventory of vsphere-ai",
        "description": "vCenters, groups of hosts and VMs, and how hosts and guests are reached.",
        "type": "object",
        "properties": {
            "lab": {"type": "boolean", "description": "`true`: the running lab gives vCenters and access to hosts."},
            "vcenters": vcenters,
            "hosts": _named(_group(HostGroup, definitions), "Groups of hosts.", but=("all",)),
            "vms": _named(_group(VmSelector, definitions), "Groups of VMs.", but=("all",)),
            **access,
            "notify": notify,
            "pools": _named(pool, "Address pools.", but=(AUTO, DHCP)),
            "reserved_addresses": {
                "type": "array",
                "items": {"type": "string"},
                "description": "Addresses, or ranges such as 10.0.0.1-10.0.0.9, that no pool gives away.",
            },
            "vars": {"description": "Values of variables of playbooks.", **VALUES},
            "host_vars": {
                "type": "object",
                "description": "Values of variables for single hosts, by the name of the host in vCenter.",
                "additionalProperties": VALUES,
            },
            "leaves": _named(leaf, "Leaf switches, each with the hosts that it connects."),
        },
        "patternProperties": {"^x-": {}},
        "additionalProperties": False,
        "if": {"properties": {"lab": {"const": True}}, "required": ["lab"]},
        "then": {"properties": {"vcenters": False, "ssh": False}},
        "else": {"properties": {"vcenters": {"minProperties": 1}}, "required": ["vcenters"]},
        "definitions": dict(sorted(definitions.items())),
    }


def _named(value: Schema, description: str, but: tuple[str, ...] = ()) -> Schema:
    names = {**_NAMES, "not": {"enum": list(but)}} if but else _NAMES
    return {"type": "object", "description": description, "propertyNames": names, "additionalProperties": value}


def _model(model: type[BaseModel], definitions: dict[str, Schema]) -> Schema:
    made = schema_of(model, definitions)
    definitions[model.__name__] = made
    return {"$ref": f"#/definitions/{model.__name__}"}


def _given(**values: Schema) -> Schema:
    """Return the schema of a mapping in which these keys have such values."""
    return {"properties": values, "required": list(values)}


def _vcenter(definitions: dict[str, Schema]) -> Schema:
    """Return the schema of a vCenter; its name is the key above it."""
    reference = _model(VCenterSettings, definitions)
    made = definitions[VCenterSettings.__name__]
    del made["properties"]["name"]
    made["required"].remove("name")
    return reference


def _group(model: type[BaseModel], definitions: dict[str, Schema]) -> Schema:
    reference = selector_of(model, definitions)
    if model is HostGroup:
        made = definitions[model.__name__]
        values = {"vars": {"description": "Values of variables for the hosts of the group.", **VALUES}}
        definitions["GroupOfHosts"] = {**made, "properties": {**made["properties"], **values}}
        reference = {"$ref": "#/definitions/GroupOfHosts"}
    return {"anyOf": [*_TEXTS["anyOf"], reference]}
