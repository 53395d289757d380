"""Decoder of answers about the privileges on many objects, straight into plain values; most objects have the same.

Whatever is not certain raises `Unfamiliar`, and pyVmomi reads that answer.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple
from xml.parsers import expat

from vsphere_ai.connect.wire.part_reader import parser
from vsphere_ai.connect.wire.plain import NAMESPACE, to_ref
from vsphere_ai.connect.wire.vmomi import EntityPrivileges, VmomiSupport
from vsphere_ai.connect.wire.wire_types import Unfamiliar

METHOD = "HasPrivilegeOnEntities"
_ENTITY = re.compile(rb'<entity type="(\w+)">([\w.-]+)</entity>')
_ONE = rb"<privAvailability><privId>([\w.]+)</privId><isGranted>(true|false)</isGranted></privAvailability>"
_EACH, _ALL = re.compile(_ONE), re.compile(b"(?:%s)*" % _ONE)
_HEAD = re.compile(rb'<\w+:Body>\s*<%sResponse xmlns="urn:vim25">\s*$' % METHOD.encode())
_ENCODING = re.compile(rb"""encoding\s*=\s*["'](?!utf-8["'])""", re.IGNORECASE)


class MissingOnObject(NamedTuple):
    """An object, and which of the privileges that were asked for the account lacks on it."""

    ref: str
    lacking: tuple[str, ...]


def held_of(answer: EntityPrivileges) -> MissingOnObject:
    """Return what pyVmomi has read of the privileges on an object."""
    lacking = (p.privId for p in answer.privAvailability or () if not p.isGranted)
    return MissingOnObject(to_ref(answer.entity), tuple(lacking))


def privileges(body: bytes) -> tuple[MissingOnObject, ...]:
    """Return what an answer says of each object. Raises Unfamiliar."""
    head, *texts = body.split(b"<returnval>")
    if not texts or b"<!" in body or _ENCODING.search(head) or not _HEAD.search(head):
        raise Unfamiliar("an answer about privileges in another shape")
    last, end, tail = texts[-1].rpartition(b"</returnval>")
    texts[-1] = last + end
    try:
        parser().Parse(head + tail, True)
    except expat.ExpatError as error:
        raise Unfamiliar(f"around the privileges: {error}") from error
    known: dict[bytes, tuple[str, ...]] = {}
    found = []
    for text in texts:
        of = _ENTITY.match(text)
        if of is None or not _is_object(bytes(of[1])):
            raise Unfamiliar("an object in another shape")
        said = bytes(text[of.end() :])  # of a body that is a bytearray
        if said not in known:
            known[said] = _lacking(said)
        found.append(MissingOnObject(f"{of[1].decode()}:{of[2].decode()}", known[said]))
    return tuple(found)


@cache
def _is_object(kind: bytes) -> bool:
    try:
        return issubclass(VmomiSupport.GetWsdlType(NAMESPACE, kind.decode()), VmomiSupport.ManagedObject)
    except KeyError:
        return False


def _lacking(said: bytes) -> tuple[str, ...]:
    listed = said.rstrip().removesuffix(b"</returnval>")
    if listed == said.rstrip() or not _ALL.fullmatch(listed):
        raise Unfamiliar("privileges in another shape")
    return tuple(name.decode() for name, granted in _EACH.findall(listed) if granted == b"false")
