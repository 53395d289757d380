"""The reader of vSphere tags against a scripted service: what it asks, what it refuses, and that it logs out."""

from __future__ import annotations

import base64
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from support.raising import refused

from vsphere_ai.connect import tls
from vsphere_ai.connect.soap import tag_service
from vsphere_ai.connect.tls import Endpoint
from vsphere_ai.errors import Denied, Unparsed, Unreachable
from vsphere_ai.security import redaction

TOKEN = "c0ffee00c0ffee00c0ffee00c0ffee00"
CATEGORIES = {"cat:1": "Team", "cat:2": "Stage"}
TAGS = {"tag:1": ("cat:1", "ml"), "tag:2": ("cat:1", "web/a"), "tag:3": ("cat:2", "frozen")}
ATTACHED = {"tag:1": ["vm-1", "vm-2"], "tag:2": [], "tag:3": ["vm-3"]}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_args):
        pass

    def do_GET(self):
        size = int(self.headers.get("Content-Length", 0))
        body = json.loads(self.rfile.read(size)) if size else None
        server, asked = self.server, f"{self.command} {self.path}"
        server.asked.append((asked, body, self.headers.get("vmware-api-session-id")))
        script = next((each for part, each in server.script.items() if part in asked), None)
        status, answer, *headers = script.pop(0) if script else self.answered(body)
        content = answer if isinstance(answer, bytes) else json.dumps(answer).encode() if answer is not None else b""
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_POST = do_DELETE = do_GET  # noqa: N815 names of the base class

    def answered(self, body):
        path = self.path
        if path == "/api/session" and self.command == "POST":
            given = self.headers["Authorization"].removeprefix("Basic ")
            return (201, TOKEN) if base64.b64decode(given) == b"svc:secret" else (401, {})
        if self.headers.get("vmware-api-session-id") != TOKEN:
            return 401, {}
        if path == "/api/session":
            return 204, None
        name = path.rpartition("/")[2]
        if path == tag_service.CATEGORIES:
            return 200, list(CATEGORIES)
        if path == tag_service.OF_CATEGORY:
            return 200, [tag for tag, (of, _) in TAGS.items() if of == body["category_id"]]
        if path == tag_service.ATTACHED:
            objects = {t: [{"type": "VirtualMachine", "id": vm} for vm in ATTACHED[t]] for t in body["tag_ids"]}
            return 200, [{"tag_id": tag, "object_ids": own} for tag, own in objects.items()]
        return 200, {"id": name, "name": CATEGORIES[name] if name in CATEGORIES else TAGS[name][1]}


@pytest.fixture
def service(good_tls):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket = good_tls.wrap_socket(server.socket, server_side=True)
    server.daemon_threads, server.asked, server.script = True, [], {}
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def read(service, authority, limits):
    def ask(*wanted, **more):
        given = {"username": "svc", "password": "secret", "ca_file": authority.file, **more}
        endpoint = Endpoint("127.0.0.1", service.server_address[1], **given)
        return tag_service.read_tags(endpoint, tls.context(endpoint, limits.connect), limits, wanted)

    return ask


def test_only_the_tags_that_are_wanted_are_asked_for_their_objects(read, service):
    found = read("Team/ml")
    assert found.categories == ("Stage", "Team")
    refs = frozenset({"VirtualMachine:vm-1", "VirtualMachine:vm-2"})
    assert found.objects == {"Team/ml": refs, "Team/web/a": frozenset()}
    asked = [each for each, _, _ in service.asked]
    assert (asked[0], asked[-1]) == ("POST /api/session", "DELETE /api/session")
    assert len(asked) == 9
    assert {token for _, _, token in service.asked[1:]} == {TOKEN}
    assert [body for _, body, _ in service.asked if body] == [{"category_id": "cat:1"}, {"tag_ids": ["tag:1"]}]


def test_several_tags_take_one_session(read, service):
    found = read("Team/*", "Stage/frozen", "Nothing/x")
    assert {name for name, refs in found.objects.items() if refs} == {"Team/ml", "Stage/frozen"}
    assert [each for each, _, _ in service.asked].count("POST /api/session") == 1


