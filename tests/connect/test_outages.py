"""Outages as the connection sees them: who asks again, for how long, and what is never sent twice."""

from __future__ import annotations

import gzip
import re
import socket
import ssl
import subprocess
import sys
import threading
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from support.acting import Clock
from support.gates import LONG, busy, until
from support.raising import refused

from vsphere_ai.connect import tls
from vsphere_ai.connect.soap import outage, versions
from vsphere_ai.connect.soap.outage import AnswerTrial, Outage, RequestLost, WaitLimits
from vsphere_ai.connect.tls import Endpoint
from vsphere_ai.connect.vcenter import VCenter
from vsphere_ai.connect.wire import answers
from vsphere_ai.connect.wire.vmomi import SoapAdapter
from vsphere_ai.errors import Denied, OutcomeUnknown, Unparsed, Unreachable

START = ("HostServiceSystem:serviceSystem-1", "StartService", {"id": "TSM-SSH"})
TIME = "<returnval>2026-05-01T10:00:00Z</returnval>"
FAULT = (
    "<soapenv:Fault><faultcode>ServerFaultCode</faultcode><faultstring/><detail>"
    '<{0}Fault xmlns="urn:vim25" xsi:type="{0}"/></detail></soapenv:Fault>'
)


@pytest.fixture
def connect(authority, limits):
    made = []

    def connect(fake, **more):
        made.append(VCenter.connect(fake.endpoint(ca_file=authority.file), limits=replace(limits, **more)))
        return made[-1]

    yield connect
    for one in made:
        one.close()


# -- the budget


@pytest.fixture
def quick():
    return WaitLimits(patience=1.0, run_patience=60.0, backoff=0.01, longest_pause=0.05)


def away(*, sent=True):
    return RequestLost(ConnectionRefusedError(111, "Connection refused"), sent=sent)


@pytest.fixture
def clock(monkeypatch):
    """Time passes in pauses only."""
    clock = Clock()
    monkeypatch.setattr(outage, "time", clock)
    monkeypatch.setattr(Outage, "pause", lambda self, seconds, lost: clock.sleep(seconds))
    return clock


def test_one_thing_is_tried_until_the_budget_is_used_up(quick, clock):
    trial, begun, tries = AnswerTrial(Outage(quick), quick), clock.now, 0
    while trial.again(away()):
        tries += 1
    assert 0.9 < clock.now - begun <= 1.0
    assert tries > 10


def test_pauses_grow_to_the_longest(quick, monkeypatch):
    seen = []
    monkeypatch.setattr(Outage, "pause", lambda self, seconds, lost: seen.append(seconds))
    limits = WaitLimits()
    trial = AnswerTrial(Outage(limits), limits)
    for _ in range(8):
        assert trial.again(away())
    assert all(0.7 * w <= s <= w for s, w in zip(seen, (1, 2, 4, 8, 10, 10, 10, 10), strict=True)), seen


def test_the_budget_is_of_the_outage_not_of_each_caller(quick, clock):
    shared = Outage(quick)
    first = AnswerTrial(shared, quick)
    while first.again(away()):
        pass
    clock.now += 0.1
    begun = clock.now
    assert not AnswerTrial(shared, quick).again(away()), "somebody else waited long enough"
    assert clock.now == begun
    shared.over()
    assert AnswerTrial(shared, quick).again(away())


def test_answers_to_others_do_not_keep_one_asking_for_ever(quick, clock):
    shared = Outage(quick)
    trial, begun = AnswerTrial(shared, quick), clock.now
    while trial.again(away()):
        shared.over()
        assert clock.now - begun < 3
    assert clock.now - begun > 0.9


def test_an_answer_to_anybody_wakes_all(quick):
    limits = replace(quick, patience=6000.0, backoff=600.0, longest_pause=600.0)
    shared = Outage(limits)
    trial = AnswerTrial(shared, limits)
    with ThreadPoolExecutor(1) as pool:
        waits = pool.submit(trial.again, away())
        until(lambda: shared._since is not None)
        assert not waits.done()
        shared.over()
        assert waits.result(LONG), "it paused for ten minutes"


