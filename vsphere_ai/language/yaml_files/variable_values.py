"""Values of variables: their types, and what a value may be."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field

from vsphere_ai.errors import Diagnostic, Mark
from vsphere_ai.language.yaml_files.document import Document, DocumentPath, FaultCollector, describe
from vsphere_ai.model.names.secret_keys import has_secret_word, is_secret_key
from vsphere_ai.model.names.suggestion import mistyped
from vsphere_ai.model.variables import Scalar, Value
from vsphere_ai.security.secret_ref import FORMS, is_reference, parse

NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
NAMING = "a name is of small letters, digits and '_', begins with a letter, and has at most 40"
MOST_ITEMS = 1000
FOR_ANCHORS = "x-"
"""What keys begin with that only hold anchors."""
Type = str
TYPES: Mapping[Type, tuple[str, Callable[[object], bool]]] = {
    "text": ("text", lambda value: isinstance(value, str)),
    "integer": ("a whole number", lambda value: isinstance(value, int) and not isinstance(value, bool)),
    "number": ("a number", lambda value: isinstance(value, int | float) and not isinstance(value, bool)),
    "boolean": ("true or false", lambda value: isinstance(value, bool)),
    "list": ("a list", lambda value: isinstance(value, tuple)),
}
"""Type of a variable -> its words, and whether a value is of it."""


@dataclass(frozen=True)
class GivenValue:
    """A value that a file or an option gives to a variable, and where; see `model.variables.VariableValue`.

    `source` is a scalar as it was written.
    """

    value: Value
    level: str
    mark: Mark | None = None
    excerpt: str = ""
    source: str = ""

    @property
    def place(self) -> str:
        """File, line and column; empty for a value of the command line."""
        return str(self.mark) if self.mark else ""

    def refused(self, message: str, help: str = "") -> Diagnostic:
        """Return a fault of this value."""
        return Diagnostic(self.mark or Mark(self.level), message, help, self.excerpt)


@dataclass(frozen=True)
class InventoryValues:
    """Values that an inventory gives: to all, to the hosts of a group, to a host by its name."""

    all: Mapping[str, GivenValue] = field(default_factory=dict)
    groups: Mapping[str, Mapping[str, GivenValue]] = field(default_factory=dict)
    hosts: Mapping[str, Mapping[str, GivenValue]] = field(default_factory=dict)


def misspelt(values: InventoryValues, declared: Collection[str]) -> Iterator[tuple[GivenValue, str, str]]:
    """Yield values whose names are not declared and near to one that is, with that one."""
    for level in (values.all, *values.groups.values(), *values.hosts.values()):
        for name, given in level.items():
            meant = "" if name in declared else mistyped(name, declared)
            if meant and meant not in level:
                yield given, name, meant


def type_of(value: Value) -> Type:
    """Return the type of a value: the first that fits, so ``integer`` before ``number``."""
    return next(name for name, (_, fits) in TYPES.items() if fits(value))


def misfit(name: str, value: object, wanted: Type, source: str = "") -> tuple[str, str] | None:
    """Return message and help for a value that is not of a type; None for one that is."""
    words, fits = TYPES[wanted]
    if fits(value):
        return None
    given = "this value" if is_secret_key(name) else describe(value, source)
    help = f"write {words}"
    if wanted == "text" and isinstance(value, int | float):
        help = f'quote it: "{source or value}"'
    elif wanted == "list" and source:
        help = f"write a list: [{source}]"
    return f"'{name}' takes {words}, but this is {given}", help


def unfit(name: str, value: object) -> tuple[str, str] | None:
    """Return message and help for what no variable can be; None for a value that one can."""
    items = value if isinstance(value, tuple) else (value,)
    if isinstance(value, Mapping) or any(isinstance(item, Mapping | tuple) for item in items):
        return (
            f"a value of '{name}' is text, a number, true or false, or a list of them, but this is {describe(value)}",
            "repeat mappings with an anchor and '<<: *NAME'",
        )
    if any(item is None for item in items):
        return f"'{name}' has no value here", "write one, or remove the line"
    if len(items) > MOST_ITEMS:
        return f"'{name}' has {len(items)} items", f"at most {MOST_ITEMS} are possible"
    if has_secret_word(name) and not all(
        isinstance(item, str) and is_reference(item) and parse(item) for item in items
    ):
        return f"'{name}' sounds like a secret, and is shown in plans", f"name the place it is in: {FORMS}"
    if any(isinstance(item, str) and "${" in item.replace("$${", "") for item in items):
        return (
            f"a value of '{name}' has no variables and references in it",
            "use two variables in the playbook; '$${' stands for the two signs themselves",
        )
    return None


def plain_value(value: Value) -> Value:
    """Return a value with ``${`` for each ``$${``."""
    if isinstance(value, tuple):
        return tuple(_plain(item) for item in value)
    return _plain(value)


def _plain(item: Scalar) -> Scalar:
    return item.replace("$${", "${") if isinstance(item, str) else item


def read_values(document: Document, path: DocumentPath, level: str, faults: FaultCollector) -> dict[str, GivenValue]:
    """Return what a mapping of names and values at a path of a document gives; faults of form are noted."""
    node = document.node(path)
    if not isinstance(node.value, dict):
        text = f"values of variables are a mapping, but this is {describe(node.plain(), node.source)}"
        document.refuse(faults, path, text, "write 'NAME: VALUE' lines")
        return {}
    found = {}
    for name, below in node.value.items():
        at = (*path, name)
        if not NAME.fullmatch(name):
            document.refuse_key(faults, at, f"'{name}' is no name of a variable", NAMING)
            continue
        value = below.plain()
        wrong = unfit(name, value)
        if wrong is not None:
            document.refuse(faults, at, *wrong)
            continue
        mark = document.mark_of(at)
        found[name] = GivenValue(plain_value(value), level, mark, document.excerpt(mark, below.width), below.source)
    return found
