"""The store of managed objects: typed property bags with revisions, and one condition for those who wait."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from pyVmomi import VmomiSupport as Vmomi
from pyVmomi import vim, vmodl

from vsphere_ai.lab.wire import typed

LATEST = Vmomi.GetServiceVersions("vim25")[0]


class ManagedObject:
    """One managed object: its reference, top-level properties and the revision each was last changed in.

    A property may be a function of the reader's session (``currentSession``). `extra` is the lab's own, never served.
    """

    __slots__ = ("extra", "props", "ref", "revisions")

    def __init__(self, ref: Any) -> None:
        self.ref = ref
        self.props: dict[str, Any] = {}
        self.revisions: dict[str, int] = {}
        self.extra: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        value = self.props.get(name)
        return value(None) if callable(value) else value

    @property
    def moid(self) -> str:
        """The value of the managed object reference, e.g. ``host-12``."""
        return str(self.ref._moId)

    @property
    def type(self) -> Any:
        """The managed type, e.g. ``vim.HostSystem``."""
        return type(self.ref)

    @property
    def type_name(self) -> str:
        """The WSDL name of the managed type, e.g. ``HostSystem``."""
        return str(type(self.ref)._wsdlName)

    def shown(self, what: str, state: Any, make: Callable[[], Any]) -> Any:
        """Return what `make` makes of a state; the one it made last as long as the state is the same.

        For what a host shows, most of which the next change does not touch; it must not be written into.
        """
        last = self.extra.get(f"shown {what}")
        if last is None or last[0] != state:
            last = self.extra[f"shown {what}"] = state, make()
        return last[1]

    def value(self, name: str, session: Any) -> Any:
        """Return a top-level property as `session` sees it."""
        value = self.props.get(name)
        return value(session) if callable(value) else value


RECKONED_FROM = {
    "VirtualMachine": frozenset({"runtime", "config", "resourcePool"}),
    "HostSystem": frozenset({"runtime", "hardware"}),
}
"""Properties that decide what resource pools have left, by type."""


class Store:
    """Every managed object by moid. All reading and writing happens under `lock`."""

    def __init__(self) -> None:
        self.objects: dict[str, ManagedObject] = {}
        self._by_type: dict[Any, dict[str, ManagedObject]] = {}
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.revision = 0
        self._ids = itertools.count(1)

    def next_id(self) -> int:
        """Return a number no other object of this store has."""
        return next(self._ids)

    def new(self, typ: Any, moid: str = "", *, prefix: str = "", **props: Any) -> ManagedObject:
        """Add an object; properties are checked against the type, their required fields filled in."""
        moid = moid or f"{prefix or typ._wsdlName.lower()}-{self.next_id()}"
        mo = ManagedObject(typ(moid))
        if isinstance(mo.ref, vim.ManagedEntity):
            mo.props.update(_entity_defaults())
        for name, value in props.items():
            info = mo.ref._GetPropertyInfo(name)  # AttributeError: not a property of this type
            if not callable(value):
                Vmomi.CheckField(Vmomi.Object(name=name, type=info.type, flags=Vmomi.F_OPTIONAL), value)
                for item in value if isinstance(value, list) else (value,):
                    if isinstance(item, Vmomi.DataObject):
                        fill(item)
            mo.props[name] = value
        with self.lock:
            self.objects[moid] = self._by_type.setdefault(typ, {})[moid] = mo
            self.touch(mo, *props)
        return mo

    def show(self, mo: ManagedObject) -> None:
        """Let readers see an object that `of` does not return: one that is not made yet."""
        with self.lock:
            self.objects[mo.moid] = mo
            self.touch(mo, *mo.props)

    def get(self, ref: Any) -> ManagedObject:
        """Return the object a reference points to, or raise ManagedObjectNotFound."""
        mo = self.objects.get(ref._moId)
        if mo is None or not isinstance(mo.ref, type(ref)):
            name = f"{type(ref)._wsdlName}:{ref._moId}"
            raise vmodl.fault.ManagedObjectNotFound(
                obj=ref, msg=f"The object '{name}' has already been deleted or has not been completely created"
            )
        return mo

    def delete(self, mo: ManagedObject) -> None:
        """Forget an object."""
        with self.lock:
            self.objects.pop(mo.moid, None)
            self._by_type[mo.type].pop(mo.moid, None)
            self.revision += 1
            self.changed.notify_all()

    def set(self, mo: ManagedObject, **props: Any) -> None:
        """Write top-level properties and wake everyone who waits for a change."""
        with self.lock:
            mo.props.update(props)
            self.touch(mo, *props)

    def touch(self, mo: ManagedObject, *names: str) -> None:
        """Mark properties as changed (after something inside them was written)."""
        with self.lock:
            self.revision += 1
            for name in names:
                mo.revisions[name] = self.revision
            if mo.type_name in RECKONED_FROM and not RECKONED_FROM[mo.type_name].isdisjoint(names):
                # what pools have left is reckoned when it is read, and has changed with what it is reckoned from
                for pool in self.of(vim.ResourcePool):
                    pool.revisions["runtime"] = self.revision
            self.changed.notify_all()

    def of(self, typ: Any) -> list[ManagedObject]:
        """Return every object of a managed type, in order of creation."""
        kinds = [found for kind, found in list(self._by_type.items()) if issubclass(kind, typ)]
        if len(kinds) <= 1:  # a farm of thousands is not looked through for each of its VMs
            return [mo for found in kinds for mo in list(found.values())]
        return [mo for mo in list(self.objects.values()) if isinstance(mo.ref, typ)]

    def children(self, mo: ManagedObject) -> Iterator[ManagedObject]:
        """Yield the inventory children of an object, as a container view walks them."""
        for prop in CHILDREN.get(mo.type_name, ()):
            for ref in references(mo[prop]):
                child = self.objects.get(ref._moId)
                if child is not None:
                    yield child


def _entity_defaults() -> dict[str, Any]:
    """Return what every inventory object shows; clients in Go dereference some of these without looking."""
    return {
        "overallStatus": "green",
        "configStatus": "green",
        "effectiveRole": [-1],
        "alarmActionsEnabled": True,
        "availableField": [],
        "recentTask": [],
        "configIssue": [],
        "customValue": [],
        "value": [],
        "permission": [],
        "disabledMethod": [],
        "declaredAlarmState": [],
        "triggeredAlarmState": [],
        "tag": [],
    }


CHILDREN: dict[str, tuple[str, ...]] = {
    "Folder": ("childEntity",),
    "StoragePod": ("childEntity",),
    "Datacenter": ("vmFolder", "hostFolder", "datastoreFolder", "networkFolder"),
    "ComputeResource": ("host", "resourcePool"),
    "ClusterComputeResource": ("host", "resourcePool"),
    "ResourcePool": ("resourcePool",),
    "VirtualApp": ("resourcePool", "vm"),
}


def references(value: Any) -> Iterable[Any]:
    """Return the managed object references in a property value."""
    if isinstance(value, Vmomi.ManagedObject):
        return (value,)
    if isinstance(value, list):
        return [v for v in value if isinstance(v, Vmomi.ManagedObject)]
    return ()


@lru_cache(maxsize=4096)
def static_type(typ: Any, path: str, version: str = LATEST) -> Any:
    """Return the declared type of a property path in an API version, or raise InvalidProperty as vCenter does."""
    at = typ
    for part in path.split("."):
        info = None
        if issubclass(at, (Vmomi.ManagedObject, Vmomi.DataObject)):
            try:
                info = at._GetPropertyInfo(part)
            except AttributeError:
                info = None
        if info is None or not Vmomi.IsChildVersion(version, info.version):
            raise vmodl.query.InvalidProperty(name=path, msg=f"Invalid property {path} of {typ._wsdlName}")
        at = info.type
    return at


def read(mo: ManagedObject, path: str, session: Any = None) -> Any:
    """Return the value of a dotted path, None when it is unset."""
    typ = static_type(mo.type, path)
    head, *rest = path.split(".")
    value = mo.value(head, session)
    for part in rest:
        if value is None:
            return None
        value = getattr(value, part)
    if isinstance(value, list) and not value:
        return typ([])
    return typed(value, typ)


def given(obj: Any) -> list[str]:
    """Return the names of the fields that are set in a data object, in their order; an empty list is not set."""
    values = {info.name: getattr(obj, info.name) for info in obj._GetPropertyList()}
    # a reference cannot be compared with a list: pyVmomi raises AttributeError
    return [name for name, value in values.items() if value is not None and not (isinstance(value, list) and not value)]


def differs(spec: Any, present: Any) -> bool:
    """Return whether a value of a specification asks for anything: not if it is empty, or is so already."""
    if isinstance(spec, Vmomi.DataObject):
        return any(differs(getattr(spec, name), getattr(present, name, None)) for name in given(spec))
    if isinstance(spec, list):
        now = present if isinstance(present, list) else []
        return bool(spec) and (len(spec) != len(now) or any(map(differs, spec, now)))
    if isinstance(spec, Vmomi.ManagedObject) != isinstance(present, Vmomi.ManagedObject):
        return spec is not None
    return spec is not None and spec != present


def lay_over(present: Any, spec: Any, whole: tuple[str, ...] = ()) -> None:
    """Write what is set in a data object into another one, field by field; fields in `whole` as they are."""
    for name in given(spec):
        value, now = getattr(spec, name), getattr(present, name)
        if isinstance(value, Vmomi.DataObject) and now is not None and name not in whole:
            lay_over(now, value)
        else:
            setattr(present, name, value)


def fill(obj: Any, seen: tuple[Any, ...] = ()) -> Any:
    """Give every required but unset field of a data object a neutral value, recursively and in place.

    pyVmomi's serializer refuses an object with a required field unset, and other clients dereference such fields.
    """
    held = vars(obj)
    for name, optional, typ in _shape(type(obj)):  # type: ignore[arg-type] # every class can be hashed
        value = held[name]
        if value is None:
            if optional:
                continue
        elif not isinstance(value, list):
            if isinstance(value, Vmomi.DataObject):
                fill(value, seen)
            continue
        elif value or optional:
            for item in value:
                if isinstance(item, Vmomi.DataObject):
                    fill(item, seen)
            continue
        neutral = _neutral_list(typ, seen) if issubclass(typ, list) else _neutral(typ, seen)
        if neutral is not None:
            held[name] = neutral
    return obj


@lru_cache(maxsize=4096)
def _shape(kind: Any) -> tuple[tuple[str, bool, Any], ...]:
    """Return name, whether it may be unset, and type of every field of a data object that may have to be filled."""
    fields = [(i.name, bool(i.flags & Vmomi.F_OPTIONAL), i.type) for i in kind._GetPropertyList()]
    return tuple((name, optional, typ) for name, optional, typ in fields if not optional or _holds_data(typ))


def _holds_data(typ: Any) -> bool:
    one = typ.Item if issubclass(typ, Vmomi.Array) else typ
    return one is object or issubclass(one, Vmomi.DataObject)


def _neutral_list(typ: Any, seen: tuple[Any, ...]) -> Any:
    one = _neutral(typ.Item, seen)
    return typ([] if one is None else [one])


def _neutral(typ: Any, seen: tuple[Any, ...]) -> Any:
    if typ is type:
        return vim.vm.device.VirtualDevice
    if issubclass(typ, Vmomi.Enum):
        return typ(next(v for k, v in vars(typ).items() if isinstance(v, typ) and k != "Array"))
    if issubclass(typ, Vmomi.ManagedObject):
        return typ("none-0")
    if issubclass(typ, Vmomi.DataObject):
        return None if typ in seen else fill(typ(), (*seen, typ))
    if issubclass(typ, datetime):
        return datetime(1970, 1, 1, tzinfo=UTC)
    for base, value in ((bool, False), (int, 0), (float, 0), (str, "")):
        if issubclass(typ, base):
            return value if base is bool else typ(value)
    return None
