"""Inventories of Ansible, in YAML and INI, read back as its inventory plugins read them.

Source: ansible/ansible 2.19.14 lib/ansible/plugins/inventory/{__init__,yaml,ini}.py, inventory/{data,group}.py,
parsing/utils/addresses.py and parsing/yaml (tags).
"""

from __future__ import annotations

import re
import shlex
import string
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from vsphere_ai.model.bounded import yaml_value
from vsphere_ai.model.finding import Verdict
from vsphere_ai.training.exports.finding import LineFinding, at_line, by_line

_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_SECTION = re.compile(r"\[([^:\]\s]+)(?::(\w+))?\]\s*(?:#.*)?")
_CHILD = re.compile(r"([^:\]\s]+)\s*(?:#.*)?")
_HOST = re.compile(r"[\w.:@-]+(?:\[[\w:]+\][\w.:@-]*)*")
_BRACKETED = re.compile(r"\[[^\]\s]+:[^\]\s]*\][\w.:-]+")
"""A host that begins with a bracket: an IPv6 address with its port, or a range such as ``[a:c].example``."""
_WITH_PORT = re.compile(r"(?:\[(?P<inside>.+)\]|(?P<plain>(?:[^:\[\]]|\[[^\]]*\])*)):\d+", re.ASCII)
_TAG = re.compile(r"(?<=[\s,:\[{-])!(?:vault-encrypted|vault|unsafe)(?=\s)")
"""Tags that Ansible's loader has besides those of YAML: of values of variables, which no rule here is about."""
_OF_GROUP = ("hosts", "children", "vars")


@dataclass
class _Inventory:
    """What an inventory holds: addresses by host, the groups, the groups right above each, and the findings."""

    hosts: dict[str, tuple[str, str]] = field(default_factory=dict)
    groups: dict[str, int] = field(default_factory=dict)
    above: dict[str, set[str]] = field(default_factory=lambda: {"ungrouped": {"all"}})
    found: list[LineFinding] = field(default_factory=list)

    def report(self, message: str, verdict: Verdict = "fail", line: int = 0) -> None:
        self.found.append(at_line(line, message, verdict))

    def group(self, name: str, line: int = 0) -> None:
        if not _NAME.fullmatch(name) and name not in self.groups:
            text = f"'{name}' is no name of a group: Ansible warns of other characters than letters, digits and _"
            self.report(text, "warn", line)
        self.groups.setdefault(name, line)

    def child(self, group: str, child: str, line: int = 0) -> None:
        """Put a group below another one; one that is above it, or the group itself, is refused."""
        ancestors, further = {group}, [group]
        while further:
            more = self.above.get(further.pop(), set()) - ancestors
            ancestors |= more
            further += more
        if child in ancestors:
            self.report(f"the group '{child}' is below itself: Ansible refuses that", line=line)
        self.above.setdefault(child, set()).add(group)

    def host(self, name: str, variables: Mapping[str, object], line: int = 0) -> None:
        if why := _wrong_host(name):
            self.report(f"the host '{name}' is refused: {why}", line=line)
            return
        for variable in variables:
            if not _NAME.fullmatch(variable):
                self.report(f"'{variable}' of {name} is no name of a variable", "warn", line)
        if (address := variables.get("ansible_host")) is not None or name not in self.hosts:
            self.hosts[name] = "" if address is None else str(address), str(variables.get("ansible_port", ""))


def _wrong_host(name: str) -> str:
    """Return why Ansible refuses a host: the form of its range; empty where it does not."""
    ported = _WITH_PORT.fullmatch(name)
    address = (ported["inside"] or ported["plain"] or "") if ported else name
    if not address:
        return "it has no name"
    return _wrong_range(address) if "[" in address else ""


FIRST = "0"
"""Where a range begins that names no begin, as Ansible's `expand_hostname_range` has it."""


def _wrong_range(text: str) -> str:
    parts = text.replace("[", "|", 1).replace("]", "|", 1).split("|")
    bounds = parts[1].split(":") if len(parts) == 3 else []
    if len(bounds) not in (2, 3):
        return "a range is [BEGIN:END] or [BEGIN:END:STEP]"
    begin, end, step = bounds[0] or FIRST, bounds[1], bounds[2] if len(bounds) == 3 else "1"
    if not end:
        return "a range needs its end"
    if begin[0] == "0" and len(begin) > 1 and len(begin) != len(end):
        return "begin and end of a range with leading zeros have the same length"
    letters = [string.ascii_letters.find(each) for each in (begin, end)]
    if min(letters) < 0:
        if not all(re.fullmatch(r"\s*[+-]?\d+(?:_\d+)*\s*", each) for each in (begin, end, step)) or not int(step):
            return "a range goes from a number to a number, or from a letter to a letter"
    elif letters[0] > letters[1]:
        return "the begin of a range is not behind its end"
    return _wrong_range(parts[2]) if "[" in parts[2] else ""


