"""Running `serve`: one reader, one server, and the link that is announced, until a signal ends it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from vsphere_ai import app
from vsphere_ai.app.events import Emit, Remark
from vsphere_ai.errors import UsageError
from vsphere_ai.report.pages.formats.html import policy
from vsphere_ai.security.redaction import untrusted
from vsphere_ai.web.access import HttpAccess, Keys
from vsphere_ai.web.live import Event, LiveStream
from vsphere_ai.web.routes import application
from vsphere_ai.web.server import listening, served

SHORTEST = 16
"""Characters of the token of Prometheus, at least."""


@dataclass(frozen=True)
class ServeRequest:
    """What to serve: the farm of the request, read every `interval` seconds, on a port (0: a free one).

    `metrics_token` lets Prometheus in at ``/metrics`` as a bearer; without it only browsers are.
    """

    farm: app.FarmRequest = field(default_factory=app.FarmRequest)
    port: int = 0
    interval: float = 60.0
    metrics_token: str = ""


def serve(request: ServeRequest, emit: Emit, announce: Callable[[str], None]) -> None:
    """Serve until a signal ends the process; `announce` gets the link of the next browser."""
    token = request.metrics_token
    if token and len(token) < SHORTEST:
        raise UsageError(
            f"the token of Prometheus has fewer than {SHORTEST} characters", "make one: openssl rand -hex 32",
            rule="usage.token",
        )  # fmt: skip
    with app.farm_reader(request.farm, request.interval, emit) as reader, listening(request.port) as sock:
        live = LiveStream(_changes(app.RunFollower()))
        inner = application(lambda: reader.state, live)
        keys = Keys(sock.getsockname()[1], token, announce)
        source = policy("'self'")

        def report(path: str, error: Exception) -> None:
            emit(Remark("serve.page", untrusted(f"error: the page {path} failed: {type(error).__name__}: {error}")))

        guarded = HttpAccess(inner, keys, f"{source}; frame-ancestors 'none'", report)
        with served(guarded, sock, live) as publish:
            reader.listen(lambda: publish("reading", {"readings": reader.state.readings}))
            reader.run()


def _changes(follower: app.RunFollower) -> Callable[[], list[Event]]:
    return lambda: [("run", vars(each)) for each in follower.changes()]
