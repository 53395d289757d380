"""Routes of `serve`: pages, the stream of events, the script of live pages, and metrics."""

from __future__ import annotations

from collections.abc import Callable
from importlib import resources
from typing import TYPE_CHECKING

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route, Router

from vsphere_ai.errors import UsageError, VsphereAiError
from vsphere_ai.report.pages.formats.html import Frame, PageLink, page
from vsphere_ai.report.pages.values import Report
from vsphere_ai.security.redaction import clean
from vsphere_ai.web.access import plain
from vsphere_ai.web.farm_pages import TITLES, farm_report, overview
from vsphere_ai.web.metrics import exposition
from vsphere_ai.web.run_pages import NEWEST, Runs, run_page, runs_report

if TYPE_CHECKING:
    from vsphere_ai.app.watching.farm_readings import FarmState
    from vsphere_ai.web.live import LiveStream

PAGES = {"/": "Overview", **{f"/{name}": title for name, title in TITLES.items()}, "/runs": "Runs"}
SCRIPT = "/live.js"


class Pages:
    """Answers for each address. Nothing here asks vCenter: `state` is what the reader has read last."""

    def __init__(self, state: Callable[[], FarmState], live: LiveStream) -> None:
        self._state, self._live, self._runs = state, live, Runs()
        self._script = resources.files("vsphere_ai.web").joinpath("live.js").read_text("utf-8")

    def routes(self) -> list[Route]:
        """Return the routes; every other address is not found."""
        return [
            Route("/", self.overview),
            *(Route(f"/{name}", self.farm) for name in TITLES),
            Route("/runs", self.runs),
            Route("/runs/{run}", self.run),
            Route("/events", self.events),
            Route(SCRIPT, self.script),
            Route("/metrics", self.metrics),
        ]

    def overview(self, request: Request) -> Response:
        """Answer with the first page."""
        return self._page(request, overview(self._state(), self._runs.section(NEWEST)), "runs")

    def farm(self, request: Request) -> Response:
        """Answer with a page on the farm."""
        return self._page(request, farm_report(request.url.path[1:], self._state()), "farm")

    def runs(self, request: Request) -> Response:
        """Answer with the list of runs."""
        return self._page(request, runs_report(self._runs), "runs")

    def run(self, request: Request) -> Response:
        """Answer with a run; only its whole name counts."""
        name = request.path_params["run"]
        if name not in {row[0] for row in self._runs.rows()}:
            return PlainTextResponse("There is no such run.\n", 404)
        try:
            report, alive = run_page(name)
        except UsageError:
            return PlainTextResponse("There is no such run.\n", 404)
        except VsphereAiError as error:
            return PlainTextResponse(clean(f"{error.message}\n"), 500)
        return self._page(request, report, name, (PageLink("Reload", f"/runs/{name}"),) if alive else ())

    async def events(self, request: Request) -> Response:
        """Answer with the stream of events, after the id that the browser has seen last."""
        if self._live.is_full:
            return PlainTextResponse("Too many browsers listen.\n", 503, {"retry-after": "30"})
        if request.method == "HEAD":
            return Response(media_type="text/event-stream")
        after = request.headers.get("last-event-id") or request.query_params.get("after", "")
        return StreamingResponse(self._live.stream(after), media_type="text/event-stream")

    def script(self, _: Request) -> Response:
        """Answer with the script of live pages."""
        return Response(self._script, media_type="text/javascript")

    def metrics(self, _: Request) -> Response:
        """Answer with metrics for Prometheus."""
        return Response(exposition(self._state(), self._runs.rows()), media_type=CONTENT_TYPE_LATEST)

    def _page(self, request: Request, report: Report, follow: str, more: tuple[PageLink, ...] = ()) -> Response:
        own = "/runs" if request.url.path.startswith("/runs/") else request.url.path
        links = tuple(PageLink(title, href, current=href == own) for href, title in PAGES.items())
        foot = "Read-only. The page follows what it shows; without JavaScript, reload it."
        frame = Frame((*links, *more), (SCRIPT,), {"follow": follow}, policy=False, foot=foot)
        return HTMLResponse(clean(page(report, frame)))


def application(state: Callable[[], FarmState], live: LiveStream) -> Router:
    """Return the application; errors are those of `Access`."""
    nothing = plain(404, f"There is no such page. There are: {', '.join(PAGES)}, /metrics\n")
    return Router(Pages(state, live).routes(), redirect_slashes=False, default=nothing)
