"""Server of `serve`: on loopback, in a thread of its own, ended within two seconds whatever browsers do."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from vsphere_ai.errors import UsageError
from vsphere_ai.web.access import HEADERS

ADDRESS = "127.0.0.1"
GRACE = 1
"""Seconds that answers under way may take once the server ends."""


class _Protocol(H11Protocol):
    """HTTP/1.1; what is no HTTP gets the headers of every other answer."""

    def send_400_response(self, msg: str) -> None:
        headers = [("content-type", "text/plain; charset=utf-8"), ("connection", "close"), *HEADERS.items()]
        for event in (
            h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
            h11.Data(data=b"This is no request of HTTP.\n"),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


def listening(port: int) -> socket.socket:
    """Return a socket that listens on loopback; on a free port where it is 0."""
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((ADDRESS, port))
        made.listen(128)
    except OSError as error:
        made.close()
        raise UsageError(
            f"port {port} of this machine cannot be used: {error.strerror}",
            "give another one with --port, or none for a free one",
            rule="usage.port",
        ) from error
    return made


@contextmanager
def served(app: Callable[..., object], sock: socket.socket, close: Callable[[], None]) -> Iterator[None]:
    """Serve an application while the block runs; `close`, in the thread of the event loop, ends its streams."""
    logging.getLogger("uvicorn.error").addHandler(logging.NullHandler())
    config = uvicorn.Config(
        app,
        http=_Protocol,
        ws="none",
        loop="asyncio",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=GRACE,
        h11_max_incomplete_event_size=16 * 1024,
    )
    server = uvicorn.Server(config)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(
        target=lambda: loop.run_until_complete(server.serve(sockets=[sock])), name="server", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        loop.call_soon_threadsafe(close)
        thread.join(GRACE + 0.7)
