"""Reader of one part of an object's answer: its elements become plain values as they end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from xml.parsers import expat

from vsphere_ai.connect.wire.vmomi import Collector, VimType
from vsphere_ai.connect.wire.wire_types import SEPARATOR, ElementType, Unfamiliar, WireField, WireTypes
from vsphere_ai.model.plain import Plain

XSI = "http://www.w3.org/2001/XMLSchema-instance"
_XSI_TYPE = f"{XSI}{SEPARATOR}type"
_DEEPEST = 100
_VALUE_DEPTH = 2
"""Elements around the value of a property: the object, and the property."""


def parser() -> expat.XMLParserType:
    """Return a parser that knows name spaces; what it is fed is small, and in memory."""
    made = expat.ParserCreate(namespace_separator=SEPARATOR)
    made.buffer_text = made.ordered_attributes = True
    return made


@dataclass(frozen=True, slots=True)
class Hole:
    """The place of a text in a value: its number among the texts, and what makes a value of it."""

    number: int
    convert: Callable[[str], Plain]


class PartReader:
    """Reads properties (``propSet``, ``missingSet``, ``obj``) of one object; used once.

    `kind` is the type of the value, where one property is read. With `texts`, those within the value of a property,
    their places are read instead of them.
    """

    __slots__ = ("_lists", "_local", "_met", "_scope", "_stack", "_text", "_types", "_whole", "kind", "texts")

    def __init__(self, types: WireTypes, scope: Mapping[str, str]) -> None:
        self._types, self._scope = types, scope
        self._local: dict[str, list[str]] = {}
        root = types.element(Collector.ObjectContent)
        self._whole: dict[str, Any] = {"_typeName": root.name}
        self._stack: list[tuple[ElementType, Any, WireField]] = [(root, self._whole, WireField("", root.vim))]
        self._lists: list[tuple[dict[str, Any], str]] = []
        self._text = ""
        self._met = 0
        self.kind: VimType = object
        self.texts: Sequence[str] | None = None

    def read(self, opened: bytes, text: bytes) -> dict[str, Any]:
        """Return the fields of the object that `opened` opens. Raises Unfamiliar, or what values raise."""
        made = parser()
        made.Parse(opened)
        made.StartElementHandler, made.EndElementHandler, made.CharacterDataHandler = self._start, self._end, self._data
        made.StartNamespaceDeclHandler, made.EndNamespaceDeclHandler = self._declare, self._forget
        made.Parse(text)
        made.StartElementHandler = made.EndElementHandler = made.CharacterDataHandler = None
        made.StartNamespaceDeclHandler = made.EndNamespaceDeclHandler = None
        made.Parse(b"</objects>", True)
        for holder, name in self._lists:
            holder[name] = tuple(holder[name])
        return self._whole

    def _start(self, tag: str, attributes: list[str]) -> None:
        self._text = ""
        stack = self._stack
        within = stack[-1][0]
        field = within.fields.get(tag) or self._types.part(within, tag)
        element = self._given(field, attributes) if attributes else field.bare
        if element is None or len(stack) > _DEEPEST:
            raise Unfamiliar(f"{field.name} without a type, or too deep")
        if element.convert is not None:
            stack.append((element, None, field))
        elif element.item is not None:
            stack.append((element, [], field))
        else:
            stack.append((element, {"_typeName": element.name}, field))
        if len(stack) == _VALUE_DEPTH + 1:
            self.kind = element.vim

    def _data(self, text: str) -> None:
        self._text += text

    def _end(self, _tag: str) -> None:
        stack = self._stack
        element, value, field = stack.pop()
        if element.convert is not None:
            value = element.convert(self._text)
            if self.texts is not None and self._text and len(stack) > _VALUE_DEPTH:
                value = self._hole(element.convert, self.texts)
        elif element.item is not None:
            value = tuple(value)
        elif element.defaults or element.wraps_fault:
            value = _completed(element, value)
        holder = stack[-1][1]
        if type(holder) is list:
            holder.append(value)
        elif field.many:
            if field.name not in holder:
                holder[field.name] = []
                self._lists.append((holder, field.name))
            holder[field.name].append(value)
        elif element.item is not None and not value and len(stack) > _VALUE_DEPTH:
            holder.pop(field.name, None)  # an empty list in an object is as if it were not set
        else:
            holder[field.name] = value

    def _hole(self, convert: Callable[[str], Plain], texts: Sequence[str]) -> Hole:
        number = self._met
        if number == len(texts) or texts[number] != self._text:
            raise Unfamiliar("a text that cannot be separated from what is around it")
        self._met += 1
        return Hole(number, convert)

    def _declare(self, prefix: str | None, uri: str | None) -> None:
        if not prefix:
            raise Unfamiliar("another name space")
        self._local.setdefault(prefix, []).append(uri or "")

    def _forget(self, prefix: str | None) -> None:
        self._local[prefix or ""].pop()

    def _given(self, field: WireField, attributes: list[str]) -> ElementType:
        stated = refers = ""
        for at in range(0, len(attributes), 2):
            if attributes[at] == _XSI_TYPE:
                stated = attributes[at + 1]
            elif attributes[at] == "type":
                refers = attributes[at + 1]
        prefix, _, name = stated.rpartition(":")
        spaces = self._local.get(prefix) or self._scope.get(prefix)
        if spaces is None:
            raise Unfamiliar(f"{stated} of a name space that is not declared")
        return self._types.given(field, spaces if isinstance(spaces, str) else spaces[-1], name, refers)


def _completed(element: ElementType, value: dict[str, Any]) -> Plain:
    """Return an object with what pyVmomi puts into fields that are left out; a fault with the text beside it."""
    for name, default in element.defaults.items():
        value.setdefault(name, default)
    if not element.wraps_fault:
        return value
    fault, said = value["fault"], value.get("localizedMessage")
    fault.pop("msg", None)
    if said is not None:
        fault["msg"] = said  # in place: lists in it become tuples at the end
    return fault  # type: ignore[no-any-return] # it is Any in a mapping
