"""Inventories of Ansible, in YAML and INI, read back as its inventory plugins read them.

Source: ansible/ansible 2.19.14 lib/ansible/plugins/inventory/{yaml,ini}.py and lib/ansible/inventory/group.py.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from vsphere_ai.model.bounded import yaml_value
from vsphere_ai.model.finding import Verdict
from vsphere_ai.training.exports.finding import LineFinding, at_line, by_line

_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_SECTION = re.compile(r"\[([^:\]\s]+)(?::(\w+))?\]\s*(?:#.*)?")
_HOST = re.compile(r"[\w.:@-]+(?:\[[\w:]+\][\w.:@-]*)*")
_BRACKETED = re.compile(r"\[[^\]\s]+:[^\]\s]*\][\w.:-]+")
"""A host that begins with a bracket: an IPv6 address with its port, or a range such as ``[a:c].example``."""
_OF_GROUP = ("hosts", "children", "vars")


@dataclass
class _Inventory:
    """What an inventory holds: addresses by host, the groups, and the findings."""

    hosts: dict[str, tuple[str, str]] = field(default_factory=dict)
    groups: dict[str, int] = field(default_factory=dict)
    found: list[LineFinding] = field(default_factory=list)

    def report(self, message: str, verdict: Verdict = "fail", line: int = 0) -> None:
        self.found.append(at_line(line, message, verdict))

    def group(self, name: str, line: int = 0) -> None:
        if not _NAME.fullmatch(name) and name not in self.groups:
            text = f"'{name}' is no name of a group: Ansible warns of other characters than letters, digits and _"
            self.report(text, "warn", line)
        self.groups.setdefault(name, line)

    def host(self, name: str, variables: Mapping[str, object], line: int = 0) -> None:
        for variable in variables:
            if not _NAME.fullmatch(variable):
                self.report(f"'{variable}' of {name} is no name of a variable", "warn", line)
        if (address := variables.get("ansible_host")) is not None or name not in self.hosts:
            self.hosts[name] = "" if address is None else str(address), str(variables.get("ansible_port", ""))


def check(text: str) -> list[LineFinding]:
    """Return the findings of an inventory: its form, names of groups and variables, addresses."""
    inventory = _Inventory()
    if _is_ini(text):
        _read_ini(text, inventory)
    else:
        try:
            document = yaml_value(text)
        except ValueError as error:
            return [at_line(0, f"this is not YAML: {error}")]
        if not isinstance(document, dict) or not document:
            return [at_line(0, "an inventory is a mapping of groups")]
        if "plugin" in document:
            return [at_line(0, f"not looked at: a dynamic inventory, of the plugin {document['plugin']}", "info")]
        for name, group in document.items():
            _read_group(str(name), group, inventory)
    return by_line([*inventory.found, *_together(inventory)])


def _together(inventory: _Inventory) -> Iterator[LineFinding]:
    if not inventory.hosts and not any(f.verdict == "fail" for f in inventory.found):
        yield at_line(0, "no host is listed", "warn")
    places = [place for place in inventory.hosts.values() if place[0]]
    if len(set(places)) < len(places):
        yield at_line(0, "two hosts have the same ansible_host", "warn")
    for name in inventory.hosts.keys() & inventory.groups.keys():
        yield at_line(inventory.groups[name], f"'{name}' is both a host and a group", "warn")


def _is_ini(text: str) -> bool:
    """Return whether a text is in INI: it has a section, or its first line is a host and no key of YAML."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and line.lstrip()[0] not in "#;"]
    if not lines or lines[0].startswith(("---", "{", "- ")):
        return False
    first = lines[0].split(" #")[0].split()
    if _BRACKETED.fullmatch(first[0]):
        return True
    if not (_HOST.fullmatch(first[0]) or _SECTION.fullmatch(lines[0])):
        return False
    return (
        any(_SECTION.fullmatch(line) for line in lines)
        or (not first[0].endswith(":") and "=" in lines[0])
        or (len(first) == 1 and ":" not in first[0])
    )


def _read_group(name: str, group: object, inventory: _Inventory) -> None:
    inventory.group(name)
    if group is None:
        return
    if not isinstance(group, dict):
        inventory.report(f"the group '{name}' is no mapping: Ansible warns, and passes over it", "warn")
        return
    if others := [str(key) for key in group if key not in _OF_GROUP]:
        text = f"the group '{name}' has other keys than hosts, children and vars: {', '.join(others)}"
        inventory.report(text, "warn")
    parts: dict[str, Mapping[str, object]] = {}
    for key in _OF_GROUP:
        value = group.get(key)
        if isinstance(value, str):
            value = {value: None}
        if value is not None and not isinstance(value, dict):
            inventory.report(f"'{key}' of the group '{name}' requires a dictionary: write 'NAME:' for each")
            value = None
        parts[key] = {str(k): v for k, v in (value or {}).items()}
    for host, variables in parts["hosts"].items():
        if variables is not None and not isinstance(variables, dict):
            inventory.report(f"the host {host} of '{name}' has variables that are no mapping")
            continue
        inventory.host(host, {str(k): v for k, v in (variables or {}).items()})
    for child, below in parts["children"].items():
        _read_group(child, below, inventory)


def _read_ini(text: str, inventory: _Inventory) -> None:
    part, needed = "hosts", dict[str, int]()
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if not line or line[0] in "#;":
            continue
        if line.startswith("[") and not _BRACKETED.fullmatch(line.split()[0]):
            section = _SECTION.fullmatch(line)
            part = (section[2] or "hosts") if section else ""
            if section is None or part not in _OF_GROUP:
                inventory.report(f"'{line}' is none of [GROUP], [GROUP:children], [GROUP:vars]", line=number)
                continue
            if part == "vars":
                needed.setdefault(section[1], number)
            else:
                inventory.group(section[1], number)
        elif part == "children":
            needed.setdefault(line.partition("#")[0].strip(), number)
        elif part == "hosts":
            _read_host(line, number, inventory)
        elif part == "vars" and "=" not in line:
            inventory.report(f"'{line}' is not NAME=VALUE", line=number)
    for name, number in needed.items():
        if name not in {*inventory.groups, "all", "ungrouped"}:
            inventory.report(f"there is no group '{name}': write a line [{name}]", line=number)


def _read_host(line: str, number: int, inventory: _Inventory) -> None:
    try:
        host, *words = shlex.split(line, comments=True)
    except ValueError as error:
        inventory.report(f"{str(error).lower()}: a quote has to be closed", line=number)
        return
    variables: dict[str, object] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            inventory.report(f"'{word}' of the host {host} is not NAME=VALUE", line=number)
            return
        variables[name] = value
    inventory.host(host, variables, number)