def test_somebody_is_told_while_it_lasts_and_when_it_is_over(quick):
    told = []
    limits = replace(quick, longest_pause=0.1)
    shared = Outage(limits)
    shared.notify = told.append
    shared.over()
    assert told == []
    trial = AnswerTrial(shared, limits)
    while trial.again(away()):
        pass
    shared.over()
    assert len(told) > 3
    assert re.fullmatch(r"still waiting for vCenter, \d s of at most 1 s \(Connection refused\)", told[0])
    assert re.fullmatch(r"vCenter answers again after 1 s", told[-1])


def test_answers_nobody_can_read_are_asked_for_five_times(quick):
    limits = replace(quick, patience=600.0)
    trial = AnswerTrial(Outage(limits), limits)
    assert [trial.again(RequestLost(ValueError("what"), sent=True)) for _ in range(5)] == [True] * 4 + [False]


# -- calls that change something


def test_a_change_that_never_left_is_sent_when_vcenter_is_back(serve, good_tls, connect):
    fake = serve(good_tls)
    vcenter = connect(fake, patience=5.0)
    stub = vcenter._session.stub
    stub.DropConnections()
    port, stub.port = stub.port, 1
    threading.Timer(0.3, setattr, (stub, "port", port)).start()
    vcenter.call(*START)
    assert fake.count("StartService") == 1


def test_a_change_waits_for_a_login_that_is_refused_for_the_moment(fake, connect, busy):
    vcenter = connect(fake)
    logins, known = [busy, busy], []

    def login(_body):
        if logins:
            raise logins.pop()
        known.append("session")
        return fake.built_in("Login")

    fake.script["Login"] = login
    fake.script["StartService"] = lambda _: "" if known else FAULT.format("NotAuthenticated")
    vcenter.call(*START)
    assert fake.count("Login") == 1 + 3
    assert fake.count("StartService") == 3 + 1, "three were refused, one was carried out"


def test_a_wrong_password_after_an_outage_is_not_tried_again(fake, connect):
    vcenter = connect(fake)
    fake.script["CurrentTime"] = lambda _: FAULT.format("NotAuthenticated")
    fake.script["Login"] = lambda _: FAULT.format("InvalidLogin")
    with pytest.raises(Denied):
        vcenter.now()
    assert fake.count("Login") == 2


def test_a_run_waits_longer_than_a_plan(fake, connect, drop):
    vcenter = connect(fake, patience=0.1, run_patience=1.0)
    told = []
    left = [drop] * 12

    def flaky(_body):
        if left:
            raise left.pop()
        return TIME

    fake.script["CurrentTime"] = flaky
    with pytest.raises(Unreachable):
        vcenter.now()
    left[:] = [drop] * 4
    vcenter._session.outage.over()
    vcenter.serve("run-1", notify=told.append)
    vcenter.now()


def test_requests_of_a_step_carry_its_name_and_those_of_others_do_not(fake, connect):
    vcenter = connect(fake)
    vcenter.serve("run-1", notify=print)
    with vcenter.doing("s007"):
        vcenter.now()
    vcenter.now()
    names = [re.findall(r"<operationID[^>]*>([^<]*)<", body) for body in fake.bodies[-2:]]
    assert names == [["run-1-s007"], ["run-1"]]


def test_the_task_of_a_step_is_told_before_it_is_waited_for(fake, connect):
    vcenter = connect(fake)
    order = []
    vcenter.serve("run-1", notify=print, submitted=lambda step, task: order.append((step, task)))
    fake.script["PowerOnVM_Task"] = lambda _: '<returnval type="Task">task-7</returnval>'
    fake.script["CreatePropertyCollector"] = lambda _: order.append("waited") or FAULT.format("InvalidState")
    with vcenter.doing("s001"), pytest.raises(OutcomeUnknown):
        vcenter.run_task("VirtualMachine:vm-1", "PowerOnVM_Task", timeout=1)
    assert order[:2] == [("s001", "Task:task-7"), "waited"]


# -- keep-alive


