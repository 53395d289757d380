"""Access to the pages of `serve`: which requests are answered, and the headers of every answer.

A server on loopback is reached by every page that a browser shows: what keeps others out is the Host header (a page of
another name that resolves to this machine), a link that works once, and a cookie that no other site sends.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable
from urllib.parse import parse_qs

from starlette.types import ASGIApp, Message, Receive, Scope, Send

HOST = re.compile(rb"(?:127\.0\.0\.1|localhost|\[::1\])(?::[0-9]{1,5})?", re.IGNORECASE)
"""What a browser asks for that was given an address of this machine; also through a tunnel on another port."""
MOST_BROWSERS = 64
"""Browsers that are let in at a time; the one that came first is forgotten."""
LONGEST = 2048
"""Bytes of a path with its query."""
METRICS = "/metrics"
UNKNOWN = "This page needs the link that vsphere-ai serve printed. A link works once; the terminal shows a new one.\n"
FAILED = "The page could not be made; the terminal of vsphere-ai serve has the reason.\n"
HEADERS = {
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


class Keys:
    """The token of the next link, the cookies of browsers, and the token of Prometheus, if there is one."""

    def __init__(self, port: int, metrics: str, announce: Callable[[str], None]) -> None:
        self._port, self._announce = port, announce
        self._metrics = _digest(metrics) if metrics else b""
        self._cookies: list[bytes] = []
        self._token = ""
        self.name = f"vsphere-ai-{port}"
        """Name of the cookie: cookies are not kept apart by port."""
        self.renew()

    def renew(self) -> None:
        """Make and announce another link."""
        self._token = secrets.token_urlsafe(32)
        self._announce(f"http://127.0.0.1:{self._port}/?token={self._token}")

    def take(self, token: str) -> str:
        """Return a cookie for the token of the link, which has been used then; "" for any other token."""
        if not hmac.compare_digest(_digest(token), _digest(self._token)):
            return ""
        cookie = secrets.token_urlsafe(32)
        self._cookies = [*self._cookies, _digest(cookie)][-MOST_BROWSERS:]
        self.renew()
        return cookie

    def is_known(self, cookies: bytes) -> bool:
        """Return whether a Cookie header has the cookie of a browser that was let in."""
        prefix = f"{self.name}=".encode()
        given = [
            _digest(part.strip()[len(prefix) :]) for part in cookies.split(b";") if part.strip().startswith(prefix)
        ]
        return any(hmac.compare_digest(one, known) for one in given for known in self._cookies)

    def may_scrape(self, authorization: bytes) -> bool:
        """Return whether an Authorization header has the token of Prometheus."""
        scheme, _, token = authorization.partition(b" ")
        digest = _digest(token.strip())
        return scheme.lower() == b"bearer" and bool(self._metrics) and hmac.compare_digest(digest, self._metrics)


class HttpAccess:
    """Answers what is refused by itself, and hands everything else on; every answer has the same headers."""

    def __init__(self, app: ASGIApp, keys: Keys, policy: str, report: Callable[[str, Exception], None]) -> None:
        self._app, self._keys, self._report = app, keys, report
        self._headers = [(name.encode(), text.encode()) for name, text in HEADERS.items()]
        self._headers.append((b"content-security-policy", policy.encode()))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            return
        begun = False

        async def guarded(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                message = {**message, "headers": [*message.get("headers", ()), *self._headers]}
            await send(message)

        try:
            await (self._refusal(scope) or self._app)(scope, receive, guarded)
        except Exception as error:
            self._report(scope["path"], error)
            if not begun:
                await plain(500, FAILED)(scope, receive, guarded)

    def _refusal(self, scope: Scope) -> ASGIApp | None:
        """Return the answer to a request that is not let in, or that comes with the token of a link; None to go on."""
        query: bytes = scope["query_string"]
        if len(scope.get("raw_path") or b"") + len(query) > LONGEST:
            return plain(414, "The address is too long.\n")
        hosts = _all(scope, b"host")
        if len(hosts) != 1 or not HOST.fullmatch(hosts[0]):
            return plain(400, "Only 127.0.0.1, localhost and [::1] are names of this server.\n")
        if scope["method"] not in ("GET", "HEAD"):
            return plain(405, "This server changes nothing: GET and HEAD only.\n", ((b"allow", b"GET, HEAD"),))
        known = self._keys.is_known(b";".join(_all(scope, b"cookie")))
        tokens = parse_qs(query.decode("latin-1"), keep_blank_values=True).get("token")
        if tokens:
            return self._entered(scope, tokens, known=known)
        if known or (scope["path"] == METRICS and any(map(self._keys.may_scrape, _all(scope, b"authorization")))):
            return None
        return plain(403, UNKNOWN)

    def _entered(self, scope: Scope, tokens: list[str], *, known: bool) -> ASGIApp:
        """Let a browser in, and take the token out of its address; a HEAD request does not use the link up."""
        cookie = self._keys.take(tokens[0]) if scope["method"] == "GET" and len(tokens) == 1 and not known else ""
        if not cookie and not known:
            return plain(403, UNKNOWN)
        headers = [(b"location", b"/")]
        if cookie:
            flags = "HttpOnly; SameSite=Strict; Path=/"
            headers.append((b"set-cookie", f"{self._keys.name}={cookie}; {flags}".encode()))
        return plain(303, "", headers)


def plain(status: int, text: str, headers: tuple[tuple[bytes, bytes], ...] | list[tuple[bytes, bytes]] = ()) -> ASGIApp:
    """Return an application that answers with a text."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        body = text.encode()
        own = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode()), *headers]
        await send({"type": "http.response.start", "status": status, "headers": own})
        await send({"type": "http.response.body", "body": body})

    return answer


def _all(scope: Scope, name: bytes) -> list[bytes]:
    return [value for key, value in scope["headers"] if key == name]


def _digest(text: str | bytes) -> bytes:
    return hashlib.sha256(text.encode() if isinstance(text, str) else text).digest()
