"""Values of properties by what was read before: whole ones, items of lists, and forms of both that differ in texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from vsphere_ai.connect.wire.part_forms import Forms
from vsphere_ai.connect.wire.part_reader import PartReader
from vsphere_ai.connect.wire.vmomi import VimType
from vsphere_ai.connect.wire.wire_types import Unfamiliar
from vsphere_ai.model.plain import Plain

BEHIND = "</val></propSet>"
"""How the text of a property with a value ends."""
T = TypeVar("T")
_OVERHEAD = 200
_ITEMS = 1 << 19
"""Bytes of items of one property whose values are kept, and as many of those before."""
_TRIED, _MOSTLY = 2000, 0.8
"""Items of a list are kept until so many were seen, and after that where not so large a part of them was new."""
_TEXT = re.compile("[ -%'-;=?-~]*")  # means itself: neither entities nor what XML reads as something else
_FIRST = re.compile(r"<(\w+)[ >]", re.ASCII)
_AROUND = ("val", "name", "propSet")


class Memo(Generic[T]):
    """What parts became that were read lately, by their text. The oldest half goes when there are too many bytes."""

    def __init__(self, most: int) -> None:
        self.lately: dict[str, T] = {}
        self.before: dict[str, T] = {}
        self._most, self._size = most, 0

    def keep(self, text: str, value: T) -> None:
        """Keep a part."""
        self._size += len(text) + _OVERHEAD
        if self._size > self._most:
            self.before, self.lately, self._size = self.lately, {}, 0
        self.lately[text] = value


class Values:
    """Values of one property whose text begins with `head`, which is its path and its type, and ends with `BEHIND`."""

    def __init__(self, reader: Callable[[], PartReader], opened: bytes, head: str, path: str, kind: VimType) -> None:
        self._reader, self._before = reader, (opened, b"<propSet>" + head.encode())
        self.path, self.kind = path, kind
        self.convert: Callable[[str], Plain] | None = None
        """What makes a value of a text, where the property has no parts."""
        self.fit = False
        """Whether all values of the type are of the one that the property is declared with."""
        self._listed = issubclass(kind, list)
        self._tags = ("", "", "")
        self._items = Memo[tuple[Plain]](_ITEMS)
        self._seen = self._fresh = 0
        self._forms = Forms(self._parse)

    def value(self, inner: str) -> Plain:
        """Return the value of what is between head and end; the items of a list are read one by one."""
        if self.convert is not None and _TEXT.fullmatch(inner):
            return self.convert(inner)
        if not self._listed:
            return self._forms.value(inner)
        items = self._pieces(inner)
        if items is None:
            return self._whole(inner, None)
        if self._fresh > _MOSTLY * self._seen >= _MOSTLY * _TRIED:
            begin, end, _ = self._tags
            return tuple([self._forms.value(item, begin, end) for item in items])
        self._seen += len(items)
        lately = self._items.lately
        return tuple([(lately.get(item) or self._item(item))[0] for item in items])

    def _pieces(self, inner: str) -> list[str] | None:
        """Return the texts of the items of a list, without what all begin and end with; None: they are not certain."""
        begin, end, between = self._tags
        if not begin:
            found = _FIRST.match(inner)
            if found is None or found[1] in _AROUND:
                return None
            begin, end = f"<{found[1]}", f"</{found[1]}>"
            self._tags = begin, end, between = begin, end, end + begin
        if not (inner.startswith(begin) and inner.endswith(end)):
            return None
        whole = inner[len(begin) : -len(end)]
        pieces = whole.split(between)
        return pieces if whole.count(begin) == len(pieces) - 1 else None

    def _item(self, item: str) -> tuple[Plain]:
        begin, end, _ = self._tags
        value = self._items.before.get(item)
        if value is None:
            self._fresh += 1
            value = (self._forms.value(item, begin, end),)
        self._items.keep(item, value)
        return value

    def _parse(self, text: str, texts: Sequence[str] | None) -> Plain:
        value = self._whole(text, texts)
        if not isinstance(value, tuple):
            return value
        (item,) = value
        return item  # type: ignore[no-any-return] # of a tuple of whatever

    def _whole(self, inner: str, texts: Sequence[str] | None) -> Plain:
        opened, head = self._before
        reader = self._reader()
        reader.texts = texts
        read = reader.read(opened, head + f"{inner}{BEHIND}".encode())
        (prop,) = read["propSet"]
        if len(read) > 2 or prop["name"] != self.path or reader.kind is not self.kind:
            raise Unfamiliar("something between properties")
        value: Plain = prop["val"]
        return value
