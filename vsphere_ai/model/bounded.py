"""Readers of JSON, YAML and XML that another user may have written: bounded in depth, values and memory.

They raise `ValueError` with a reason that quotes nothing of the text. `language/yaml_files/yaml.py` reads files of
operators, and knows the place of each value besides.
"""

from __future__ import annotations

import json
import re
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

    import yaml

JSON_DEPTH, JSON_VALUES = 64, 4_000_000
"""Saved plans are some twelve levels deep; 4 million values are the plan of more VMs than one vCenter may have."""
YAML_DEPTH, YAML_VALUES, YAML_ALIASES, YAML_SIZE = 32, 50_000, 100, 4 << 20
XML_DEPTH, XML_ELEMENTS = 32, 200_000
"""`nvidia-smi -q -x` has some 500 elements per GPU, in seven levels."""
_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_NO_BRACKETS = bytes(code for code in range(256) if code not in b"[]{}")


class YamlDocument(NamedTuple):
    """A document of a stream of YAML: the line, from 1, on which it starts, and its plain values."""

    line: int
    value: object


def json_value(
    text: str | bytes, values: int = JSON_VALUES, depth: int = JSON_DEPTH, *, has_constants: bool = True
) -> Any:
    """Return the value of a text in JSON, of at most so many values and levels; `ValueError` for anything else.

    Brackets are counted before the text is read: the reader of Python calls itself for each level. `has_constants`:
    NaN and Infinity are read, too, which are no JSON, and which programs in Python and C++ write.
    """
    text = text if isinstance(text, str) else text.decode()
    outside = _STRING.sub("", text)
    _require_few(outside, values)
    brackets = outside.encode(errors="replace").translate(None, _NO_BRACKETS)
    if max(accumulate(1 if bracket in b"[{" else -1 for bracket in brackets), default=0) > depth:
        raise _too_deep(depth)
    try:
        return json.loads(text) if has_constants else json.loads(text, parse_constant=_refused_constant)
    except RecursionError:
        raise _too_deep(depth) from None


def require_few_values(content: bytes, values: int = JSON_VALUES) -> None:
    """Raise `ValueError` where a content in JSON has more values, before a reader makes objects of them."""
    # what stands in texts counts at first: that is enough for nearly every document, and ten times faster
    if content.count(b",") + content.count(b"[") + content.count(b"{") > values:
        _require_few(_STRING.sub("", content.decode(errors="replace")), values)


def _require_few(outside: str, values: int) -> None:
    if outside.count(",") + outside.count("[") + outside.count("{") > values:
        raise ValueError(f"it has more than {values} values")


def _refused_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no value of JSON")


def _too_deep(depth: int) -> ValueError:
    return ValueError(f"it is nested more than {depth} levels deep")


def yaml_value(text: str, values: int = YAML_VALUES) -> object:
    """Return the value of a text of one document in YAML; None where it has none. See `yaml_documents`."""
    found = yaml_documents(text, values)
    if len(found) > 1:
        raise ValueError(f"line {found[1].line}: a second document starts here")
    return found[0].value if found else None


def yaml_documents(text: str, values: int = YAML_VALUES) -> tuple[YamlDocument, ...]:
    """Return the documents of a text, of at most so many values in all; `ValueError` with the line of what is wrong.

    An alias counts as often as it is used. Objects of Python are not made.
    """
    import yaml

    if len(text) > YAML_SIZE:
        raise ValueError(f"it is larger than {YAML_SIZE >> 20} MiB")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        counted = _YamlCount(values)
        for event in yaml.parse(text, Loader=loader):
            counted.take(event)
        return tuple(map(YamlDocument, counted.lines, yaml.load_all(text, Loader=loader)))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        is_syntax = isinstance(error, yaml.scanner.ScannerError | yaml.parser.ParserError)
        # other problems repeat what is written, such as the name of a tag
        raise ValueError(place + (error.problem if is_syntax and error.problem else "this is not plain YAML")) from None
    except yaml.YAMLError:
        raise ValueError("a character in it is not allowed") from None
    except ValueError as error:
        # such as a date that no calendar has, which is repeated in the message
        raise error if str(error).startswith(("it ", "line ")) else ValueError("a value in it cannot be read") from None
    except RecursionError:
        raise _too_deep(YAML_DEPTH) from None


class _YamlCount:
    """Counts values and levels of parser events, before any value is made."""

    def __init__(self, values: int) -> None:
        self.lines: list[int] = []
        self._most, self._values, self._aliases = values, 0, 0
        self._open: list[tuple[str | None, int]] = []
        self._sizes: dict[str, int] = {}
        self._starts = False

    def take(self, event: yaml.Event) -> None:
        """Take one event; `ValueError` where a limit is passed."""
        import yaml

        if isinstance(event, yaml.DocumentStartEvent):
            self._starts = True
            self._sizes.clear()
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = self._open.pop()
            if anchor:
                self._sizes[anchor] = self._values - before
        elif isinstance(event, yaml.NodeEvent):
            self._node(event)

    def _node(self, event: yaml.NodeEvent) -> None:
        import yaml

        line = event.start_mark.line + 1 if event.start_mark else 0
        if self._starts:
            self.lines.append(line)
            self._starts = False
        before, size = self._values, 1
        if isinstance(event, yaml.AliasEvent):
            self._aliases += 1
            if self._aliases > YAML_ALIASES or event.anchor not in self._sizes:
                raise ValueError(f"line {line}: an alias of nothing above it, or one of more than {YAML_ALIASES}")
            size = self._sizes[event.anchor]
        self._values += size
        if self._values > self._most:
            raise ValueError(f"it has more than {self._most} values")
        if isinstance(event, yaml.CollectionStartEvent):
            self._open.append((event.anchor, before))
            if len(self._open) > YAML_DEPTH:
                raise ValueError(f"line {line}: it is nested more than {YAML_DEPTH} levels deep")
        elif isinstance(event, yaml.ScalarEvent) and event.anchor:
            self._sizes[event.anchor] = 1


def xml_root(text: str | bytes, elements: int = XML_ELEMENTS, depth: int = XML_DEPTH) -> Element:
    """Return the root of a text in XML; `ValueError` where it is none, has too many elements or levels, or an entity.

    A document type is skipped and not fetched. Attributes count as elements do.
    """
    from xml.etree.ElementTree import TreeBuilder
    from xml.parsers import expat

    builder, level, count = TreeBuilder(), 0, 0

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal level, count
        level, count = level + 1, count + 1 + len(attributes)
        if level > depth:
            raise _too_deep(depth)
        if count > elements:
            raise ValueError(f"it has more than {elements} elements")
        builder.start(name, attributes)

    def end(name: str) -> None:
        nonlocal level
        level -= 1
        builder.end(name)

    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
    parser.EntityDeclHandler = _refuse_entity
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler = builder.data
    try:
        parser.Parse(text.encode() if isinstance(text, str) else text, True)
    except expat.ExpatError as error:
        raise ValueError(f"line {error.lineno}, column {error.offset + 1}: this is not XML") from None
    return builder.close()


def _refuse_entity(*_: object) -> NoReturn:
    raise ValueError("it declares an entity")