def test_an_idle_session_asks_for_the_time_until_it_is_closed(fake, connect):
    begun = time.monotonic()
    vcenter = connect(fake, keep_alive=0.1)
    until(lambda: fake.count("CurrentTime") >= 4)
    asked = fake.count("CurrentTime")
    assert asked <= (time.monotonic() - begun) / 0.1 + 1
    assert fake.count("SessionIsActive") == 0
    vcenter.close()
    asked = fake.count("CurrentTime")
    time.sleep(0.3)
    assert fake.count("CurrentTime") <= asked + 1
    assert "Logout" in fake.calls[-2:]  # a question that was on its way may come after it


def test_a_session_that_is_used_asks_for_nothing(fake, connect):
    vcenter = connect(fake, keep_alive=0.4)
    idle = 0  # pauses that were long enough for a question, as on a busy machine
    for _ in range(8):
        vcenter.call("HostServiceSystem:s", "StartService", {"id": "x"})
        used = time.monotonic()
        time.sleep(0.1)
        idle += int((time.monotonic() - used) / 0.3)
    assert fake.count("CurrentTime") <= idle


def test_an_unanswered_question_for_the_time_hurts_nobody(fake, connect, drop):
    def gone(_body):
        raise drop

    fake.script["CurrentTime"] = gone
    vcenter = connect(fake, keep_alive=0.05)
    until(lambda: fake.count("CurrentTime") > 2)
    vcenter.call(*START)


# -- answers that make no sense


class Http:
    """Sends the given bytes to everybody who asks anything, over TLS."""

    def __init__(self, tls, raw, *, trickle=0.0):
        self.tls, self.raw, self.trickle = tls, raw, trickle
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                raw, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.answer, args=(raw,), daemon=True).start()

    def answer(self, raw):
        try:
            with self.tls.wrap_socket(raw, server_side=True) as client:
                request = b""
                while b"Envelope>" not in request and not request.startswith(b"GET"):
                    request += client.recv(1 << 16)
                for at in range(0, len(self.raw), 1 if self.trickle else 1 << 20):
                    client.sendall(self.raw[at : at + (1 if self.trickle else 1 << 20)])
                    time.sleep(self.trickle)
        except OSError:
            return


@pytest.fixture
def serving(good_tls):
    made = []

    def serving(raw, **more):
        made.append(Http(good_tls, raw, **more))
        return made[-1].port

    yield serving
    for one in made:
        one.listener.close()


def http(body, kind="text/xml", *more, status="200 OK", length=None):
    head = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {len(body) if length is None else length}"]
    return ("\r\n".join([*head, *more]) + "\r\n\r\n").encode() + body


ENVELOPE = (
    b'<?xml version="1.0"?><soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/" '
    b'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><soapenv:Body>%s</soapenv:Body></soapenv:Envelope>'
)
BOMB = b'<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">%s]>' % b"".join(
    b'<!ENTITY %c "%s">' % (n, b"&%c;" % (n - 1) * 10) for n in range(ord("b"), ord("k"))
)
FUTURE = (b'<CurrentTimeResponse xmlns="urn:vim25"><returnval xsi:type="NewKind" '
          b'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"/></CurrentTimeResponse>')  # fmt: skip
GOOD = ENVELOPE % (b'<CurrentTimeResponse xmlns="urn:vim25"><returnval>2026-01-01T00:00:00Z</returnval>'
                   b"</CurrentTimeResponse>")  # fmt: skip
