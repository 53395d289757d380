"""Server of `serve`: on loopback, in a thread of its own, ended within two seconds whatever browsers do."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from vsphere_ai.errors import UsageError
from vsphere_ai.web.access import HEADERS
from vsphere_ai.web.live import LiveStream

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
def served(
    app: ASGIApp, sock: socket.socket, live: LiveStream
) -> Iterator[Callable[[str, Mapping[str, object]], None]]:
    """Serve an application while the block runs, and end its streams then; yield what publishes an event."""
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

    async def work() -> None:
        following = asyncio.ensure_future(live.follow())
        await server.serve(sockets=[sock])
        following.cancel()

    def publish(kind: str, data: Mapping[str, object]) -> None:
        loop.call_soon_threadsafe(live.publish, kind, data)

    thread = threading.Thread(target=lambda: loop.run_until_complete(work()), name="server", daemon=True)
    thread.start()
    try:
        yield publish
    finally:
        server.should_exit = True
        loop.call_soon_threadsafe(live.close)
        thread.join(GRACE + 0.7)
