"""Conversion between pyVmomi objects and plain values: mappings with ``_typeName``, tuples, references, ISO times."""

from __future__ import annotations

import base64
import difflib
import functools
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from vsphere_ai.connect.wire.vmomi import Parameter, RemoteObject, VimType, VmomiSupport
from vsphere_ai.errors import REPORT_IT, Refused, VsphereAiError
from vsphere_ai.model.plain import Plain, PlainObject

NAMESPACE = "urn:vim25"
_INTEGERS = {
    VmomiSupport.byte: (-(2**7), 2**7 - 1),
    VmomiSupport.short: (-(2**15), 2**15 - 1),
    int: (-(2**31), 2**31 - 1),
    VmomiSupport.long: (-(2**63), 2**63 - 1),
}
_SCALARS: dict[str, VimType] = {
    "xsd:byte": VmomiSupport.byte,
    "xsd:short": VmomiSupport.short,
    "xsd:int": int,
    "xsd:long": VmomiSupport.long,
    "xsd:float": float,
    "xsd:double": VmomiSupport.double,
    "xsd:boolean": bool,
    "xsd:string": str,
    "xsd:dateTime": datetime,
    "xsd:base64Binary": VmomiSupport.binary,
}


class NotExpressible(VsphereAiError, remedy=REPORT_IT):
    """A plain value does not fit the vSphere type it is meant for; nothing was sent."""

    title = "invalid argument"


def type_named(name: str) -> VimType:
    """Return the pyVmomi type of a WSDL name such as ``VirtualVmxnet3Vrdma``; NotExpressible when there is none."""
    try:
        found: VimType = VmomiSupport.GetWsdlType(NAMESPACE, name)
    except (KeyError, TypeError, AttributeError):
        raise NotExpressible(f"{name} is not a type of the vSphere API") from None
    return found


REFERENCE = "ManagedObjectReference"
"""Type name of a reference where the declared type does not say that it is one: its ``value`` is the reference."""


def to_object(ref: str) -> RemoteObject:
    """Return the managed object of a reference such as ``HostSystem:host-12``."""
    name, colon, moid = ref.partition(":")
    if not colon or not moid:
        raise NotExpressible(f"{ref!r} is not a reference; expected Type:id, for example HostSystem:host-12")
    kind = type_named(name)
    if not issubclass(kind, VmomiSupport.ManagedObject):
        raise NotExpressible(f"{ref!r} is not a reference: {name} is not a managed object")
    managed: RemoteObject = kind(moid)
    return managed


def to_ref(managed: RemoteObject) -> str:
    """Return ``Type:id`` of a managed object."""
    return f"{VmomiSupport.GetWsdlName(type(managed))}:{managed._GetMoId()}"


def version_id(version: str) -> str:
    """Return ``7.0.2.0`` for pyVmomi's ``vim.version.v7_0_2_0``."""
    return str(VmomiSupport.versionIdMap[version])


def privilege_of(method: str) -> str | None:
    """Return the privilege id of a method (by its WSDL name, KeyError if unknown); None when it states none."""
    stated = VmomiSupport.GetWsdlMethod(NAMESPACE, method).info.privId
    return str(stated) if stated else None


def to_plain(value: object) -> Plain:
    """Return a pyVmomi value as plain values. Fields that are unset, or empty lists inside objects, are left out."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, VmomiSupport.DataObject):
        return fields_of(value)
    if isinstance(value, VmomiSupport.ManagedObject):
        return to_ref(value)
    if isinstance(value, list | tuple):
        return tuple(to_plain(v) for v in value)
    if isinstance(value, datetime):
        return _utc(value)
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, type):
        return str(VmomiSupport.GetWsdlName(value))
    if isinstance(value, VmomiSupport.ManagedMethod):
        return str(value.info.wsdlName)
    return _plain_scalar(value)


def _plain_scalar(value: object) -> Plain:
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, str):
        return str(value)
    raise NotExpressible(f"{type(value).__name__} has no plain form")


def fields_of(value: object) -> PlainObject:
    """Return the fields of a data object as plain values, without those that are unset."""
    name, fields = _declared(type(value))  # type: ignore[arg-type] # every class can be hashed
    plain: dict[str, Plain] = {"_typeName": name}
    for each in fields:
        field = getattr(value, each)
        if field is not None and not (isinstance(field, list) and not field):
            plain[each] = to_plain(field)
    return plain


@functools.cache
def _declared(kind: VimType) -> tuple[str, tuple[str, ...]]:
    """Return the WSDL name of a data object's type, and the names of its fields, those of its bases first."""
    return str(VmomiSupport.GetWsdlName(kind)), tuple(info.name for info in kind._GetPropertyList())


def _utc(value: datetime) -> str:
    # vSphere sends UTC; a time without a zone is UTC too.
    aware = value if value.tzinfo else value.replace(tzinfo=UTC)
    try:
        return aware.astimezone(UTC).isoformat().replace("+00:00", "Z")
    except (
        OverflowError
    ):  # within hours of the years 1 and 9999, "never" and "not set" of some servers: in its own zone
        return aware.isoformat()


