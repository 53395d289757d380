"""Shorter ways through pyVmomi and http.client in the lab: its process makes thousands of objects at a time.

What is taken and refused stays as it is: what a shorter way does not know goes the long way.
"""

from __future__ import annotations

import http.client
import io
import re
from functools import cache
from typing import Any

from pyVmomi import VmomiSupport as Vmomi

_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?)\r\n")
_parse_headers = http.client.parse_headers
_list_fields = Vmomi.DataObject._GetPropertyList.__func__
_begin, _check = Vmomi.DataObject.__init__, Vmomi.CheckField


def take() -> None:
    """Find a type, and list its fields, once and not for each of its objects; compare classes once for all values."""
    Vmomi.LazyType.__getattr__ = cache(Vmomi.LazyType.__getattr__)  # types within another, such as `ConfigInfo`
    Vmomi.DataObject._GetPropertyList = classmethod(_fields)
    Vmomi.DataObject.__init__ = _filled
    Vmomi.DataObject.__setattr__ = _put
    Vmomi.CheckField = _checked
    http.client.parse_headers = headers  # type: ignore[assignment]


@cache
def _listed(kind: Any) -> list[Any]:
    return list(_list_fields(kind))


def _fields(kind: Any, includeBaseClassProps: bool = True) -> list[Any]:
    return _listed(kind) if includeBaseClassProps else list(kind._propList)


@cache
def _named(kind: Any) -> dict[str, Any]:
    return {info.name: info for info in _listed(kind)}


@cache
def _unset(kind: Any) -> tuple[dict[str, Any], tuple[tuple[str, Any], ...]]:
    """Return what a new object holds, and the types of its lists: each object has lists of its own."""
    made = kind.__new__(kind)
    _begin(made)
    lists = tuple((i.name, i.type) for i in _listed(kind) if issubclass(i.type, list))
    return {name: None if isinstance(value, list) else value for name, value in vars(made).items()}, lists


def _filled(self: Any, **values: Any) -> None:
    kind: Any = type(self)
    unset, lists = _unset(kind)
    held = unset.copy()  # which is as large as it has to be; one that is filled grows in steps
    object.__setattr__(self, "__dict__", held)
    for name, typ in lists:
        held[name] = typ()
    infos = _named(kind) if values else {}
    for name, value in values.items():
        _checked(infos.get(name) or self._GetPropertyInfo(name), value)
        held[name] = value


def _put(self: Any, name: str, value: Any) -> None:
    kind: Any = type(self)
    _checked(_named(kind).get(name) or self._GetPropertyInfo(name), value)
    object.__setattr__(self, name, value)


def _checked(info: Any, value: Any) -> None:
    wanted = info.type
    if value is not None:
        if _fits(wanted, value.__class__):
            return
        if value and value.__class__ is list and not info.flags & Vmomi.F_LINK:
            item = _item(wanted)
            if item is not None and all(each is not None and _fits(item, each.__class__) for each in value):
                return
    _check(info, value)


@cache
def _fits(wanted: Any, kind: Any) -> bool:
    """Return whether every value of a class suits a field of a type; lists never do: it depends on their items."""
    if wanted is object or issubclass(kind, list):
        return False
    return issubclass(kind, wanted) or bool(Vmomi._areBasicTypes(wanted, kind))


@cache
def _item(wanted: Any) -> Any:
    return wanted.Item if issubclass(wanted, Vmomi.Array) else None


def headers(fp: Any, _class: type[http.client.HTTPMessage] = http.client.HTTPMessage) -> http.client.HTTPMessage:
    """Read headers as `http.client.parse_headers` does, but plain ones without its parser of e-mail."""
    lines = http.client._read_headers(fp)  # type: ignore[attr-defined]
    found = [m for m in map(_HEADER.fullmatch, lines) if m]
    if len(found) != len(lines) - 1 or lines[-1] != b"\r\n":
        return _parse_headers(io.BytesIO(b"".join(lines)), _class)
    made = _class()
    made._headers = [(m[1].decode(), m[2].decode()) for m in found]  # type: ignore[attr-defined]
    made.set_payload("")
    return made
