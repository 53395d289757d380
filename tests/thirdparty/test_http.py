"""HTTP and XML no library would send: each gets a fault or a 4xx, in time, and the server goes on."""

from __future__ import annotations

import gzip
import re
import socket
import time
from types import SimpleNamespace

import pytest
from support.gates import LONG, busy
from thirdparty import wire

HEAD = b"POST /sdk HTTP/1.1\r\nHost: lab\r\nContent-Type: text/xml\r\n"


@pytest.fixture(autouse=True)
def goes_on(bare):
    """Whatever a test does to the server, the next client is answered at once."""
    yield
    began = time.monotonic()
    assert bare.goes_on()
    assert time.monotonic() - began < 20 * busy(), "the server waits 30 s for the rest of a request"


def chunked(*chunks):
    body = b"".join(b"%x\r\n%s\r\n" % (len(c), c) for c in chunks)
    return HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + body + b"0\r\n\r\n"


def plain(body, *headers, length=None):
    lines = b"".join(h + b"\r\n" for h in headers)
    return HEAD + lines + b"Content-Length: %d\r\n\r\n" % (len(body) if length is None else length) + body


BROKEN_HTTP = {
    "unknown path": (b"POST /nowhere HTTP/1.1\r\nHost: lab\r\nContent-Length: 0\r\n\r\n", 404),
    "no path": (b"GET\r\n\r\n", 400),
    "no such version": (b"POST /sdk HTTP/9.9\r\n\r\n", 505),
    "not http": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
    "a long line": (b"GET /" + b"a" * 70000 + b" HTTP/1.1\r\n\r\n", 414),
    "a long header": (HEAD + b"X: " + b"a" * 70000 + b"\r\n\r\n", 431),
    "many headers": (HEAD + b"X: a\r\n" * 200 + b"\r\n", 431),
    "put": (b"PUT /sdk HTTP/1.1\r\nHost: lab\r\nContent-Length: 3\r\n\r\nabc", 405),
    "delete": (b"DELETE /sdk HTTP/1.1\r\nHost: lab\r\n\r\n", 405),
    "options": (b"OPTIONS * HTTP/1.1\r\nHost: lab\r\n\r\n", 405),
    "an invented verb": (b"BREW /sdk HTTP/1.1\r\nHost: lab\r\n\r\n", 405),
    "huge": (plain(b"", length=10**15), 413),
    "length of many digits": (HEAD + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n", 400),
    "negative length": (HEAD + b"Content-Length: -1\r\n\r\n", 400),
    "length with underscore": (HEAD + b"Content-Length: 1_0\r\n\r\n0123456789", 400),
    "negative chunk": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n-5\r\nabc\r\n0\r\n\r\n", 400),
    "chunk without length": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n\r\nabc\r\n", 400),
    "huge chunk": (HEAD + b"Transfer-Encoding: chunked\r\n\r\nfffffffff\r\nabc", 413),
    "endless trailers": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + b"a: b\r\n" * 500, 400),
    "unknown transfer encoding": (HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501),
    "unknown content encoding": (plain(b"abc", b"Content-Encoding: br"), 415),
    "not gzip": (plain(b"abc", b"Content-Encoding: gzip"), 400),
    "half a gzip": (plain(gzip.compress(wire.CLOCK)[:-20], b"Content-Encoding: gzip"), 400),
    "a gzip bomb": (plain(gzip.compress(bytes(65 << 20), 1), b"Content-Encoding: gzip"), 413),
}


@pytest.mark.parametrize(("data", "status"), BROKEN_HTTP.values(), ids=BROKEN_HTTP)
def test_http_that_is_no_request_is_refused_with_a_status(bare, data, status):
    assert bare.raw(data)[0] == status


GOOD = {
    "chunks": chunked(wire.CLOCK[:10], wire.CLOCK[10:]),
    "chunk with extension": HEAD
    + b"Transfer-Encoding: chunked\r\n\r\n%X;a=b\r\n%s\r\n0\r\nX: y\r\n\r\n" % (len(wire.CLOCK), wire.CLOCK),
    "gzip": plain(gzip.compress(wire.CLOCK), b"Content-Encoding: gzip"),
    "identity": plain(wire.CLOCK, b"Content-Encoding: identity"),
    "no SOAPAction": plain(wire.CLOCK),
    "odd SOAPAction": plain(wire.CLOCK, b'SOAPAction: "urn:somebody/else"'),
    "quoted SOAPAction": plain(wire.CLOCK, b'SOAPAction: "urn:vim25/6.7"'),
    "slash and query": plain(wire.CLOCK).replace(b"/sdk ", b"/sdk/?x=y "),
    "http 1.0": plain(wire.CLOCK).replace(b"HTTP/1.1", b"HTTP/1.0"),
    "utf-16": plain(wire.CLOCK.decode().replace("UTF-8", "UTF-16").encode("utf-16")),
    "broken cookie": plain(wire.CLOCK, b"Cookie: vmware_soap_session; ===; \x01"),
}