def to_vim(plain: Plain, declared: VimType, version: str, at: str = "value") -> object:
    """Return a plain value as the declared pyVmomi type, complete and known to `version`, or refuse.

    pyVmomi itself leaves out fields and widens types that the negotiated version does not have, and sends required
    fields that are unset as empty elements. Here these are errors: Refused for what needs a newer API,
    NotExpressible for what does not fit. `at` is the place named in messages.
    """
    if plain is None:
        return None
    if declared is object:
        return _to_any(plain, version, at)
    if issubclass(declared, list):
        if isinstance(plain, str | Mapping) or not isinstance(plain, Sequence):
            raise NotExpressible(f"{at}: expected a list of {type_name(item_of(declared))}, got {plain!r}")
        item = item_of(declared)
        return declared([to_vim(v, item, version, f"{at}[{i}]") for i, v in enumerate(plain)])
    if issubclass(declared, VmomiSupport.ManagedObject):
        return _to_managed(plain, declared, at)
    if issubclass(declared, VmomiSupport.DataObject):
        return _to_data(plain, declared, version, at)
    return _to_scalar(plain, declared, at)


def item_of(declared: VimType) -> VimType:
    """Return the type of the elements of a list type."""
    item: VimType = declared.Item
    return item


def _to_managed(plain: Plain, declared: VimType, at: str) -> RemoteObject:
    if not isinstance(plain, str):
        raise NotExpressible(f"{at}: expected a reference to a {type_name(declared)}, got {plain!r}")
    managed = to_object(plain)
    if isinstance(managed, declared):
        return managed  # type: ignore[no-any-return] # mypy narrows it to Any
    raise NotExpressible(f"{at}: expected a reference to a {type_name(declared)}, got {plain}")


def _to_data(plain: Plain, declared: VimType, version: str, at: str) -> object:
    if not isinstance(plain, Mapping):
        raise NotExpressible(f"{at}: expected a {type_name(declared)}, got {plain!r}")
    kind = type_named(str(plain["_typeName"])) if "_typeName" in plain else declared
    if not issubclass(kind, declared):
        raise NotExpressible(f"{at}: {type_name(kind)} is not a {type_name(declared)}")
    require_version(kind._version, version, f"{at}: type {type_name(kind)}")
    infos = {info.name: info for info in kind._GetPropertyList()}
    for name in plain:
        if name not in infos and name != "_typeName":
            close = difflib.get_close_matches(name, infos, 1)
            raise NotExpressible(
                f"{at}: {type_name(kind)} has no field {name}", f"Did you mean {close[0]}?" if close else ""
            )
    made = kind()
    for name, info in infos.items():
        value = plain.get(name)
        if value is not None:
            require_version(info.version, version, f"{at}.{name}")
            setattr(made, name, to_vim(value, info.type, version, f"{at}.{name}"))
        required = not info.flags & VmomiSupport.F_OPTIONAL and VmomiSupport.IsChildVersion(version, info.version)
        if required and value in (None, (), []):
            raise NotExpressible(f"{at}: {type_name(kind)} needs a value for {name}")
    return made


def require_version(needed: str, version: str, what: str) -> None:
    """Refuse what needs a newer API version than the negotiated one."""
    if not VmomiSupport.IsChildVersion(version, needed):
        raise Refused(
            f"{what} needs vSphere API {version_id(needed)}, this vCenter offers {version_id(version)}",
            "Upgrade vCenter, or leave the setting out.",
            rule="vcenter.too-old",
        )


def _to_any(plain: Plain, version: str, at: str) -> object:
    """Take the type from the Python value, or from the value itself: ``{"_typeName": "xsd:long", "value": 5}``."""
    if isinstance(plain, bool | str):
        return plain
    if isinstance(plain, float):
        return VmomiSupport.double(plain)
    if isinstance(plain, int):
        low, high = _INTEGERS[int]
        # Python's int is tagged xsd:int whatever its size, which the server cannot read beyond 32 bits.
        return plain if low <= plain <= high else _to_scalar(plain, VmomiSupport.long, at)
    if isinstance(plain, Mapping):
        name = str(plain.get("_typeName", ""))
        if name in _SCALARS:
            return _to_scalar(plain.get("value"), _SCALARS[name], at)
        if name == REFERENCE:
            return to_object(str(plain.get("value")))
        if name.startswith("ArrayOf"):
            return to_vim(plain.get("value", ()), type_named(name), version, at)
        if name:
            return _to_data(plain, VmomiSupport.DataObject, version, at)
    raise NotExpressible(f"{at}: {plain!r} needs a _typeName here, for example xsd:long or ArrayOfString")


def _to_scalar(plain: Plain, declared: VimType, at: str) -> object:
    if declared in _INTEGERS:
        low, high = _INTEGERS[declared]
        if isinstance(plain, int) and not isinstance(plain, bool) and low <= plain <= high:
            return declared(plain)
    elif declared is bool:
        if isinstance(plain, bool):
            return plain
    elif issubclass(declared, float):
        if isinstance(plain, int | float) and not isinstance(plain, bool):
            return declared(plain)
    elif isinstance(plain, str):
        return _from_text(plain, declared, at)
    raise NotExpressible(f"{at}: expected {type_name(declared)}, got {plain!r}")


