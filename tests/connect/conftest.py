"""A scripted vCenter: hand-written SOAP over TLS on 127.0.0.1, independent of pyVmomi."""

from __future__ import annotations

import contextlib
import hashlib
import re
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import trustme

from vsphere_ai.connect.soap.outage import WaitLimits
from vsphere_ai.connect.tls import Endpoint

VERSIONS = """<?xml version="1.0"?><namespaces version="1.0"><namespace><name>urn:vim25</name><version>{}</version>
<priorVersions><version>6.7</version><version>6.5</version></priorVersions></namespace></namespaces>"""
ENVELOPE = (
    '<?xml version="1.0" encoding="UTF-8"?><soapenv:Envelope '
    'xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/" xmlns:xsd="http://www.w3.org/2001/XMLSchema" '
    'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><soapenv:Body>{}</soapenv:Body></soapenv:Envelope>'
)
CONTENT = """<returnval><rootFolder type="Folder">group-d1</rootFolder>
<propertyCollector type="PropertyCollector">pc</propertyCollector><viewManager type="ViewManager">vm</viewManager>
<about><name>VMware vCenter Server</name><fullName>VMware vCenter Server 7.0.2</fullName><vendor>VMware, Inc.</vendor>
<version>7.0.2</version><build>17694817</build><osType>linux-x64</osType><productLineId>vpx</productLineId>
<apiType>{}</apiType><apiVersion>7.0.2.0</apiVersion><instanceUuid>11-22</instanceUuid></about>
<sessionManager type="SessionManager">sm</sessionManager></returnval>"""
SESSION = """<returnval><key>52</key><userName>u</userName><fullName>u</fullName>
<loginTime>2026-01-01T00:00:00Z</loginTime>
<lastActiveTime>2026-01-01T00:00:00Z</lastActiveTime><locale>en</locale><messageLocale>en</messageLocale></returnval>"""

Answer = Callable[[str], str]


class Drop(Exception):
    """Close the connection instead of answering."""


class Status(Exception):
    """Answer with this HTTP status."""


@dataclass
class FakeVCenter:
    """Answers by method name; `calls` lists every method that arrived, `script` replaces answers."""

    tls: ssl.SSLContext
    api: str = "7.0.2.0"
    api_type: str = "VirtualCenter"
    calls: list[str] = field(default_factory=list)
    bodies: list[str] = field(default_factory=list)
    script: dict[str, Answer] = field(default_factory=dict)
    received: int = 0
    address: tuple[str, int] = ("", 0)
    hang: threading.Event = field(default_factory=threading.Event)
    connections: list[socket.socket] = field(default_factory=list)

    def count(self, method: str) -> int:
        return self.calls.count(method)

    def cut_connections(self) -> None:
        for one in self.connections:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        self.connections.clear()

    def endpoint(self, **trust: object) -> Endpoint:
        return Endpoint(self.address[0], self.address[1], "svc", "secret<&>", **trust)  # type: ignore[arg-type]

    def answer(self, method: str, body: str) -> str:
        if method in self.script:
            return self.script[method](body)
        return self.built_in(method)

    def built_in(self, method: str) -> str:
        answers = {
            "RetrieveServiceContent": CONTENT.format(self.api_type),
            "Login": SESSION,
            "CurrentTime": "<returnval>2026-05-01T10:00:00Z</returnval>",
        }
        return answers.get(method, "")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    fake: FakeVCenter

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self.fake.received += 1
        self._send(200, VERSIONS.format(self.fake.api))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.fake.received += 1
        found = re.search(r"<(?:\w+:)?Body><(\w+)", body)
        assert found is not None
        method = found[1]
        self.fake.calls.append(method)
        self.fake.bodies.append(body)
        try:
            inner = self.fake.answer(method, body)
        except Drop:
            self.close_connection = True
            self.connection.close()
            return
        except Status as status:
            self._send(int(str(status)), "no")
            return
        if inner.startswith("<soapenv:Fault"):
            self._send(500, ENVELOPE.format(inner))
        elif inner.startswith("RAW"):
            self._send(200, inner[3:])
        else:
            self._send(200, ENVELOPE.format(f'<{method}Response xmlns="urn:vim25">{inner}</{method}Response>'))

    def _send(self, status: int, text: str) -> None:
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/xml")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    fake: FakeVCenter

    def get_request(self) -> tuple[socket.socket, tuple[str, int]]:
        raw, peer = self.socket.accept()
        secure = self.fake.tls.wrap_socket(raw, server_side=True, do_handshake_on_connect=False)
        self.fake.connections.append(secure)
        return secure, peer

    def handle_error(self, request: object, client_address: object) -> None:
        pass


@dataclass
class Authority:
    """A CA of our own and the server contexts it makes."""

    ca: trustme.CA
    file: Path

    def context(self, *names: str, **validity: object) -> ssl.SSLContext:
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.ca.issue_cert(*(names or ("127.0.0.1",)), **validity).configure_cert(made)  # type: ignore[arg-type]
        return made


def certificate_of(address: tuple[str, int]) -> str:
    """SHA-256 of what a server shows now, taken without our own code."""
    pem = ssl.get_server_certificate(address)
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem)).hexdigest()


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    ca = trustme.CA()
    path = tmp_path_factory.mktemp("ca") / "ca.pem"
    ca.cert_pem.write_to_path(str(path))
    return Authority(ca, path)


@pytest.fixture(scope="session")
def good_tls(authority: Authority) -> ssl.SSLContext:
    return authority.context()


@pytest.fixture
def serve() -> Iterator[Callable[[ssl.SSLContext], FakeVCenter]]:
    """Start scripted vCenters; they stop after the test."""
    servers: list[_Server] = []

    def start(tls: ssl.SSLContext) -> FakeVCenter:
        fake = FakeVCenter(tls)
        server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"fake": fake}))
        server.fake = fake
        fake.address = ("127.0.0.1", server.server_address[1])
        servers.append(server)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return fake

    yield start
    for server in servers:
        server.fake.hang.set()
        server.shutdown()
        server.server_close()


@pytest.fixture
def fake(serve: Callable[[ssl.SSLContext], FakeVCenter], good_tls: ssl.SSLContext) -> FakeVCenter:
    """A vCenter with a certificate of the `authority` for 127.0.0.1."""
    return serve(good_tls)


@pytest.fixture
def limits() -> WaitLimits:
    return WaitLimits(connect=2.0, answer=2.0, patience=1.0, backoff=0.02)


@pytest.fixture
def drop() -> Exception:
    """A scripted answer: the connection is closed without one."""
    return Drop()


@pytest.fixture
def busy() -> Exception:
    """A scripted answer: a gateway says that vCenter is not ready."""
    return Status("503")
