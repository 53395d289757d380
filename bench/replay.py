"""Answers of a vCenter, recorded once and served again, so that every reader gets the same bytes and waits for no one.

A recorder stands between a client and the vCenter while the client reads; ``python bench/replay.py TAPE CERTIFICATES``
serves what it kept, and prints its port.
"""

from __future__ import annotations

import contextlib
import http.client
import re
import socketserver
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import ClassVar

FIRST, NEXT = "RetrievePropertiesEx", "ContinueRetrievePropertiesEx"
VERSIONS = "versions"
CARRIED = ("Content-Type", "SOAPAction", "Cookie")


def method_of(body: bytes) -> str:
    """Return the method that a request calls, and for a page that follows the token that leads to it."""
    method = re.search(rb"<(?:\w+:)?Body[^>]*>\s*<(\w+)", body)[1].decode()
    token = re.search(rb"<token[^>]*>([^<]+)", body) if method == NEXT else None
    return f"{method}.{token[1].decode()}" if token else method


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.answer(VERSIONS, b"")

    def do_POST(self) -> None:
        body = self.body()
        self.answer(method_of(body), body)

    def body(self) -> bytes:
        if self.headers["Transfer-Encoding"] != "chunked":
            return self.rfile.read(int(self.headers["Content-Length"]))
        chunks = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            chunks += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return chunks

    def answer(self, name: str, body: bytes) -> None:
        raise NotImplementedError

    def send(self, body: bytes, status: int = 200, cookie: str | None = None) -> None:
        head = f"HTTP/1.1 {status} -\r\nContent-Type: text/xml; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
        head += f"Set-Cookie: {cookie}\r\n" if cookie else ""
        self.wfile.write(head.encode() + b"\r\n" + body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, handler: type[_Handler], certificates: Path) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates / "ca.pem", certificates / "key.pem")
        self.socket = context.wrap_socket(self.socket, server_side=True)

    def handle_error(self, request: object, client_address: object) -> None:
        """Report what went wrong, but that a client is gone."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


# -- recording


@contextlib.contextmanager
def recorder(tape: Path, certificates: Path, upstream: tuple[int, Path]) -> Iterator[int]:
    """Forward to a vCenter on loopback, given by port and certificate; keep the first answer of each call in `tape`.

    Yields the port to connect to. What is kept is not compressed.
    """
    port, ca = upstream

    class Recorder(_Handler):
        def answer(self, name: str, body: bytes) -> None:
            connection = http.client.HTTPSConnection("127.0.0.1", port, context=_trusting(ca))
            sent = {key: self.headers[key] for key in CARRIED if self.headers[key]}
            connection.request(self.command, self.path, body or None, sent)
            reply = connection.getresponse()
            answered = reply.read()
            connection.close()
            file = tape / f"{name}.xml"
            if reply.status == 200 and not file.exists():
                file.write_bytes(answered)
            self.send(answered, reply.status, reply.headers["Set-Cookie"])

    tape.mkdir(exist_ok=True)
    server = _Server(Recorder, certificates)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


def _trusting(ca: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(ca))


def make_unlike(tape: Path, other: Path) -> None:
    """Copy the answers so that no two VMs have an equal device: another label in each."""
    counter = 0

    def label(found: re.Match[bytes]) -> bytes:
        nonlocal counter
        counter += 1
        return b"%s %d<" % (found[1], counter)

    other.mkdir()
    for file in sorted(tape.iterdir()):
        (other / file.name).write_bytes(re.sub(rb"(<label>[^<]*)<", label, file.read_bytes()))


# -- replaying


class Replay(_Handler):
    """Answers by method, each page by the token that the page before it has."""

    tape: ClassVar[dict[str, bytes]] = {}

    def answer(self, name: str, body: bytes) -> None:
        if name not in self.tape:
            print(f"replay: nothing was recorded for {name}", file=sys.stderr, flush=True)
        self.send(self.tape.get(name, b""), 200 if name in self.tape else 500)


@contextlib.contextmanager
def served(tape: Path, certificates: Path) -> Iterator[int]:
    """Serve a tape in a process of its own; yields its port."""
    argv = [sys.executable, __file__, str(tape), str(certificates)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as server:
        try:
            yield int(server.stdout.readline())
        finally:
            server.kill()


def main(tape: str, certificates: str) -> None:
    """Serve a tape until the process is ended."""
    Replay.tape = {file.stem: file.read_bytes() for file in Path(tape).iterdir()}
    server = _Server(Replay, Path(certificates))
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
