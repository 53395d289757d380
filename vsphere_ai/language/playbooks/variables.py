"""Variables of a playbook: declared once, with values from the playbook, the inventory, files and the command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from vsphere_ai.errors import Mark, UsageError
from vsphere_ai.language.playbooks.play import TARGETS
from vsphere_ai.language.yaml_files.document import Document, DocumentPath, FaultCollector, describe, require
from vsphere_ai.language.yaml_files.merge_keys import load
from vsphere_ai.language.yaml_files.variable_values import (
    FOR_ANCHORS,
    NAME,
    NAMING,
    TYPES,
    GivenValue,
    Type,
    misfit,
    plain_value,
    read_values,
    type_of,
    unfit,
)
from vsphere_ai.language.yaml_files.yaml import scalar
from vsphere_ai.model.names.suggestion import suggest
from vsphere_ai.model.variables import Value, value_text

if TYPE_CHECKING:
    from vsphere_ai.language.inventories.inventory import Inventory

KEY = "vars"
FORM = "write 'NAME: DEFAULT', or 'NAME: {type: ..., default: ..., description: ..., allowed: [...]}'"
ATTRIBUTES = ("type", "default", "description", "allowed")
Values = Mapping[str, GivenValue]


@dataclass(frozen=True)
class Declared:
    """A variable as a playbook declares it. Without `default` it needs a value; `allowed` empty allows every one."""

    name: str
    type: Type
    mark: Mark
    default: GivenValue | None = None
    allowed: tuple[Value, ...] = ()

    def fault(self, value: Value, source: str = "") -> tuple[str, str] | None:
        """Return message and help for a value that this variable cannot have."""
        wrong = misfit(self.name, value, self.type, source)
        if wrong is not None:
            return wrong
        items = value if isinstance(value, tuple) else (value,)
        for item in items if self.allowed else ():
            if not any(item == each and type(item) is type(each) for each in self.allowed):
                known = [value_text(each) for each in self.allowed]
                return f"'{self.name}' cannot be {describe(item)}", suggest(value_text(item), known, "allowed")
        return None


@dataclass(frozen=True)
class Overrides:
    """Where values come from besides the playbook: ``NAME=VALUE`` pairs, files, and an inventory.

    With `strict`, pairs and files give only variables that the playbook declares.
    """

    pairs: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()
    inventory: Callable[[], Inventory] | None = None
    strict: bool = True


@dataclass
class Variables:
    """The variables of a playbook, and the values that they have at each level; `used` are those that a value names."""

    declared: Mapping[str, Declared] = field(default_factory=dict)
    low: Values = field(default_factory=dict)
    """Defaults, and above them what the inventory gives to all."""
    groups: Mapping[str, Values] = field(default_factory=dict)
    hosts: Mapping[str, Values] = field(default_factory=dict)
    high: Values = field(default_factory=dict)
    """What files give, and above them what the command line gives."""
    used: set[str] = field(default_factory=set)
    wrong: frozenset[str] = frozenset()
    """Names of variables whose declarations have mistakes."""

    def base(self, play: Values) -> Values:
        """Return the values in a play that are the same for all its targets."""
        return {**self.low, **play, **self.high}

    def differing(self, play: Values) -> frozenset[str]:
        """Return the variables that groups or hosts give, and neither a play nor a level above it."""
        own = {name for each in (*self.groups.values(), *self.hosts.values()) for name in each}
        return frozenset(own - {*play, *self.high})


def is_declaration(item: object) -> bool:
    """Return whether an item of a playbook's list is no play, but declares variables."""
    return isinstance(item, Mapping) and KEY in item and not any(key in item for key in TARGETS)


def is_for_anchors(item: object) -> bool:
    """Return whether an item of a playbook's list is no play, but holds what aliases repeat."""
    return isinstance(item, Mapping) and bool(item) and all(key.startswith(FOR_ANCHORS) for key in item)


def read_variables(document: Document, faults: FaultCollector, overrides: Overrides) -> Variables:
    """Return the variables of a playbook with their values; `UsageError` for a wrong one of the command line."""
    declared, wrong = _declarations(document, faults)
    defaults = {name: each.default for name, each in declared.items() if each.default is not None}
    if not declared and not (overrides.strict and (overrides.pairs or overrides.files)):
        return Variables(wrong=wrong)
    found = Variables(declared, defaults, wrong=wrong)
    if overrides.inventory is not None and declared:
        given = overrides.inventory().variables
        found.low = {**defaults, **_typed(given.all, declared, faults)}
        found.groups = {name: _typed(each, declared, faults) for name, each in given.groups.items()}
        found.hosts = {name: _typed(each, declared, faults) for name, each in given.hosts.items()}
    found.high = {**_of_files(declared, overrides, faults), **_of_pairs(declared, overrides)}
    return found


