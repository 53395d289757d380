"""Values of variables in an inventory: `vars:` for all and in groups of hosts, and `host_vars:`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from vsphere_ai.language.yaml_files.document import WITHOUT_VALUE, Document, DocumentPath, FaultCollector, describe
from vsphere_ai.language.yaml_files.variable_values import NAME, GivenValue, InventoryValues, read_values
from vsphere_ai.security.secret_ref import is_reference

VARS, HOST_VARS = "vars", "host_vars"
CONNECTIONS = ("vcenters", "ssh", "guests")
"""Sections that say where passwords are sent: they have no variables."""
_VARIABLE = re.compile(rf"\$\{{{NAME.pattern}\}}")


def read_inventory_values(document: Document, faults: FaultCollector) -> InventoryValues:
    """Return the values that an inventory gives to variables; faults of form are noted."""
    data = document.root.value if isinstance(document.root.value, dict) else {}
    every = read_values(document, (VARS,), "inventory", faults) if VARS in data else {}
    groups: dict[str, dict[str, GivenValue]] = {}
    hosts: dict[str, dict[str, GivenValue]] = {}
    for name, group in _below(document, "hosts"):
        if isinstance(group, dict) and VARS in group:
            groups[name] = read_values(document, ("hosts", name, VARS), f"group {name}", faults)
    for name, given in _below(document, HOST_VARS):
        path: DocumentPath = (HOST_VARS, name)
        if isinstance(given, dict):
            hosts[name] = read_values(document, path, f"host {name}", faults)
        else:
            text = f"values of a host are a mapping, but this is {describe(document.node(path).plain())}"
            document.refuse(faults, path, text, f"write '{name}: {{NAME: VALUE}}'")
    return InventoryValues(every, groups, hosts)


def _below(document: Document, key: str) -> Iterator[tuple[str, object]]:
    node = document.root.child(key)
    for name, each in node.value.items() if node is not None and isinstance(node.value, dict) else ():
        yield name, each.value


def refuse_variables(document: Document, faults: FaultCollector) -> None:
    """Refuse ``${NAME}`` in what says how servers are reached; a reference to a secret may hold these signs."""
    for section in CONNECTIONS:
        for path in _texts(document, (section,)) if document.root.child(section) else ():
            node = document.node(path)
            if _VARIABLE.search(node.value) and not is_reference(node.value):
                message = "an inventory has no variables in its own values"
                document.refuse(faults, path, message, "write the value; one inventory per site is chosen with -i")
                node.origin = WITHOUT_VALUE


def _texts(document: Document, path: DocumentPath) -> Iterator[DocumentPath]:
    value = document.node(path).value
    if isinstance(value, str):
        yield path
    steps = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for step in steps:
        yield from _texts(document, (*path, step))
