"""Decoder of property answers: a page of objects straight into plain values, without objects of pyVmomi in between.

A page is cut at its objects and properties. What was read before, byte for byte, is not parsed again: most values of an
estate are alike. Whatever is not certain raises `Unfamiliar`, and pyVmomi reads that page.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple
from xml.parsers import expat
from xml.sax.saxutils import quoteattr

from vsphere_ai.connect.wire.memory import compact
from vsphere_ai.connect.wire.page import Content, Page, as_shown
from vsphere_ai.connect.wire.part_reader import XSI, PartReader, parser
from vsphere_ai.connect.wire.plain import NAMESPACE, declared_type
from vsphere_ai.connect.wire.property_values import BEHIND, Memo, Values
from vsphere_ai.connect.wire.value_fits import always_fits, fits_plain
from vsphere_ai.connect.wire.vmomi import VimType, VmomiSupport, vmodl
from vsphere_ai.connect.wire.wire_types import SEPARATOR, ElementType, Unfamiliar, types_of
from vsphere_ai.model.plain import Plain

_XSD = "http://www.w3.org/2001/XMLSchema"
_ENVELOPE = "http://schemas.xmlsoap.org/soap/envelope/"
_MEMO = 2 << 20
"""Bytes of answers about one type of objects whose values are kept, and as many of those before."""
_HEADS = 500
"""Properties of one type of objects, each with its type, of which more is kept than whole values."""
_LAYOUTS = 100
"""Sets of properties that objects of one type have together."""
_ERRORS = (expat.ExpatError, AttributeError, LookupError, OverflowError, TypeError, ValueError)
# text that means itself: neither entities nor what XML reads as something else
_PLAIN = "[ -%'-;=?-~]"
_OBJ = re.compile(rf'<obj type="(\w+)">({_PLAIN}+)</obj>', re.ASCII)
_SCALAR = re.compile(
    rf'<name>({_PLAIN}+)</name><val(?: type="(\w+)")? xsi:type="(?:(xsd):)?(\w+)"(?: type="(\w+)")?>({_PLAIN}*)'
    "</val></propSet>",
    re.ASCII,
)

_BEGIN, _END = "<objects>", "</objects>"
_ENCODING = re.compile(r"""encoding\s*=\s*["']([^"']*)""")
_HEAD = re.compile(rf"<name>({_PLAIN}+)</name><val(?=[ >])[^<>]*(?<!/)>")


def decode(body: bytes, version: str, announce: Callable[[str], None] = lambda _token: None) -> Page | None:
    """Return the page that an answer holds; None when it holds none. Raises Unfamiliar.

    The token of the next page is announced before the objects of this one are read.
    """
    try:
        return _decoded(body, version, announce)
    except _ERRORS as error:
        raise Unfamiliar(f"{type(error).__name__}: {error}") from error


def _decoded(body: bytes, version: str, announce: Callable[[str], None]) -> Page | None:
    if b"<!" in body or body.find(b"<?", 1) > 0:
        raise Unfamiliar("comments, sections or instructions")
    text = body.decode()
    begin, end = text.find(_BEGIN), text.rfind(_END)
    head, tail = (text[:begin], text[end + len(_END) if end > begin else begin :]) if begin >= 0 else (text, "")
    stated = _ENCODING.search(head.lower())
    if stated and stated[1] != "utf-8":
        raise Unfamiliar("another encoding")
    frame = _framed(head.encode(), tail.encode())
    if frame is None:
        return None
    announce(frame.token)
    decoder = _decoder(version, frame.scope)
    return Page([decoder.content(each) for each in _objects(text, begin, end)], frame.token)


def _objects(text: str, begin: int, end: int) -> Iterator[str]:
    """Yield what is between the tags of each object: the first begins at `begin`, the end of the last is at `end`."""
    at = begin
    while (following := text.find(_BEGIN, at + 1, end)) >= 0:
        yield _ended(text[at + len(_BEGIN) : following])
        at = following
    if at >= 0:
        yield text[at + len(_BEGIN) : end]


def _ended(text: str) -> str:
    """Return what is before the tag that ends an object; only white space may follow that."""
    if not text.endswith(_END):
        text = text.rstrip(" \t\r\n")
        if not text.endswith(_END):
            raise Unfamiliar(f"something behind {_END}")
    return text[: -len(_END)]


class _PageFrame(NamedTuple):
    """What is around the objects: the token of the next page, and the name spaces by the prefixes they have there."""

    token: str
    scope: tuple[tuple[str, str], ...]


_AROUND = (f"{_ENVELOPE}{SEPARATOR}Envelope", f"{_ENVELOPE}{SEPARATOR}Body", "", f"{NAMESPACE}{SEPARATOR}returnval")
_TOKEN = f"{NAMESPACE}{SEPARATOR}token"


def _framed(head: bytes, tail: bytes) -> _PageFrame | None:
    """Read what is before the objects of an answer, and what is behind them; None where it holds no page."""
    path: list[str] = []
    seen: list[str] = []
    scope: dict[str, str] = {}
    token = ""

    def space(prefix: str | None, uri: str | None) -> None:
        if scope.setdefault(prefix or "", uri or "") != (uri or "") or len(path) > 3:
            raise Unfamiliar("a prefix with two meanings")

    def start(tag: str, attributes: list[str]) -> None:
        at = len(path)
        known = (
            tag.startswith(f"{NAMESPACE}{SEPARATOR}") and tag.endswith("Response")
            if at == 2
            else (tag in (*_AROUND[at : at + 1], _TOKEN if at == 4 else ""))
        )
        if not known or tag in seen or (attributes and at > 2):
            raise Unfamiliar(f"{tag} in the place of a page")
        path.append(tag)
        seen.append(tag)

    def end(_tag: str) -> None:
        path.pop()

    def data(text: str) -> None:
        nonlocal token
        token += text if len(path) == 5 else ""

    made = parser()
    made.StartNamespaceDeclHandler, made.StartElementHandler = space, start
    made.EndElementHandler, made.CharacterDataHandler = end, data
    made.Parse(head)
    if tail and len(path) != len(_AROUND):
        raise Unfamiliar("objects outside of a page")
    made.Parse(tail, True)
    return _PageFrame(token, tuple(scope.items())) if len(seen) > 3 else None


@lru_cache(maxsize=4)
def _decoder(version: str, scope: tuple[tuple[str, str], ...]) -> Decoder:
    return Decoder(version, scope)


_NOTHING: dict[str, Any] = {}


class _KnownObjects:
    """What objects of one type had lately: properties by their text, and readers of values by how their text begins."""

    def __init__(self, managed: VimType) -> None:
        self.managed = str(VmomiSupport.GetWsdlName(managed))
        self.memo = Memo[tuple[str, Plain]](_MEMO)
        self._layouts: dict[tuple[str, ...], dict[str, Plain]] = {}
        self.values: dict[str, Values] = {}

    def empty(self, paths: tuple[str, ...]) -> dict[str, Plain]:
        """Return a dictionary for the values of these properties."""
        if paths not in self._layouts:
            if len(self._layouts) >= _LAYOUTS:
                self._layouts.clear()
            self._layouts[paths] = compact(dict.fromkeys(paths))
        return self._layouts[paths].copy()


class Decoder:
    """Reads objects of one API version, out of answers that declare the same name spaces."""

    def __init__(self, version: str, scope: tuple[tuple[str, str], ...]) -> None:
        self._types = types_of(version)
        self._val = self._types.part(self._types.element(vmodl.DynamicProperty), "val")
        self._scope = dict(scope)
        if self._scope.get("") != NAMESPACE:
            raise Unfamiliar("another name space than vim25")
        declared = "".join(f" xmlns{p and ':'}{p}={quoteattr(uri)}" for p, uri in scope)
        self._opened = f"<objects{declared}>".encode()
        self._usual = (self._scope.get("xsi"), self._scope.get("xsd")) == (XSI, _XSD)
        self._known: dict[str, _KnownObjects] = {}

    def content(self, text: str) -> Content:
        """Return an object, of what is between its tags."""
        first, *parts = text.split("<propSet>")
        found = _OBJ.match(first)
        rest = first[found.end() :] if found else first
        if parts and not parts[-1].endswith("</propSet>"):
            last, end, behind = parts[-1].rpartition("</propSet>")
            parts[-1] = last + end
            rest += behind
        read = self._reader().read(self._opened, rest.encode()) if rest else _NOTHING
        if not read.keys() <= {"_typeName", "missingSet", *(() if found else ("obj",))}:
            raise Unfamiliar("a property or a reference in another place")
        ref = f"{found[1]}:{found[2]}" if found else str(read["obj"])
        kind, _, moid = ref.partition(":")
        known = self._known.get(kind) or self._met(kind)
        lately = known.memo.lately
        pairs = [lately.get(part) or self._property(part, known) for part in parts]
        values = known.empty(tuple([path for path, _ in pairs]))
        values.update(pairs)
        missing = [(str(each["path"]), each["fault"]) for each in read.get("missingSet", ())]
        return Content(f"{known.managed}:{moid}", values, missing)

    def _met(self, kind: str) -> _KnownObjects:
        managed: VimType = VmomiSupport.GetWsdlType(NAMESPACE, kind)
        if not issubclass(managed, VmomiSupport.ManagedObject):
            raise Unfamiliar(f"{kind} is no managed object")
        return self._known.setdefault(kind, _KnownObjects(managed))

    def _property(self, text: str, known: _KnownObjects) -> tuple[str, Plain]:
        value = known.memo.before.get(text) or self._parsed(text, known)
        known.memo.keep(text, value)
        return value

    def _parsed(self, text: str, known: _KnownObjects) -> tuple[str, Plain]:
        at = text.find(">", text.find("<val")) + 1
        values = known.values.get(text[:at]) if text.endswith(BEHIND) else None
        if values is None:
            path, kind, plain = self._first(text, known)
        else:
            path, kind, plain = values.path, values.kind, values.value(text[at : -len(BEHIND)])
            if values.fit:
                return path, as_shown(path, plain)
        if not fits_plain(plain, kind, declared_type(known.managed, path)):
            raise Unfamiliar(f"{path} of {known.managed} is a {kind.__name__}")
        return path, as_shown(path, plain)

    def _first(self, text: str, known: _KnownObjects) -> tuple[str, VimType, Plain]:
        """Read a property whose text begins as none did before."""
        head = _HEAD.match(text) if text.endswith(BEHIND) else None
        found = _SCALAR.fullmatch(text) if self._usual else None
        element = self._scalar(found) if found else None
        if found and element and element.convert is not None:
            path, kind, plain = found[1], element.vim, element.convert(found[6])
        else:
            reader = self._reader()
            read = reader.read(self._opened, f"<propSet>{text}".encode())
            if len(read) > 2:
                raise Unfamiliar("something between properties")
            (prop,) = read["propSet"]
            path, kind, plain, element = prop["name"], reader.kind, prop["val"], None
        if head and len(known.values) < _HEADS and path == head[1]:
            values = Values(self._reader, self._opened, head[0], path, kind)
            values.convert = element.convert if element else None
            values.fit = always_fits(kind, declared_type(known.managed, path))
            known.values[head[0]] = values
        return path, kind, plain

    def _reader(self) -> PartReader:
        return PartReader(self._types, self._scope)

    def _scalar(self, found: re.Match[str]) -> ElementType:
        """Return what the text of a value that has nothing in it becomes."""
        before, prefix, name, behind = (part or "" for part in found.groups()[1:5])
        return self._types.given(self._val, _XSD if prefix else NAMESPACE, name, before or behind)
