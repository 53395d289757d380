"""Writer of data objects as XML: what pyVmomi's serializer writes, from a plan that is made once per type."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pyVmomi import SoapAdapter as Soap
from pyVmomi import VmomiSupport as Vmomi
from pyVmomi import vmodl

NAMESPACE = "urn:vim25"


@dataclass(frozen=True, slots=True)
class _Field:
    """A field of a data object that an API version has; `item` is one of its items where it is a list."""

    name: str
    optional: bool
    is_any: bool
    info: Any
    item: Any


@dataclass(frozen=True, slots=True)
class _Plan:
    """How objects of a type are written: the type that the version knows, its name, its fields in their order."""

    kind: Any
    name: str
    fields: tuple[_Field, ...]


@lru_cache(maxsize=4096)
def _plan(kind: Any, version: str) -> _Plan | None:
    """Return how objects of a type are written; None where pyVmomi has to."""
    known = Vmomi.GetCompatibleType(kind, version)
    space, name = Vmomi.GetQualifiedWsdlName(known)
    infos = [info for info in kind._GetPropertyList() if Vmomi.IsChildVersion(version, info.version)]
    others = any(info.flags & Vmomi.F_LINK or Vmomi.GetWsdlNamespace(info.version) != NAMESPACE for info in infos)
    if issubclass(kind, vmodl.MethodFault) or space != NAMESPACE or others:
        return None
    return _Plan(known, name, tuple(map(_field, infos)))


def _field(info: Any) -> _Field:
    item = None
    if issubclass(info.type, list):
        item = Vmomi.Object(name=info.name, type=info.type.Item, version=info.version, flags=info.flags)
    return _Field(info.name, bool(info.flags & Vmomi.F_OPTIONAL), info.type is object, info, item)


class ObjectWriter(Soap.SoapSerializer):  # type: ignore[misc]
    """PyVmomi's serializer, whose data objects are written by plan."""

    def _SerializeDataObject(self, val: Any, info: Any, attr: str, currDefNS: str) -> None:
        plan = _plan(type(val), self.version)  # type: ignore[arg-type] # every class can be hashed
        if plan is None or currDefNS != NAMESPACE or self.defaultNS != NAMESPACE or info.flags & Vmomi.F_LINK:
            super()._SerializeDataObject(val, info, attr, currDefNS)
            return
        write = self.writer.write
        stated = "" if plan.kind == info.type else f' {self.xsiPrefix}type="{plan.name}"'
        write(f"<{info.name}{attr}{stated}>")
        values = vars(val)
        for field in plan.fields:
            held = values[field.name]
            kind: Any = type(held)
            if held is None and field.optional:
                continue
            if field.is_any or held is None:
                self._Serialize(held, field.info, currDefNS)
            elif kind is str:
                write(f"<{field.name}>{Soap.XmlEscape(held)}</{field.name}>")
            elif kind is bool:
                write(f"<{field.name}>{'true' if held else 'false'}</{field.name}>")
            elif issubclass(kind, (int, Vmomi.Enum)):
                write(f"<{field.name}>{held}</{field.name}>")
            elif field.item is not None and held:
                for each in held:
                    if _plan_of(each.__class__, self.version) is not None:
                        self._SerializeDataObject(each, field.item, "", currDefNS)
                    else:
                        self._Serialize(each, field.item, currDefNS)
            elif _plan_of(kind, self.version) is not None:
                self._SerializeDataObject(held, field.info, "", currDefNS)
            elif not (field.item is not None and field.optional):
                self._Serialize(held, field.info, currDefNS)
        write(f"</{info.name}>")


@lru_cache(maxsize=4096)
def _plan_of(kind: Any, version: str) -> _Plan | None:
    return _plan(kind, version) if issubclass(kind, Vmomi.DataObject) else None
