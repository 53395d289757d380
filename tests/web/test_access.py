"""Access to the pages of `serve`, over real sockets: names, methods, links, cookies, bearers, headers."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from support.sites import TOKEN, Browser, site

from vsphere_ai.errors import UsageError
from vsphere_ai.web import access
from vsphere_ai.web.server import listening

PATHS = ("/", "/estate", "/gpus", "/paths", "/drift", "/runs", "/runs/x", "/events", "/live.js", "/metrics", "/nothing")
WANTED = {
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


@pytest.fixture(scope="module")
def served():
    with site() as made:
        yield made


@pytest.fixture(scope="module")
def inside(served):
    browser = Browser(served.port)
    assert browser.enter(served.links[-1]).status == 303
    return browser


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_nothing_is_shown_without_a_cookie(served, path, method):
    answer = Browser(served.port).get(path, method=method)
    assert answer.status == 403
    assert "vc1" not in answer.text


def test_a_link_works_once_and_the_next_one_is_announced(served):
    link, before = served.links[-1], len(served.links)
    first, second = Browser(served.port), Browser(served.port)
    answer = first.enter(link)
    assert (answer.status, answer.headers["location"], answer.text) == (303, "/", "")
    parts = answer.headers["set-cookie"].split("; ")
    assert parts[0].startswith(f"vsphere-ai-{served.port}=")
    assert parts[1:] == ["HttpOnly", "SameSite=Strict", "Path=/"]
    assert len(parts[0].partition("=")[2]) == 43
    assert second.enter(link).status == 403
    assert "set-cookie" not in second.enter(link).headers
    assert len(served.links) == before + 1
    assert first.get("/").status == 200
    assert second.enter(served.links[-1]).status == 303
    assert first.cookie != second.cookie


def test_a_link_opened_by_many_at_once_lets_one_in(served):
    link = served.links[-1]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: Browser(served.port).enter(link).status, range(24)))
    assert sorted(answers) == [303] + [403] * 23


def test_a_head_request_and_one_who_is_inside_use_no_link_up(served, inside):
    link, before = served.links[-1], len(served.links)
    token = link[link.index("/?") :]
    assert Browser(served.port).get(token, method="HEAD").status == 403
    assert inside.get(token).status == 303
    assert len(served.links) == before
    assert Browser(served.port).enter(link).status == 303


@pytest.mark.parametrize(
    "query", ["?token=", "?token=x", "?token={0}&token={0}", "?token={0}x", "?Token={0}", "?token=%ff"]
)
def test_other_tokens_are_refused(served, query):
    token = served.links[-1].partition("token=")[2]
    answer = Browser(served.port).get(f"/{query.format(token)}")
    assert answer.status == 403
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("cookie", ["", "x", "{name}=", "{name}=wrong", "{name}", "other={value}", "{name}2={value}"])
def test_other_cookies_are_refused(served, inside, cookie):
    name, _, value = inside.cookie.partition("=")
    sent = {"Cookie": cookie.format(name=name, value=value)}
    assert Browser(served.port).get("/", headers=sent).status == 403
    mixed = {"Cookie": f"a=b; {name}=old; {inside.cookie}; c=d"}
    assert Browser(served.port).get("/", headers=mixed).status == 200


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST:80", "[::1]", "[::1]:8080", "localhost:65535"])
def test_names_of_this_machine(inside, host):
    assert inside.get("/", host=host).status == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil.example", "127.0.0.1@evil.example",
     "xlocalhost", "127.0.0.2", "0.0.0.0", "[::]", "localhost:", "127.0.0.1:123456", "2130706433", "localhost\t."],
)  # fmt: skip
def test_another_name_is_refused_although_it_leads_here(inside, host):
    for path in ("/", "/metrics", "/events", "/live.js"):
        answer = inside.get(path, host=host, headers={"Authorization": f"Bearer {TOKEN}"})
        assert answer.status == 400
        assert "vsphere_ai" not in answer.text


def test_another_name_uses_no_link_up(served):
    link = served.links[-1]
    browser = Browser(served.port)
    assert browser.get(link[link.index("/?") :], host="evil.example").status == 400
    assert browser.enter(link).status == 303


@pytest.mark.parametrize("hosts", [(), ("127.0.0.1", "evil.example"), ("evil.example", "127.0.0.1")])
def test_no_name_or_two_are_refused(inside, hosts):
    assert inside.get("/", host=hosts).status == 400


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "get"])
def test_only_get_and_head(inside, method):
    for path in ("/", "/metrics", "/nothing"):
        answer = inside.get(path, method=method, headers={"Authorization": f"Bearer {TOKEN}", "Content-Length": "0"})
        assert answer.status == 405
        assert answer.headers["allow"] == "GET, HEAD"


@pytest.mark.parametrize("path", [p for p in PATHS if p != "/events"])
def test_a_head_request_has_the_headers_and_no_body(inside, path):
    got, head = inside.get(path), inside.get(path, method="HEAD")
    assert head.text == ""
    assert head.status == got.status
    assert head.headers["content-type"] == got.headers["content-type"]
    assert inside.get("/events", method="HEAD").headers["content-type"].startswith("text/event-stream")


def answers_of_every_sort(served, inside):
    yield from (inside.get(path, method="HEAD" if path == "/events" else "GET") for path in PATHS)
    yield Browser(served.port).get("/")
    yield inside.get("/", host="evil.example")
    yield inside.get("/", method="POST")
    yield inside.get("/?token=x")
    yield inside.get("/" + "x" * 3000)


def test_every_answer_has_the_headers(served, inside):
    statuses = set()
    for answer in answers_of_every_sort(served, inside):
        statuses.add(answer.status)
        assert {name: answer.headers[name] for name in WANTED} == WANTED
        rules = dict(rule.split(" ", 1) for rule in answer.headers["content-security-policy"].split("; "))
        assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == rules["frame-ancestors"] == "'none'"
        assert rules["connect-src"] == "'self'"
        assert "unsafe" not in answer.headers["content-security-policy"]
        assert "server" not in answer.headers
        assert "access-control-allow-origin" not in answer.headers
        assert all(len(answer.headers.get_all(name)) == 1 for name in WANTED)
    assert statuses == {200, 303, 400, 403, 404, 405, 414}


def test_what_is_not_http_is_refused_with_the_headers(served):
    for sent in (
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n",
        b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
        b"GET /\r\n\r\n",
    ):
        with socket.create_connection(("127.0.0.1", served.port), timeout=5) as sock:
            sock.sendall(sent)
            said = b""
            while part := sock.recv(65536):
                said += part
        assert said.startswith(b"HTTP/1.1 400 ")
        assert b"cache-control: no-store" in said.lower()
        assert b"uvicorn" not in said.lower()


def test_an_address_that_does_not_end_and_headers_that_do_not_are_cut_off(served, inside):
    assert inside.get("/?" + "a" * 3000).status == 414
    with socket.create_connection(("127.0.0.1", served.port), timeout=5) as sock:
        sock.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 40_000)
        assert sock.recv(65536).startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize(
    "path",
    ["/nothing", "/runs/", "/estate/", "/../etc/passwd", "/static/x", "/%2e%2e/", "//evil.example/", "/runs/a/b",
     "/RUNS", "/favicon.ico", "/runs/%3Cscript%3E", "/runs/..%2f..%2fetc"],
)  # fmt: skip
def test_unknown_addresses(inside, path):
    answer = inside.get(path)
    assert answer.status == 404
    assert answer.text.startswith("There is no such ")
    assert "location" not in answer.headers
    assert "script" not in answer.text.lower()


@pytest.mark.parametrize("sent", [f"Bearer {TOKEN}", f"bearer {TOKEN}", f"BEARER  {TOKEN} "])
def test_prometheus_gets_in_to_the_metrics_and_nowhere_else(served, sent):
    prometheus = Browser(served.port)
    answer = prometheus.get("/metrics", headers={"Authorization": sent})
    assert answer.status == 200
    assert "vsphere_ai_up" in answer.text
    assert "set-cookie" not in answer.headers
    for path in set(PATHS) - {"/metrics"}:
        assert prometheus.get(path, headers={"Authorization": sent}).status == 403


@pytest.mark.parametrize(
    "sent", [TOKEN, f"Basic {TOKEN}", "Bearer ", "Bearer", f"Bearer {TOKEN[:-1]}", f"Bearer {TOKEN}x"]
)
def test_other_bearers_are_refused(served, sent):
    assert Browser(served.port).get("/metrics", headers={"Authorization": sent}).status == 403


def test_without_a_token_of_prometheus_no_bearer_gets_in():
    with site(metrics="") as made:
        for sent in ("Bearer ", "Bearer", f"Bearer {TOKEN}"):
            assert Browser(made.port).get("/metrics", headers={"Authorization": sent}).status == 403


def test_the_browser_that_came_first_is_forgotten(monkeypatch):
    monkeypatch.setattr(access, "MOST_BROWSERS", 2)
    with site() as made:
        browsers = [Browser(made.port) for _ in range(3)]
        for each in browsers:
            each.enter(made.links[-1])
        assert [each.get("/").status for each in browsers] == [403, 200, 200]


def test_tokens_are_of_256_bits_and_never_the_same():
    links = []
    for _ in range(50):
        access.Keys(1, "", links.append)
    tokens = {link.partition("token=")[2] for link in links}
    assert len(tokens) == 50
    assert all(len(token) == 43 for token in tokens)


def test_a_page_that_fails_is_reported_and_answered():
    async def broken(scope, receive, send):
        raise KeyError("a secret of the program")

    with site(app=broken) as made:
        browser = Browser(made.port)
        browser.enter(made.links[-1])
        answer = browser.get("/gpus")
        assert answer.status == 500
        assert "terminal" in answer.text
        assert "secret" not in answer.text
        assert answer.headers["cache-control"] == "no-store"
        [(path, error)] = made.faults
        assert (path, type(error)) == ("/gpus", KeyError)


def test_it_listens_on_loopback_only_and_on_a_port_that_is_free():
    with listening(0) as first:
        address, port = first.getsockname()
        assert address == "127.0.0.1"
        with pytest.raises(UsageError) as raised:
            listening(port)
    assert raised.value.rule == "usage.port"
    assert str(port) in raised.value.message
    assert "--port" in raised.value.remedy


def test_a_connection_from_another_address_of_this_machine_is_not_taken(served):
    found = SimpleNamespace(taken=True)
    with socket.socket() as sock:
        sock.settimeout(2)
        found.taken = sock.connect_ex(("127.0.0.2", served.port)) == 0
    assert not found.taken
