"""Specs of objects checked against the fields of their CustomResourceDefinition."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar, get_args

from pydantic import BaseModel, JsonValue, ValidationError
from pydantic_core import ErrorDetails

from vsphere_ai.kubernetes.objects import Manifest, ObjectFinding, Spec
from vsphere_ai.language.yaml_files.document import DocumentPath
from vsphere_ai.language.yaml_files.validation import describe, settable
from vsphere_ai.model.names.suggestion import suggest

S = TypeVar("S", bound=Spec)

# pydantic's error types in the words of an OpenAPI schema
_TYPES = {
    "bool_type": "a boolean",
    "dict_type": "an object",
    "int_type": "an integer",
    "int_from_float": "an integer",
    "mapping_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "string_type": "a string",
    "tuple_type": "an array",
}


def read_spec(manifest: Manifest, model: type[S]) -> tuple[S | None, list[ObjectFinding]]:
    """Return the spec of an object as a model, and every field that its schema does not allow.

    Fields that are wrong are left out of the model; None where it cannot be made without them.
    """
    value = manifest.data.get("spec")
    if value is None:
        return None, [manifest.fault((), "schema.missing-field", "'spec' is missing")]
    try:
        return model.model_validate(value), []
    except ValidationError as error:
        errors = error.errors(include_url=False)
    faults = list(dict.fromkeys(_fault(each, manifest, model) for each in errors))
    wrong = {_spot(each) for each in errors if each["type"] != "missing"}
    try:
        return model.model_validate(_without(value, wrong, ())), faults
    except ValidationError:
        return None, faults


def _without(value: JsonValue, wrong: set[DocumentPath], at: DocumentPath) -> object:
    """Return a value without what stands at some paths; an item of a list goes with what is wrong in it."""
    if isinstance(value, dict):
        return {k: _without(v, wrong, (*at, k)) for k, v in value.items() if (*at, k) not in wrong}
    if isinstance(value, list | tuple):
        kept = (i for i in range(len(value)) if not any(path[: len(at) + 1] == (*at, i) for path in wrong))
        return tuple(_without(value[i], wrong, (*at, i)) for i in kept)
    return value


def _fault(error: ErrorDetails, manifest: Manifest, model: type[BaseModel]) -> ObjectFinding:
    spot = _spot(error)
    path, kind, context = ("spec", *spot), error["type"], error.get("ctx", {})
    if kind == "extra_forbidden":
        help = (
            _known_mistake(model, spot) or _elsewhere(model, spot) or suggest(str(spot[-1]), settable(model, spot[:-1]))
        )
        return manifest.key_fault(path, "schema.unknown-field", f"unknown field '{spot[-1]}'", help)
    if kind == "missing":
        return manifest.fault(path[:-1], "schema.missing-field", f"'{spot[-1]}' is missing")
    given = describe(error["input"], manifest.document.node((*manifest.path, *path)).source)
    if kind in _TYPES:
        quote = isinstance(error["input"], bool | int | float) and kind == "string_type"
        help = f'quote it: "{manifest.document.node((*manifest.path, *path)).source}"' if quote else ""
        return manifest.fault(path, "schema.type", f"{path[-1]} has to be {_TYPES[kind]}, not {given}", help)
    if kind == "literal_error":
        return manifest.fault(path, "schema.value", f"{given} is not allowed", f"possible here: {context['expected']}")
    if kind == "value_error":
        message, _, help = str(context["error"]).partition("\n")
        return manifest.fault(path, "schema.value", message, help)
    text = str(error["msg"])
    return manifest.fault(path, "schema.value", f"{given}: {text[:1].lower()}{text[1:]}")


def _spot(error: ErrorDetails) -> DocumentPath:
    """Return where in the spec an error is, without the names of a union's branches."""
    places = error["loc"]
    # the last one is the name of a field here, whatever it looks like
    named = len(places) - 1 if error["type"] in ("extra_forbidden", "missing") else -1
    return tuple(
        s
        for number, s in enumerate(places)
        if number == named or not (isinstance(s, str) and (s.endswith("]") or s in ("str", "int", "bool")))
    )


def _known_mistake(model: type[BaseModel], spot: DocumentPath) -> str:
    """Return what to write instead of a field that an older release had, or that another API has."""
    at: type[BaseModel] | None = model
    for step in spot[:-1]:
        if isinstance(step, str) and at is not None:
            at = next(_models(at.model_fields[step].annotation), None) if step in at.model_fields else None
    return at.MISTAKES.get(str(spot[-1]), "") if at is not None and issubclass(at, Spec) else ""


def _elsewhere(model: type[BaseModel], spot: DocumentPath) -> str:
    """Return where in the spec a field belongs that stands on the wrong level, or is spelt in another case."""
    name = str(spot[-1])
    places = [path for path in _paths(model, ()) if path[-1] == name]
    if places:
        return "it belongs in " + " or ".join(".".join(("spec", *path[:-1])) for path in places)
    return ""


def _paths(model: type[BaseModel], above: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for name, field in model.model_fields.items():
        yield (*above, name)
        for below in _models(field.annotation):
            yield from _paths(below, (*above, name))


def _models(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models(argument)
