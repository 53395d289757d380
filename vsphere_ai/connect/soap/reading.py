"""Bulk reads: one view, leaf paths only, page by page."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence

from vsphere_ai.connect.soap.faults import text_of
from vsphere_ai.connect.soap.session import SoapSession
from vsphere_ai.connect.wire.memory import collect_young, no_collection
from vsphere_ai.connect.wire.page import Content, Page
from vsphere_ai.connect.wire.plain import declared_part, supports, to_object, to_ref, type_named, version_id
from vsphere_ai.connect.wire.vmomi import Collector, vim, vmodl
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.plain import PlainObject, inside

PAGE = 500
_BETWEEN = 16
"""Pages after which what they have left behind is collected."""
Paths = Mapping[str, Sequence[str]]


def read_all(session: SoapSession, paths: Paths) -> dict[str, Facts]:
    """Read the given paths of every object of the given types, through one container view."""
    return _read(session, paths, lambda known: _of_view(session, known))


def read_objects(session: SoapSession, refs: Sequence[str], paths: Paths) -> dict[str, Facts]:
    """Read the given paths of the named objects only; an object that is gone is left out."""
    wanted = dict.fromkeys(r for r in refs if _applies(r, paths))
    return _read(session, paths, lambda known: _of_refs(session, wanted, known)) if wanted else {}


def known_paths(session: SoapSession, paths: Paths) -> Mapping[str, set[str]]:
    """Return the paths to ask for, by type: those that there are in the API version of a session."""
    return _Wanted(session, paths).wire


def _applies(ref: str, paths: Paths) -> bool:
    kind = type_named(ref.partition(":")[0])
    return any(issubclass(kind, type_named(name)) for name in paths)


class _Wanted:
    """What to ask for, per type: paths for the wire, leaves to pick out of them, and what cannot be had."""

    def __init__(self, session: SoapSession, paths: Paths) -> None:
        self.wire: dict[str, set[str]] = {}
        self.leaves: dict[str, dict[str, str]] = {}
        self.helpers: dict[str, set[str]] = {}
        self.absent: dict[str, dict[str, str]] = {}
        self._of: dict[str, str] = {}
        for name in paths:
            kind = type_named(name)
            # Only one PropertySpec counts for an object, so a derived type's has its base types' paths as well.
            union = sorted({p for other in paths if issubclass(kind, type_named(other)) for p in paths[other]})
            known = {p: declared_part(name, p, session.version) for p in union if supports(name, p, session.version)}
            self.wire[name] = set(known.values())
            self.leaves[name] = {path: whole for path, whole in known.items() if path != whole}
            reason = f"not in vSphere API {version_id(session.version)}"
            self.absent[name] = {p: reason for p in union if p not in known}
            self.helpers[name] = self.wire[name] - set(union)

    def give_up(self, path: str) -> bool:
        """Ask no longer for a path the server rejects; False when it was not asked for."""
        holders = [name for name in self.wire if path in self.wire[name]]
        # The fault does not say which type it means: a base type is the likelier one to lack it.
        bases = [n for n in holders if any(m != n and issubclass(type_named(m), type_named(n)) for m in holders)]
        for name in bases or holders:
            self.wire[name].discard(path)
            self.absent[name][path] = _UNKNOWN
        return bool(holders)

    def facts(self, content: Content) -> Facts:
        """Return one object's facts: leaves picked, and what was read only for them left out."""
        properties = content.values
        unreadable = {path: _reason(fault) for path, fault in content.missing}
        unreadable.update(content.untyped)
        name = self._fitting(content.ref[: content.ref.index(":")])
        unreadable.update(self.absent[name])
        for path, whole in self.leaves[name].items():
            value = inside(properties.get(whole), path[len(whole) + 1 :])
            if value is not None:
                properties[path] = value
            elif whole in unreadable:
                unreadable[path] = unreadable[whole]
        for whole in self.helpers[name]:
            properties.pop(whole, None)
            unreadable.pop(whole, None)
        return Facts(content.ref, properties, unreadable)

    def _fitting(self, managed: str) -> str:
        """Return the type that was asked for of which an object of a managed type is; the most derived one."""
        found = self._of.get(managed)
        if found is None:
            kind = type_named(managed)
            fitting = [name for name in self.wire if issubclass(kind, type_named(name))]
            found = self._of[managed] = max(fitting, key=lambda n: len(type_named(n).__mro__))
        return found