def play_values(document: Document, index: int, variables: Variables, faults: FaultCollector) -> Values:
    """Return the values that a play gives with its own `vars:`."""
    node = document.root.value[index]
    if KEY not in node.value:
        return {}
    given = read_values(document, (index, KEY), "play", faults)
    for name in given.keys() - variables.declared.keys():
        help = suggest(name, variables.declared, "declared") or f"declare it: '- {KEY}: {{{name}: ...}}'"
        document.refuse_key(faults, (index, KEY, name), f"the playbook declares no variable '{name}'", help)
    return _typed(given, variables.declared, faults)


def _declarations(document: Document, faults: FaultCollector) -> tuple[dict[str, Declared], frozenset[str]]:
    """Return the variables that are declared, and the names of those whose declarations have mistakes."""
    found: dict[str, Declared] = {}
    wrong: set[str] = set()
    items = document.root.value if isinstance(document.root.value, list) else []
    for index, item in enumerate(items):
        if not is_declaration(item.value):
            continue
        for key in item.value:
            if key not in (KEY, "name"):
                help = "a play has 'hosts: PATTERN' or 'vms: PATTERN'; variables are an item of their own"
                document.refuse_key(faults, (index, key), f"'{key}' cannot stand beside '{KEY}'", help)
        node = item.value[KEY]
        if not isinstance(node.value, dict) or not node.value:
            text = f"'{KEY}' declares variables, but this is {describe(node.plain(), node.source)}"
            document.refuse(faults, (index, KEY), text, FORM)
            continue
        for name in node.value:
            path = (index, KEY, name)
            made = _declared(document, path, faults)
            if made is None:
                wrong.add(name)
                continue
            earlier = found.setdefault(name, made)
            if earlier is not made:
                text = f"the variable '{name}' is declared already, at {earlier.mark}"
                document.refuse_key(faults, path, text, "keep one of them")
    return found, frozenset(wrong - found.keys())


def _declared(document: Document, path: tuple[int, str, str], faults: FaultCollector) -> Declared | None:
    node, name = document.node(path), path[-1]
    mark = document.mark_of_key(path)
    if not NAME.fullmatch(name):
        document.refuse_key(faults, path, f"'{name}' is no name of a variable", NAMING)
        return None
    if not isinstance(node.value, dict):
        default = _checked(document, path, name, faults)
        return Declared(name, type_of(default.value), mark, default) if default else None
    return _in_full(document, path, mark, faults)


def _in_full(document: Document, path: tuple[int, str, str], mark: Mark, faults: FaultCollector) -> Declared | None:
    """Return a variable that is declared by a mapping."""
    node, name = document.node(path), path[-1]
    before = len(faults.found)
    for key in node.value:
        if key not in ATTRIBUTES:
            help = suggest(key, ATTRIBUTES)
            document.refuse_key(faults, (*path, key), f"a variable has no '{key}'", help)
    about = node.value.get("description")
    if about is not None and not isinstance(about.value, str):
        text = f"a description is text, but this is {describe(about.plain(), about.source)}"
        document.refuse(faults, (*path, "description"), text, "quote it")
    allowed = _allowed(document, path, faults)
    default = _checked(document, (*path, "default"), name, faults) if "default" in node.value else None
    wanted = _type(document, path, faults, default.value if default else None, allowed)
    if len(faults.found) > before or wanted is None:
        return None
    made = Declared(name, wanted, mark, default, allowed)
    for each in allowed:
        wrong = misfit(name, each, wanted) if wanted != "list" else None
        if wrong is not None:
            document.refuse(faults, (*path, "allowed"), *wrong)
            return None
    wrong = made.fault(default.value, default.source) if default else None
    if wrong is not None:
        document.refuse(faults, (*path, "default"), *wrong)
        return None
    return made


def _type(
    document: Document, path: DocumentPath, faults: FaultCollector, default: Value | None, allowed: tuple[Value, ...]
) -> Type | None:
    """Return the type that is written, else that of the default, else that of what is allowed."""
    node = document.node(path).value.get("type")
    if node is not None:
        if isinstance(node.value, str) and node.value in TYPES:
            return node.value
        text = f"{describe(node.plain(), node.source)} is no type of a variable"
        document.refuse(faults, (*path, "type"), text, suggest(str(node.value), TYPES, "types"))
        return None
    known = [default] if default is not None else list(allowed)
    if not known and any(key in document.node(path).value for key in ("default", "allowed")):
        return None  # what is wrong with them is noted
    if not known:
        text = f"nothing says what the values of '{path[-1]}' are"
        document.refuse_key(faults, path, text, f"add 'type: ...': {', '.join(TYPES)}")
        return None
    types = {type_of(each) for each in known}
    return "number" if types == {"integer", "number"} else type_of(known[0])


