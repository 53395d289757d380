"""Shapes of values: what makes an object, or a list, of the texts that stand in its holes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from vsphere_ai.connect.wire.memory import compact
from vsphere_ai.connect.wire.part_reader import Hole
from vsphere_ai.connect.wire.wire_types import Unfamiliar
from vsphere_ai.model.plain import Plain, PlainObject

_TRIED = 64
"""Values that are kept of an object, before they are looked at: whether they come again."""


class _Text:
    """A value that is made of one text."""

    __slots__ = ("_hole",)

    def __init__(self, hole: Hole) -> None:
        self._hole = hole

    def made(self, texts: Sequence[str]) -> Plain:
        """Return the value."""
        return self._hole.convert(texts[self._hole.number])


class _Object:
    """The object that a form makes: a copy of one with values in the places of texts."""

    __slots__ = ("_copy", "_known", "_last", "_met", "_parts", "_texts", "_values", "first")

    def __init__(self, value: PlainObject, holes: list[int]) -> None:
        begin = len(holes)
        self._texts: list[tuple[str, int]] = []
        self._values: list[tuple[str, int, Callable[[str], Plain]]] = []
        self._parts: list[tuple[str, Shape]] = []
        for name, each in value.items():
            if isinstance(each, Hole):
                holes.append(each.number)
                if each.convert is str:
                    self._texts.append((name, each.number))
                else:
                    self._values.append((name, each.number, each.convert))
            elif (made := shape_of(each, holes)) is not None:
                self._parts.append((name, made))
        own = holes[begin:]
        self.first, self._last = (own[0], own[-1] + 1) if own else (0, 0)
        if own != list(range(self.first, self._last)):
            raise Unfamiliar("texts in another order")
        self._copy = (compact(value) if own else {}).copy
        self._known: dict[tuple[str, ...], PlainObject] | None = {}
        self._met = 0

    def made(self, texts: Sequence[str]) -> PlainObject:
        """Return the object with these texts; the same one for the same texts, where that is common."""
        found = self._again(texts) if self._known is not None else None
        if found is not None:
            return found
        value = self._copy()
        for name, number in self._texts:
            value[name] = texts[number]
        for name, number, convert in self._values:
            value[name] = convert(texts[number])
        for name, part in self._parts:
            value[name] = part.made(texts)
        if self._known is not None:
            self._known[tuple(texts[self.first : self._last])] = value
        return value

    def _again(self, texts: Sequence[str]) -> PlainObject | None:
        known = self._known or {}
        found = known.get(tuple(texts[self.first : self._last]))
        if found is not None:
            self._met += 1
        elif len(known) >= _TRIED:
            self._known = {} if self._met > len(known) else None
            self._met = 0
        return found


class _Items:
    """The list that a form makes."""

    __slots__ = ("_items",)

    def __init__(self, value: tuple[Plain, ...], holes: list[int]) -> None:
        self._items = [(shape_of(each, holes), each) for each in value]

    def made(self, texts: Sequence[str]) -> Plain:
        """Return the list with these texts."""
        return tuple([each if shape is None else shape.made(texts) for shape, each in self._items])


Shape: TypeAlias = "_Text | _Object | _Items"


def shape_of(value: object, holes: list[int]) -> Shape | None:
    """Return what makes a value of texts; None where there are none in it. Notes the numbers of the texts."""
    if isinstance(value, Hole):
        holes.append(value.number)
        return _Text(value)
    before = len(holes)
    made = _Object(value, holes) if isinstance(value, dict) else _Items(value, holes) if type(value) is tuple else None
    return made if len(holes) > before else None


def whole_shape(value: object, texts: int) -> Shape | None:
    """Return the shape of a value with so many holes; None where these are not all there are, in their order."""
    numbers: list[int] = []
    made = shape_of(value, numbers)
    return made if numbers == list(range(texts)) else None


def filled(raw: object, texts: Sequence[str], kept: Mapping[int, int]) -> object:
    """Return a value with these texts in its holes, but for those that are kept, which get other numbers."""
    if isinstance(raw, Hole):
        number = kept.get(raw.number)
        return raw.convert(texts[raw.number]) if number is None else Hole(number, raw.convert)
    if isinstance(raw, dict):
        return {name: filled(each, texts, kept) for name, each in raw.items()}
    return tuple(filled(each, texts, kept) for each in raw) if type(raw) is tuple else raw
