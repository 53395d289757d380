"""Answers that are packed with gzip, which vCenter does from 8.0.3 on: only what the answer says of itself counts."""

from __future__ import annotations

import gzip
import http.server
import re
import ssl
import threading

import pytest

from vsphere_ai.connect.soap.session import SoapSession
from vsphere_ai.connect.soap.stub import Stub
from vsphere_ai.connect.tls import Endpoint
from vsphere_ai.connect.vcenter import VCenter
from vsphere_ai.connect.wire import answers
from vsphere_ai.connect.wire.vmomi import vim

ENVELOPE = (
    '<?xml version="1.0"?><soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/" '
    'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><soapenv:Body>{}</soapenv:Body></soapenv:Envelope>'
)
NOON = "2026-05-01T12:00:00Z"
BODY = ENVELOPE.format(f'<CurrentTimeResponse xmlns="urn:vim25"><returnval>{NOON}</returnval></CurrentTimeResponse>')


@pytest.fixture
def answering(good_tls, authority, limits):
    """Ask a server for the time that answers with this body and these headers; return what it was asked with, too."""
    servers = []

    def ask(body, *headers, chunk=0):
        asked = []

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                asked.append(self.headers.get("Accept-Encoding"))
                self.send_response(200)
                self.send_header("Content-Type", "text/xml")
                for name, value in headers:
                    self.send_header(name, value)
                if chunk:
                    self.send_header("Transfer-Encoding", "chunked")
                else:
                    self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                for at in range(0, len(body), chunk) if chunk else ():
                    piece = body[at : at + chunk]
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                self.wfile.write(b"0\r\n\r\n" if chunk else body)

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        server.socket = good_tls.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        servers.append(server)
        endpoint = Endpoint("127.0.0.1", server.server_address[1], "svc", "x", ca_file=authority.file)
        context = ssl.create_default_context(cafile=str(authority.file))
        stub = Stub(endpoint, "vim.version.v7_0_2_0", context, limits)
        service = vim.ServiceInstance("ServiceInstance", stub)
        times = [service.CurrentTime().isoformat() for _ in range(2)]  # the second one on the same connection
        stub.DropConnections()
        return times, asked

    yield ask
    for server in servers:
        server.shutdown()
        server.server_close()


READ = ["2026-05-01T12:00:00+00:00"] * 2
PACKED = gzip.compress(BODY.encode())


COMMENT = BODY.replace("<soapenv:Body>", "<!-- by a proxy --><?a proxy?><soapenv:Body>")


@pytest.mark.parametrize("chunk", [0, 7])
@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (BODY.encode(), ()),
        (BODY.encode(), [("Content-Encoding", "identity")]),
        (COMMENT.encode(), ()),
        (gzip.compress(COMMENT.encode()), [("Content-Encoding", "gzip")]),
        (PACKED, [("Content-Encoding", "gzip")]),
        (PACKED, [("Content-Encoding", "X-GZIP")]),
        (PACKED + b"\0" * 9, [("Content-Encoding", "gzip")]),
    ],
    ids=["as it is", "identity", "with a comment", "gzip with a comment", "gzip", "x-gzip", "gzip with padding"],
)
def test_it_is_read_as_it_says(answering, body, headers, chunk):
    assert answering(body, *headers, chunk=chunk) == (READ, ["gzip", "gzip"])


CUT = http.client.IncompleteRead
WRONG = {
    "gzip that is not said to be one": (PACKED, "", answers.NotSoap, "no SOAP|UTF-8"),
    "text that is said to be gzip": (BODY.encode(), "gzip", answers.zlib.error, "header"),
    "cut off": (PACKED[:-20], "gzip", CUT, None),
    "cut off before its checksum": (PACKED[:-8], "gzip", CUT, None),
    "a wrong checksum": (PACKED[:-8] + b"\0" * 8, "gzip", answers.zlib.error, "data check"),
    "a wrong length": (PACKED[:-4] + b"\0" * 4, "gzip", answers.zlib.error, "length check"),
    "damaged": (PACKED[:40] + b"\xff" * 8 + PACKED[48:], "gzip", answers.zlib.error, None),
    "zlib": (answers.zlib.compress(BODY.encode()), "deflate", answers.NotSoap, "'deflate', which was not asked for"),
    "two ways": (PACKED, "gzip, br", answers.NotSoap, "which was not asked for"),
    "nothing": (b"", "gzip", CUT, None),
}


@pytest.mark.parametrize("what", WRONG)
def test_it_is_refused(answering, what):
    body, packing, error, says = WRONG[what]
    with pytest.raises(error, match=says):
        answering(body, *([("Content-Encoding", packing)] if packing else ()))


def test_a_bomb_is_refused_before_it_is_unpacked(answering, monkeypatch):
    unpacked = []
    unpack = answers.PlainResponse._unpacked
    monkeypatch.setattr(
        answers.PlainResponse, "_unpacked", lambda *own: (unpacked.append(unpack(*own)), unpacked[-1])[1]
    )
    bomb = gzip.compress(BODY.replace(NOON, NOON + " " * (60 << 20)).encode(), 9)
    with pytest.raises(answers.TooLarge, match="it unpacks to more than 500 times its size"):
        answering(bomb, ("Content-Encoding", "gzip"))
    assert sum(map(len, unpacked)) < 16 << 20


def test_an_estate_of_equal_vms_is_no_bomb(answering):
    """What is alike is packed a hundred times smaller."""
    device = "<VirtualDevice><key>200</key><deviceInfo><label>IDE 0</label></deviceInfo></VirtualDevice>"
    alike = BODY.replace("</returnval>", f"</returnval>{device * 100_000}")
    packed = gzip.compress(alike.encode(), 9)
    assert 100 < len(alike) / len(packed) < answers.MOST_PACKED
    assert answering(packed, ("Content-Encoding", "gzip"))[0] == READ


@pytest.mark.parametrize(("version", "packs"), [("7.0.2", False), ("8.0.3", True)])
def test_a_farm_reads_alike_either_way(make_lab, quick_scenario, monkeypatch, version, packs):
    text, found = re.subn(r"(?m)^vcenter: .*$", f"vcenter: {{version: {version}}}", quick_scenario.read_text("utf-8"))
    assert found == 1
    lab = make_lab(text)
    packings = []
    begin = answers.PlainResponse.begin

    def watched(answer):
        begin(answer)
        packings.append(answer._unzip is not None)

    monkeypatch.setattr(answers.PlainResponse, "begin", watched)
    password = (lab.directory / "password").read_text(encoding="utf-8").strip()
    endpoint = Endpoint(
        "127.0.0.1", lab.port, "administrator@vsphere.local", password, ca_file=lab.directory / "ca.pem"
    )
    with VCenter.connect(endpoint) as vcenter:
        assert isinstance(vcenter._session, SoapSession)
        found = vcenter.read({"VirtualMachine": ("name", "config.hardware.device"), "HostSystem": ("name",)})
    assert len(found) > 4
    assert any(packings) == packs