_UNKNOWN = "not known to this server"


def _read(
    session: SoapSession, paths: Paths, run: Callable[[Mapping[str, set[str]]], Iterator[Content]]
) -> dict[str, Facts]:
    wanted = _Wanted(session, paths)

    def once() -> dict[str, Facts]:
        while True:
            try:
                with no_collection():
                    return {facts.ref: facts for facts in map(wanted.facts, run(wanted.wire))}
            except vmodl.query.InvalidProperty as fault:
                # One path the server does not know fails the whole request: give it up, and read the rest.
                if not wanted.give_up(str(fault.name)):
                    raise

    return session.reading(once)


def _of_view(session: SoapSession, known: Mapping[str, set[str]]) -> Iterator[Content]:
    root, names = session.content.rootFolder, frozenset(known)
    kinds = [type_named(name) for name in known]
    view = session.views.get(names)
    if view is None:
        view = session.invoke(session.content.viewManager, "CreateContainerView", root, kinds, True)
        session.views[names] = view  # it follows the inventory, and ends with the session
    follow = Collector.TraversalSpec(name="view", type=vim.view.ContainerView, path="view", skip=False)
    objects = [Collector.ObjectSpec(obj=view, skip=True, selectSet=[follow])]
    if any(isinstance(root, kind) for kind in kinds):
        # A view shows what is below its root, never the root itself.
        objects.append(Collector.ObjectSpec(obj=root, skip=False))
    try:
        yield from _pages(session, objects, known)
    except vmodl.fault.ManagedObjectNotFound as fault:
        if fault.obj is None or to_ref(fault.obj) != to_ref(view):
            raise
        session.views.pop(names, None)
        raise vim.fault.NotAuthenticated from fault


def _of_refs(session: SoapSession, wanted: dict[str, None], known: Mapping[str, set[str]]) -> Iterator[Content]:
    while wanted:
        objects = [Collector.ObjectSpec(obj=to_object(ref), skip=False) for ref in wanted]
        try:
            yield from _pages(session, objects, known)
            return
        except vmodl.fault.ManagedObjectNotFound as fault:
            gone = to_ref(fault.obj) if fault.obj is not None else ""
            if gone not in wanted:
                raise
            del wanted[gone]


def _pages(session: SoapSession, objects: Sequence[object], known: Mapping[str, set[str]]) -> Iterator[Content]:
    properties = [
        Collector.PropertySpec(type=type_named(name), all=False, pathSet=sorted(paths))
        for name, paths in sorted(known.items())
    ]
    spec = Collector.FilterSpec(objectSet=objects, propSet=properties)
    try:
        page = session.page("RetrievePropertiesEx", [spec], Collector.RetrieveOptions(maxObjects=PAGE))
        for number in itertools.count(1):
            if page is None:
                return
            yield from page.objects
            if number % _BETWEEN == 0:
                collect_young()
            page = _following(session, page.token) if page.token else None
    finally:
        session.stub.forget_ahead()


def _following(session: SoapSession, token: str) -> Page | None:
    try:
        return session.page("ContinueRetrievePropertiesEx", token)
    except vmodl.fault.InvalidArgument as fault:
        raise vim.fault.NotAuthenticated from fault  # tokens end with their session, which another thread renewed


def _reason(fault: PlainObject) -> str:
    return _UNKNOWN if fault["_typeName"] == "InvalidProperty" else text_of(fault)
