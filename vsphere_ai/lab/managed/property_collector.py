"""The PropertyCollector: traversal, one-shot reads with paging, filters and update streams."""

from __future__ import annotations

import hashlib
import itertools
import time
from typing import Any

from pyVmomi import VmomiSupport as Vmomi
from pyVmomi import vim, vmodl

from vsphere_ai.lab import wire
from vsphere_ai.lab.managed import Call, reads
from vsphere_ai.lab.store import LATEST, ManagedObject, Store, read, references, static_type

Collector = vmodl.query.PropertyCollector
_tokens = itertools.count(1)

# Objects a client may look at before it has logged in, as real servers allow.
PUBLIC = ("ServiceInstance", "SessionManager")

# The collector every client is given: its filters are the session's, no other session sees them.
SHARED = "propertyCollector"


def select(store: Store, spec: Any) -> list[ManagedObject]:
    """Return the objects of one FilterSpec in traversal order, each once."""
    out: dict[str, ManagedObject] = {}
    for object_spec in spec.objectSet:
        if spec.reportMissingObjectsInResults and object_spec.obj._moId not in store.objects:
            continue
        named: dict[str, Any] = {}
        _index(object_spec.selectSet, named)
        stack = [(store.get(object_spec.obj), object_spec.selectSet or [], bool(object_spec.skip))]
        walked: set[tuple[str, int]] = set()
        while stack:
            mo, selections, skip = stack.pop()
            if not skip:
                out.setdefault(mo.moid, mo)
            following: list[tuple[ManagedObject, Any, bool]] = []
            for selection in selections:
                traversal = selection if isinstance(selection, Collector.TraversalSpec) else named.get(selection.name)
                if traversal is None:
                    raise vmodl.fault.InvalidArgument(invalidProperty="selectSet.name", msg="Unknown selection set")
                if (mo.moid, id(traversal)) in walked or not isinstance(mo.ref, traversal.type):
                    continue
                walked.add((mo.moid, id(traversal)))
                for ref in references(read(mo, traversal.path)):
                    child = store.objects.get(ref._moId)
                    if child is not None:
                        following.append((child, traversal.selectSet or [], bool(traversal.skip)))
            stack.extend(reversed(following))
    return list(out.values())


def _index(selections: Any, named: dict[str, Any]) -> None:
    for selection in selections or ():
        if isinstance(selection, Collector.TraversalSpec):
            if selection.name:
                named[selection.name] = selection
            _index(selection.selectSet, named)


def paths_for(mo: ManagedObject, spec: Any, version: str) -> list[str] | None:
    """Return the property paths a FilterSpec asks of an object; none is only its reference, None not even that."""
    paths: list[str] = []
    applicable = [wanted for wanted in spec.propSet if isinstance(mo.ref, wanted.type)]
    if not applicable:
        return None
    for wanted in applicable:
        if wanted.all:
            paths += [p.name for p in mo.ref._GetPropertyList() if Vmomi.IsChildVersion(version, p.version)]
        else:
            paths += wanted.pathSet or ()
    return list(dict.fromkeys(paths))


def check(spec: Any, version: str) -> None:
    """Refuse a FilterSpec that names a property the type does not have in this API version."""
    for wanted in spec.propSet:
        for path in wanted.pathSet or ():
            static_type(wanted.type, path, version)
    for object_spec in spec.objectSet:
        if not isinstance(object_spec.obj, Vmomi.ManagedObject):
            raise vmodl.fault.InvalidArgument(invalidProperty="objectSet.obj", msg="objectSet.obj is not set")


def content(call: Call, mo: ManagedObject, paths: list[str]) -> Any:
    """Return the ObjectContent of one object."""
    if call.session is None and mo.moid not in PUBLIC:
        denied = vim.fault.NotAuthenticated(object=mo.ref, privilegeId="System.Read")
        return Collector.ObjectContent(
            obj=mo.ref, missingSet=[Collector.MissingProperty(path=p, fault=denied) for p in paths]
        )
    call.farm.traffic.read(mo.type_name, paths)
    found = [(p, read(mo, p, call.session)) for p in paths]
    props = [vmodl.DynamicProperty(name=p, val=v) for p, v in found if v is not None]
    return Collector.ObjectContent(obj=mo.ref, propSet=props)


