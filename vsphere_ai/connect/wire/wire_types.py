"""Types of the vSphere API as the decoder of answers needs them: fields by their tags, and values out of text.

They are derived from pyVmomi's, for one API version: a type that is newer is read as its base, as pyVmomi does.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache

from vsphere_ai.connect.wire.plain import NAMESPACE, item_of, to_plain
from vsphere_ai.connect.wire.vmomi import Iso8601, SoapAdapter, VimType, VmomiSupport, vmodl
from vsphere_ai.model.plain import Plain

SEPARATOR: str = SoapAdapter.NS_SEP
"""Between name space and name of a tag; pyVmomi's own, because expat refuses name spaces that contain it."""
_FAULT: VimType = vmodl.LocalizedMethodFault
_lookup = SoapAdapter.SoapDeserializer().LookupWsdlType


class Unfamiliar(Exception):
    """The answer has a shape that the decoder does not know for certain; pyVmomi reads it."""


@dataclass(eq=False, slots=True)
class ElementType:
    """What an element becomes: a value that `convert` makes of its text, a list of `item`, or an object with fields."""

    vim: VimType
    name: str
    convert: Callable[[str], Plain] | None = None
    item: WireField | None = None
    fields: dict[str, WireField] = field(default_factory=dict)
    defaults: dict[str, Plain] = field(default_factory=dict)
    """What pyVmomi puts into required fields that are left out."""
    wraps_fault: bool = False
    """Whether it is a fault in a value: the fault itself is in its field ``fault``, the text beside it."""


@dataclass(eq=False, slots=True)
class WireField:
    """A field of an object, or the items of a list. `bare` is what it is without attributes; None: it needs some."""

    name: str
    declared: VimType
    many: bool = False
    unwrapped: bool = False
    """Whether this is the fault itself, within its wrapping."""
    bare: ElementType | None = None


class WireTypes:
    """The types of one API version, made when they are first met."""

    def __init__(self, version: str) -> None:
        self._version = version
        self._elements: dict[VimType, ElementType] = {}
        self._given: dict[tuple[WireField, str, str, str], ElementType] = {}

    def element(self, kind: VimType) -> ElementType:
        """Return what an element of a type becomes."""
        found = self._elements.get(kind)
        if found is None:
            found = self._elements[kind] = self._made(kind)
        return found

    def _made(self, kind: VimType) -> ElementType:
        if issubclass(kind, list):
            return ElementType(kind, "", item=self._field("", item_of(kind)))
        if not issubclass(kind, VmomiSupport.DataObject):
            return ElementType(kind, "", _converter(kind))
        empty = kind()
        unset = {info.name: getattr(empty, info.name) for info in kind._GetPropertyList()}
        defaults = {n: to_plain(v) for n, v in unset.items() if v is not None and not isinstance(v, list)}
        name = str(VmomiSupport.GetWsdlName(kind))
        return ElementType(kind, name, defaults=defaults, wraps_fault=kind is _FAULT)

    def part(self, of: ElementType, tag: str) -> WireField:
        """Return the field of an object, or the items of a list, that an element with this tag within it is."""
        if of.convert is not None:
            raise Unfamiliar(f"{tag} within a text")
        if of.item is not None:
            return of.fields.setdefault(tag, of.item)
        name = tag.rpartition(SEPARATOR)[2]
        try:
            declared: VimType = of.vim._GetPropertyInfo(name).type
        except AttributeError:
            raise Unfamiliar(f"{of.name} has no field {name}") from None
        unwrapped = of.wraps_fault and name == "fault"
        return of.fields.setdefault(tag, self._field(name, declared, unwrapped=unwrapped))

    def _field(self, name: str, declared: VimType, *, unwrapped: bool = False) -> WireField:
        many = issubclass(declared, list)
        made = WireField(name, declared.Item if many else declared, many, unwrapped)
        if made.declared is not object and not issubclass(made.declared, VmomiSupport.ManagedObject | list):
            made.bare = self.element(self._known(made.declared, made))
        return made

    def _known(self, kind: VimType, of: WireField) -> VimType:
        """Return a type as this version has it; faults in values are wrapped."""
        known: VimType = VmomiSupport.GetCompatibleType(kind, self._version)
        return _FAULT if issubclass(known, Exception) and not of.unwrapped else known

    def given(self, of: WireField, space: str, name: str, refers: str) -> ElementType:
        """Return what an element becomes that says its type (``xsi:type``), or the type it refers to (``type``)."""
        key = (of, space, name, refers)
        found = self._given.get(key)
        if found is None:
            try:
                found = self._given[key] = self._resolved(of, space, name, refers)
            except KeyError as error:
                raise Unfamiliar(f"does not know {error}") from error
        return found

    def _resolved(self, of: WireField, space: str, name: str, refers: str) -> ElementType:
        kind = of.declared
        if name and not SoapAdapter.isDynamicType(kind):
            kind = _lookup(space, name, True)
            if of.many and issubclass(kind, list):
                raise Unfamiliar(f"{name} in the place of its items")
        kind = self._known(kind, of)
        if issubclass(kind, VmomiSupport.ManagedObject):
            target: VimType = _lookup(NAMESPACE, refers)
            _demand(target, of.declared)
            return ElementType(target, "", f"{VmomiSupport.GetWsdlName(target)}:".__add__)
        if kind is object or (kind is not of.declared and SoapAdapter.isDynamicType(kind)):
            raise Unfamiliar(f"a value of type {kind.__name__}")
        _demand(kind, of.declared)
        return self.element(kind)


def _demand(kind: VimType, declared: VimType) -> None:
    if not (declared is object or issubclass(kind, declared)):
        raise Unfamiliar(f"{kind.__name__} in the place of {declared.__name__}")


@lru_cache(maxsize=16)
def types_of(version: str) -> WireTypes:
    """Return the types of an API version, by pyVmomi's name for it."""
    return WireTypes(version)


# -- values out of text, as pyVmomi reads them


def _converter(kind: VimType) -> Callable[[str], Plain]:
    if kind is bool:
        return lambda text: _BOOLEANS[text.lower()]
    if kind is type:
        return lambda text: str(VmomiSupport.GetWsdlName(VmomiSupport.GetWsdlType(NAMESPACE, text)))
    if kind is VmomiSupport.ManagedMethod:
        return lambda text: str(VmomiSupport.GetWsdlMethod(NAMESPACE, text).info.wsdlName)
    if issubclass(kind, datetime):
        return _time
    if issubclass(kind, bytes):
        return lambda text: base64.b64encode(base64.b64decode(text)).decode("ascii")
    if issubclass(kind, VmomiSupport.Enum):
        return {str(v): str(v) for v in vars(kind).values() if isinstance(v, kind)}.__getitem__
    for plain in (int, float, str):
        if issubclass(kind, plain):
            return plain
    raise Unfamiliar(f"{kind.__name__} as a value")


_BOOLEANS = {"0": False, "false": False, "1": True, "true": True}


@lru_cache(maxsize=1024)
def _time(text: str) -> Plain:
    moment = Iso8601.ParseISO8601(text)
    if moment is None:
        raise ValueError(f"{text!r} is no time")
    return to_plain(moment)