def _from_text(plain: str, declared: VimType, at: str) -> object:
    try:
        if issubclass(declared, datetime):
            moment = datetime.fromisoformat(plain)
            return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        if issubclass(declared, bytes):
            return declared(base64.b64decode(plain, validate=True))
    except ValueError:
        raise NotExpressible(f"{at}: {plain!r} is not a {type_name(declared)}") from None
    if issubclass(declared, type):
        return type_named(plain)
    if issubclass(declared, VmomiSupport.Enum):
        allowed = sorted(v for v in declared.values if isinstance(v, str))
        if plain not in allowed:
            raise NotExpressible(f"{at}: {plain!r} is not one of {', '.join(allowed)}")
    if not issubclass(declared, str):
        raise NotExpressible(f"{at}: expected {type_name(declared)}, got {plain!r}")
    return declared(plain)


def type_name(kind: VimType) -> str:
    """Return the WSDL name of a pyVmomi type, for messages."""
    try:
        return str(VmomiSupport.GetWsdlName(kind))
    except (KeyError, AttributeError):
        return str(kind.__name__)


# What the declared type of a property path leaves open: the type VMware's servers really answer with.
_REALLY = {
    "DVSConfigInfo": "VMwareDVSConfigInfo",
    "DVPortSetting": "VMwareDVSPortSetting",
    "ComputeResourceConfigInfo": "ClusterConfigInfoEx",
    "ComputeResourceSummary": "ClusterComputeResourceSummary",
}


def supports(managed_type: str, path: str, version: str) -> bool:
    """Return whether a property path exists in an API version. A path a server does not know fails a whole read."""
    return _walk(managed_type, path, version) is not None


def declared_part(managed_type: str, path: str, version: str) -> str:
    """Return the part of a supported path that declared types have: ``config`` of a switch's ``config.maxMtu``.

    Whether a server follows a path into what a derived type adds is not documented; the declared part is safe to ask.
    """
    return _walk(managed_type, path, version) or path


@functools.lru_cache(maxsize=4096)
def declared_type(managed_type: str, path: str) -> VimType:
    """Return the pyVmomi type that a property path is declared with; ``object`` where that is left open."""
    at = type_named(managed_type)
    for part in path.split("."):
        info = _property(at, part)
        if info is None:
            return object
        at = info.type
    return at


def fits(value: object, declared: VimType) -> bool:
    """Return whether a pyVmomi value that a server sent is of the declared type, or of one derived from it."""
    if value is None or declared is object:
        return True
    if issubclass(declared, list):
        return isinstance(value, list) and all(fits(item, item_of(declared)) for item in value)
    if issubclass(declared, VmomiSupport.ManagedObject | VmomiSupport.DataObject | datetime | bool | bytes):
        return isinstance(value, declared)
    if issubclass(declared, float):
        return isinstance(value, int | float) and not isinstance(value, bool)
    if declared in _INTEGERS:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, str | type | VmomiSupport.ManagedMethod)


def fits_type(kind: VimType, declared: VimType) -> bool:
    """Return whether every value of a pyVmomi type is of the declared one, as `fits` says of a value."""
    if declared is object:
        return True
    if issubclass(declared, list):
        return issubclass(kind, list) and fits_type(item_of(kind), item_of(declared))
    if issubclass(declared, VmomiSupport.ManagedObject | VmomiSupport.DataObject | datetime | bool | bytes):
        return issubclass(kind, declared)
    if issubclass(declared, float):
        return issubclass(kind, int | float) and not issubclass(kind, bool)
    if declared in _INTEGERS:
        return issubclass(kind, int) and not issubclass(kind, bool)
    return issubclass(kind, str | VmomiSupport.ManagedMethod)


@functools.lru_cache(maxsize=4096)
def _walk(managed_type: str, path: str, version: str) -> str | None:
    """Follow a path by types; return its declared part, None when the path does not exist."""
    at = type_named(managed_type)
    steps = re.sub(r"\[[^]]*\]", "", path).split(".")
    declared: list[str] = []
    certain = True
    for depth, part in enumerate(steps):
        info = _property(at, part)
        if info is None and type_name(at) in _REALLY:
            info, certain = _property(type_named(_REALLY[type_name(at)]), part), False
        if info is None or not VmomiSupport.IsChildVersion(version, info.version):
            return None
        if certain:
            declared.append(part)
        at = info.type
        is_inner = depth + 1 < len(steps)
        if is_inner and not (at is object or issubclass(at, VmomiSupport.DataObject)):
            return None
    return ".".join(declared) if not certain else path


def _property(kind: VimType, name: str) -> Parameter | None:
    try:
        info: Parameter | None = kind._GetPropertyInfo(name)
    except AttributeError:
        return None
    return info