@pytest.mark.parametrize("data", GOOD.values(), ids=GOOD)
def test_every_way_to_send_a_request_is_understood(bare, data):
    status, text = bare.raw(data)
    assert status == 200, text
    assert "<CurrentTimeResponse" in text


def test_head_answers_like_get_without_a_body(bare):
    path = "/sdk/vimServiceVersions.xml"
    whole, nothing = bare.send(None, verb="GET", path=path), bare.send(None, verb="HEAD", path=path)
    assert (whole[0], nothing[0], nothing[1]) == (200, 200, "")
    assert nothing[2]["Content-Length"] == str(len(whole[1]))
    assert bare.send(None, verb="GET", path="/sdk")[0] == 404


def test_a_client_that_asks_before_it_sends_the_body_is_told_to_go_on(bare):
    with bare.socket() as sock:
        sock.sendall(plain(b"", b"Expect: 100-continue", length=len(wire.CLOCK)))
        assert sock.recv(100).startswith(b"HTTP/1.1 100 ")
        sock.sendall(wire.CLOCK)
        assert sock.recv(100).startswith(b"HTTP/1.1 200 ")


def test_requests_sent_at_once_are_answered_in_turn(bare):
    with bare.socket() as sock:
        sock.sendall(plain(wire.CLOCK) + plain(b"") + plain(wire.CLOCK, b"Connection: close"))
        text = b"".join(iter(lambda: sock.recv(65536), b"")).decode()
    assert re.findall(r"HTTP/1.1 (\d+)", text) == ["200", "500", "200"]


def test_clients_that_send_half_a_request_hold_up_nobody(bare):
    halves = [b"", b"POST /s", HEAD, plain(b"abc", length=10**6), HEAD + b"Transfer-Encoding: chunked\r\n\r\n"]
    hanging = [bare.socket() for _ in range(3) for _ in halves]
    unshaken = [socket.create_connection(("127.0.0.1", bare.port)) for _ in range(5)]
    for sock, half in zip(hanging, halves * 3, strict=True):
        sock.sendall(half)
    for sock in unshaken:
        sock.sendall(b"\x16\x03\x01")
    assert bare.goes_on()
    for sock in (*hanging, *unshaken):
        sock.close()


@pytest.mark.parametrize("data", [b"", b"POST /s", HEAD, plain(b"abc", length=10), chunked(b"abc")[:-12]])
def test_clients_that_hang_up_leave_nothing_behind(bare, data):
    with bare.socket() as sock:
        sock.sendall(data)


@pytest.mark.parametrize(
    ("half", "answer"),
    [
        (plain(b"abc", length=1000), b"HTTP/1.1 408 "),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nab", b"HTTP/1.1 408 "),
        (b"POST /sdk HTT", b""),
        (HEAD, b""),
    ],
)
def test_half_a_request_is_given_up_in_time(monkeypatch, tmp_path, half, answer):
    began = time.monotonic()  # before the connection, from which on the server may count
    with Impatient(monkeypatch, tmp_path) as impatient, impatient.socket() as sock:
        sock.settimeout(25)
        sock.sendall(half)
        assert sock.recv(100).startswith(answer or b"")
        while sock.recv(100):
            pass
        assert 0.2 < time.monotonic() - began < 25 * busy(), "without Impatient it is 30 s"


def test_a_body_that_drips_is_given_up_too(monkeypatch, tmp_path):
    with Impatient(monkeypatch, tmp_path) as impatient, impatient.socket() as sock:
        sock.settimeout(0.05)
        sock.sendall(plain(b"", length=1000))
        got, end = b"", time.monotonic() + LONG
        while not got and time.monotonic() < end:
            sock.sendall(b" ")
            try:
                got = sock.recv(100)
            except TimeoutError:
                continue
        assert got.startswith(b"HTTP/1.1 408 ")


class Impatient:
    """A server in this process that waits 0.3 s for the rest of a request."""

    def __init__(self, monkeypatch, directory):
        from vsphere_ai.lab.front import server
        from vsphere_ai.lab.tls import make_certificate

        monkeypatch.setattr(server, "REQUEST_SECONDS", 0.3)
        make_certificate(directory)
        self.server = server.Server(SimpleNamespace(trace=False), directory)
        self.ca_file = directory / "ca.pem"

    def __enter__(self):
        self.server.start()
        return wire.Wire(self.server.port, self.ca_file)

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
