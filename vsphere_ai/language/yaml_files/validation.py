"""Values of a document checked against a model; every fault becomes a diagnostic with its place and a way out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial
from typing import TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from vsphere_ai.language.yaml_files.document import Document, DocumentPath, FaultCollector, describe, load_beside
from vsphere_ai.language.yaml_files.embedded import load_holding, opened
from vsphere_ai.model.names.secret_keys import is_secret_key
from vsphere_ai.model.names.suggestion import same_word, suggest
from vsphere_ai.model.state import Settings, is_observed
from vsphere_ai.resources.playbook_files import NamedFile

M = TypeVar("M", bound=BaseModel)

# pydantic's error types (https://docs.pydantic.dev/latest/errors/validation_errors/) in the words of a YAML file.
_EXPECTED = {
    "bool_type": "true or false",
    "dict_type": "a mapping (key: value)",
    "finite_number": "a number",
    "float_type": "a number",
    "int_from_float": "a whole number",
    "int_type": "a whole number",
    "list_type": "a list",
    "mapping_type": "a mapping (key: value)",
    "model_attributes_type": "a mapping (key: value)",
    "model_type": "a mapping (key: value)",
    "none_required": "nothing",
    "string_type": "text",
    "tuple_type": "a list",
}
_CHOICES = frozenset({"literal_error", "enum"})
_BOUNDS = {
    "greater_than": ("gt", "more than {}"),
    "greater_than_equal": ("ge", "at least {}"),
    "less_than": ("lt", "less than {}"),
    "less_than_equal": ("le", "at most {}"),
}


@dataclass(frozen=True)
class ValuePlace:
    """Where a value stands in its document, and where its faults go.

    `below` names the field a bare value was put in (a kind's shorthand), which the file itself does not spell.
    """

    document: Document
    path: DocumentPath
    faults: FaultCollector
    below: str = ""

    def at(self, spot: DocumentPath) -> DocumentPath:
        """Return the path in the document of a spot inside of the value."""
        return self.path + (spot[1:] if self.below and spot[:1] == (self.below,) else spot)

    def inside(self, path: DocumentPath, below: str = "") -> ValuePlace:
        """Return the place of a value inside of this one; see `below`."""
        return replace(self, path=self.path + path, below=below)

    def load(self, spot: DocumentPath, key: str = "") -> NamedFile | None:
        """Read the file that is named at a spot inside of the value; None, with the fault noted, if that cannot be.

        With `key`, the document of it that has this key, also where it is text inside of another one.
        """
        read = partial(load_holding, key=key) if key else None
        beside = load_beside(self.document, self.at(spot), self.faults, read)
        return NamedFile(beside.data, partial(beside.refuse, self.faults)) if beside is not None else None

    def text(self, spot: DocumentPath) -> NamedFile | None:
        """Read the YAML that is text at a spot inside of the value; None, with the fault noted, if that cannot be."""
        beside = opened(self.document, self.document.node(self.at(spot)), self.faults)
        return NamedFile(beside.data, partial(beside.refuse, self.faults)) if beside is not None else None

    def refuse(self, spot: DocumentPath, message: str, help: str = "") -> None:
        """Note a fault of what is at a spot inside of the value."""
        self.document.refuse(self.faults, self.at(spot), message, help)

    def refuse_key(self, spot: DocumentPath, message: str, help: str = "") -> None:
        """Note a fault of the key at the end of a spot inside of the value."""
        self.document.refuse_key(self.faults, self.at(spot), message, help)


def validate(model: type[M], value: object, place: ValuePlace, *, context: object = None) -> M | None:
    """Return the model made of a value, or None with every fault noted; `context` is for the model's validators."""
    before = len(place.faults.found)
    for spot in _observed(model, value):
        help = "remove it: the tool shows it, a playbook cannot set it"
        place.refuse_key(spot, f"'{spot[-1]}' is read, not set", help)
    try:
        made = model.model_validate(value, context=context)
    except ValidationError as error:
        _note(error, model, value, place)
        return None
    return made if len(place.faults.found) == before else None


def _note(error: ValidationError, model: type[BaseModel], value: object, place: ValuePlace) -> None:
    """Turn pydantic's errors into diagnostics: the branches of a union that failed at one spot become one."""
    by_spot: dict[DocumentPath, list[ErrorDetails]] = {}
    for fault in error.errors(include_url=False):
        if fault["loc"][-1:] == ("[key]",) and fault["type"] in {*_CHOICES, "value_error"}:
            _wrong_key(fault, _spot(fault, value), place)
        else:
            by_spot.setdefault(_spot(fault, value), []).append(fault)
    unknown = [str(spot[-1]) for spot, found in by_spot.items() if found[0]["type"] == "extra_forbidden"]
    for spot, found in by_spot.items():
        if found[0]["type"] == "missing" and get_close_matches(str(spot[-1]), unknown):
            continue  # it is there, misspelt, and said to be
        # The branch of a union that got further into the value is the one that was meant.
        deeper = any(other[: len(spot)] == spot and len(other) > len(spot) for other in by_spot)
        shallow = [fault for fault in found if fault["type"] in _EXPECTED or fault["type"] in _CHOICES]
        others = [fault for fault in found if fault not in shallow]
        for fault in others:
            _one(fault, spot, model, place)
        if others or deeper or not shallow:
            continue
        if all(fault["type"] in _CHOICES for fault in shallow):
            _one(shallow[0], spot, model, place)
        else:
            _wrong_type(shallow, spot, place)


def _wrong_key(fault: ErrorDetails, spot: DocumentPath, place: ValuePlace) -> None:
    """Refuse a key that a mapping cannot have: none of its words, or no name of what it is about."""
    if fault["type"] in _CHOICES:
        message, help = f"unknown key '{spot[-1]}'", suggest(str(spot[-1]), _allowed(fault["ctx"]["expected"]))
    else:
        message, _, help = str(fault["ctx"]["error"]).partition("\n")
    place.refuse_key(spot, message, help)


def _one(fault: ErrorDetails, spot: DocumentPath, model: type[BaseModel], place: ValuePlace) -> None:
    kind, name = fault["type"], str(spot[-1]) if spot else ""
    if kind == "extra_forbidden":
        known = _of_other_tools(name, model, spot[:-1]) or suggest(name, settable(model, spot[:-1]))
        place.refuse_key(spot, f"unknown key '{name}'", known)
        return
    if kind == "missing":
        place.refuse(spot[:-1], f"'{name}' is missing", f"add '{name}: ...' here")
        return
    given = _given(place, place.at(spot))
    context = fault.get("ctx", {})
    if kind in _CHOICES:
        allowed = _allowed(fault["ctx"]["expected"])
        place.refuse(spot, f"{given} is not allowed here", suggest(str(fault["input"]), allowed))
    elif kind in _BOUNDS:
        key, text = _BOUNDS[kind]
        place.refuse(spot, f"{given} is out of range", f"give {text.format(context[key])}")
    elif kind in {"value_error", "assertion_error"}:
        message, _, help = str(context.get("error", fault["msg"])).partition("\n")
        place.refuse(spot, message, help)
    elif kind == "too_long" and isinstance(fault["input"], tuple | list):
        many, most = context["actual_length"], context["max_length"]
        place.refuse(spot, f"{many} items, and at most {most} are possible here", f"remove {many - most} of them")
    elif kind in {"string_too_short", "too_short"} and not fault["input"]:
        place.refuse(spot, "this must not be empty", f"write a value for '{name}', or remove the line")
    else:
        place.refuse(spot, f"{given} does not fit here", f"{fault['msg'][:1].lower()}{fault['msg'][1:]}")


def _wrong_type(found: list[ErrorDetails], spot: DocumentPath, place: ValuePlace) -> None:
    path = place.at(spot)
    wanted = list(dict.fromkeys(_EXPECTED.get(fault["type"]) or fault["ctx"]["expected"] for fault in found))
    given, expected = found[0]["input"], " or ".join(wanted)
    source = place.document.node(path).source
    help = f"write {expected}"
    if "text" in wanted and isinstance(given, bool | int | float):
        help = f'quote it: "{source or given}"'
    elif "a list" in wanted and isinstance(given, str | int | Mapping):
        help = f"write a list: [{source}]" if source else "write a list, each item after '- '"
    place.refuse(spot, f"expected {expected}, but this is {_given(place, path, given)}", help)


def _given(place: ValuePlace, path: DocumentPath, value: object = ...) -> str:
    node = place.document.node(path)
    if any(is_secret_key(str(step)) for step in path):
        return "this value"
    return describe(node.plain() if value is ... else value, node.source)


def _spot(fault: ErrorDetails, value: object) -> DocumentPath:
    """Return the part of an error's location that exists in the value: the names of union branches go."""
    spot: list[str | int] = []
    at, steps = value, fault["loc"]
    for index, step in enumerate(steps):
        below = at if isinstance(at, Mapping) else dict(enumerate(at)) if isinstance(at, tuple | list) else {}
        if step in below:
            at = below[step]
        elif not (fault["type"] == "missing" and index == len(steps) - 1):
            continue
        spot.append(step)
    return tuple(spot)


def _allowed(expected: str) -> list[str]:
    # pydantic writes: 'a', 'b' or 'c'
    return [word.strip("' ") for part in expected.split(",") for word in part.split(" or ")]


def _models(annotation: object) -> Iterator[type[BaseModel]]:
    """Yield the models an annotation may hold, through unions, lists and mappings."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models(argument)


def settable(model: type[BaseModel], spot: DocumentPath = ()) -> list[str]:
    """Return the keys that may be written at a place inside of a model."""
    return [name for each in _inside(model, spot) for name in each.model_fields if not is_observed(each, name)]


def _inside(model: type[BaseModel], spot: DocumentPath) -> list[type[BaseModel]]:
    """Return the models of what stands at a place inside of a model."""
    at = [model]
    for step in spot:
        below = [m for each in at if step in each.model_fields for m in _models(each.model_fields[step].annotation)]
        at = below or at
    return at


def _of_other_tools(key: str, model: type[BaseModel], spot: DocumentPath) -> str:
    """Return what to write instead of a key that another tool has there; empty for any other one."""
    tables = (each.other_words for each in _inside(model, spot) if issubclass(each, Settings))
    return next((words for table in tables for word, words in table.items() if same_word(word, key)), "")


def _observed(model: type[BaseModel], value: object, spot: DocumentPath = ()) -> Iterator[DocumentPath]:
    """Yield where a value sets a field that can only be read."""
    if isinstance(value, tuple):
        for index, item in enumerate(value):
            yield from _observed(model, item, (*spot, index))
    if not isinstance(value, Mapping):
        return
    for key, item in value.items():
        if key not in model.model_fields:
            continue
        if is_observed(model, key):
            yield (*spot, key)
        for below in _models(model.model_fields[key].annotation):
            yield from _observed(below, item, (*spot, key))
