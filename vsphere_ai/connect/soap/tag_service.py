"""Tag service of a vCenter: which vSphere tags there are, and to which objects they are attached.

Tags are not in the SOAP API; they are in the vSphere Automation API, which vCenter 7.0 U2 and later serve below
``/api``. The same certificate is trusted and the same account used as for SOAP, in a session of its own that ends at
once. Shapes of requests and answers are those of Broadcom's API reference; no real vCenter was asked
(unverified).
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import ssl
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Self
from urllib.parse import quote

from vsphere_ai.connect import tls
from vsphere_ai.connect.soap.outage import WaitLimits
from vsphere_ai.connect.tls import Endpoint
from vsphere_ai.errors import Denied, StepFailed, Unparsed, Unreachable, VsphereAiError
from vsphere_ai.model.bounded import json_value
from vsphere_ai.security import redaction

SESSION, CATEGORIES, TAGS = "/api/session", "/api/cis/tagging/category", "/api/cis/tagging/tag"
OF_CATEGORY = f"{TAGS}?action=list-tags-for-category"
ASSOCIATION = "/api/cis/tagging/tag-association"
ATTACHED = f"{ASSOCIATION}?action=list-attached-objects-on-tags"
LARGEST = 32 << 20
"""Bytes of one answer; 10,000 objects of a tag take less than 1 MiB."""
AT_ONCE = 100
"""Tags of one question for the objects they are attached to."""
ON_OBJECTS = f"{ASSOCIATION}?action=list-attached-tags-on-objects"
ATTACH, DETACH = "?action=attach", "?action=detach"
CHANGES = (ATTACH, DETACH)
REFUSALS = (http.HTTPStatus.BAD_REQUEST, http.HTTPStatus.NOT_FOUND)
"""Of a change: the tag is not for such an object, or its category allows one; the tag or the object is gone."""
ATTEMPTS = 3
_PIECE = 1 << 16
_REMEDY = "Check the vSphere Automation API (service vapi-endpoint) of vCenter, or leave tags out."


@dataclass(frozen=True)
class Tags:
    """Names of all categories, and ``Category/name`` of tags with references of the objects they are attached to.

    Tags are those of the categories that were asked for; one that does not match has no objects here.
    """

    categories: tuple[str, ...] = ()
    objects: dict[str, frozenset[str]] = field(default_factory=dict)


def read_tags(endpoint: Endpoint, context: ssl.SSLContext, limits: WaitLimits, wanted: Iterable[str]) -> Tags:
    """Return what the account may see of the wanted tags, each ``Category/name`` with ``*`` for any characters.

    The number of requests depends on the categories and their tags, not on the objects. `Denied`, `Unreachable` or
    `Unparsed` where the service gives no answer.
    """
    patterns = tuple(text.partition("/")[::2] for text in sorted(set(wanted)))
    with TagService(endpoint, context, limits) as service:
        categories = {identity: service.name_of(CATEGORIES, identity) for identity in service.listed(CATEGORIES)}
        found: dict[str, tuple[str, bool]] = {}
        for category, name in categories.items():
            own = [tag for of, tag in patterns if fnmatchcase(name, of)]
            for identity in service.listed(OF_CATEGORY, {"category_id": category}) if own and name else ():
                tag = service.name_of(TAGS, identity)
                if tag:
                    found[identity] = f"{name}/{tag}", any(fnmatchcase(tag, each) for each in own)
        attached = service.attached([identity for identity, (_, matches) in found.items() if matches])
    names = tuple(sorted(name for name in categories.values() if name))
    return Tags(names, {name: attached.get(identity, frozenset()) for identity, (name, _) in found.items()})


def answers(endpoint: Endpoint, context: ssl.SSLContext, limits: WaitLimits) -> int:
    """Return how many categories the account sees, asked with one login."""
    with TagService(endpoint, context, limits) as service:
        return len(service.listed(CATEGORIES))


class TagService:
    """One session with the service; redirects are not followed, and what got no answer is sent again.

    That changes nothing twice: attaching and detaching have no effect on a tag that is, or is not, attached already
    (Broadcom's API reference, TagAssociation).
    """

    def __init__(self, endpoint: Endpoint, context: ssl.SSLContext, limits: WaitLimits) -> None:
        self.endpoint, self.context, self.limits = endpoint, context, limits
        self.connection: http.client.HTTPSConnection | None = None
        self.token = ""

    def __enter__(self) -> Self:
        endpoint = self.endpoint
        if ":" in endpoint.username:
            raise self.denied("a user name with ':' cannot log in there")
        login = base64.b64encode(f"{endpoint.username}:{endpoint.password}".encode()).decode()
        redaction.register(login)
        try:
            made = self.repeated(lambda: self.exchange("POST", SESSION, headers={"Authorization": f"Basic {login}"}))
        except BaseException:
            self.drop()
            raise
        if not isinstance(made, str) or not made or not made.isprintable():
            raise self.unparsed("its session has no id")
        redaction.register(made)
        self.token = made
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(VsphereAiError, OSError, http.client.HTTPException):
            self.exchange("DELETE", SESSION)
        self.drop()

    def drop(self) -> None:
        """Close the connection; the next question opens another one."""
        if self.connection is not None:
            self.connection.close()
        self.connection = None

    def listed(self, path: str, body: object = None) -> list[str]:
        """Return the ids that a question is answered with."""
        found = self.ask(path, body)
        if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
            raise self.unparsed(f"{path} is not answered with a list of ids")
        return found

    def name_of(self, path: str, identity: str) -> str:
        """Return the name of a category or tag; empty when it is gone or not to be seen."""
        return str(self.described(path, identity).get("name", ""))

    def described(self, path: str, identity: str) -> dict[str, object]:
        """Return a category or tag as the service describes it; empty when it is gone or not to be seen."""
        found = self.ask(f"{path}/{quote(identity, safe=':')}", missing={})
        if not isinstance(found, dict) or not isinstance(found.get("name", ""), str):
            raise self.unparsed(f"{path} is not answered with a name")
        return found

    def attached(self, tags: list[str]) -> dict[str, frozenset[str]]:
        """Return the references of the objects that tags are attached to, by the tags' ids."""
        found: dict[str, frozenset[str]] = {}
        for at in range(0, len(tags), AT_ONCE):
            answer = self.ask(ATTACHED, {"tag_ids": tags[at : at + AT_ONCE]})
            try:
                found |= {of["tag_id"]: frozenset(f"{o['type']}:{o['id']}" for o in of["object_ids"]) for of in answer}  # type: ignore[attr-defined]
            except (KeyError, TypeError, AttributeError):
                raise self.unparsed(f"{ATTACHED} is not answered with objects") from None
        return found

    def attached_to(self, objects: list[tuple[str, str]]) -> dict[str, frozenset[str]]:
        """Return the ids of the tags that are attached to objects (type, id), by the objects' ids."""
        found: dict[str, frozenset[str]] = {}
        for at in range(0, len(objects), AT_ONCE):
            asked = [{"type": kind, "id": identity} for kind, identity in objects[at : at + AT_ONCE]]
            answer: Any = self.ask(ON_OBJECTS, {"object_ids": asked})
            try:
                found |= {str(of["object_id"]["id"]): frozenset(map(str, of["tag_ids"])) for of in answer}
            except (KeyError, TypeError, AttributeError):
                raise self.unparsed(f"{ON_OBJECTS} is not answered with tags") from None
        return found

    def change(self, tag: str, action: str, kind: str, identity: str) -> None:
        """Attach a tag to an object, or detach it; `StepFailed` where the service refuses it."""
        self.ask(f"{ASSOCIATION}/{quote(tag, safe=':')}{action}", {"object_id": {"type": kind, "id": identity}})

    def ask(self, path: str, body: object = None, missing: object = None) -> object:
        """Return the answer to a request that may be repeated; `missing` where there is no such thing."""
        method = "GET" if body is None else "POST"
        return self.repeated(lambda: self.exchange(method, path, body, missing=missing))

    def repeated(self, ask: Callable[[], object]) -> object:
        """Return an answer; where none comes the question is repeated."""
        for attempt in range(1, ATTEMPTS):
            try:
                return ask()
            except Unparsed:
                raise
            except Unreachable:
                self.drop()
                time.sleep(self.limits.backoff * attempt)
        return ask()

    def exchange(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        headers: dict[str, str] | None = None,
        missing: object = None,
    ) -> object:
        """Send one request and return the JSON of its answer; `missing` where what is asked for is not there."""
        own = {"Accept": "application/json", **(headers or {})}
        own |= {"vmware-api-session-id": self.token} if self.token else {}
        own |= {"Content-Type": "application/json"} if body is not None else {}
        try:
            connection = self.connected()
            connection.request(method, path, None if body is None else json.dumps(body), own)
            answer = connection.getresponse()
            content = self.content(answer)
        except ssl.SSLError as error:
            raise tls.refusal(self.endpoint, error) from error
        except (OSError, http.client.HTTPException) as error:
            self.drop()
            raise self.unreachable(tls.describe(error)) from error
        if answer.status in (403, 404) and missing is not None:
            return missing
        self.require(answer, path)
        try:
            return json_value(content) if content else None
        except ValueError:
            raise self.unparsed(f"{path} is not answered with JSON") from None

    def connected(self) -> http.client.HTTPSConnection:
        """Return the connection, opened where it is not."""
        if self.connection is None:
            at, limits = self.endpoint, self.limits
            made = http.client.HTTPSConnection(at.address, at.port, timeout=limits.connect, context=self.context)
            made.connect()
            made.sock.settimeout(limits.answer)
            self.connection = made
        return self.connection

    def content(self, answer: http.client.HTTPResponse) -> bytes:
        """Return the bytes of an answer; one that is too large or takes too long is an error."""
        parts, size, until = [], 0, time.monotonic() + 2 * self.limits.answer
        while piece := answer.read1(_PIECE):
            parts.append(piece)
            size += len(piece)
            if size > LARGEST:
                self.drop()
                raise self.unparsed(f"an answer is larger than {LARGEST >> 20} MiB")
            if time.monotonic() > until:
                raise TimeoutError("timed out")
        answer.close()  # or the connection could not be used again
        return b"".join(parts)

    def require(self, answer: http.client.HTTPResponse, path: str) -> None:
        """Raise what the status of an answer stands for, where that is no success."""
        status = answer.status
        if status < 300:
            return
        said, changes = redaction.untrusted(f"{status} {answer.reason}".strip()), path.endswith(CHANGES)
        if changes and status in REFUSALS:
            raise StepFailed(f"{self.endpoint}: the tag service refuses the change: {said}", "plan again")
        if status == http.HTTPStatus.UNAUTHORIZED:
            raise self.denied("it does not accept the account" if path == SESSION else "it has ended the session")
        if status == http.HTTPStatus.FORBIDDEN:
            raise self.denied(f"the account may not {'assign' if changes else 'read'} tags")
        if status < 400:
            raise self.unparsed(f"it redirects ({said}), which is not followed")
        if status == http.HTTPStatus.NOT_FOUND:
            raise self.unparsed(f"there is no {path.partition('?')[0]}")
        raise self.unreachable(f"it answers {said}")

    def denied(self, why: str) -> Denied:
        """Return the error of an account that lacks rights."""
        text = f"{self.endpoint}: the tag service refuses: {why}"
        remedy = "Give the account these rights on tags, as a global permission, or leave tags out."
        return Denied(text, remedy, rule="tags.denied")

    def unreachable(self, why: str) -> Unreachable:
        """Return the error of a service that gives no answer."""
        return Unreachable(f"{self.endpoint}: the tag service does not answer: {why}", _REMEDY, rule="tags.unreachable")

    def unparsed(self, why: str) -> Unparsed:
        """Return the error of an answer that cannot be read."""
        return Unparsed(f"{self.endpoint}: the tag service cannot be read: {why}", _REMEDY, rule="tags.malformed")
