"""YAML text as nodes with places, within limits: libyaml's composer recurses in C and dies of deep nesting."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from vsphere_ai.errors import Diagnostic, InputError, Mark

MAX_TEXT = 4 << 20
MAX_DEPTH = 16
MAX_VALUES = 200_000
"""Of a file; what an alias stands for counts as often as it is used."""
_LOADER: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


def read(path: Path, what: str) -> str:
    """Return the text of a file; `InputError` when it cannot be read or is not UTF-8."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_TEXT + 1)
    except (OSError, ValueError) as error:
        raise InputError([Diagnostic(Mark(str(path)), f"cannot read the {what}: {error}")]) from error
    try:
        return content.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        mark = _after(content[: error.start].decode(), str(path))
        message = f"the byte 0x{content[error.start]:02x} is not UTF-8"
        raise InputError([Diagnostic(mark, message, "save the file as UTF-8")]) from None


def compose(text: str, file: str) -> Any:
    """Return the root node of a text, None when there is nothing in it; `InputError` with the place where it ends."""
    if len(text) > MAX_TEXT:
        raise InputError([Diagnostic(Mark(file, 1, 1), f"the file is larger than {MAX_TEXT >> 20} MiB")])
    try:
        _look(text, file)
        return yaml.compose(text, Loader=_LOADER)
    except (yaml.YAMLError, ValueError) as error:
        raise not_yaml(error, text, file) from None


def not_yaml(error: Exception, text: str, file: str) -> InputError:
    """Return what the parser says of a text, with the place."""
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error).splitlines()[0]
    return InputError([Diagnostic(_place(error, text, file), f"not YAML: {problem}")])


def _look(text: str, file: str) -> None:
    """Go through the events and refuse what would take too long or too deep; nothing here recurses."""
    sizes: dict[str, int] = {}
    stack: list[tuple[str | None, int]] = []
    values = 0
    events: Any = yaml.parse(text, Loader=_LOADER)
    for event in events:
        if isinstance(event, yaml.CollectionEndEvent):
            anchor, before = stack.pop()
            if anchor:
                sizes[anchor] = values - before
            continue
        wrong = ""
        if isinstance(event, yaml.AliasEvent):
            if any(anchor == event.anchor for anchor, _ in stack):
                wrong = f"*{event.anchor} is inside of what it stands for"
            values += sizes.get(str(event.anchor), 1)  # one without an anchor is the composer's to refuse
        elif isinstance(event, yaml.CollectionStartEvent):
            stack.append((event.anchor, values))
            values += 1
        elif isinstance(event, yaml.ScalarEvent):
            values += 1
            if event.anchor:
                sizes[event.anchor] = 1
        if len(stack) > MAX_DEPTH:
            wrong = f"nested more than {MAX_DEPTH} levels deep"
        elif values > MAX_VALUES:
            wrong = f"the file holds more than {MAX_VALUES} values"
        if wrong:
            mark = Mark(file, event.start_mark.line + 1, event.start_mark.column + 1)
            raise InputError([Diagnostic(mark, wrong)])


def _place(error: Exception, text: str, file: str) -> Mark:
    at: Any = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if at is not None:
        return Mark(file, at.line + 1, at.column + 1)
    position = getattr(error, "position", None)  # of a character that YAML does not allow
    if isinstance(position, int) and 0 <= position <= len(text):
        return _after(text[:position], file)
    return Mark(file, 1, 1)


def _after(before: str, file: str) -> Mark:
    lines = (before + "|").splitlines()
    return Mark(file, len(lines), len(lines[-1]))