ENVELOPE_IN_UTF_16 = b"Envelope".decode("utf-16-le")
SENSELESS = {
    "html": http(b"<html><body>Sign in</body></html>", "text/html; charset=utf-8"),
    "html that calls itself xml": http(b"<html><body><br>Bad gateway</body></html>"),
    "html that is xml": http(b"<html><body>Bad gateway</body></html>"),
    "nothing": http(b""),
    "json": http(b"{}", "application/json"),
    "half": http(ENVELOPE[:90]),
    "cut": http(ENVELOPE[:90], length=5000),
    "half a gzip": http(gzip.compress(ENVELOPE * 50)[:60], "text/xml", "Content-Encoding: gzip"),
    "a gzip that is damaged": http(gzip.compress(GOOD)[:-8] + b"\0" * 8, "text/xml", "Content-Encoding: gzip"),
    "packed with something else": http(GOOD, "text/xml", "Content-Encoding: br"),
    "no gzip": http(b"no gzip at all", "text/xml", "Content-Encoding: gzip"),
    "entities": http(BOMB + b"<x>&j;</x>"),
    "another type": http(ENVELOPE % b'<CurrentTimeResponse xmlns="urn:vim25"><returnval>noon</returnval>'
                                    b"</CurrentTimeResponse>"),
    "a type of the future": http(ENVELOPE % FUTURE),
    "a document type": http(b"<!DOCTYPE x>" + ENVELOPE % b""),
    "a document type far behind": http(b"<!--" + b" " * 5000 + b"--><!DOCTYPE x>" + ENVELOPE % b""),
    "a document type before a good answer": http(GOOD.replace(b"?>", b"?><!DOCTYPE x>", 1)),
    "a good answer in UTF-16": http(GOOD.decode().replace("?>", f"?><!--{ENVELOPE_IN_UTF_16}-->", 1).encode("utf-16")),
    "a document type in UTF-16": http((BOMB + b"<x>&j;</x>").decode().encode("utf-16")),
    "UTF-16 without a mark": http((BOMB + b"<x>&j;</x>").decode().encode("utf-16-le")),
    "another encoding": http(b'<?xml version="1.0" encoding="utf-7"?>' + BOMB + ENVELOPE % b""),
    "one text in pieces": http(ENVELOPE % (b"<x>" + b"a<!-- -->" * 20_001 + b"</x>")),
    "no http": b"220 mail.example.com ESMTP\r\n",
}  # fmt: skip


@pytest.mark.parametrize("what", SENSELESS)
def test_a_senseless_answer_is_unreachable_in_one_line(fake, connect, serving, what):
    vcenter = connect(fake, answer=60.0)
    stub = vcenter._session.stub
    stub.DropConnections()
    stub.port = serving(SENSELESS[what])
    begun = time.monotonic()
    with pytest.raises(Unreachable) as caught:
        vcenter.now()
    assert time.monotonic() - begun < 30 * busy(), "an answer may take a minute"
    assert caught.value.exit_code == 5
    assert "\n" not in caught.value.message
    if what not in ("cut", "no http", "half a gzip"):
        assert "an answer that cannot be read" in caught.value.message
    with pytest.raises(OutcomeUnknown):
        vcenter.call(*START)


def test_versions_that_trickle_in_are_not_waited_for(authority, serving):
    port = serving(http(b"<namespaces>" + b" " * 10_000), trickle=0.01)
    begun = time.monotonic()
    endpoint = Endpoint("127.0.0.1", port, "root", "x", ca_file=authority.file)
    with pytest.raises(Unreachable):
        versions.probe(endpoint, tls.context(endpoint, 0.5), 0.5)
    assert time.monotonic() - begun < 50 * busy(), "it takes more than 100 s to come in"


def test_what_pyvmomi_does_not_know_is_told_from_what_is_damaged(fake, connect, serving):
    vcenter = connect(fake)
    stub = vcenter._session.stub
    stub.DropConnections()
    stub.port = serving(SENSELESS["a type of the future"])
    with refused(Unparsed, "vcenter.unparsed", "'NewKind'"):
        vcenter.now()


def test_a_page_of_a_proxy_is_not_taken_for_success(fake, connect, serving):
    vcenter = connect(fake)
    stub = vcenter._session.stub
    stub.DropConnections()
    stub.port = serving(SENSELESS["html that is xml"])
    with pytest.raises(OutcomeUnknown):
        vcenter.call(*START)  # a method without a result, whose answer would be empty


@pytest.mark.parametrize("packed", [False, True])
def test_an_answer_without_end_is_not_read_to_its_end(fake, connect, serving, monkeypatch, packed):
    monkeypatch.setattr(answers, "LARGEST", 1 << 20)
    body = ENVELOPE % (b"<x>" + b"a" * (3 << 20) + b"</x>")
    more = ("Content-Encoding: gzip",) if packed else ()
    vcenter = connect(fake)
    stub = vcenter._session.stub
    stub.DropConnections()
    stub.port = serving(http(gzip.compress(body) if packed else body, "text/xml", *more))
    with refused(Unreachable, "unreachable", " 1 MiB"):
        vcenter.now()


