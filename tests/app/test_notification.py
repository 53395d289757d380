"""Notifications: what is sent, to whom nothing is sent, and that no failure of one is more than a remark."""

from __future__ import annotations

import hashlib
import hmac
import json
import sys
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from support.gates import busy, until
from support.notified import run_ended
from support.processes import runs

from vsphere_ai.app import Notifier, NotifyRequest
from vsphere_ai.app.events import Remark
from vsphere_ai.documents.runs.notifications import FailureDocument
from vsphere_ai.errors import Denied, UsageError
from vsphere_ai.security import redaction
from vsphere_ai.security.secret_ref import Secret

DOCUMENT = run_ended()


@contextmanager
def webhook(status=200, *, location="", delay=0.0, drip=0.0):
    """A server on loopback; yields its URL and the requests it gets: (path, headers, body)."""
    got = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got.append((self.path, self.headers, body))
            time.sleep(delay)
            for byte in b"HTTP/1.0 " if drip else b"":
                self.wfile.write(bytes([byte]))
                time.sleep(drip)
            self.send_response(status)
            if location:
                self.send_header("Location", location)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/hook", got
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def send():
    """Send the document; return the remarks."""

    def sent(timeout=5.0, document=DOCUMENT, **request):
        said = []
        Notifier(NotifyRequest(**request), said.append, timeout).send(document)
        return [each for each in said if isinstance(each, Remark)]

    with redaction.fresh():
        yield sent


def program(tmp_path, text):
    path = tmp_path / "program.py"
    path.write_text(text, encoding="utf-8")
    return f"{sys.executable} {path}"


def test_a_webhook_gets_the_document_signed_over_the_exact_body(send, monkeypatch):
    monkeypatch.setenv("HOOK_KEY", "a-long-key-of-the-webhook")
    with webhook() as (url, got):
        assert send(notify_webhook=url, notify_secret="env:HOOK_KEY") == []
    [(path, headers, body)] = got
    assert path == "/hook"
    assert json.loads(body) == DOCUMENT.as_json()
    assert json.loads(body)["pending"] == [{"kind": "maintenance", "name": "esx01"}]
    expected = hmac.new(b"a-long-key-of-the-webhook", body, hashlib.sha256).hexdigest()
    assert headers["X-Vsphere-AI-Signature"] == f"sha256={expected}"
    assert headers["X-Vsphere-AI-Event"] == "run.ended"
    assert headers["Content-Type"] == "application/json"


def test_without_a_secret_nothing_is_signed(send):
    with webhook() as (url, got):
        assert send(notify_webhook=url) == []
    assert "X-Vsphere-AI-Signature" not in got[0][1]


def test_a_url_may_come_from_a_secret_and_is_never_shown(send, monkeypatch):
    with webhook(500) as (url, got):
        monkeypatch.setenv("HOOK_URL", f"{url}/T0KEN-of-the-channel")
        [remark] = send(notify_webhook="env:HOOK_URL")
    assert got[0][0] == "/hook/T0KEN-of-the-channel"
    assert remark.rule == "notify.failed"
    assert "500" in remark.text
    assert "T0KEN" not in remark.text


def test_references_of_an_inventory_begin_in_its_folder(send, tmp_path, monkeypatch):
    (tmp_path / "print-key").write_text("#!/bin/sh\necho the-key-of-the-inventory\n")
    (tmp_path / "print-key").chmod(0o700)
    monkeypatch.chdir("/")
    inventory = tmp_path / "inventory.yml"
    with webhook() as (url, got):
        monkeypatch.setenv("HOOK_URL", url)
        request = {"notify_webhook": "env:HOOK_URL", "notify_secret": "cmd:./print-key"}
        assert send(**request, webhook_inventory=inventory, secret_inventory=inventory) == []
        with pytest.raises(Denied):
            send(**request, webhook_inventory=inventory)
    expected = hmac.new(b"the-key-of-the-inventory", got[0][2], hashlib.sha256).hexdigest()
    assert [headers["X-Vsphere-AI-Signature"] for _, headers, _ in got] == [f"sha256={expected}"]


def test_a_url_behind_a_reference_of_an_inventory_is_refused_by_that_place(tmp_path, monkeypatch):
    monkeypatch.setenv("HOOK_URL", "http://example.com/T0KEN")
    request = NotifyRequest(notify_webhook="env:HOOK_URL", webhook_inventory=tmp_path / "inventory.yml")
    with pytest.raises(UsageError, match=r"^notify.webhook of .*/inventory.yml: ") as raised:
        Notifier(request, lambda _: None)
    assert "T0KEN" not in raised.value.message


def test_a_redirect_is_not_followed(send):
    with webhook() as (elsewhere, second), webhook(307, location=elsewhere) as (url, first):
        [remark] = send(notify_webhook=url)
    assert (len(first), second) == (1, [])
    assert "redirect" in remark.text


def test_no_proxy_sees_what_goes_to_this_machine(send, monkeypatch):
    with webhook() as (proxy, through), webhook() as (url, direct):
        monkeypatch.setenv("http_proxy", proxy)
        assert send(notify_webhook=url) == []
    assert (len(direct), through) == (1, [])


