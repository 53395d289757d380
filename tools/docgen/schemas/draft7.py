"""JSON Schemas of draft-07 from pydantic models: what a file may hold, before the validators of the models change it.

Editors (yaml-language-server) read draft-07 at most; pydantic writes 2020-12.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic import BaseModel, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode

from tools.docgen.schemas.taken import CHECKED, TAKEN

Schema = dict[str, Any]
DRAFT = "http://json-schema.org/draft-07/schema#"
_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}
_OF_NAMES = ("properties", "patternProperties", "definitions", "$defs")
_OF_ONE = ("items", "additionalProperties", "additionalItems", "propertyNames", "not", "contains", "if", "then", "else")
_OF_SEVERAL = ("anyOf", "oneOf", "allOf", "prefixItems")


class _Generator(GenerateJsonSchema):
    """Writes what a validator takes, and the docstrings below fields as their descriptions."""

    def function_before_schema(self, schema: Any) -> Schema:
        inner: Schema = super().function_before_schema(schema)
        if self.mode == "serialization":
            return inner
        function = schema["function"]["function"]
        name = f"{function.__module__}.{function.__qualname__}"
        if name not in TAKEN:
            raise KeyError(f"{name} is not in tools/docgen/schemas/taken.py: add what it takes in a file")
        return TAKEN[name](inner)

    def function_after_schema(self, schema: Any) -> Schema:
        inner: Schema = super().function_after_schema(schema)
        function = schema["function"]["function"]
        checks = CHECKED.get(f"{function.__module__}.{getattr(function, '__qualname__', '')}", {})
        return {**inner, **checks} if checks and self.mode == "validation" else inner

    def model_schema(self, schema: Any) -> Schema:
        made: Schema = super().model_schema(schema)
        described = docstrings(schema["cls"])
        for name, field in made.get("properties", {}).items():
            if not field.get("description"):
                field.pop("description", None)
                if name in described:
                    field["description"] = described[name]
        return made


@cache
def docstrings(model: type) -> Mapping[str, str]:
    """Return the texts that stand below the fields of a class and of its bases."""
    found: dict[str, str] = {}
    for each in reversed(model.__mro__):
        if each.__module__.startswith("vsphere_ai."):
            found |= _own_docstrings(each)
    return found


def _own_docstrings(model: type) -> dict[str, str]:
    body = ast.parse(textwrap.dedent(inspect.getsource(model))).body[0]
    assert isinstance(body, ast.ClassDef)  # noqa: S101
    return {
        field.target.id: inspect.cleandoc(text.value.value)
        for field, text in zip(body.body, body.body[1:], strict=False)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) and isinstance(text.value.value, str)
    }


def schema_of(of: Any, definitions: dict[str, Schema], prefix: str = "", mode: JsonSchemaMode = "validation") -> Schema:
    """Return the schema of a model or type; models that it refers to go to `definitions`, behind `prefix`."""
    adapter: TypeAdapter[Any] = TypeAdapter(of)
    made = adapter.json_schema(schema_generator=_Generator, ref_template=f"#/definitions/{prefix}{{model}}", mode=mode)
    for name, each in made.pop("$defs", {}).items():
        plain = as_draft7(each)
        if definitions.setdefault(f"{prefix}{name}", plain) != plain:
            raise ValueError(f"two models are called {prefix}{name}")
    if isinstance(of, type) and issubclass(of, BaseModel):
        made.pop("title", None)
    plain_made: Schema = as_draft7(made)
    return plain_made


def as_draft7(node: Any) -> Any:
    """Return a schema in the words of draft-07: without fields that are only shown, and titles made of names."""
    if not isinstance(node, dict):
        return node
    found: Schema = {}
    for key, value in node.items():
        if key in _OF_NAMES:
            found[key] = {name: as_draft7(each) for name, each in value.items() if not _observed(each)}
        elif key in _OF_ONE:
            found[key] = as_draft7(value)
        elif key == "prefixItems":
            found["items"], found["additionalItems"] = [as_draft7(each) for each in value], False
        elif key in _OF_SEVERAL:
            found[key] = [as_draft7(each) for each in value]
        elif key == "description":
            found[key] = _text(value)
        elif key not in ("title", "default", "observed"):
            found[key] = value
    if isinstance(default := node.get("default"), _TYPES.get(str(node.get("type")), ())):
        found["default"] = default
    if "patternProperties" in found:
        found.setdefault("additionalProperties", False)
    if "$ref" in found and len(found) > 1:  # draft-07 does not look at what stands beside a reference
        reference = found.pop("$ref")
        found = {**found, "allOf": [{"$ref": reference}]}
    return found


def _observed(field: object) -> bool:
    return isinstance(field, dict) and bool(field.get("observed"))


def _text(text: str) -> str:
    """Return a description with its paragraphs on one line each, and one backtick around code."""
    paragraphs = inspect.cleandoc(text).replace("``", "`").split("\n\n")
    return "\n\n".join(re.sub(r"\s+", " ", each).strip() for each in paragraphs)


def without_null(node: Schema) -> Schema:
    """Return the schema of a value that has to be there."""
    kept = [each for each in node.get("anyOf", ()) if each != {"type": "null"}]
    if not kept:
        return node
    rest = {key: value for key, value in node.items() if key != "anyOf"}
    return {**rest, **(kept[0] if len(kept) == 1 and "$ref" not in kept[0] else {"anyOf": kept})}