def _retrieve(call: Call, specs: Any) -> list[Any]:
    out = []
    for spec in specs:
        check(spec, call.version)
        for mo in select(call.farm.store, spec):
            paths = paths_for(mo, spec, call.version)
            if paths is not None:
                out.append(content(call, mo, paths))
    return out


@reads(Collector, "RetrieveProperties")
def retrieve_properties(call: Call, specSet: Any) -> Any:
    """Read everything at once, the way of API 4.0 and earlier."""
    return _retrieve(call, specSet)


@reads(Collector, "RetrievePropertiesEx")
def retrieve_properties_ex(call: Call, specSet: Any, options: Any) -> Any:
    """Read in pages of ``options.maxObjects``."""
    if options.maxObjects is not None and options.maxObjects <= 0:
        raise vmodl.fault.InvalidArgument(invalidProperty="options.maxObjects", msg="maxObjects must be positive")
    return _page(call, _retrieve(call, specSet), options.maxObjects)


@reads(Collector, "ContinueRetrievePropertiesEx")
def continue_retrieve(call: Call, token: str) -> Any:
    """Return the next page; a token is good for one use."""
    kept = call.mo.extra.get("tokens", {}).pop((call.login.key, token), None)
    if kept is None:
        raise vmodl.fault.InvalidArgument(invalidProperty="token", msg="A specified parameter was not correct: token")
    return _page(call, *kept)


@reads(Collector, "CancelRetrievePropertiesEx")
def cancel_retrieve(call: Call, token: str) -> None:
    """Forget the rest of a read."""
    if call.mo.extra.get("tokens", {}).pop((call.login.key, token), None) is None:
        raise vmodl.fault.InvalidArgument(invalidProperty="token", msg="A specified parameter was not correct: token")


def _page(call: Call, objects: list[Any], limit: int | None) -> Any:
    if not objects:
        return None
    if not limit or len(objects) <= limit or call.session is None:
        return Collector.RetrieveResult(objects=objects)
    token = str(next(_tokens))
    call.mo.extra.setdefault("tokens", {})[(call.login.key, token)] = (objects[limit:], limit)
    return Collector.RetrieveResult(objects=objects[:limit], token=token)


@reads(Collector, "CreatePropertyCollector")
def create_collector(call: Call) -> Any:
    """Make a collector of the caller's own."""
    mo = call.farm.store.new(Collector, prefix=f"session[{call.login.key}]")
    state = mo.extra
    call.farm.store.set(mo, filter=lambda _me: filters_of(state))
    call.login.objects.append(mo)
    return mo.ref


@reads(Collector, "DestroyPropertyCollector")
def destroy_collector(call: Call) -> None:
    """Forget a collector and its filters; of the shared one, the caller's filters."""
    state = _state(call)
    for kept in state.pop("filters", []):
        call.farm.store.delete(kept)
    if call.mo.moid != SHARED:
        call.farm.store.delete(call.mo)


def _state(call: Call) -> dict[str, Any]:
    """Return where the caller's filters and version in a collector are kept."""
    return call.login.collector if call.mo.moid == SHARED else call.mo.extra


def filters_of(state: dict[str, Any]) -> Any:
    """Return the references to the filters in a collector's state."""
    return Vmomi.GetVmodlType("vmodl.query.PropertyCollector.Filter[]")(kept.ref for kept in state.get("filters", ()))


@reads(Collector, "CreateFilter")
def create_filter(call: Call, spec: Any, partialUpdates: bool) -> Any:
    """Add a filter to a collector."""
    check(spec, call.version)
    select(call.farm.store, spec)  # refuses what names an object or a selection that is not there
    made = call.farm.store.new(
        Collector.Filter, prefix=f"session[{call.login.key}]", spec=spec, partialUpdates=bool(partialUpdates)
    )
    state = _state(call)
    made.extra.update(collector=state, known={}, version=call.version)
    state.setdefault("filters", []).append(made)
    call.login.objects.append(made)
    return made.ref


@reads(Collector.Filter, "DestroyPropertyFilter")
def destroy_filter(call: Call) -> None:
    """Forget a filter."""
    call.mo.extra["collector"]["filters"].remove(call.mo)
    call.farm.store.delete(call.mo)