@pytest.mark.parametrize("slow", [{"delay": 30.0}, {"drip": 0.2}], ids=["silent", "byte by byte"])
def test_a_slow_webhook_is_left_after_its_time(send, slow):
    with webhook(**slow) as (url, _):
        began = time.monotonic()
        [remark] = send(notify_webhook=url, timeout=0.3)
        assert time.monotonic() - began < 2 * busy()
    assert remark.rule == "notify.failed"


def test_nothing_listens(send):
    [remark] = send(notify_webhook="http://127.0.0.1:9/hook")
    assert remark.rule == "notify.failed"


@pytest.mark.parametrize(
    "url",
    ["http://example.com/hook", "http://10.0.0.1/hook", "ftp://127.0.0.1/x", "https:///x",
     "https://user:pw@example.com/", "https://example.com/a b", "https://exämple.com/", "http://[::1", "hook",
     "http://127.0.0.1.example.com/", "https://example.com:99999/"],
)  # fmt: skip
def test_urls_to_which_nothing_is_sent(url):
    with pytest.raises(UsageError) as raised:
        Notifier(NotifyRequest(notify_webhook=url), lambda _: None)
    assert raised.value.rule == "usage.notify"
    assert raised.value.remedy
    assert "pw" not in raised.value.message


@pytest.mark.parametrize("url", ["http://localhost:1/", "http://127.9.9.9/", "http://[::1]:1/", "https://example.com/"])
def test_urls_that_are_fine(url):
    Notifier(NotifyRequest(notify_webhook=url), lambda _: None)


def test_a_missing_secret_is_an_error_before_anything_is_done():
    with pytest.raises(Denied):
        Notifier(NotifyRequest(notify_webhook="https://example.com/", notify_secret="env:NOT_SET_HERE"), lambda _: None)


@pytest.mark.parametrize("request_", [{"notify_secret": "env:X"}, {"notify_command": " "}, {"notify_command": "a 'b"}])
def test_options_that_mean_nothing(request_):
    with pytest.raises(UsageError) as raised:
        Notifier(NotifyRequest(**request_), lambda _: None)
    assert raised.value.rule == "usage.notify"


def test_a_command_gets_the_document_and_its_arguments_as_they_are(send, tmp_path):
    out = tmp_path / "out"
    command = program(tmp_path, "import sys; open(sys.argv[1], 'w').write(sys.stdin.read() + repr(sys.argv[2:]))")
    assert send(notify_command=f"{command} {out} '$(id);x' `y`") == []
    body = json.dumps(DOCUMENT.as_json(), ensure_ascii=False)
    assert out.read_text() == body + "['$(id);x', '`y`']"


def test_a_command_that_fails_says_why(send, tmp_path):
    command = program(tmp_path, "import sys; sys.stderr.write('first\\nno such channel\\n\\n'); sys.exit(3)")
    [remark] = send(notify_command=command)
    assert remark.rule == "notify.failed"
    assert "3" in remark.text
    assert "no such channel" in remark.text
    assert "first" not in remark.text


def test_a_command_that_is_not_there(send):
    [remark] = send(notify_command="/no/such/program")
    assert remark.rule == "notify.failed"


def test_a_command_that_hangs_ends_with_its_children(send, tmp_path):
    note = tmp_path / "child"
    command = program(
        tmp_path,
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(note)!r}, 'w').write(str(child.pid) + chr(10))\n"
        "time.sleep(600)",
    )
    for seconds in (0.5, 5.0, 50.0):  # a busy machine may end the program before it has a child
        began = time.monotonic()
        [remark] = send(notify_command=command, timeout=seconds)
        assert time.monotonic() - began < seconds + 2 * busy()
        assert remark.rule == "notify.failed"
        if note.exists() and note.read_text().endswith("\n"):
            break
    child = int(note.read_text())
    until(lambda: not runs(child), why="the child was left running")


def test_both_are_notified_although_the_first_fails(send):
    with webhook() as (url, got):
        [remark] = send(notify_command="/no/such/program", notify_webhook=url)
    assert len(got) == 1
    assert "/no/such/program" in remark.text


def test_a_secret_is_masked_in_what_is_sent_and_in_a_remark(send, tmp_path):
    Secret('s3cret"with-a-quote')
    failure = {"target": "a", "summary": 's3cret"with-a-quote', "state": "failed", "error": "no", "rule": "x"}
    document = run_ended(what='s3cret"with-a-quote', failures=(FailureDocument.model_validate(failure),))
    command = program(tmp_path, "import sys; sys.exit(sys.stdin.read() + ' s3cret\"with-a-quote')")
    with webhook() as (url, got):
        [remark] = send(document=document, notify_webhook=url, notify_command=command)
    sent = json.loads(got[0][2])
    assert (sent["what"], sent["failures"][0]["summary"]) == ("***", "***")
    assert b"s3cret" not in got[0][2]
    assert "s3cret" not in remark.text
