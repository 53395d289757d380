"""Specs of objects checked against the fields of their CustomResourceDefinition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from vsphere_ai.kubernetes.objects import RULES_NOTED, Manifest, ObjectFinding, RuledModel, Spec
from vsphere_ai.language.yaml_files.document import DocumentPath, describe
from vsphere_ai.language.yaml_files.validation import settable
from vsphere_ai.model.finding import Verdict
from vsphere_ai.model.names.suggestion import suggest

S = TypeVar("S", bound=Spec)
M = TypeVar("M", bound=BaseModel)

# pydantic's error types in the words of an OpenAPI schema
_TYPES = {
    "bool_type": "a boolean",
    "dict_type": "an object",
    "int_type": "an integer",
    "int_from_float": "an integer",
    "list_type": "an array",
    "mapping_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "string_type": "a string",
    "tuple_type": "an array",
}
_LIMITS = {
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
    "string_too_long": "at most {max_length} characters long",
    "string_too_short": "at least {min_length} characters long",
    "too_short": "a list of at least {min_length} items",
    "too_long": "a list of at most {max_length} items",
}


def read_spec(manifest: Manifest, model: type[S]) -> tuple[S | None, list[ObjectFinding]]:
    """Return the spec of an object as a model, and every field that its schema does not allow or that breaks a rule.

    Fields of a wrong type are left out of the model; None where it cannot be made without them.
    """
    value = manifest.data.get("spec")
    if value is None:
        return None, [manifest.fault((), "schema.missing-field", "'spec' is missing")]
    spec, errors = read_model(value, model)
    return spec, list(dict.fromkeys(_fault(each, manifest, model) for each in errors))


def read_model(value: object, model: type[M]) -> tuple[M | None, list[ErrorDetails]]:
    """Return a value as a model, and its errors: those of types first, those of rules with what is well typed.

    What has a wrong type is left out of the model; None where it cannot be made without it.
    """
    made, errors = _validated(value, model)
    wrong = {_spot(each) for each in errors if each["type"] != "missing" and not is_rule(each)}
    if wrong and (kept := _without(value, wrong, ())) is not None:
        # a part with a field of a wrong type was not held against the rules across its fields
        value = kept
        made, more = _validated(value, model)
        errors += [each for each in more if is_rule(each)]
    if made is None:
        made, _ = _validated(value, model, RULES_NOTED)
        # a part in which a rule is broken hides the rules of those around it
        known = {(each["type"], _spot(each), each["msg"]) for each in errors}
        errors += (
            [each for each in _rules_of(made, ()) if (each["type"], _spot(each), each["msg"]) not in known]
            if made is not None
            else []
        )
    return made, errors


def _rules_of(part: object, at: DocumentPath) -> Iterator[ErrorDetails]:
    """Yield the rules that a part and those in it break; a rule about a value that cannot be read is left out."""
    if isinstance(part, tuple | dict):
        for key, value in part.items() if isinstance(part, dict) else enumerate(part):
            yield from _rules_of(value, (*at, key))
    if isinstance(part, BaseModel):
        for name, field in type(part).model_fields.items():
            yield from _rules_of(getattr(part, name), (*at, field.alias or name))
    if isinstance(part, RuledModel):
        try:
            broken = list(part.broken_rules())
        except ValueError:
            return
        for rule in broken:
            if isinstance(rule["type"], PydanticCustomError):
                error, loc = rule["type"], (*at, *rule.get("loc", ()))
                yield ErrorDetails(
                    type=error.type, loc=loc, msg=error.message(), input=None, ctx=dict(error.context or {})
                )


def is_rule(error: ErrorDetails) -> bool:
    """Return whether an error is that of a rule, not of a type."""
    return "." in error["type"]


def words_of(error: ErrorDetails, source: str = "") -> tuple[str, str]:
    """Return what is wrong with a value that has the wrong type, or is not allowed, and what to write instead."""
    kind, context, given = error["type"], error.get("ctx", {}), describe(error["input"], source)
    name = next((str(step) for step in reversed(_spot(error)) if isinstance(step, str)), "the value")
    if is_rule(error):
        return str(context["message"]), str(context["help"])
    if kind == "extra_forbidden":
        return f"unknown field '{_spot(error)[-1]}'", ""
    if kind == "missing":
        return f"'{_spot(error)[-1]}' is missing", ""
    if kind in _TYPES:
        quote = kind == "string_type" and isinstance(error["input"], bool | int | float)
        return f"{name} has to be {_TYPES[kind]}, not {given}", f'quote it: "{source}"' if quote and source else ""
    if kind == "literal_error":
        return f"{given} is not allowed", f"possible here: {context['expected']}"
    if kind == "value_error":
        message, _, help = str(context["error"]).partition("\n")
        return message, help
    limit = _LIMITS.get(kind)
    return (f"{name} has to be {limit.format(**context)}, not {given}" if limit else f"{given} is not allowed"), ""


def _validated(value: object, model: type[M], context: object = None) -> tuple[M | None, list[ErrorDetails]]:
    try:
        return model.model_validate(value, context=context), []
    except ValidationError as error:
        errors = error.errors(include_url=False)
    # pydantic counts the items of a list without those that have an error
    return None, [each for each in errors if each["type"] != "too_short" or not _is_above(each["loc"], errors)]


def _is_above(path: tuple[int | str, ...], errors: Sequence[ErrorDetails]) -> bool:
    return any(each["loc"][: len(path)] == path and len(each["loc"]) > len(path) for each in errors)


def _without(value: object, wrong: set[DocumentPath], at: DocumentPath) -> object:
    """Return a value without what stands at some paths; an item of a list goes with what is wrong in it."""
    if isinstance(value, dict):
        return {k: _without(v, wrong, (*at, k)) for k, v in value.items() if (*at, k) not in wrong}
    if isinstance(value, list | tuple):
        kept = (i for i in range(len(value)) if not any(path[: len(at) + 1] == (*at, i) for path in wrong))
        return tuple(_without(value[i], wrong, (*at, i)) for i in kept)
    return value


def _fault(error: ErrorDetails, manifest: Manifest, model: type[BaseModel]) -> ObjectFinding:
    spot, kind = _spot(error), error["type"]
    path = ("spec", *spot)
    if is_rule(error):
        message, help = words_of(error)
        verdict: Verdict = "warn" if error["ctx"]["verdict"] == "warn" else "fail"
        return replace(manifest.fault(path, kind, message, help), verdict=verdict)
    if kind == "extra_forbidden":
        help = (
            _known_mistake(model, spot) or _elsewhere(model, spot) or suggest(str(spot[-1]), settable(model, spot[:-1]))
        )
        return manifest.key_fault(path, "schema.unknown-field", words_of(error)[0], help)
    if kind == "missing":
        return manifest.fault(path[:-1], "schema.missing-field", words_of(error)[0])
    message, help = words_of(error, manifest.document.node((*manifest.path, *path)).source)
    return manifest.fault(path, "schema.type" if kind in _TYPES else "schema.value", message, help)


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
