"""Bulk reads: one view, leaf paths only, page by page."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from vsphere_ai.connect.faults import text_of
from vsphere_ai.connect.plain import supports, to_object, to_plain, to_ref, type_named, version_id
from vsphere_ai.connect.session import Lost, Session
from vsphere_ai.connect.vmomi import Collector, vim, vmodl
from vsphere_ai.facts import Facts

PAGE = 500
Paths = Mapping[str, Sequence[str]]


def read_all(session: Session, paths: Paths) -> dict[str, Facts]:
    """Read the given paths of every object of the given types, through one container view."""
    return _read(session, paths, lambda known: _of_view(session, known))


def read_objects(session: Session, refs: Sequence[str], paths: Paths) -> dict[str, Facts]:
    """Read the given paths of the named objects only; an object that is gone meanwhile is left out."""
    wanted = dict.fromkeys(r for r in refs if _applies(r, paths))
    return _read(session, paths, lambda known: _of_refs(session, wanted, known)) if wanted else {}


def _applies(ref: str, paths: Paths) -> bool:
    kind = type_named(ref.partition(":")[0])
    return any(issubclass(kind, type_named(name)) for name in paths)


def _read(session: Session, paths: Paths, run: Any) -> dict[str, Facts]:
    known, too_new = _known_paths(session, paths)

    def once() -> dict[str, Facts]:
        found: dict[str, Facts] = {}
        while True:
            try:
                for content in run(known):
                    _add(found, content, too_new)
                return found
            except vmodl.query.InvalidProperty as fault:
                # One path the server does not know fails the whole request: give it up, and read the rest.
                if not _give_up(known, too_new, str(fault.name)):
                    raise
                found.clear()

    return session.reading(once)


def _known_paths(session: Session, paths: Paths) -> tuple[dict[str, set[str]], dict[str, dict[str, str]]]:
    """Split paths, per type and with its base types' paths, into those the negotiated version has and the others."""
    known: dict[str, set[str]] = {}
    too_new: dict[str, dict[str, str]] = {}
    for name in paths:
        kind = type_named(name)
        union = {p for other in paths if issubclass(kind, type_named(other)) for p in paths[other]}
        known[name] = {p for p in union if supports(name, p, session.version)}
        reason = f"not in vSphere API {version_id(session.version)}"
        too_new[name] = dict.fromkeys(sorted(union - known[name]), reason)
    return known, too_new


def _give_up(known: dict[str, set[str]], too_new: dict[str, dict[str, str]], path: str) -> bool:
    holders = [name for name in known if path in known[name]]
    # The fault does not say which type it means: a base type is the likelier one to lack it.
    bases = [n for n in holders if any(m != n and issubclass(type_named(m), type_named(n)) for m in holders)]
    for name in bases or holders:
        known[name].discard(path)
        too_new[name][path] = "not known to this server"
    return bool(holders)


def _of_view(session: Session, known: Mapping[str, set[str]]) -> Iterator[Any]:
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
        yield from _pages(session, objects, known)
    finally:
        with contextlib.suppress(Lost, vmodl.MethodFault):
            session.invoke(view, "DestroyView")


def _of_refs(session: Session, wanted: dict[str, None], known: Mapping[str, set[str]]) -> Iterator[Any]:
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


def _pages(session: Session, objects: list[Any], known: Mapping[str, set[str]]) -> Iterator[Any]:
    properties = [
        Collector.PropertySpec(type=type_named(name), all=False, pathSet=sorted(paths))
        for name, paths in sorted(known.items())
    ]
    spec = Collector.FilterSpec(objectSet=objects, propSet=properties)
    collector = session.content.propertyCollector
    page = session.invoke(collector, "RetrievePropertiesEx", [spec], Collector.RetrieveOptions(maxObjects=PAGE))
    while page is not None:
        yield from page.objects
        page = session.invoke(collector, "ContinueRetrievePropertiesEx", page.token) if page.token else None


def _add(found: dict[str, Facts], content: Any, too_new: Mapping[str, Mapping[str, str]]) -> None:
    ref = to_ref(content.obj)
    properties = {p.name: _value(p) for p in content.propSet}
    unreadable = {p.path: _reason(p) for p in content.missingSet}
    for name, reasons in too_new.items():
        if isinstance(content.obj, type_named(name)):
            unreadable.update(reasons)
    before = found.get(ref, Facts(ref))
    found[ref] = Facts(ref, {**before.properties, **properties}, {**before.unreadable, **unreadable})


def _reason(missing: Any) -> str:
    if isinstance(missing.fault, vmodl.query.InvalidProperty):
        return "not known to this server"
    return text_of(missing.fault)


# vCenter keeps these three escaped in names (vSphere Web Services API reference, ManagedEntity.name).
_ESCAPED = re.compile(r"%(2f|5c|25)", re.IGNORECASE)


def _value(prop: Any) -> Any:
    value = to_plain(prop.val)
    if prop.name == "name" and isinstance(value, str):
        return _ESCAPED.sub(lambda m: chr(int(m.group(1), 16)), value)
    return value