@pytest.mark.parametrize("body", [b"a" * (60 << 20), b"&#97;" * (12 << 20), b"a" * (100 << 20)])
def test_a_large_text_is_refused_soon(fake, connect, serving, body):
    """pyVmomi puts a text together in quadratic time: 60 MiB took it minutes."""
    vcenter = connect(fake)
    stub = vcenter._session.stub
    stub.DropConnections()
    stub.port = serving(http(ENVELOPE % (b'<CurrentTimeResponse xmlns="urn:vim25"><returnval>%s</returnval>'
                                         b"</CurrentTimeResponse>" % body)))  # fmt: skip
    vcenter._session.limits = replace(vcenter._session.limits, answer=300.0)
    stub._answer = 300.0
    begun = time.monotonic()
    with pytest.raises(Unreachable, match=r"it is larger than 64 MiB|it holds a text larger than 2 MiB"):
        vcenter.now()
    assert time.monotonic() - begun < 60 * busy()


def test_a_text_that_is_large_but_sensible_is_read(fake, connect):
    vcenter = connect(fake)
    text = "ü" * ((1 << 20) - 500)
    fake.script["QueryOptions"] = lambda _: (
        f'<returnval xsi:type="OptionValue"><key>a</key><value xsi:type="xsd:string">{text}</value></returnval>'
    )
    (answer,) = vcenter.call("OptionManager:o", "QueryOptions", {"name": "a"})
    assert answer["value"] == text


@pytest.mark.parametrize("name", ["about", "rootFolder", "propertyCollector", "viewManager", "sessionManager"])
def test_a_service_content_that_lacks_something_is_an_error_in_words(fake, connect, name):
    whole = fake.built_in("RetrieveServiceContent")
    broken = re.sub(rf"<{name}( [^>]*)?>.*?</{name}>", "", whole, flags=re.DOTALL)
    assert broken != whole
    fake.script["RetrieveServiceContent"] = lambda _: broken
    with refused(Unreachable, "unreachable", name):
        connect(fake)
    assert fake.count("Login") == 0


GREEDY = """
import sys
from pathlib import Path
from vsphere_ai.connect.soap.outage import WaitLimits
from vsphere_ai.connect.tls import Endpoint
from vsphere_ai.connect.vcenter import VCenter
from vsphere_ai.errors import Unreachable

port, other, ca_file = sys.argv[1:]
endpoint = Endpoint("127.0.0.1", int(port), "svc", "secret<&>", ca_file=ca_file)
vcenter = VCenter.connect(endpoint, limits=WaitLimits(patience=1.0, backoff=0.02))
vcenter._session.stub.DropConnections()
vcenter._session.stub.port = int(other)
try:
    vcenter.now()
except Unreachable as error:
    print(error.message)
status = Path("/proc/self/status").read_text()
print(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])
"""


@pytest.mark.parametrize(("size", "packed"), [(50, False), (50, True), (200, True)])
def test_an_enormous_answer_takes_little_memory(fake, authority, serving, size, packed):
    """T-28: below 400 MiB whether it is read and makes no sense, or is given up."""
    parts = [ENVELOPE.partition(b"%s")[0], *[(b"<!--" + b" " * 1016 + b"-->") * 1024] * size, b"</soapenv:Body>"]
    deflate = zlib.compressobj(9, wbits=31)
    text = b"".join([*map(deflate.compress, parts), deflate.flush()] if packed else parts)
    port = serving(http(text, "text/xml", *(("Content-Encoding: gzip",) if packed else ())))
    argv = [sys.executable, "-c", GREEDY, str(fake.address[1]), str(port), str(authority.file)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=LONG, check=True)
    *said, kib = done.stdout.splitlines()
    assert len(said) == 1
    assert "an answer that cannot be read" in said[0]
    assert ("it unpacks to more than 500 times its size" in said[0]) == packed
    assert int(kib) < 400 * 1024, f"{int(kib) >> 10} MiB"