def test_what_is_gone_or_not_to_be_seen_is_left_out(read, service):
    service.script = {"/tag/tag:1": [(404, {})], "/category/cat:2": [(403, {})]}
    found = read("Team/*", "Stage/frozen")
    assert (found.categories, set(found.objects)) == (("Team",), {"Team/web/a"})


def test_a_service_that_is_away_for_a_moment_is_asked_again(read, service):
    service.script = {"/api/session": [(503, b"no healthy upstream")], "tag-association": [(503, b"")]}
    assert read("Team/ml").objects["Team/ml"]


ERRORS = [
    ("POST /api/session", [(503, b"no healthy upstream")] * 3, Unreachable, "tags.unreachable", "503"),
    ("POST /api/session", [(401, {})], Denied, "tags.denied", "account"),
    ("POST /api/session", [(404, b"")], Unparsed, "tags.malformed", "/api/session"),
    ("POST /api/session", [(302, b"", ("Location", "https://elsewhere/"))], Unparsed, "tags.malformed", "redirect"),
    ("POST /api/session", [(201, {"value": TOKEN})], Unparsed, "tags.malformed", "id"),
    ("GET /api/cis/tagging/category", [(403, {})], Denied, "tags.denied", "tags"),
    ("GET /api/cis/tagging/category", [(200, b"<html>")], Unparsed, "tags.malformed", "JSON"),
    ("GET /api/cis/tagging/category", [(200, {"value": []})], Unparsed, "tags.malformed", "list"),
    ("GET /api/cis/tagging/category", [(200, b"[" * 100_000)], Unparsed, "tags.malformed", "JSON"),
    ("/category/cat:1", [(200, {"name": 5})], Unparsed, "tags.malformed", "name"),
    ("tag-association", [(200, [{"tag_id": "tag:1"}])], Unparsed, "tags.malformed", "objects"),
    ("tag-association", [(200, None)], Unparsed, "tags.malformed", "objects"),
    ("tag-association", [(500, {})] * 3, Unreachable, "tags.unreachable", "500"),
]


@pytest.mark.parametrize(("where", "answers", "error", "rule", "said"), ERRORS)
def test_what_is_no_answer_is_an_error_of_its_kind(read, service, where, answers, error, rule, said):
    service.script = {where: list(answers)}
    with refused(error, rule, "127.0.0.1", said) as caught:
        read("Team/ml")
    assert caught.value.remedy
    began = any(each == "GET /api/cis/tagging/category" for each, _, _ in service.asked)
    assert ("DELETE /api/session" in [each for each, _, _ in service.asked]) == began, "a session that began ends"


def test_a_refused_login_is_not_tried_again(read, service):
    with refused(Denied, "tags.denied"):
        read("Team/ml", password="wrong")
    assert [each for each, _, _ in service.asked] == ["POST /api/session"]


def test_an_answer_without_end_is_cut_off(read, service, monkeypatch):
    monkeypatch.setattr(tag_service, "LARGEST", 1000)
    service.script = {"GET /api/cis/tagging/category": [(200, ["x" * 2000])]}
    with refused(Unparsed, "tags.malformed", "larger"):
        read("Team/ml")


def test_no_credential_is_sent_to_a_server_that_is_not_trusted(read, service):
    with pytest.raises(Denied):
        read("Team/ml", ca_file=None)
    with pytest.raises(Denied):
        read("Team/ml", ca_file=None, fingerprint="00" * 32)
    assert service.asked == []


def test_the_session_and_the_login_are_masked_wherever_they_would_be_shown(read):
    read("Team/ml")
    assert TOKEN not in redaction.clean(f"session {TOKEN}")
    login = base64.b64encode(b"svc:secret").decode()
    assert login not in redaction.clean(f"Authorization: Basic {login}")


def test_a_service_that_is_not_there(authority, limits):
    endpoint = Endpoint("127.0.0.1", 9, "svc", "secret", authority.file)
    with refused(Unreachable, "tags.unreachable", "127.0.0.1:9"):
        tag_service.read_tags(endpoint, tls.context(endpoint, limits.connect), limits, ["Team/ml"])
