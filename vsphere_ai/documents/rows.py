"""Documents as rows of a table: a key, and its value as JSON, so that one key is written without the others."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from typing import TypeVar

from pydantic import BaseModel, JsonValue

from vsphere_ai.model.bounded import json_value

M = TypeVar("M", bound=BaseModel)


def rows_of(document: BaseModel, keys: Collection[str] | None = None) -> list[tuple[str, str]]:
    """Return the rows of a document: of these keys, or of all."""
    values = document.model_dump(mode="json", include=None if keys is None else set(keys))
    return [(key, json.dumps(value, ensure_ascii=False)) for key, value in values.items()]


def value_of(text: str) -> JsonValue:
    """Return the value of a row; `ValueError` where it cannot be read."""
    value: JsonValue = json_value(text)
    return value


def of_rows(model: type[M], rows: Iterable[tuple[object, ...]]) -> M:
    """Return the document of rows of a key and a value; `ValueError` where one cannot be read, or is another kind."""
    return model.model_validate({str(key): value_of(str(value)) for key, value in rows})
