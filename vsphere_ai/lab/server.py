"""The HTTPS front: keep-alive, chunked and compressed bodies, the SOAP endpoint and the control endpoint."""

from __future__ import annotations

import gzip
import socket
import ssl
import sys
import threading
import time
import zlib
from collections.abc import Callable
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

from pyVmomi import VmomiSupport as Vmomi

from vsphere_ai.lab.dispatch import answer
from vsphere_ai.lab.tls import server_context

if TYPE_CHECKING:
    from vsphere_ai.lab.control import Lab

MAX_BODY = 64 << 20

# seconds a connection may lie idle, and a request that has begun may take to arrive
IDLE_SECONDS = 900.0
REQUEST_SECONDS = 30.0


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

    def setup(self) -> None:
        self.request.settimeout(REQUEST_SECONDS)
        if isinstance(self.request, ssl.SSLSocket):
            self.request.do_handshake()  # here, in the worker: a half-open client must not stop accept()
        super().setup()

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
        """Tell the client to go on; the reply must not wait in the buffer."""
        result = super().handle_expect_100()
        self.wfile.flush()
        return result

    def __getattr__(self, name: str) -> Callable[[], None]:
        if name.startswith("do_"):
            return self._not_allowed  # else every other HTTP method would be answered 501, as a fault of the server's
        raise AttributeError(name)

    def _not_allowed(self) -> None:
        self.close_connection = True  # a body that came along is not read
        self._reply(405, b"use GET or POST", "text/plain", headers={"Allow": "GET, HEAD, POST"})

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if self.headers.get("Content-Length", "0") != "0" or "Transfer-Encoding" in self.headers:
            self.close_connection = True  # the body is not read
        if path == "/sdk/vimServiceVersions.xml":
            self._reply(200, versions_xml(self.server.lab.farm.scenario.vcenter.api_version))
        else:
            self._control("GET", path)

    def do_POST(self) -> None:
        try:
            body = self._body()
        except _BadBody as error:
            self.close_connection = True
            self._reply(error.status, str(error).encode(), "text/plain")
            return
        except TimeoutError:
            self.close_connection = True
            self._reply(408, b"the request did not arrive in time", "text/plain")
            return
        path = self.path.partition("?")[0]
        if path.rstrip("/") != "/sdk":
            self._control("POST", path)
            return
        result = answer(self.server.lab.farm, body, self.headers, self.client_address[0])  # type: ignore[arg-type]
        self._reply(result.status, result.body, headers={"Set-Cookie": result.cookie} if result.cookie else {})

    def _control(self, method: str, path: str) -> None:
        status, body = self.server.lab.control(method, path, self.headers.get("X-Lab-Token", ""))
        self._reply(status, body, "application/json")

    def _reply(
        self, status: int, body: bytes, kind: str = "text/xml; charset=utf-8", *, headers: dict[str, str] | None = None
    ) -> None:
        self.send_response(status)
        if len(body) > 1024 and "gzip" in self.headers.get("Accept-Encoding", ""):
            body = gzip.compress(body, 1)
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
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


class Server(ThreadingHTTPServer):
    """The listening HTTPS server of one lab, on 127.0.0.1 only."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, lab: Lab, directory: Path, port: int = 0) -> None:
        self.lab = lab
        super().__init__(("127.0.0.1", port), _Handler)
        context = server_context(directory)
        self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)

    @property
    def port(self) -> int:
        """The TCP port the server listens on."""
        return int(self.server_address[1])

    def start(self) -> None:
        """Serve in a thread of its own."""
        threading.Thread(
            target=self.serve_forever, daemon=True, name="lab-https", kwargs={"poll_interval": 0.1}
        ).start()

    def handle_error(self, request: socket.socket | tuple[bytes, socket.socket], client_address: object) -> None:
        """Keep the log free of clients that hang up or fail the TLS handshake."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)
