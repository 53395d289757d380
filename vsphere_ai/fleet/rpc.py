"""Messages between a coordinator of a fleet and its workers: JSON and bytes over a socket, nothing that is code.

Acknowledgements of intents take this way, and not that over Dask's scheduler, which may die, and takes apart pickles.
Each message is ``LENGTHS HEADER BYTES``; the header is a JSON object. Both sides show a certificate of the fleet, on
loopback too; a token of 128 bits keeps the workers of another fleet run apart.
"""

from __future__ import annotations

import json
import secrets
import socket
import socketserver
import ssl
import struct
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress

from pydantic import JsonValue

from vsphere_ai.errors import Denied, Unreachable, VsphereAiError
from vsphere_ai.fleet.wire import error_of, error_values
from vsphere_ai.model.bounded import json_value

Values = Mapping[str, JsonValue]
Answer = tuple[Values, bytes]
Handle = Callable[[str, Values, bytes], Answer]
"""Answers a message: its operation, its values, its bytes."""
_LENGTHS = struct.Struct(">II")
MOST_HEADER, MOST_BYTES = 1 << 30, 1 << 30
CONNECT, ANSWER = 5.0, 30.0
"""Seconds."""


def send(sock: socket.socket, values: Values, blob: bytes = b"") -> None:
    """Send one message."""
    header = json.dumps(values).encode()
    sock.sendall(_LENGTHS.pack(len(header), len(blob)) + header)
    if blob:
        sock.sendall(blob)


def receive(sock: socket.socket) -> Answer:
    """Receive one message; `EOFError` at the end of the connection, `ValueError` for what is none."""
    head, size = _LENGTHS.unpack(_exactly(sock, _LENGTHS.size))
    if head > MOST_HEADER or size > MOST_BYTES:
        raise ValueError("a message is too long")
    values = json_value(_exactly(sock, head))
    if not isinstance(values, dict):
        raise ValueError("a message is no object")
    return values, _exactly(sock, size)


def _exactly(sock: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = sock.recv(min(size - len(parts), 1 << 20))
        if not part:
            raise EOFError
        parts += part
    return bytes(parts)


class _Connection(socketserver.BaseRequestHandler):
    server: WorkerListener

    def handle(self) -> None:
        """Answer messages until the connection ends; what is not a message of the fleet ends it."""
        sock: socket.socket = self.request
        with suppress(OSError, EOFError, ValueError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            sock.settimeout(ANSWER)
            sock = self.server.context.wrap_socket(sock, server_side=True)
            while True:
                sock.settimeout(None)
                values, blob = receive(sock)
                sock.settimeout(ANSWER)
                send(sock, *self._answer(values, blob))

    def _answer(self, values: Values, blob: bytes) -> Answer:
        if not secrets.compare_digest(str(values.get("token", "")), self.server.token):
            raise ValueError("not of this fleet run")
        try:
            return self.server.answer(str(values.get("op")), values, blob)
        except VsphereAiError as error:
            return {"error": error_values(error)}, b""


class WorkerListener(socketserver.ThreadingTCPServer):
    """Listens for workers, a thread for each connection. A context manager that stops it."""

    daemon_threads, allow_reuse_address = True, True
    request_queue_size = 128

    def __init__(self, host: str, port: int, context: ssl.SSLContext, answer: Handle) -> None:
        self.context, self.answer, self.token = context, answer, secrets.token_hex(16)
        if ":" in host:
            self.address_family = socket.AF_INET6
        super().__init__((host, port), _Connection)
        threading.Thread(target=self.serve_forever, args=(0.1,), name="fleet-listener", daemon=True).start()

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: a peer that ends in the middle of a message is what leases are for."""


class Caller:
    """A connection to a coordinator, made when it is needed and made again when it was lost; one message at a time."""

    def __init__(self, address: tuple[str, int], token: str, context: ssl.SSLContext) -> None:
        self._address, self._token, self._context = address, token, context
        self._lock = threading.Lock()
        self._sock: socket.socket | None = None

    def call(self, op: str, values: Values, blob: bytes = b"", within: float = ANSWER) -> Answer:
        """Send a message and return the answer; `Unreachable` without one, else the error that is the answer."""
        with self._lock:
            try:
                sock = self._sock = self._sock or self._connected(within)
                sock.settimeout(within)
                send(sock, {**values, "op": op, "token": self._token}, blob)
                found, content = receive(sock)
            except (OSError, EOFError, ValueError) as error:
                self._close()
                text = f"the coordinator at {self._address[0]}:{self._address[1]} does not answer"
                why = f"{text}: {error}" if str(error) else text
                if isinstance(error, ssl.SSLError):
                    raise Denied(why, "check the certificates of the fleet", rule="fleet.tls") from error
                remedy = "check that workers reach this address: fleet apply --listen"
                raise Unreachable(why, remedy, rule="fleet.coordinator") from error
        if "error" in found:
            raise error_of(found["error"])
        return found, content

    def _connected(self, within: float) -> socket.socket:
        sock = socket.create_connection(self._address, min(CONNECT, within))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            return self._context.wrap_socket(sock)
        except BaseException:
            sock.close()
            raise

    def _close(self) -> None:
        if self._sock is not None:
            self._sock.close()
            self._sock = None

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._close()