def test_an_answer_that_trickles_in_is_given_up(fake, connect, serving, monkeypatch):
    monkeypatch.setattr("vsphere_ai.connect.soap.stub.SLOWEST", 1)
    vcenter = connect(fake, answer=0.5, patience=0.1)
    stub = vcenter._session.stub
    stub.DropConnections()
    port, stub.port = stub.port, serving(http(b" " * 10_000), trickle=0.01)
    begun = time.monotonic()
    with pytest.raises(Unreachable, match="did not answer in time"):
        vcenter.now()
    assert time.monotonic() - begun < 50 * busy(), "it takes more than 100 s to come in"
    stub.port = port


# -- servers that accept and say nothing (T-21)


SERVING = ("accept", "process_request_thread", "serve_forever")


@pytest.fixture
def left_hanging():
    """Threads that a client has left; those of the servers in this process have names of their own."""
    before = {t.ident for t in threading.enumerate()}

    def since():
        names = [t.name for t in threading.enumerate() if t.ident not in before]
        return [n for n in names if not any(word in n for word in SERVING)]

    return since


@pytest.mark.parametrize("phase", ["tcp", "versions"])
def test_a_server_that_is_silent_from_the_start(good_tls, authority, limits, left_hanging, phase):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        held = []

        def accept():
            while True:
                try:
                    raw, _ = listener.accept()
                    held.append(good_tls.wrap_socket(raw, server_side=True) if phase == "versions" else raw)
                except OSError:
                    return

        threading.Thread(target=accept, daemon=True).start()
        endpoint = Endpoint("127.0.0.1", listener.getsockname()[1], "u", "p", ca_file=authority.file)
        begun = time.monotonic()
        with pytest.raises(Unreachable, match="did not answer in time"):
            VCenter.connect(endpoint, limits=replace(limits, connect=0.5, answer=60.0))
        assert time.monotonic() - begun < 30 * busy(), "the other limits are a minute"
        assert left_hanging() == []


@pytest.mark.parametrize("method", ["RetrieveServiceContent", "Login", "CurrentTime", "StartService", "CreateFilter"])
def test_a_server_that_falls_silent_later(fake, authority, limits, left_hanging, method):
    fake.script[method] = lambda _: fake.hang.wait(60) and ""
    fake.script["PowerOnVM_Task"] = lambda _: '<returnval type="Task">task-7</returnval>'
    fake.script["CreatePropertyCollector"] = lambda _: '<returnval type="PropertyCollector">pc-1</returnval>'
    begun = time.monotonic()

    def work():
        with VCenter.connect(
            fake.endpoint(ca_file=authority.file), limits=replace(limits, answer=0.5, patience=0.5)
        ) as vcenter:
            vcenter.now()
            if method == "CreateFilter":
                vcenter.run_task("VirtualMachine:vm-1", "PowerOnVM_Task", timeout=60)
            vcenter.call(*START)

    with pytest.raises((Unreachable, OutcomeUnknown)) as caught:
        work()
    assert time.monotonic() - begun < 30 * busy(), "the server is silent for a minute"
    assert len(left_hanging()) <= 1, left_hanging()  # one that asks whether vCenter is there may wait for its answer
    assert caught.value.exit_code == (9 if method in ("StartService", "CreateFilter") else 5)


def test_hints_of_tls_trouble_that_passes():
    assert not outage.distrusted(ssl.SSLEOFError(8, "EOF occurred in violation of protocol"))
    assert not outage.distrusted(ConnectionResetError())
    assert outage.distrusted(ssl.SSLCertVerificationError(1, "certificate verify failed"))
    assert not outage.distrusted(ssl.SSLError(1, "tlsv1 alert internal error"))


def test_a_handshake_that_is_refused_while_vcenter_starts_is_waited_for(fake, connect, monkeypatch):
    vcenter = connect(fake)
    refused = [ssl.SSLError(1, "tlsv1 alert internal error")] * 2
    get = SoapAdapter.SoapStubAdapter.GetConnection

    def get_connection(stub):
        if refused:
            raise refused.pop()
        return get(stub)

    monkeypatch.setattr(SoapAdapter.SoapStubAdapter, "GetConnection", get_connection)
    vcenter.call(*START)
    assert refused == []
    assert fake.count("StartService") == 1