@reads(Collector, "CancelWaitForUpdates")
def cancel_wait(call: Call) -> None:
    """End a waiting call of this collector with RequestCanceled."""
    _state(call)["cancelled"] = True
    with call.farm.store.lock:
        call.farm.store.changed.notify_all()


@reads(Collector, "WaitForUpdatesEx")
def wait_for_updates_ex(call: Call, version: str | None = None, options: Any = None) -> Any:
    """Wait for a change of what the filters select; None when ``maxWaitSeconds`` passed without one."""
    seconds = options.maxWaitSeconds if options and options.maxWaitSeconds is not None else 600
    limit = (options.maxObjectUpdates if options else None) or 1 << 30
    end = time.monotonic() + seconds
    state = _state(call)
    if version and version != state.get("version"):
        raise vmodl.query.InvalidCollectorVersion(msg="Invalid collector version")
    state["cancelled"] = False
    fresh = not version
    while True:
        sets, left = [], limit
        for kept in state.get("filters", []):
            updates = _differences(call, kept, fresh, left)
            left -= len(updates)
            if updates:
                sets.append(Collector.FilterUpdate(filter=kept.ref, objectSet=updates))
        fresh = False
        if sets:
            state["version"] = str(int(state.get("version", "0")) + 1)
            return Collector.UpdateSet(version=state["version"], filterSet=sets, truncated=left <= 0)
        if state["cancelled"]:
            raise vmodl.fault.RequestCanceled(msg="The task was canceled by a user.")
        rest = end - time.monotonic()
        if rest <= 0 or call.farm.closed:
            return None
        call.farm.store.changed.wait(min(rest, 5))
        call.check_alive()
        call.farm.settle()


@reads(Collector, "WaitForUpdates")
def wait_for_updates(call: Call, version: str | None = None) -> Any:
    """Wait as WaitForUpdatesEx does, the way of API 4.0 and earlier."""
    return wait_for_updates_ex(call, version)


@reads(Collector, "CheckForUpdates")
def check_for_updates(call: Call, version: str | None = None) -> Any:
    """Return what changed so far without waiting."""
    return wait_for_updates_ex(call, version, Collector.WaitOptions(maxWaitSeconds=0))


def _differences(call: Call, kept: ManagedObject, fresh: bool, limit: int) -> list[Any]:
    spec, known, store = kept["spec"], kept.extra["known"], call.farm.store
    if fresh:
        known.clear()
    now = {mo.moid: mo for mo in select_existing(store, spec)}
    updates: list[Any] = []
    for mo in now.values():
        if len(updates) >= limit:
            return updates
        update = _object_update(call, known, mo, paths_for(mo, spec, kept.extra["version"]))
        if update is not None:
            updates.append(update)
    for moid in [m for m in known if m not in now]:
        if len(updates) >= limit:
            return updates
        updates.append(Collector.ObjectUpdate(kind="leave", obj=known.pop(moid)["ref"]))
    return updates


def _object_update(call: Call, known: dict[str, Any], mo: ManagedObject, paths: list[str] | None) -> Any:
    old = known.get(mo.moid)
    if paths is None or (old and all(mo.revisions.get(p.split(".")[0], 0) <= old["revision"] for p in paths)):
        return None
    sums = dict(old["sums"]) if old else {}
    changes = []
    for path in paths:
        value = read(mo, path, call.session)
        digest = fingerprint(value)
        if sums.get(path) != digest:
            sums[path] = digest
            if value is not None or old:
                changes.append(Collector.Change(name=path, op="assign", val=value))
    known[mo.moid] = {"revision": call.farm.store.revision, "sums": sums, "ref": mo.ref}
    if old and not changes:
        return None
    return Collector.ObjectUpdate(kind="modify" if old else "enter", obj=mo.ref, changeSet=changes)


def select_existing(store: Store, spec: Any) -> list[ManagedObject]:
    """Return what a filter selects; nothing of those of its starting objects that are gone."""
    left = [each for each in spec.objectSet if each.obj._moId in store.objects]
    return select(store, Collector.FilterSpec(propSet=spec.propSet, objectSet=left)) if left else []


def fingerprint(value: Any) -> Any:
    """Return a value that differs when two property values differ."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return hashlib.blake2b(wire.element(value, "v", object, LATEST).encode(), digest_size=16).digest()
