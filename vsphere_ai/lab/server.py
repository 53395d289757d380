"""The HTTPS front: keep-alive, chunked and compressed bodies, the SOAP endpoint and the control endpoint."""

from __future__ import annotations

import gzip
import socket
import ssl
import sys
import threading
import zlib
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
    server_version = "vsphere-ai-lab"
    # one flush per reply and no Nagle, else each call costs 40 ms
    disable_nagle_algorithm = True
    wbufsize = -1
    server: Server

    def setup(self) -> None:
        self.request.settimeout(900)
        if isinstance(self.request, ssl.SSLSocket):
            self.request.do_handshake()  # here, in the worker: a half-open client must not stop accept()
        super().setup()

    def log_message(self, format: str, *args: object) -> None:
        if self.server.lab.trace:
            super().log_message(format, *args)

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
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
        path = self.path.partition("?")[0]
        if path.rstrip("/") != "/sdk":
            self._control("POST", path)
            return
        result = answer(self.server.lab.farm, body, self.headers, self.client_address[0])  # type: ignore[arg-type]
        self._reply(result.status, result.body, cookie=result.cookie)

    def _control(self, method: str, path: str) -> None:
        status, body = self.server.lab.control(method, path, self.headers.get("X-Lab-Token", ""))
        self._reply(status, body, "application/json")

    def _reply(self, status: int, body: bytes, kind: str = "text/xml; charset=utf-8", *, cookie: str = "") -> None:
        self.send_response(status)
        if len(body) > 1024 and "gzip" in self.headers.get("Accept-Encoding", ""):
            body = gzip.compress(body, 1)
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if cookie:
            self.send_header("Set-Cookie", cookie)
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def _body(self) -> bytes:
        try:
            chunked = self.headers.get("Transfer-Encoding", "").lower() == "chunked"  # govmomi always sends chunked
            raw = self._chunks() if chunked else self._plain()
            if self.headers.get("Content-Encoding", "").lower() == "gzip":
                return zlib.decompressobj(31).decompress(raw, MAX_BODY)
            return raw
        except (ValueError, zlib.error) as error:
            raise _BadBody(400, f"bad request body: {error}") from error

    def _plain(self) -> bytes:
        length = int(self.headers.get("Content-Length", 0))
        if not 0 <= length <= MAX_BODY:
            raise _BadBody(413, "request body too large")
        return self.rfile.read(length)

    def _chunks(self) -> bytes:
        out = bytearray()
        while True:
            size = int(self.rfile.readline(64).split(b";")[0], 16)
            if size == 0:
                while self.rfile.readline(1024).strip():
                    pass  # trailers
                return bytes(out)
            if len(out) + size > MAX_BODY:
                raise _BadBody(413, "request body too large")
            out += self.rfile.read(size)
            self.rfile.readline(4)


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
