"""Page of a bulk read: objects with their properties as plain values, and what could not be read of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from vsphere_ai.connect.tls import describe
from vsphere_ai.connect.wire.plain import NotExpressible, declared_type, fields_of, fits, to_plain, to_ref, type_name
from vsphere_ai.connect.wire.vmomi import ObjectContent, Property, VimPage, VimType, VmomiSupport
from vsphere_ai.model.facts import UNTYPED
from vsphere_ai.model.plain import Plain, PlainObject

ERRORS = (KeyError, AttributeError, TypeError, ValueError, IndexError, OverflowError)
"""What pyVmomi's parser raises where a value does not fit its types."""
# vCenter keeps these three escaped in names (vSphere Web Services API reference, ManagedEntity.name).
_ESCAPED = re.compile(r"%(2f|5c|25)", re.IGNORECASE)


@dataclass(slots=True)
class Content:
    """One object: its reference, its values by property path, and the faults in the place of others.

    `untyped` maps the paths of values that cannot be taken to the reason.
    """

    ref: str
    values: dict[str, Plain]
    missing: Sequence[tuple[str, PlainObject]] = ()
    untyped: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Page:
    """One page of objects; `token` fetches the next one, empty: this is the last."""

    objects: Sequence[Content]
    token: str = ""


def as_shown(path: str, value: Plain) -> Plain:
    """Return the value of a property as people write it."""
    if path == "name" and isinstance(value, str) and "%" in value:
        return _ESCAPED.sub(lambda m: chr(int(m.group(1), 16)), value)
    return value


def from_vim(page: VimPage) -> Page:
    """Return a page that pyVmomi has read."""
    return Page([_content(each) for each in page.objects], page.token or "")


def _content(content: ObjectContent) -> Content:
    values: dict[str, Plain] = {}
    untyped: dict[str, str] = {}
    for prop in content.propSet:
        try:
            values[prop.name] = _value(prop, type(content.obj))
        except (NotExpressible, RecursionError, *ERRORS) as error:
            untyped[prop.name] = f"{UNTYPED}: {describe(error)}"
    missing = [(str(each.path), fields_of(each.fault)) for each in content.missingSet]
    return Content(to_ref(content.obj), values, missing, untyped)


def _value(prop: Property, of: VimType) -> Plain:
    declared = declared_type(VmomiSupport.GetWsdlName(of), prop.name)
    if not fits(prop.val, declared):
        raise NotExpressible(f"it is a {type_name(type(prop.val))}, not a {type_name(declared)}")
    return as_shown(prop.name, to_plain(prop.val))
