"""Forms of parts of an answer: what two parts that differ in nothing but their texts become, but for these texts.

A part is parsed once; of the next one of the same form only the texts are taken. Nothing is assumed of a part whose
texts are not certain: it has no form, and is parsed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from vsphere_ai.connect.part_reader import Hole
from vsphere_ai.connect.wire_types import Unfamiliar
from vsphere_ai.model.plain import Plain, PlainObject

# the text of an element without elements in it, where it means itself: no entities, no white space but blanks
_TEXTS = re.compile("[>]([^<>&\x00-\x1f\x7f\ufffe\uffff]+)</")
_BETWEEN = "\x00"  # stands in no XML
_MOST = 2000
"""Forms that are kept of one kind of part."""
_TRIED = 64
"""Values of a field that are kept, before they are looked at: whether they come again."""


class _Object:
    """The object that a form makes: a copy of `base` with values in the places of texts."""

    __slots__ = ("_base", "_known", "_last", "_met", "_parts", "_values", "first")

    def __init__(self, value: PlainObject, holes: list[int]) -> None:
        begin = len(holes)
        self._base = dict(value)
        self._values: list[tuple[str, int, Callable[[str], Plain]]] = []
        self._parts: list[tuple[str, _Object | _Items]] = []
        for name, each in value.items():
            made = _shape(each, holes)
            if isinstance(made, Hole):
                self._values.append((name, made.number, made.convert))
            elif made is not None:
                self._parts.append((name, made))
        own = holes[begin:]
        self.first, self._last = (own[0], own[-1] + 1) if own else (0, 0)
        if own != list(range(self.first, self._last)):
            raise Unfamiliar("texts in another order")
        self._known: dict[tuple[str, ...], PlainObject] | None = {}
        self._met = 0

    def made(self, texts: Sequence[str]) -> PlainObject:
        """Return the object with these texts; the same one for the same texts, where that is common."""
        known = self._known
        if known is None:
            return self._new(texts)
        key = tuple(texts[self.first : self._last])
        found = known.get(key)
        if found is None:
            if len(known) >= _TRIED:
                self._known = {} if self._met > len(known) else None
                self._met, known = 0, self._known or {}
            found = known[key] = self._new(texts)
        else:
            self._met += 1
        return found

    def _new(self, texts: Sequence[str]) -> PlainObject:
        value = self._base.copy()
        for name, number, convert in self._values:
            value[name] = convert(texts[number])
        for name, part in self._parts:
            value[name] = part.made(texts)
        return value


class _Items:
    """The list that a form makes."""

    __slots__ = ("_items",)

    def __init__(self, value: tuple[Plain, ...], holes: list[int]) -> None:
        self._items = [(_shape(each, holes), each) for each in value]

    def made(self, texts: Sequence[str]) -> Plain:
        """Return the list with these texts."""
        return tuple(
            [
                each if shape is None else shape.convert(texts[shape.number]) if isinstance(shape, Hole)
                else shape.made(texts)
                for shape, each in self._items
            ]
        )  # fmt: skip


def _shape(value: object, holes: list[int]) -> Hole | _Object | _Items | None:
    """Return what makes a value of texts; None where there are none in it. Notes the numbers of the texts."""
    if isinstance(value, Hole):
        holes.append(value.number)
        return value
    before = len(holes)
    made = _Object(value, holes) if isinstance(value, dict) else _Items(value, holes) if type(value) is tuple else None
    return made if len(holes) > before else None


class Forms:
    """The forms of parts, each of which `parse` makes one value of: within it, it reads them with a `PartReader`."""

    def __init__(self, parse: Callable[[str, Sequence[str] | None], Plain]) -> None:
        self._parse = parse
        self._known: dict[str, Hole | _Object | _Items | None] = {}

    def value(self, part: bytes) -> Plain:
        """Return the value of a part. Raises Unfamiliar, or what values raise."""
        text = part.decode()
        pieces = _TEXTS.split(text)
        form, texts = _BETWEEN.join(pieces[::2]), pieces[1::2]
        if form not in self._known and len(self._known) < _MOST and texts:
            self._known[form] = self._learned(text, texts)
        known = self._known.get(form)
        if known is None or form.count(_BETWEEN) != len(texts):
            return self._parse(text, None)
        return known.convert(texts[known.number]) if isinstance(known, Hole) else known.made(texts)

    def _learned(self, text: str, texts: list[str]) -> Hole | _Object | _Items | None:
        """Return the form of a part; None where it has none."""
        if "&" in text:
            return None  # a text that is written as entities may be taken for another one
        numbers: list[int] = []
        try:
            made = _shape(self._parse(text, texts), numbers)
        except Unfamiliar:
            return None
        return made if numbers == list(range(len(texts))) else None
