"""A listening HTTPS server that can go away and come back on its port, and change its certificate."""

from __future__ import annotations

import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

from vsphere_ai.lab.faults import sockets
from vsphere_ai.lab.tls import server_context


class HttpsListener(ThreadingHTTPServer):
    """Serves HTTPS on 127.0.0.1 only, a thread per connection, with the certificate of a directory."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, handler: type[BaseHTTPRequestHandler], directory: Path, port: int = 0) -> None:
        self.directory = directory
        self.generation = 0
        """Counts the certificates shown; a connection made under an earlier one ends with its next reply."""
        self._ready_at = 0.0
        self._outage: threading.Thread | None = None
        self._over = threading.Event()
        self._guard = threading.Lock()
        self._open: set[socket.socket] = set()
        # bound but never listening: it keeps the port ours while connections are refused
        self._reservation = socket.socket()
        self._reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._reservation.bind(("127.0.0.1", port))
        super().__init__(self._reservation.getsockname(), handler)
        self._context = server_context(directory)
        self.socket = self._wrapped(self.socket)

    def _wrapped(self, listener: socket.socket) -> socket.socket:
        return self._context.wrap_socket(listener, server_side=True, do_handshake_on_connect=False)

    @property
    def port(self) -> int:
        """The TCP port the server listens on."""
        return int(self.server_address[1])

    def start(self) -> None:
        """Serve in a thread of its own."""
        threading.Thread(
            target=self.serve_forever, daemon=True, name="lab-https", kwargs={"poll_interval": 0.1}
        ).start()

    @property
    def starting(self) -> bool:
        """Return whether the service behind the port is not up yet after an outage."""
        return time.monotonic() < self._ready_at

    def serves(self, connection: socket.socket) -> bool:
        """Return whether the service that took a connection still runs: what it had not begun died with it."""
        return connection in self._open

    def show_certificate(self, directory: Path) -> None:
        """Show the certificate of another directory from now on; open connections end with their next reply."""
        self._context.load_cert_chain(directory / "ca.pem", directory / "key.pem")
        self.generation += 1

    def restart(self, refused: float, starting: float) -> None:
        """Drop every connection and refuse new ones for `refused` seconds, then answer 503 for `starting` seconds."""
        with self._guard:
            if self._outage is not None:
                return
            self._over.clear()
            self._outage = threading.Thread(target=self._come_back, args=(refused, starting), daemon=True)
        self.shutdown()
        self.socket.close()
        for connection in tuple(self._open):
            sockets.cut(connection)
        self._open.clear()
        self._outage.start()

    def restore(self) -> None:
        """End an outage now and show the lab's own certificate again."""
        self._over.set()
        outage = self._outage
        if outage is not None and outage.ident is not None:
            outage.join()
        self._ready_at = 0.0
        if self.generation:
            self.show_certificate(self.directory)

    def _come_back(self, refused: float, starting: float) -> None:
        self._over.wait(refused)
        self._ready_at = time.monotonic() + starting
        self.socket = self._wrapped(socket.create_server(("127.0.0.1", self.port), backlog=self.request_queue_size))
        self.start()
        self._outage = None

    def server_close(self) -> None:
        """Close the port for good."""
        super().server_close()
        self._reservation.close()

    def process_request(self, request: socket.socket | tuple[bytes, socket.socket], client_address: Any) -> None:
        """Serve a connection in a thread of its own, and remember it for an outage."""
        self._open.add(cast(socket.socket, request))
        super().process_request(request, client_address)

    def shutdown_request(self, request: socket.socket | tuple[bytes, socket.socket]) -> None:
        """End a connection that has been served."""
        self._open.discard(cast(socket.socket, request))
        super().shutdown_request(request)

    def handle_error(self, request: socket.socket | tuple[bytes, socket.socket], client_address: object) -> None:
        """Keep the log free of clients that hang up or fail the TLS handshake."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)
