"""vSphere Automation API of the lab: sessions, and the tags of hosts and VMs, as vCenter serves them below ``/api``.

Shapes are those of Broadcom's API reference for 7.0 U2 and 8.0; a real vCenter was not asked (unverified).
"""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import uuid
from collections.abc import Mapping
from typing import TypeVar
from urllib.parse import parse_qs, unquote

from pyVmomi import VmomiSupport as Vmomi

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.faults.rules import FaultEvent
from vsphere_ai.lab.front.dispatch import SoapAnswer, under_fault
from vsphere_ai.lab.managed import denied
from vsphere_ai.lab.scenario import TagCategory
from vsphere_ai.lab.store import ManagedObject
from vsphere_ai.lab.tagging import Tagging
from vsphere_ai.lab.tasks import Doom

PREFIX = "/api/"
ASSIGN, ON_OBJECT = "InventoryService.Tagging.AttachTag", "InventoryService.Tagging.ObjectAttachable"
"""Privileges that attaching and detaching take: on the tag, which the lab looks for at the root, and on the object."""
T = TypeVar("T")
FIRST = "vim.version.v7_0_2_0"
"""vCenter serves ``/api`` since 7.0 U2; before, another form of it below ``/rest``."""
_KIND = "application/json"


class _Error(Exception):
    """An answer with an error of the API."""

    def __init__(self, status: int, kind: str, text: str) -> None:
        super().__init__(text)
        self.status, self.kind = status, kind


def answer(farm: Farm, method: str, target: str, body: bytes, sender: tuple[Mapping[str, str], str]) -> SoapAnswer:
    """Answer a request below ``/api``; `sender` is its headers and address."""

    def carry_out(_doom: Doom | None) -> SoapAnswer:
        with farm.store.lock:
            made = _answered(farm, method, target, body, sender)
        farm.traffic.answered(f"{method} {target.partition('?')[0]}", len(made.body))
        return made

    fired = farm.faults.meet(FaultEvent("rest", f"{method} {target}")) if farm.faults.rules else None
    if fired is None:
        return carry_out(None)
    return under_fault(farm, fired, farm.scenario.vcenter.api_version, carry_out)


def _answered(farm: Farm, method: str, target: str, body: bytes, sender: tuple[Mapping[str, str], str]) -> SoapAnswer:
    path, _, query = target.partition("?")
    action = parse_qs(query).get("action", [""])[0]
    try:
        if not Vmomi.IsChildVersion(farm.scenario.vcenter.api_version, FIRST):
            raise _Error(404, "NOT_FOUND", f"no {path}")
        if (method, path) == ("POST", "/api/session"):
            return _json(201, _login(farm, *sender))
        token = sender[0].get("vmware-api-session-id", "")
        session = farm.tagging.sessions.get(token)
        if session is None or farm.sessions.find(session.token) is None:
            raise _Error(401, "UNAUTHENTICATED", "Authentication required.")
        if (method, path) == ("DELETE", "/api/session"):
            farm.sessions.end(farm.tagging.sessions.pop(token))
            return SoapAnswer(204, b"", kind=_KIND)
        if method == "POST" and action in ("attach", "detach"):
            _change(farm, unquote(path), action, _object(body))
            return SoapAnswer(204, b"", kind=_KIND)
        return _json(200, _read(farm, method, unquote(path), action, _object(body)))
    except _Error as error:
        said = {"args": [], "default_message": str(error), "id": f"com.vmware.vapi.{error.kind.lower()}"}
        return _json(error.status, {"error_type": error.kind, "messages": [said]})


def _json(status: int, value: object) -> SoapAnswer:
    return SoapAnswer(status, json.dumps(value).encode(), kind=_KIND)


