"""The HTTPS front: keep-alive, chunked and compressed bodies, the SOAP endpoint and the control endpoint."""

from __future__ import annotations

import contextlib
import gzip
import ssl
import time
import zlib
from collections.abc import Callable, Mapping
from functools import cache
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import TYPE_CHECKING, cast

from pyVmomi import VmomiSupport as Vmomi

from vsphere_ai.lab.faults import sockets
from vsphere_ai.lab.faults.calls import HTTP_TEXT, UNANSWERED
from vsphere_ai.lab.faults.engine import FaultEngine, Fired
from vsphere_ai.lab.faults.rules import LATE, FaultEvent
from vsphere_ai.lab.front.dispatch import Sender, SoapAnswer, answer, under_fault
from vsphere_ai.lab.front.rest import PREFIX
from vsphere_ai.lab.front.rest import answer as rest_answer
from vsphere_ai.lab.listener import HttpsListener

if TYPE_CHECKING:
    from vsphere_ai.lab.front.control import Lab

MAX_BODY = 64 << 20

# seconds a connection may lie idle, a request that has begun may take to arrive, a refused one is still read
IDLE_SECONDS = 900.0
REQUEST_SECONDS = 30.0
LINGER_SECONDS = 0.5


class _BadBody(Exception):
    """The request's body cannot be read; `status` is the HTTP status to answer."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


@cache
def versions_xml(newest: str) -> bytes:
    """Return the document clients choose their API version from."""
    order = [v for v in Vmomi.GetServiceVersions("vim25") if v.startswith("vim.version") and Vmomi.versionIdMap.get(v)]
    order = order[order.index(newest) :]
    prior = "".join(f"<version>{Vmomi.versionIdMap[v]}</version>" for v in order[1:])
    return (
        '<?xml version="1.0" encoding="UTF-8" ?>\n<namespaces version="1.0"><namespace><name>urn:vim25</name>'
        f"<version>{Vmomi.versionIdMap[newest]}</version><priorVersions>{prior}</priorVersions>"
        "</namespace></namespaces>"
    ).encode()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    default_request_version = "HTTP/1.1"  # else a broken first line is answered as HTTP/0.9: without a status
    server_version = "vsphere-ai-lab"
    # one flush per reply and no Nagle, else each call costs 40 ms
    disable_nagle_algorithm = True
    wbufsize = -1
    server: Server
    unread = False
    """Whether a refused request may have more to come than was read."""
    fired: Fired | None = None
    """The fault under which the reply goes out."""

    def setup(self) -> None:
        self.generation = self.server.generation
        if self.server.faults.rules:
            self._meet_faults()
        self.request.settimeout(REQUEST_SECONDS)
        if isinstance(self.request, ssl.SSLSocket):
            self.request.do_handshake()  # here, in the worker: a half-open client must not stop accept()
        super().setup()

    def finish(self) -> None:
        """Read a little of what a refused client still sends: closing at once could take the reply away from it."""
        super().finish()
        end = time.monotonic() + LINGER_SECONDS
        with contextlib.suppress(OSError):
            self.connection.settimeout(LINGER_SECONDS)
            while self.unread and time.monotonic() < end and self.connection.recv(1 << 16):
                pass

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse a request that is none, and close the connection."""
        self.unread = True
        super().send_error(code, message, explain)

    def log_message(self, format: str, *args: object) -> None:
        if self.server.lab.trace:
            super().log_message(format, *args)

    def handle_one_request(self) -> None:
        """Wait long for a request to begin, but not for the rest of it."""
        self.connection.settimeout(IDLE_SECONDS)
        try:
            self.rfile.peek(1)  # type: ignore[attr-defined]
        except TimeoutError:
            self.close_connection = True
            return
        self.connection.settimeout(REQUEST_SECONDS)
        self.deadline = time.monotonic() + REQUEST_SECONDS
        super().handle_one_request()

    def handle_expect_100(self) -> bool:
        """Let the client go on; the reply must not wait in the buffer."""
        result = super().handle_expect_100()
        self.wfile.flush()
        return result

    def __getattr__(self, name: str) -> Callable[[], None]:
        if name.startswith("do_"):
            return self._not_allowed  # else every other HTTP method would be answered 501, as a fault of the server's
        raise AttributeError(name)

    def _not_allowed(self) -> None:
        self._refuse(405, "use GET or POST", headers={"Allow": "GET, HEAD, POST"})

    def _refuse(self, status: int, why: str, *, headers: dict[str, str] | None = None) -> None:
        self.close_connection = self.unread = True
        self._reply(status, why.encode(), "text/plain", headers=headers)

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if self.headers.get("Content-Length", "0") != "0" or "Transfer-Encoding" in self.headers:
            self.close_connection = self.unread = True
        if path == "/sdk/vimServiceVersions.xml" and self.server.serves_api:
            self._send(self._versions())
        elif path.startswith(PREFIX) and self.server.serves_api:
            self._rest("GET", b"")
        else:
            self._control("GET", path, b"")

    def do_DELETE(self) -> None:
        if self.path.startswith(PREFIX) and self.server.serves_api:
            self._rest("DELETE", b"")
        else:
            self._not_allowed()

    def _rest(self, method: str, body: bytes) -> None:
        sender = cast(Mapping[str, str], self.headers), self.client_address[0]
        unavailable = SoapAnswer(*HTTP_TEXT["503"][:2], kind="text/plain")
        asks = not self.server.starting
        self._send(rest_answer(self.server.lab.farm, method, self.path, body, sender) if asks else unavailable)

    def _versions(self) -> SoapAnswer:
        farm, faults = self.server.lab.farm, self.server.faults
        version = farm.scenario.vcenter.api_version
        found = SoapAnswer(200, versions_xml(version))
        fired = faults.meet(FaultEvent("versions")) if faults.rules else None
        return found if fired is None else under_fault(farm, fired, version, lambda _doom: found)

    def do_POST(self) -> None:
        try:
            body = self._body()
        except _BadBody as error:
            self._refuse(error.status, str(error))
            return
        except TimeoutError:
            self._refuse(408, "the request did not arrive in time")
            return
        path = self.path.partition("?")[0]
        if path.startswith(PREFIX) and self.server.serves_api:
            self._rest("POST", body)
        elif path.rstrip("/") != "/sdk" or not self.server.serves_api:
            self._control("POST", path, body)
        elif self.server.starting:
            self._send(SoapAnswer(*HTTP_TEXT["503"][:2], kind="text/plain"))
        else:
            sender = Sender(self.headers, self.client_address[0], lambda: self.server.serves(self.request))  # type: ignore[arg-type]
            self._send(answer(self.server.lab.farm, body, sender))

    def _control(self, method: str, path: str, body: bytes) -> None:
        token, query = self.headers.get("X-Lab-Token", ""), self.path.partition("?")[2]
        status, body = self.server.lab.control(method, path, token, query=query, body=body)
        self._reply(status, body, "application/json")

    def _meet_faults(self) -> None:
        """Let a new connection suffer what rules on `connect` say; raise ConnectionAbortedError when it is gone."""
        fired = self.server.faults.meet(FaultEvent("connect"))
        if fired is None:
            return
        self.server.faults.strike(fired)
        word = fired.rule.do.word
        fired.wait()
        if word in ("drop", "reset", "hang", "restart"):
            self._fall_silent(fired)
            raise ConnectionAbortedError

    def _fall_silent(self, fired: Fired) -> None:
        """End the connection without a (further) word: at once, with RST, or when the client has had enough."""
        self.close_connection = True
        if fired.rule.do.word == "hang":
            sockets.hold(self.request, fired)
        if fired.rule.do.word == "reset":
            sockets.reset(self.request)
        else:
            sockets.cut(self.request)

    def _send(self, result: SoapAnswer) -> None:
        self.fired = result.fired
        if self.fired is not None and self.fired.rule.when != "mid-body" and self.fired.rule.do.word in UNANSWERED:
            self._fall_silent(self.fired)
            return
        headers = {"Set-Cookie": result.cookie} if result.cookie else {}
        self._reply(result.status, result.body, result.kind, headers=headers)
        self.fired = None

    def _write(self, body: bytes) -> None:
        """Write a reply's body, broken off in the middle where a fault says so."""
        if self.fired is None or self.fired.rule.when != "mid-body":
            self.wfile.write(body)
            return
        self.wfile.write(body[: len(body) // 2])
        self.wfile.flush()
        if self.fired.rule.do.word in LATE:
            self.fired.wait()
            self.wfile.write(body[len(body) // 2 :])
        else:
            self._fall_silent(self.fired)

    def _reply(
        self, status: int, body: bytes, kind: str = "text/xml; charset=utf-8", *, headers: dict[str, str] | None = None
    ) -> None:
        self.send_response(status)
        if self.generation != self.server.generation:
            self.close_connection = True  # the certificate is another one since
        accepts = "gzip" in self.headers.get("Accept-Encoding", "")
        if accepts and len(body) > 1024 and self.server.lab.farm.scenario.vcenter.compresses:
            body = gzip.compress(body, 1)
            self.send_header("Content-Encoding", "gzip")
        if self.fired is not None and self.fired.rule.do.word == "truncate":
            body = body[: len(body) // 2]
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self._write(body)
        self.wfile.flush()

    def _body(self) -> bytes:
        coding = self.headers.get("Transfer-Encoding", "").lower()
        squeezed = self.headers.get("Content-Encoding", "").lower()
        if coding not in ("", "chunked"):
            raise _BadBody(501, f"unknown transfer encoding {coding}")
        if squeezed not in ("", "identity", "gzip"):
            raise _BadBody(415, f"unknown content encoding {squeezed}")
        try:
            raw = self._chunks() if coding else self._plain()  # govmomi always sends chunks
            return _unzip(raw) if squeezed == "gzip" else raw
        except (ValueError, zlib.error) as error:
            raise _BadBody(400, f"bad request body: {error}") from error

    def _plain(self) -> bytes:
        return self._read(_size(self.headers.get("Content-Length", "0"), 10))

    def _chunks(self) -> bytes:
        out = bytearray()
        while True:
            size = _size(self.rfile.readline(64).split(b";")[0].decode("ascii").strip(), 16)
            if size == 0:
                self._trailers()
                return bytes(out)
            out += self._read(size, already=len(out))
            self.rfile.readline(4)

    def _trailers(self) -> None:
        for _ in range(100):
            if not self.rfile.readline(1024).strip():
                return
        raise _BadBody(400, "too many trailers")

    def _read(self, size: int, already: int = 0) -> bytes:
        if already + size > MAX_BODY:
            raise _BadBody(413, "request body too large")
        out = bytearray()
        while len(out) < size:
            if time.monotonic() > self.deadline:
                raise TimeoutError
            part = self.rfile.read1(min(size - len(out), 1 << 20))
            if not part:
                raise _BadBody(400, "the request body ends early")
            out += part
        return bytes(out)


def _size(text: str, base: int) -> int:
    """Read a length; Python's int() would also take a sign, spaces and underscores."""
    if not text.isalnum():
        raise ValueError(f"{text!r} is not a length")
    return int(text, base)


def _unzip(raw: bytes) -> bytes:
    stream = zlib.decompressobj(31)
    body = stream.decompress(raw, MAX_BODY)
    if stream.unconsumed_tail:
        raise _BadBody(413, "request body too large")
    if not stream.eof:
        raise _BadBody(400, "the compressed request body ends early")
    return body


class Server(HttpsListener):
    """One HTTPS server of a lab.

    One is the vCenter and suffers the lab's faults; another, with `serves_api` false, is for the user who runs the lab.
    """

    def __init__(
        self, lab: Lab, directory: Path, port: int = 0, *, faults: FaultEngine | None = None, serves_api: bool = True
    ) -> None:
        self.lab, self.serves_api = lab, serves_api
        self.faults = faults or FaultEngine()
        super().__init__(_Handler, directory, port)
