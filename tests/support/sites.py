"""The pages of `serve` over real sockets: a server in this process on a given state, and a client with cookies."""

from __future__ import annotations

import http.client
import json
import re
import time
from contextlib import contextmanager
from dataclasses import dataclass

from support.gates import LONG
from vsphere_ai.app.watching.farm_readings import FarmState
from vsphere_ai.model.world import World
from vsphere_ai.report.pages.formats.html import policy
from vsphere_ai.web.access import HttpAccess, Keys
from vsphere_ai.web.live import LiveStream
from vsphere_ai.web.routes import application
from vsphere_ai.web.server import listening, served

TOKEN = "token-of-prometheus-0123"
WORLD = World("vc1", "vc1.example:443", "ops@vsphere.local", "inventory.yml", "")


@dataclass(frozen=True)
class Answer:
    status: int
    headers: http.client.HTTPMessage
    text: str


class Browser:
    """A client of a server on loopback: `get(path)`, with the cookie it was given."""

    def __init__(self, port):
        self.port, self.cookie = port, ""

    def get(self, path, *, method="GET", host="", headers=(), cookie=True):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for each in [host] if isinstance(host, str) else host:
                connection.putheader("Host", each or f"127.0.0.1:{self.port}")
            if cookie and self.cookie:
                connection.putheader("Cookie", self.cookie)
            for name, value in dict(headers).items():
                connection.putheader(name, value)
            connection.endheaders()
            answer = connection.getresponse()
            return Answer(answer.status, answer.headers, answer.read().decode())
        finally:
            connection.close()

    def enter(self, link):
        """Open a link and keep the cookie."""
        answer = self.get(link[link.index("/?") :])
        if "set-cookie" in answer.headers:
            self.cookie = answer.headers["set-cookie"].partition(";")[0]
        return answer

    @contextmanager
    def events(self, after="", *, header=True):
        """The stream of events; after an id as browsers send it when they come back, or as a page asks at first."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            path = "/events" if header or not after else f"/events?after={after}"
            sent = {"Cookie": self.cookie, **({"Last-Event-ID": after} if header and after else {})}
            connection.request("GET", path, headers=sent)
            answer = connection.getresponse()
            assert answer.status == 200, answer.status
            yield Events(answer)
        finally:
            connection.close()


class Events:
    """What a stream has sent: (id, kind, data), one after the other."""

    def __init__(self, answer):
        self.answer = answer
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert self._lines() == ["retry: 2000"]

    def _lines(self):
        found = []
        while line := self.answer.readline().decode().rstrip("\n"):
            found.append(line)
        return found

    def next(self, seconds=LONG):
        """The next event; None once the server has ended the stream."""
        end = time.monotonic() + seconds
        while True:
            assert time.monotonic() < end, "no event in time"
            lines = self._lines()
            if not lines:
                return None
            fields = dict(line.split(": ", 1) for line in lines if not line.startswith(":"))
            if fields:
                return fields["id"], fields["event"], json.loads(fields["data"])


class Site:
    """A server in this process: `state` may be replaced, `links` were announced, `faults` were reported."""

    def __init__(self, port, live, publish):
        self.port, self.live, self.publish = port, live, publish
        self.browser = Browser(port)


@contextmanager
def site(state=None, *, metrics=TOKEN, look=lambda: [], app=None):
    """Serve a state, or what `state()` returns."""
    state = state or FarmState(WORLD)
    links, faults = [], []
    with listening(0) as sock:
        live, port = LiveStream(look), sock.getsockname()[1]
        inner = app or application(state if callable(state) else lambda: state, live)
        guarded = HttpAccess(
            inner,
            Keys(port, metrics, links.append),
            f"{policy(chr(39) + 'self' + chr(39))}; frame-ancestors 'none'",
            lambda path, error: faults.append((path, error)),
        )
        with served(guarded, sock, live) as publish:
            made = Site(port, live, publish)
            made.links, made.faults = links, faults
            yield made


def until(true, seconds=LONG):
    """Wait until a function answers something true, and return it."""
    end = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < end, "did not happen in time"
        time.sleep(0.02)
    return found


def link_of(process):
    """The newest link that a process has printed."""
    assert process.until(lambda out: any("?token=" in line for line in out)), process.said
    return [line for line in process.out if re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{43}", line)][-1]


def entered(process):
    """A browser that has opened the link of a process."""
    used = process.__dict__.setdefault("used", set())
    until(lambda: link_of(process) not in used)  # the next one is printed once the last one is used
    link = link_of(process)
    used.add(link)
    browser = Browser(int(re.search(r":(\d+)/", link)[1]))
    assert browser.enter(link).status == 303
    return browser