def _login(farm: Farm, headers: Mapping[str, str], peer: str) -> str:
    scheme, _, given = headers.get("Authorization", "").partition(" ")
    try:
        user, _, password = base64.b64decode(given, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        user = password = ""
    known = scheme == "Basic" and user == farm.scenario.vcenter.username
    if not (known and hmac.compare_digest(password.encode(), farm.password.encode())):
        farm.sessions.refused_logins += 1
        raise _Error(401, "UNAUTHENTICATED", "Authentication required.")
    token = uuid.uuid4().hex
    farm.tagging.sessions[token] = farm.sessions.start(user, peer, headers.get("User-Agent", ""))
    return token


def _object(body: bytes) -> dict[str, object]:
    try:
        found = json.loads(body) if body else {}
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise _Error(400, "INVALID_ARGUMENT", "The body is no JSON object.")
    return found


def _change(farm: Farm, path: str, action: str, body: dict[str, object]) -> None:
    """Attach or detach a tag; neither is an error where it is so already."""
    tagging, tag = farm.tagging, path.removeprefix("/api/cis/tagging/tag-association/")
    name = str(_tag(tagging, tag)["name"])
    mo = _managed(farm, body.get("object_id"))
    if mo is None:
        raise _Error(404, "NOT_FOUND", "The object is not there.")
    for at, privilege in ((farm.named["rootFolder"], ASSIGN), (mo, ON_OBJECT)):
        if denied(farm, at, privilege):
            raise _Error(403, "UNAUTHORIZED", f"The user lacks {privilege}.")
    attached = tagging.attached.setdefault(tag, [])
    if (mo in attached) == (action == "attach"):
        return
    if action == "detach":
        attached.remove(mo)
    elif why := tagging.why_not(tag, mo):
        raise _Error(400, "INVALID_ARGUMENT", why)
    else:
        attached.append(mo)
    farm.record(mo, f"{action.capitalize()}Tag", tag=f"{tagging.categories[tagging.tags[tag][0]]}/{name}")


def _managed(farm: Farm, identity: object) -> ManagedObject | None:
    """Return the object that a request names by type and id; None where it is not there, or of another type."""
    if not isinstance(identity, dict):
        raise _Error(400, "INVALID_ARGUMENT", "The field object_id is missing.")
    found = farm.store.objects.get(str(identity.get("id")))
    return found if found is not None and found.type_name == identity.get("type") else None


def _tags_on(farm: Farm, body: dict[str, object]) -> list[dict[str, object]]:
    ids = _given(body, "object_ids", list)
    there = ((identity, _managed(farm, identity)) for identity in ids)
    return [{"object_id": i, "tag_ids": farm.tagging.of_object(mo)} for i, mo in there if mo is not None]


def _read(farm: Farm, method: str, path: str, action: str, body: dict[str, object]) -> object:
    tagging = farm.tagging
    category, tag, association = (f"/api/cis/tagging/{word}" for word in ("category", "tag", "tag-association"))
    if (method, path) == ("GET", category):
        return list(tagging.categories)
    if (method, path, action) == ("GET", tag, ""):
        return list(tagging.tags)
    if method == "GET" and path.startswith(f"{category}/"):
        return _category(tagging, path.removeprefix(f"{category}/"))
    if method == "GET" and path.startswith(f"{tag}/"):
        return _tag(tagging, path.removeprefix(f"{tag}/"))
    if (method, path, action) == ("POST", tag, "list-tags-for-category"):
        of = _given(body, "category_id", str)
        _category(tagging, of)
        return [identity for identity, (own, _) in tagging.tags.items() if own == of]
    if (method, path, action) == ("POST", association, "list-attached-objects-on-tags"):
        ids = _given(body, "tag_ids", list)
        return [{"tag_id": each, "object_ids": tagging.objects(each)} for each in ids if each in tagging.tags]
    if (method, path, action) == ("POST", association, "list-attached-tags-on-objects"):
        return _tags_on(farm, body)
    raise _Error(404, "NOT_FOUND", f"The lab does not serve {method} {path}.")


def _given(body: dict[str, object], name: str, kind: type[T]) -> T:
    found = body.get(name)
    if not isinstance(found, kind):
        raise _Error(400, "INVALID_ARGUMENT", f"The field {name} is missing.")
    return found


def _category(tagging: Tagging, identity: str) -> object:
    if identity not in tagging.categories:
        raise _Error(404, "NOT_FOUND", "The category is not there.")
    name = tagging.categories[identity]
    limit = tagging.limits.get(identity) or TagCategory(name)
    cardinality = "SINGLE" if limit.single else "MULTIPLE"
    more = {"description": "", "cardinality": cardinality, "associable_types": list(limit.types), "used_by": []}
    return {"id": identity, "name": name, **more}


def _tag(tagging: Tagging, identity: str) -> dict[str, object]:
    if identity not in tagging.tags:
        raise _Error(404, "NOT_FOUND", "The tag is not there.")
    category, name = tagging.tags[identity]
    return {"id": identity, "category_id": category, "name": name, "description": "", "used_by": []}
