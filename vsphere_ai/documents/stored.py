"""Stored documents: what this tool keeps in files of its own, each with its format, and why one cannot be read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from json.decoder import JSONDecodeError
from typing import ClassVar, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from vsphere_ai.documents.part import DocumentPart
from vsphere_ai.errors import Mark, Storage
from vsphere_ai.model.bounded import require_few_values

_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()
VERSIONS = (("format",), ("schema_version",), ("fleet_version",), ("version",))
"""Keys with the version of a document."""
_AT = re.compile(r" at line (\d+) column (\d+)$")
Stored = TypeVar("Stored", bound="StoredDocument")
Read = TypeVar("Read", bound=BaseModel)
Location = Sequence[str | int]


class StoredPart(DocumentPart):
    """A part of a stored document: every key is known, and no value is taken for one of another type."""

    model_config = ConfigDict(strict=True, extra="forbid")


class StoredDocument(StoredPart):
    """A document that is kept in a file. A subclass with another form than before counts up its `format`."""

    remedy: ClassVar[str] = "move the file away: a new one is begun"
    """What to do about a file that cannot be read: what is lost with it."""
    rule: ClassVar[str] = "state.damaged"

    format: Literal[1] = 1

    def as_text(self) -> str:
        """Return the JSON form on one line; `read_stored` reads it."""
        return self.model_dump_json()


class DamagedDocument(Storage, title="damaged file", rule="state.damaged"):
    """A file of this tool does not hold what this version writes there. `mark` is where, `field` the key."""

    def __init__(self, message: str, remedy: str, mark: Mark, *, field: str = "", rule: str = "") -> None:
        super().__init__(f"{mark}: {f'{field}: ' if field else ''}{message}", remedy, rule=rule)
        self.mark, self.field = mark, field


@dataclass(frozen=True)
class DocumentFault:
    """The first thing that is wrong with a document: where, the field (empty: none), and what is wrong."""

    mark: Mark
    field: str
    reason: str

    def __str__(self) -> str:
        return f"{self.mark}: {f'{self.field}: ' if self.field else ''}{self.reason}"


class UnreadableDocument(ValueError):
    """A text is not the JSON of a model; `fault` says where and why."""

    def __init__(self, fault: DocumentFault) -> None:
        super().__init__(str(fault))
        self.fault = fault


def read_document(model: type[Read], content: bytes, file: str, first_line: int = 1, *, strict: bool = False) -> Read:
    """Return the document that the content of a file is; `UnreadableDocument` with file, line, column and field.

    `first_line` is the line of the file on which the content begins. `strict`: no value is taken for one of another
    type.
    """
    try:
        require_few_values(content)
    except ValueError as error:
        raise UnreadableDocument(DocumentFault(Mark(file, first_line, 1), "", f"{error}")) from None
    try:
        return model.model_validate_json(content, strict=strict or None)
    except ValidationError as error:
        if not content.strip():
            fault = DocumentFault(Mark(file, first_line, 1), "", f"it is empty: {len(content)} bytes")
            raise UnreadableDocument(fault) from None
        first = _first(error)
        mark = _mark(content, first, file, first_line)
        raise UnreadableDocument(DocumentFault(mark, _field(first["loc"]), _reason(first))) from None


def read_stored(model: type[Stored], content: bytes, file: str, first_line: int = 1) -> Stored:
    """Return the document that the content of a file is; `DamagedDocument` with file, line, column and field.

    `first_line` is the line of the file on which the content begins.
    """
    try:
        return read_document(model, content, file, first_line)
    except UnreadableDocument as error:
        fault = error.fault
        raise DamagedDocument(fault.reason, model.remedy, fault.mark, field=fault.field, rule=model.rule) from None


def first_fault(error: ValidationError) -> str:
    """Return the field of the first thing that is wrong in a document, and what is."""
    fault = _first(error)
    field = _field(fault["loc"])
    return f"{f'{field}: ' if field else ''}{_reason(fault)}"


def _first(error: ValidationError) -> ErrorDetails:
    """Return what is wrong first: with another format, the rest is expected to differ."""
    faults = error.errors(include_url=False, include_input=False)
    return next((each for each in faults if each["loc"] in VERSIONS), faults[0])


def _reason(fault: ErrorDetails) -> str:
    if fault["type"] == "json_invalid":
        return f"it is not JSON: {_AT.sub('', fault['msg'].removeprefix('Invalid JSON: '))}"
    if fault["loc"] in VERSIONS and fault["type"] != "missing":
        known = {"format": "format"}.get(str(fault["loc"][0]), "version")
        return f"it was written by another version of vsphere-ai, this one reads {known} 1"
    if fault["type"] == "missing":
        return "it is missing"
    if fault["type"] == "extra_forbidden":
        return "this version has no such key"
    return f"it {str(fault['msg']).removeprefix('Input ')}"


def _field(location: Location) -> str:
    """Return a path of keys as text; numbers of items, from 0 on, are in brackets."""
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in location).removeprefix(".")


def _mark(content: bytes, fault: ErrorDetails, file: str, first_line: int) -> Mark:
    if fault["type"] == "json_invalid":
        place = _AT.search(fault["msg"])
        line, column = map(int, place.groups()) if place else (1, 1)
        return Mark(file, first_line + line - 1, max(column, 1))
    text = content.decode()  # it is UTF-8: it was read as JSON
    at = position(text, fault["loc"])
    start = text.rfind("\n", 0, at) + 1
    return Mark(file, first_line + text.count("\n", 0, at), at - start + 1)


def position(text: str, location: Location) -> int:
    """Return where in a text of JSON the value at a path begins, else the innermost value on the way that is there."""
    at = _skip(text, 0)
    for step in location:
        inner = next((start for key, start in _members(text, at) if key == step), None)
        if inner is None:
            break
        at = inner
    return at


def _members(text: str, at: int) -> Iterator[tuple[str | int, int]]:
    """Yield the key of each value directly in the object or list that begins at a place, and where the value begins."""
    if text[at : at + 1] not in ("{", "["):
        return
    is_object, count = text[at] == "{", 0
    at = _skip(text, at + 1)
    while text[at : at + 1] not in ("}", "]", ""):
        key: str | int = count
        if is_object:
            key, at = _DECODER.raw_decode(text, at)
            at = _skip(text, _skip(text, at) + 1)  # behind the colon
        yield key, at
        count += 1
        try:
            at = _skip(text, _DECODER.raw_decode(text, at)[1])
        except (JSONDecodeError, RecursionError):
            return
        at = _skip(text, at + 1) if text[at : at + 1] == "," else at


def _skip(text: str, at: int) -> int:
    blank = _SPACE.match(text, at)
    return blank.end() if blank else at