def check(text: str) -> list[LineFinding]:
    """Return the findings of an inventory: its form, names of groups and variables, addresses."""
    inventory = _Inventory()
    if is_ini(text):
        _read_ini(text, inventory)
    else:
        try:
            document = yaml_value(_TAG.sub(_blanks, text))
        except ValueError as error:
            return [at_line(0, f"this is not YAML: {error}")]
        if not isinstance(document, dict) or not document:
            return [at_line(0, "an inventory is a mapping of groups")]
        if "plugin" in document:
            return [at_line(0, f"not looked at: a dynamic inventory, of the plugin {document['plugin']}", "info")]
        for name, group in document.items():
            _read_group(name, group, inventory)
    return by_line([*inventory.found, *_together(inventory)])


def _blanks(match: re.Match[str]) -> str:
    return " " * len(match[0])  # the columns of what follows stay


def _together(inventory: _Inventory) -> Iterator[LineFinding]:
    if not inventory.hosts and not any(f.verdict == "fail" for f in inventory.found):
        yield at_line(0, "no host is listed", "warn")
    places = [place for place in inventory.hosts.values() if place[0]]
    if len(set(places)) < len(places):
        yield at_line(0, "two hosts have the same ansible_host", "warn")
    for name in inventory.hosts.keys() & inventory.groups.keys():
        yield at_line(inventory.groups[name], f"'{name}' is both a host and a group", "warn")


def is_ini(text: str) -> bool:
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


def _read_group(name: object, group: object, inventory: _Inventory) -> bool:
    """Read a group and what is below it; False where Ansible passes over it."""
    if not isinstance(name, str) or not name:
        inventory.report(f"the name of a group is text, and {name!r} is none: write it in quotes")
        return True
    if group is not None and not isinstance(group, dict):
        inventory.report(f"the group '{name}' is no mapping: Ansible warns, and passes over it", "warn")
        return False
    inventory.group(name)
    own: Mapping[object, object] = group or {}
    if others := [str(key) for key in own if key not in _OF_GROUP]:
        text = f"the group '{name}' has other keys than hosts, children and vars: {', '.join(others)}"
        inventory.report(text, "warn")
    parts: dict[str, Mapping[object, object]] = {}
    for key in _OF_GROUP:
        value = own.get(key)
        if isinstance(value, str):
            value = {value: None}
        if value is not None and not isinstance(value, dict):
            inventory.report(f"'{key}' of the group '{name}' requires a dictionary: write 'NAME:' for each")
            value = None
        parts[key] = value or {}
    for host, variables in parts["hosts"].items():
        if not isinstance(host, str) or not host:
            inventory.report(f"the host {host!r} of '{name}' is no text: write it in quotes")
        elif variables and not isinstance(variables, dict):
            inventory.report(f"the host {host} of '{name}' has variables that are no mapping")
        else:
            inventory.host(host, {str(k): v for k, v in variables.items()} if isinstance(variables, dict) else {})
    for child, below in parts["children"].items():
        if _read_group(child, below, inventory) or str(child) in inventory.groups:
            inventory.child(name, str(child))
        elif str(child) not in inventory.hosts:
            inventory.report(f"'{child}' below the group '{name}' is no mapping, and so no group: Ansible refuses that")
    return True


def _read_ini(text: str, inventory: _Inventory) -> None:
    """Read an inventory in INI; a section that is refused has no lines, as they would be another section's."""
    group, part = "ungrouped", "hosts"
    needed: dict[str, int] = {}
    below: list[tuple[str, str, int]] = []
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if not line or line[0] in "#;":
            continue
        section = _SECTION.fullmatch(line)
        if section is not None or (line.startswith("[") and line.endswith("]")):
            group, part = (section[1], section[2] or "hosts") if section is not None else ("", "")
            if part not in _OF_GROUP:
                inventory.report(f"'{line}' is none of [GROUP], [GROUP:children], [GROUP:vars]", line=number)
            elif part == "vars":
                needed.setdefault(group, number)
            else:
                inventory.group(group, number)
        elif part == "children":
            child = _CHILD.fullmatch(line)
            if child is None:
                inventory.report(f"'{line}' is no name of a group", line=number)
            else:
                needed.setdefault(child[1], number)
                below.append((group, child[1], number))
        elif part == "hosts":
            _read_host(line, number, inventory)
        elif part == "vars" and "=" not in line:
            inventory.report(f"'{line}' is not NAME=VALUE", line=number)
    for name, number in needed.items():
        if name not in {*inventory.groups, "all", "ungrouped"}:
            inventory.report(f"there is no group '{name}': write a line [{name}]", line=number)
    for above, child_name, number in below:
        inventory.child(above, child_name, number)


def _read_host(line: str, number: int, inventory: _Inventory) -> None:
    try:
        host, *words = shlex.split(line, comments=True)
    except ValueError as error:
        inventory.report(f"{str(error).lower()}: a quote has to be closed", line=number)
        return
    if host.endswith(":") or host == "---":
        inventory.report(f"the host '{host}' is refused: it ends with ':', or is the first line of YAML", line=number)
        return
    variables: dict[str, object] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            inventory.report(f"'{word}' of the host {host} is not NAME=VALUE", line=number)
            return
        variables[name] = value
    inventory.host(host, variables, number)
