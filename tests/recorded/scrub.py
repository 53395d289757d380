"""Takes everything secret or personal out of recorded vSphere traffic; a second pass changes nothing."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit
from xml.sax.saxutils import escape

REDACTED = "REDACTED"
URI = "https://vcenter.example"
COOKIE = 'vmware_soap_session="REDACTED"; Path=/; HttpOnly; Secure; '
NIL_UUID = "00000000-0000-0000-0000-000000000000"
MOST_PASSES = 20

# Elements (and properties of these names) whose text is replaced, whatever it is.
TEXTS = {
    REDACTED: (
        "password", "currentPassword", "newPassword", "passphrase", "base64Token", "sessionId", "ticket", "cookie",
        "licenseKey", "sslThumbprint", "thumbprint", "hostThumbprint", "sslCertificate", "serialNumber",
        "identifierValue", "annotation", "ipAddress", "userAgent",
    ),
    "USER": ("userName",),
    NIL_UUID: ("instanceUuid", "serverGuid"),
}  # fmt: skip
KEPT_REQUEST = ("soapaction", "content-type")
KEPT_RESPONSE = ("content-type", "set-cookie")


class CannotScrub(ValueError):
    """Scrubbing would never come to an end."""


Rule = tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]


def _element(name: str) -> str:
    """Match start tag and text of an element; pyVmomi puts attributes into it (``<password versionId="7.0.2.0">``)."""
    return rf"(<(?:\w+:)?(?:{name})(?:\s[^<>]*)?(?<!/)>)[^<]*(?=</)"


def _property(name: str) -> str:
    """Match a property of that name as the property collector sends it."""
    return rf"(<name>(?:[^<]*\.)?(?:{name})</name>\s*<val(?:\s[^<>]*)?(?<!/)>)(?:(?!</val>).)*(?=</val>)"


def _texts() -> list[Rule]:
    rules: list[Rule] = []
    for instead, names in TEXTS.items():
        for pattern in (_element, _property):
            rules.append((re.compile(pattern("|".join(names)), re.DOTALL), rf"\g<1>{instead}"))
    return rules


def _address(found: re.Match[str]) -> str:
    """Stand in for a private address: the same one for the same address, from those RFC 5737 keeps for examples."""
    return f"192.0.2.{1 + int(hashlib.sha256(found[0].encode()).hexdigest(), 16) % 254}"


RULES: tuple[Rule, ...] = (
    (re.compile(r'\sversionId="[^"<>]*"'), ""),
    (re.compile(r"<(\w+:)?Header(?:\s[^<>]*)?>.*?</(\w+:)?Header>|<(\w+:)?Header(?:\s[^<>]*)?/>", re.DOTALL), ""),
    (re.compile(r"<(\w+:)?(Assertion|Security)(?=[\s>]).*?</(\w+:)?\2>", re.DOTALL), ""),
    *_texts(),
    # the key of a session is as good as its cookie; the name that follows it tells that this is one
    (re.compile(r"(<key>)[^<]*(?=</key>\s*<userName>)"), rf"\g<1>{REDACTED}"),
    (re.compile(r"(<userName>[^<]*</userName>\s*<fullName>)[^<]*(?=</fullName>)"), r"\g<1>USER"),
    (re.compile(r"\bsession\[[^\]<>]*\]"), "session[0]"),
    # the id of a session of the Automation API is all of its answer
    (re.compile(r'\A\s*"[^"]*"\s*\Z'), f'"{REDACTED}"'),
    # settings of a VM or a server: what guestinfo holds is the guest's own (cloud-init puts passwords there)
    (
        re.compile(
            r"(<key>(?:guestinfo\.[^<]*|[^<]*(?:password|passwd|secret|token|license|credential)[^<]*)</key>"
            r"\s*<value(?:\s[^<>]*)?(?<!/)>)[^<]*(?=</value>)",
            re.IGNORECASE,
        ),
        rf"\g<1>{REDACTED}",
    ),
    (re.compile(_property("certificate"), re.DOTALL), r"\g<1>"),
    (re.compile(r"(<(?:\w+:)?certificate(?:\s[^<>]*)?(?<!/)>)[^<]*(?=</)"), r"\g<1>"),
    (re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----.*?-----END \1-----", re.DOTALL), REDACTED),
    (re.compile(r"\b(?:[0-9A-Fa-f]{2}:){15,}[0-9A-Fa-f]{2}\b"), REDACTED),
    (re.compile(r"\b(?:[0-9A-Z]{5}-){4}[0-9A-Z]{5}\b"), REDACTED),
    (
        re.compile(
            r"(?<![\d.])(?:10\.\d{1,3}|127\.\d{1,3}|169\.254|172\.(?:1[6-9]|2\d|3[01])|192\.168)(?:\.\d{1,3}){2}(?![\d.])"
        ),
        _address,
    ),
)


class Scrubber:
    """Scrubs texts, requests and responses. `known` maps secrets and names of this recording to what stands for them.

    CannotScrub when a stand-in holds one of the secrets itself.
    """

    def __init__(self, known: Mapping[str, str] | None = None) -> None:
        pairs = {**(known or {}), **{escape(real): fake for real, fake in (known or {}).items()}}
        self.known = tuple(sorted(((r, f) for r, f in pairs.items() if r), key=lambda pair: -len(pair[0])))
        for real, _ in self.known:
            if any(real in other for _, other in self.known):
                raise CannotScrub("what stands for a secret holds that secret, or another: choose other stand-ins")

    def text(self, text: str) -> str:
        """Return a text without secrets. Repeated until nothing changes, because vcrpy scrubs what it loads again."""
        for _ in range(MOST_PASSES):
            before = text
            for real, fake in self.known:
                text = text.replace(real, fake)
            for pattern, instead in RULES:
                text = pattern.sub(instead, text)
            if text == before:
                return text
        raise CannotScrub("this text cannot be scrubbed: every pass finds something new")

    def body(self, body: bytes | str | None) -> bytes | str | None:
        """Return a body without secrets, bytes as bytes."""
        if isinstance(body, bytes):
            return self.text(body.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
        return self.text(body) if body else body

    def request(self, request):
        """Scrub a request of vcrpy: no address, no header that is not needed, a clean body."""
        query = urlsplit(request.uri).query
        request.uri = URI + request.path + (f"?{query}" if query else "")
        request.headers = {k: v for k, v in request.headers.items() if k.lower() in KEPT_REQUEST}
        request.body = self.body(request.body)
        return request

    def response(self, response):
        """Scrub a response of vcrpy."""
        kept = {k: v for k, v in response["headers"].items() if k.lower() in KEPT_RESPONSE}
        response["headers"] = {k: [COOKIE] if k.lower() == "set-cookie" else v for k, v in kept.items()}
        body = self.body(response["body"]["string"])
        response["body"]["string"] = body
        if body is not None:
            response["headers"]["Content-Length"] = [str(len(body))]
        return response