def _allowed(document: Document, path: tuple[int, str, str], faults: FaultCollector) -> tuple[Value, ...]:
    node = document.node(path).value.get("allowed")
    if node is None:
        return ()
    if not isinstance(node.value, list) or not node.value:
        what = "an empty list" if node.value == [] else describe(node.plain(), node.source)
        text = f"'allowed' is a list of values, but this is {what}"
        document.refuse(faults, (*path, "allowed"), text, "write a list: [a, b]")
        return ()
    given = (_checked(document, (*path, "allowed", n), path[-1], faults) for n in range(len(node.value)))
    return tuple(each.value for each in given if each is not None)


def _checked(document: Document, path: DocumentPath, name: str, faults: FaultCollector) -> GivenValue | None:
    """Return the value at a path, as a default; None, with the fault noted, where no variable can have it."""
    node = document.node(path)
    value = node.plain()
    wrong = unfit(name, value)
    if value is None:
        wrong = f"'{name}' has no value here", FORM
    if wrong is not None:
        document.refuse(faults, path, *wrong)
        return None
    mark = document.mark_at(node)
    return GivenValue(plain_value(value), "default", mark, document.excerpt(mark, node.width), node.source)  # type: ignore[arg-type]


def _typed(given: Values, declared: Mapping[str, Declared], faults: FaultCollector) -> Values:
    """Return the values of declared variables; those of another type, or not allowed, are noted."""
    found = {}
    for name, each in given.items():
        if name not in declared:
            continue
        wrong = declared[name].fault(each.value, each.source)
        if wrong is None:
            found[name] = each
        elif each.mark:
            faults.add(each.mark, wrong[0], wrong[1], excerpt=each.excerpt)
    return found


def _of_files(declared: Mapping[str, Declared], overrides: Overrides, faults: FaultCollector) -> Values:
    """Return what files of values give, of which a later one wins."""
    found: dict[str, GivenValue] = {}
    for path in overrides.files:
        require(path, "file of variables")
        document = load(path, faults)
        if document.data is None:
            continue
        given = read_values(_less_anchors(document), (), "vars file", faults)
        for name in given.keys() - declared.keys() if overrides.strict else ():
            help = suggest(name, declared, "declared") or "it declares none"
            document.refuse_key(faults, (name,), f"the playbook declares no variable '{name}'", help)
        found |= _typed(given, declared, faults)
    return found


def _less_anchors(document: Document) -> Document:
    """Return a file of values without the keys that only hold anchors."""
    if isinstance(document.root.value, dict):
        for key in [k for k in document.root.value if k.startswith(FOR_ANCHORS)]:
            del document.root.value[key]
    return document


def _of_pairs(declared: Mapping[str, Declared], overrides: Overrides) -> Values:
    """Return what ``NAME=VALUE`` pairs of the command line give, of which a later one wins."""
    found: dict[str, GivenValue] = {}
    for pair in overrides.pairs:
        name, sign, text = pair.partition("=")
        if not sign or not NAME.fullmatch(name):
            shown = f"--var {name}" if sign else "--var"
            raise UsageError(f"{shown} is not NAME=VALUE", "write e.g. --var profile=grid_a100-20c", rule="usage.var")
        if name in declared:
            found[name] = GivenValue(_of_pair(declared[name], text), "--var")
        elif overrides.strict:
            help = suggest(name, declared, "declared") or "it declares none: add an item '- vars: {...}'"
            raise UsageError(f"--var {name}: the playbook declares no such variable", help, rule="usage.var")
    return found


def _of_pair(declared: Declared, text: str) -> Value:
    value = _reading(declared.type, text)
    wrong = unfit(declared.name, value)
    if wrong is None:
        value = plain_value(value)
        wrong = declared.fault(value)
    if wrong is not None:
        raise UsageError(f"--var {declared.name}: {wrong[0]}", wrong[1], rule="usage.var")
    return value


def _reading(wanted: Type, text: str) -> Value:
    """Return a text of the command line as a value of a type, where it is one; else as text."""
    if wanted == "text":
        return text
    if wanted == "list":
        bare = text[1:-1] if text[:1] == "[" and text[-1:] == "]" else text
        items = (scalar(item.strip()) for item in bare.split(",")) if bare.strip() else ()
        return tuple("" if item is None else item for item in items)
    value = scalar(text)
    return text if value is None else value
