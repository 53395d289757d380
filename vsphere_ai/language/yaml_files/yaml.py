"""YAML 1.2 text to a tree of nodes with places, within limits, on libyaml's parser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NoReturn

import yaml

MAX_DEPTH = 32
MAX_NODES = 50_000
MAX_ALIASES = 100
MAX_FAULTS = 100
MERGE = "<<"
TOO_DEEP = f"this is nested more than {MAX_DEPTH} levels deep"
LESS_DEEP = "close a bracket, or indent less"

# Only events are taken from libyaml: its composer recurses in C and dies of deep nesting.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

# The core schema of YAML 1.2 (https://yaml.org/spec/1.2.2/#103-core-schema), narrowed where ids look like numbers:
# 017, 20e0, 1_000 and integers beyond 64 bits stay text.
_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})")
_BASED = re.compile(r"0o[0-7]{1,20}|0x[0-9a-fA-F]{1,15}")
_FLOAT = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})\.[0-9]{1,20}(?:[eE][-+]?[0-9]{1,2})?")

_HINTS = (
    ("tab character", "indent with spaces"),
    ("cannot start any token", "indent with spaces, and quote a value that starts with a tab, %, @ or `"),
    ("mapping values are not allowed", "check the indentation of this line, and quote a value that holds ': '"),
    ("did not find expected key", "check the indentation of this line and the quotes above it"),
    ("could not find expected ':'", "a key is followed by a colon and a space"),
    ("did not find expected ','", "check commas and closing brackets, and quote a value with ${...} between brackets"),
    ("unexpected end of stream", "a quote is not closed"),
    ("did not find expected '-' indicator", "the items of a list start in one column"),
)


@dataclass(frozen=True)
class YamlFault:
    """What is wrong at one place; line and column count from 0."""

    line: int
    column: int
    message: str
    help: str = ""
    unnamed: str = ""
    """The message without what the file says there, for a place that may hold a secret."""


class UnreadableText(Exception):
    """The text cannot be read any further."""

    def __init__(self, fault: YamlFault) -> None:
        super().__init__(fault.message)
        self.fault = fault


@dataclass(slots=True)
class YamlNode:
    """One value of a file and where it starts; in a mapping also where each key is. Lines and columns from 0."""

    value: Any
    line: int
    column: int
    source: str = ""
    """A scalar as it was written, before it became a number, a boolean or null."""
    width: int = 1
    keys: dict[str, tuple[int, int]] = field(default_factory=dict)
    size: int = 1
    height: int = 1
    """Levels, from this value to the deepest below it."""
    file: str = ""
    """The file it is in, where that is another one than the document's."""
    origin: str = ""
    """What gave it its value, where that is not what is written here; see `Document.refuse`."""
    quoted: bool = False
    """Whether a scalar is text because of quotes, or of a block (``|``)."""

    def child(self, step: str | int) -> YamlNode | None:
        """Return the node below a key or an index."""
        found: YamlNode | None = None
        if isinstance(self.value, dict):
            found = self.value.get(step)
        elif isinstance(self.value, list) and isinstance(step, int) and 0 <= step < len(self.value):
            found = self.value[step]
        return found

    def plain(self) -> object:
        """Return the value without places: mappings are dicts with text keys, lists are tuples."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        if isinstance(self.value, list):
            return tuple(node.plain() for node in self.value)
        return self.value


def scalar(text: str) -> str | int | float | bool | None:
    """Return what an unquoted scalar means; PCI ids, MAC addresses, versions, times and on/off stay text."""
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    if _INT.fullmatch(text):
        return int(text)
    if _BASED.fullmatch(text):
        return int(text, 0)
    if _FLOAT.fullmatch(text):
        return float(text)
    return text


def read(text: str, faults: list[YamlFault], most: int = MAX_NODES) -> YamlNode:
    """Return the tree of a text of at most `most` values.

    Faults that leave it readable are added to `faults`, others end in `UnreadableText`.
    """
    return next(iter(read_stream(text, faults, most, documents=1)), YamlNode(None, 0, 0))


def read_stream(
    text: str, faults: list[YamlFault], most: int = MAX_NODES, documents: int = MAX_NODES, *, repeated: bool = False
) -> list[YamlNode]:
    """Return the tree of each document of a text, which are at most `documents`. See `read`.

    `repeated`: a key that is given twice is no fault where both values are the same.
    """
    builder = _Builder(faults, most, documents, repeated=repeated)
    try:
        for event in _events(text):
            builder.take(event)
        builder.end()
    except yaml.MarkedYAMLError as error:
        raise UnreadableText(_of_parser(error, builder.last, len(text.splitlines()))) from None
    return builder.roots


def _events(text: str) -> Iterator[yaml.Event]:
    loader = _LOADER(text)
    try:
        while loader.check_event():
            yield loader.get_event()
    finally:
        loader.dispose()


def _of_parser(error: yaml.MarkedYAMLError, last: tuple[int, int], lines: int) -> YamlFault:
    if (
        error.problem is not None and "maximum nesting depth" in error.problem
    ):  # libyaml's own limit; it reads ahead of the events
        at = error.problem_mark
        return YamlFault(*((at.line, at.column) if at else last), TOO_DEEP, LESS_DEEP)
    problem = error.problem or "this is not YAML"
    mark = error.problem_mark or error.context_mark
    if error.context_mark and mark and mark.line >= lines:
        mark = error.context_mark  # what was never closed says more than the end of the file
    line, column = (mark.line, mark.column) if mark else last
    context = f" {error.context}" if error.context else ""
    if error.context and error.context_mark and error.context_mark.line != line:
        context += f" that starts in line {error.context_mark.line + 1}"
    return YamlFault(line, column, problem + context, next((h for text, h in _HINTS if text in problem), ""))


@dataclass(slots=True)
class _Frame:
    node: YamlNode
    anchor: str | None
    key: str | None = None
    twice: YamlFault | None = None


class _Builder:
    """Takes the parser's events one by one, without recursion, and stops as soon as a limit is passed."""

    def __init__(self, faults: list[YamlFault], most: int, documents: int, *, repeated: bool) -> None:
        self.roots: list[YamlNode] = []
        self.most, self.documents, self.repeated = most, documents, repeated
        self._twice: list[tuple[YamlNode, YamlNode, YamlFault]] = []
        """Values of one key of a mapping, and the fault that they are where they differ."""
        self.faults = faults
        self.last = (0, 0)
        self._stack: list[_Frame] = []
        self._anchors: dict[str, YamlNode | None] = {}
        self._nodes = self._aliases = 0

    def take(self, event: Any) -> None:
        """Take one event."""
        self.last = (event.start_mark.line, event.start_mark.column)
        if isinstance(event, yaml.ScalarEvent):
            self._scalar(event)
        elif isinstance(event, yaml.CollectionStartEvent):
            self._open(event)
        elif isinstance(event, yaml.CollectionEndEvent):
            self._close()
        elif isinstance(event, yaml.AliasEvent):
            self._alias(event.anchor or "")
        elif isinstance(event, yaml.DocumentStartEvent):
            if len(self.roots) == self.documents:
                self._stop("a second document starts here", "one file holds one document: remove this '---'")
            self._anchors.clear()  # an anchor counts in its own document

    def _scalar(self, event: Any) -> None:
        self._no_tag(event)
        frame = self._stack[-1] if self._stack else None
        if frame and isinstance(frame.node.value, dict) and frame.key is None:
            self._key(frame, event.value)
            return
        bare = event.style is None or (event.style == "" and event.implicit[0])
        value = scalar(event.value) if bare else event.value
        start, end = event.start_mark, event.end_mark
        width = end.column - start.column if end.line == start.line else 1
        node = YamlNode(value, start.line, start.column, event.value, max(1, width), quoted=not bare)
        self._add(node)
        if event.anchor:
            self._anchors[event.anchor] = node

    def _key(self, frame: _Frame, key: str) -> None:
        if key in frame.node.keys:
            help = f"it is already in line {frame.node.keys[key][0] + 1}: keep one of them"
            help = "write one, with a list: '<<: [*one, *two]'" if key == MERGE else help
            frame.twice = YamlFault(*self.last, f"the key '{_short(key)}' is given twice", help)
        else:
            frame.node.keys[key] = self.last
        frame.key = key

    def _open(self, event: yaml.CollectionStartEvent) -> None:
        self._no_tag(event)
        if len(self._stack) >= MAX_DEPTH:
            self._stop(TOO_DEEP, LESS_DEEP)
        frame = self._stack[-1] if self._stack else None
        if frame and isinstance(frame.node.value, dict) and frame.key is None:
            self._stop("a key must be text, not a list or a mapping", "quote it, and write 'key: value'")
        node = YamlNode({} if isinstance(event, yaml.MappingStartEvent) else [], *self.last)
        self._add(node)
        if event.anchor:
            self._anchors[event.anchor] = None
        self._stack.append(_Frame(node, event.anchor))

    def _close(self) -> None:
        frame = self._stack.pop()
        if self._stack:
            above = self._stack[-1].node
            above.size += frame.node.size - 1
            above.height = max(above.height, frame.node.height + 1)
        if frame.anchor:
            self._anchors[frame.anchor] = frame.node

    def _alias(self, name: str) -> None:
        self._aliases += 1
        if self._aliases > MAX_ALIASES:
            self._stop(f"more than {MAX_ALIASES} aliases are used", "write the values out")
        if name not in self._anchors:
            what = "has no anchor above it"
            help = "quote a value that starts with '*'; an anchor counts only in its own file, also with include:"
            self._stop(f"the alias *{_short(name)} {what}", help, f"an alias {what}")
        node = self._anchors[name]
        if node is None:
            what = "is inside of what it stands for"
            self._stop(f"the alias *{_short(name)} {what}", "write the value out", f"an alias {what}")
        frame = self._stack[-1]
        if isinstance(frame.node.value, dict) and frame.key is None:
            self._stop("an alias cannot be a key", "quote a key that starts with '*'")
        if len(self._stack) + node.height > MAX_DEPTH + 1:
            text = f"with what the alias *{_short(name)} stands for, this is nested more than {MAX_DEPTH} levels deep"
            self._stop(text, "write it with fewer levels")
        frame.node.height = max(frame.node.height, node.height + 1)
        self._add(node)

    def _add(self, node: YamlNode) -> None:
        # An alias counts as often as it is used: nine nested levels of nine would be 400 million values.
        self._nodes += node.size
        if self._nodes > self.most:
            self._stop(f"the file holds more than {self.most} values", "split it into several files")
        if not self._stack:
            self.roots.append(node)
            return
        frame = self._stack[-1]
        frame.node.size += node.size
        if isinstance(frame.node.value, list):
            frame.node.value.append(node)
        else:
            first = frame.node.value.setdefault(frame.key, node)
            if frame.twice is not None and self.repeated:
                self._twice.append((first, node, frame.twice))
            elif frame.twice is not None:
                self._note(frame.twice)
            frame.key = frame.twice = None

    def _no_tag(self, event: yaml.ScalarEvent | yaml.CollectionStartEvent) -> None:
        if event.tag is not None:
            tag = event.tag.replace("tag:yaml.org,2002:", "!!")
            hint = "remove it; quote a value that starts with '!'"
            self._fault(f"the tag {_short(tag)} is not allowed", hint, "a tag is not allowed")

    def end(self) -> None:
        """Note the keys that were given twice with values that differ."""
        for first, second, fault in self._twice:
            if first.plain() != second.plain():
                self._note(fault)

    def _fault(self, message: str, help: str = "", unnamed: str = "") -> None:
        self._note(YamlFault(*self.last, message, help, unnamed))

    def _note(self, fault: YamlFault) -> None:
        if len(self.faults) >= MAX_FAULTS:
            self._stop("too many faults; the rest of the file was not read", "correct these first")
        self.faults.append(fault)

    def _stop(self, message: str, help: str = "", unnamed: str = "") -> NoReturn:
        raise UnreadableText(YamlFault(*self.last, message, help, unnamed))


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."
