"""Places in the text of a page of objects: where each object and each of its properties begins and ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from xml.parsers import expat

_OBJECTS = ["Envelope", "Body", "Response", "returnval", "objects"]
_NAMES = {"propSet": "name", "missingSet": "path"}


@dataclass
class ElementSpan:
    """An element, from its first byte to the one behind its last."""

    start: int
    end: int = 0
    name: str = ""
    parts: list[ElementSpan] = field(default_factory=list)


def without(text: bytes, spans: Sequence[tuple[int, int]]) -> bytes:
    """Return a text without what is between these places, which are in order."""
    pieces, at = [], 0
    for start, end in spans:
        pieces.append(text[at:start])
        at = end
    return b"".join([*pieces, text[at:]])


def objects_of(body: bytes) -> list[ElementSpan]:
    """Return where the objects of a page and their properties stand in its text."""
    parser, path = expat.ParserCreate(), list[str]()
    found: list[ElementSpan] = []
    parser.buffer_text = True

    def start(name: str, _attributes: dict[str, str]) -> None:
        local = name.rpartition(":")[2]
        path.append("Response" if len(path) == 2 and local.endswith("Response") else local)
        if path == _OBJECTS:
            found.append(ElementSpan(parser.CurrentByteIndex))
        elif path[:5] == _OBJECTS and len(path) == 6 and local in _NAMES:
            found[-1].parts.append(ElementSpan(parser.CurrentByteIndex))

    def end(_name: str) -> None:
        behind = body.index(b">", parser.CurrentByteIndex) + 1
        if path == _OBJECTS:
            found[-1].end = behind
        elif path[:5] == _OBJECTS and len(path) == 6 and path[5] in _NAMES:
            found[-1].parts[-1].end = behind
        path.pop()

    def text(data: str) -> None:
        if path[:5] == _OBJECTS and len(path) == 7 and _NAMES.get(path[5]) == path[6]:
            found[-1].parts[-1].name += data

    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = start, end, text
    parser.Parse(body, True)
    return found
