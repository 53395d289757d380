"""Bulk reads: one view, leaf paths only, page by page."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from vsphere_ai.connect.faults import text_of
from vsphere_ai.connect.outage import Lost
from vsphere_ai.connect.plain import (
    NotExpressible,
    declared_part,
    declared_type,
    fields_of,
    fits,
    supports,
    to_object,
    to_plain,
    to_ref,
    type_name,
    type_named,
    version_id,
)
from vsphere_ai.connect.session import Session
from vsphere_ai.connect.tls import describe
from vsphere_ai.connect.untypable import ERRORS
from vsphere_ai.connect.vmomi import (
    Collector,
    ManagedObject,
    Missing,
    ObjectContent,
    Page,
    Property,
    VimType,
    VmomiSupport,
    vim,
    vmodl,
)
from vsphere_ai.model.facts import UNTYPED, Facts
from vsphere_ai.model.plain import Plain, inside

PAGE = 500
Paths = Mapping[str, Sequence[str]]


def read_all(session: Session, paths: Paths) -> dict[str, Facts]:
    """Read the given paths of every object of the given types, through one container view."""
    return _read(session, paths, lambda known: _of_view(session, known))


def read_objects(session: Session, refs: Sequence[str], paths: Paths) -> dict[str, Facts]:
    """Read the given paths of the named objects only; an object that is gone is left out."""
    wanted = dict.fromkeys(r for r in refs if _applies(r, paths))
    return _read(session, paths, lambda known: _of_refs(session, wanted, known)) if wanted else {}


def _applies(ref: str, paths: Paths) -> bool:
    kind = type_named(ref.partition(":")[0])
    return any(issubclass(kind, type_named(name)) for name in paths)


class _Wanted:
    """What to ask for, per type: paths for the wire, leaves to pick out of them, and what cannot be had."""

    def __init__(self, session: Session, paths: Paths) -> None:
        self.wire: dict[str, set[str]] = {}
        self.leaves: dict[str, dict[str, str]] = {}
        self.helpers: dict[str, set[str]] = {}
        self.absent: dict[str, dict[str, str]] = {}
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

    def facts(self, content: ObjectContent) -> Facts:
        """Return one object's facts: leaves picked, and what was read only for them left out."""
        properties: dict[str, Plain] = {}
        unreadable = {p.path: _reason(p) for p in content.missingSet}
        for prop in content.propSet:
            try:
                properties[prop.name] = _value(prop, type(content.obj))
            except (NotExpressible, RecursionError, *ERRORS) as error:
                unreadable[prop.name] = f"{UNTYPED}: {describe(error)}"
        # The most derived type has all paths of its bases.
        fitting = [name for name in self.wire if isinstance(content.obj, type_named(name))]
        name = max(fitting, key=lambda n: len(type_named(n).__mro__))
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
        return Facts(to_ref(content.obj), properties, unreadable)


_UNKNOWN = "not known to this server"


def _read(
    session: Session, paths: Paths, run: Callable[[Mapping[str, set[str]]], Iterator[ObjectContent]]
) -> dict[str, Facts]:
    wanted = _Wanted(session, paths)

    def once() -> dict[str, Facts]:
        while True:
            try:
                return {facts.ref: facts for facts in map(wanted.facts, run(wanted.wire))}
            except vmodl.query.InvalidProperty as fault:
                # One path the server does not know fails the whole request: give it up, and read the rest.
                if not wanted.give_up(str(fault.name)):
                    raise

    return session.reading(once)


def _of_view(session: Session, known: Mapping[str, set[str]]) -> Iterator[ObjectContent]:
    content = session.content
    root = content.rootFolder
    kinds = [type_named(name) for name in known]
    view = session.invoke(content.viewManager, "CreateContainerView", root, kinds, True)
    try:
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
            raise vim.fault.NotAuthenticated from fault  # views end with their session
    finally:
        with contextlib.suppress(Lost, vmodl.MethodFault):
            session.invoke(view, "DestroyView")


def _of_refs(session: Session, wanted: dict[str, None], known: Mapping[str, set[str]]) -> Iterator[ObjectContent]:
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


def _pages(session: Session, objects: Sequence[object], known: Mapping[str, set[str]]) -> Iterator[ObjectContent]:
    properties = [
        Collector.PropertySpec(type=type_named(name), all=False, pathSet=sorted(paths))
        for name, paths in sorted(known.items())
    ]
    spec = Collector.FilterSpec(objectSet=objects, propSet=properties)
    collector = session.content.propertyCollector
    page: Page | None = session.invoke(
        collector, "RetrievePropertiesEx", [spec], Collector.RetrieveOptions(maxObjects=PAGE)
    )
    while page is not None:
        demand_session(page)
        yield from page.objects
        page = _following(session, collector, page.token) if page.token else None


def _following(session: Session, collector: ManagedObject, token: str) -> Page | None:
    try:
        page: Page | None = session.invoke(collector, "ContinueRetrievePropertiesEx", token)
    except vmodl.fault.InvalidArgument as fault:
        raise vim.fault.NotAuthenticated from fault  # tokens end with their session, which another thread renewed
    return page


def demand_session(page: Page) -> None:
    """Raise NotAuthenticated when that is why properties are missing: the session is gone, not the properties."""
    for content in page.objects:
        for missing in content.missingSet:
            if isinstance(missing.fault, vim.fault.NotAuthenticated):
                raise missing.fault


def _reason(missing: Missing) -> str:
    if isinstance(missing.fault, vmodl.query.InvalidProperty):
        return _UNKNOWN
    return text_of(fields_of(missing.fault))


# vCenter keeps these three escaped in names (vSphere Web Services API reference, ManagedEntity.name).
_ESCAPED = re.compile(r"%(2f|5c|25)", re.IGNORECASE)


def _value(prop: Property, of: VimType) -> Plain:
    declared = declared_type(VmomiSupport.GetWsdlName(of), prop.name)
    if not fits(prop.val, declared):
        raise NotExpressible(f"it is a {type_name(type(prop.val))}, not a {type_name(declared)}")
    value = to_plain(prop.val)
    if prop.name == "name" and isinstance(value, str):
        return _ESCAPED.sub(lambda m: chr(int(m.group(1), 16)), value)
    return value
