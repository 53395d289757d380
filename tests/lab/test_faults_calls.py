"""Every fault of an API call, as a client without any repair of its own meets it."""

import base64
import http.client
import re
import socket
import ssl
import time
import xml.etree.ElementTree as ET
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import pytest
from pyVmomi import vim, vmodl
from support.gates import struck

VM = "train-04"
BODY = (
    '<?xml version="1.0"?><soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/"><soapenv:Body>'
    '<{0} xmlns="urn:vim25"><_this type="{1}">{2}</_this>{3}</{0}></soapenv:Body></soapenv:Envelope>'
)
TOTAL = ("RetrieveServiceContent", "ServiceInstance", "ServiceInstance", "")


def post(lab, text, *, cookie="", timeout=5.0, gzip=False):
    """Send one request on a connection of its own; return status, headers and body."""
    context = ssl.create_default_context(cafile=str(lab.directory / "ca.pem"))
    connection = http.client.HTTPSConnection("127.0.0.1", lab.port, context=context, timeout=timeout)
    headers = {"Cookie": cookie, **({"Accept-Encoding": "gzip"} if gzip else {})}
    try:
        connection.request("POST", "/sdk", text.encode(), headers)
        reply = connection.getresponse()
        return reply.status, dict(reply.getheaders()), reply.read()
    finally:
        connection.close()


@pytest.fixture
def power_on(soap, lab):
    """Ask for the VM's power-on over a bare connection."""
    moid, cookie = soap.vm(VM)._moId, soap.stub.cookie.partition(";")[0]

    def send(timeout=5.0):
        return post(lab, BODY.format("PowerOnVM_Task", "VirtualMachine", moid, ""), cookie=cookie, timeout=timeout)

    return send


def is_on(soap):
    return soap.vm(VM).runtime.powerState == "poweredOn"


def effect(soap, expected):
    """Whether the call took effect; one that must not is given time to."""
    if expected:
        soap.until(lambda: is_on(soap))
    else:
        time.sleep(0.1)
        assert not is_on(soap)
    calls = soap.calls().count((VM, "PowerOnVM_Task"))
    assert calls == int(expected)


@pytest.mark.parametrize(
    ("rule", "error", "happened"),
    [
        ({"do": "drop"}, http.client.RemoteDisconnected, False),
        ({"do": "drop", "when": "after"}, http.client.RemoteDisconnected, True),
        ({"do": "lost-reply"}, http.client.RemoteDisconnected, True),
        ({"do": "drop", "when": "mid-body"}, http.client.IncompleteRead, True),
        ({"do": "reset"}, ConnectionResetError, False),
        ({"do": "reset", "when": "after"}, ConnectionResetError, True),
        ({"do": "hang"}, TimeoutError, False),
        ({"do": "hang", "when": "after"}, TimeoutError, True),
        ({"do": "hang", "when": "mid-body"}, TimeoutError, True),
    ],
)
def test_a_reply_that_does_not_come(lab, soap, power_on, rule, error, happened):
    lab.set_faults([{"on": "PowerOnVM_Task", **rule}])
    with pytest.raises(error):
        power_on(timeout=0.4 if error is TimeoutError else 30)
    lab.clear_faults()
    effect(soap, happened)


def test_a_reset_in_the_middle_of_a_body(lab, soap, power_on):
    """What has arrived before the RST may be lost with it, so a client sees one of two errors."""
    lab.set_faults([{"on": "PowerOnVM_Task", "when": "mid-body", "do": "reset"}])
    with pytest.raises((ConnectionResetError, http.client.IncompleteRead)):
        power_on()
    lab.clear_faults()
    effect(soap, True)


@pytest.mark.parametrize("when", ["before", "after", "mid-body"])
def test_a_delay(lab, soap, power_on, when):
    lab.set_faults([{"on": "PowerOnVM_Task", "when": when, "do": {"delay": "300ms"}}])
    began = time.monotonic()
    status, _, body = power_on(timeout=30)
    assert time.monotonic() - began >= 0.3
    assert status == 200
    ET.fromstring(body)
    effect(soap, True)


def test_a_delay_ends_when_the_rule_is_released(lab, power_on):
    lab.set_faults([{"on": "PowerOnVM_Task", "do": {"delay": "30m"}}])
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(power_on, timeout=60)
        struck(lab, 1)
        lab.release_fault(1)
        assert answer.result()[0] == 200


@pytest.mark.parametrize("when", ["before", "after", "mid-body"])
def test_a_call_that_is_held(lab, soap, power_on, when):
    lab.set_faults([{"on": "PowerOnVM_Task", "when": when, "do": "hold"}])
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(power_on, timeout=60)
        struck(lab, 1)
        effect(soap, when != "before")
        assert not answer.done()
        lab.release_fault(1)
        status, _, body = answer.result()
    assert status == 200
    ET.fromstring(body)
    effect(soap, True)


def test_a_guest_that_does_not_shut_down_before_the_rule_is_released(lab, soap):
    lab.set_faults([{"on": "ShutdownGuest", "nth": 1, "do": "guest-stuck"}])
    vm, other = soap.vm("train-01"), soap.vm("train-03")
    for each in (vm, other):
        each.ShutdownGuest()
    soap.until(lambda: other.runtime.powerState == "poweredOff")  # told later, and not stuck
    assert vm.runtime.powerState == "poweredOn"
    lab.release_fault(1)
    soap.until(lambda: vm.runtime.powerState == "poweredOff")


@pytest.mark.parametrize("status", [503, 401])
@pytest.mark.parametrize("when", ["before", "after"])
def test_an_http_status(lab, soap, power_on, status, when):
    lab.set_faults([{"on": "PowerOnVM_Task", "when": when, "do": str(status)}])
    assert power_on()[0] == status
    lab.clear_faults()
    effect(soap, when == "after")


@pytest.mark.parametrize("word", ["malformed", "truncate"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_reply_that_is_no_xml(lab, soap, power_on, word, when):
    lab.set_faults([{"on": "PowerOnVM_Task", "when": when, "do": word}])
    status, headers, body = power_on()
    assert status == 200
    assert len(body) == int(headers["Content-Length"])  # HTTP itself is sound
    with pytest.raises(ET.ParseError):
        ET.fromstring(body)
    lab.clear_faults()
    effect(soap, when == "after")


def test_a_compressed_reply_that_ends_early(make_lab, quick_scenario):
    import zlib

    text = quick_scenario.read_text(encoding="utf-8")
    lab = make_lab(re.sub(r"(?m)^vcenter: .*$", "vcenter: {version: 8.0.3}", text))
    lab.set_faults([{"on": "RetrieveServiceContent", "when": "after", "do": "truncate"}])
    _, headers, body = post(lab, BODY.format(*TOTAL), gzip=True)
    assert headers["Content-Encoding"] == "gzip"
    stream = zlib.decompressobj(31)
    stream.decompress(body)
    assert not stream.eof


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_fault_of_the_api(lab, soap, when):
    lab.set_faults([{"on": "PowerOnVM_Task", "when": when, "do": {"fault": "HostConnectFault"}}])
    with pytest.raises(vim.fault.HostConnectFault) as caught:
        soap.vm(VM).PowerOnVM_Task()
    assert "fault of the lab" in caught.value.msg
    lab.clear_faults()
    effect(soap, when == "after")


def test_a_fault_with_required_fields_can_be_read(lab, soap):
    for name in ("NoPermission", "InvalidPowerState", "ManagedObjectNotFound", "ConcurrentAccess"):
        lab.set_faults([{"on": "PowerOnVM_Task", "do": {"fault": name}}])
        with pytest.raises(vmodl.MethodFault) as caught:
            soap.vm(VM).PowerOnVM_Task()
        assert type(caught.value)._wsdlName == name


@pytest.mark.parametrize("do", ["fault-echoes", "task-echoes"])
def test_a_fault_that_quotes_what_was_sent(lab, soap, do):
    value = "H4sI" + "Ab1+/" * 40
    lab.set_faults([{"on": "ReconfigVM_Task", "nth": 1, "do": {do: "InvalidName"}}])
    spec = vim.vm.ConfigSpec(extraConfig=[vim.option.OptionValue(key="guestinfo.userdata", value=value)])
    with pytest.raises(vim.fault.InvalidName) as caught:
        soap.wait(soap.vm(VM).ReconfigVM_Task(spec))
    raw = value.encode()
    cut, packed = f"'{value[:60]}...'", base64.b64encode(raw).decode()
    for spelt in (value, cut, packed[:76], raw.hex(), quote(packed, safe=""), base64.b64decode(value).hex()):
        assert spelt in caught.value.msg
    soap.wait(soap.vm(VM).ReconfigVM_Task(spec))


def test_a_task_that_fails(lab, soap):
    lab.set_faults([{"on": "PowerOnVM_Task", "nth": 1, "do": {"task-fails": "InsufficientResourcesFault"}}])
    with pytest.raises(vim.fault.InsufficientResourcesFault):
        soap.wait(soap.vm(VM).PowerOnVM_Task())
    assert not is_on(soap)
    soap.wait(soap.vm(VM).PowerOnVM_Task())
    effect(soap, True)


def test_a_task_that_stands_still_until_the_faults_are_cleared(lab, soap):
    lab.set_faults([{"on": "PowerOnVM_Task", "nth": 1, "do": {"task-stuck": 20}}])
    task = soap.vm(VM).PowerOnVM_Task()
    soap.until(lambda: task.info.progress == 20)
    time.sleep(0.2)
    assert task.info.state == "running"
    with pytest.raises(vim.fault.TaskInProgress):
        soap.vm(VM).PowerOnVM_Task()
    lab.clear_faults()
    soap.wait(task)
    effect(soap, True)


def test_a_task_that_stays_queued(lab, soap):
    lab.set_faults([{"on": "PowerOnVM_Task", "do": {"task-stuck": "queued"}}])
    task = soap.vm(VM).PowerOnVM_Task()
    time.sleep(0.2)
    assert task.info.state == "queued"
    lab.post("/lab/reset")  # does not wait for it


def test_a_task_that_nobody_finds(lab, soap):
    lab.set_faults([{"on": "PowerOnVM_Task", "nth": 1, "do": "task-gone"}])
    task = soap.vm(VM).PowerOnVM_Task()
    effect(soap, True)
    with pytest.raises(vmodl.fault.ManagedObjectNotFound):
        _ = task.info
    soap.wait(soap.vm(VM).PowerOffVM_Task())


def test_only_the_task_of_the_doomed_call_is_doomed(lab, soap):
    lab.set_faults([{"on": "PowerOnVM_Task", "target": "nobody", "do": {"task-fails": "InvalidState"}}])
    soap.wait(soap.vm(VM).PowerOnVM_Task())
    lab.set_faults([{"on": "PowerOffVM_Task", "target": VM, "do": {"task-fails": "InvalidState"}}])
    other = soap.vm("train-03")
    soap.wait(other.PowerOffVM_Task())
    with pytest.raises(vim.fault.InvalidState):
        soap.wait(soap.vm(VM).PowerOffVM_Task())


@pytest.mark.parametrize("when", ["before", "after"])
def test_sessions_that_expire(lab, soap, when):
    lab.set_faults([{"on": "CurrentTime", "nth": 1, "when": when, "do": "expire-session"}])
    vm = soap.vm(VM)
    soap.instance.CurrentTime()  # needs no login
    with pytest.raises(vim.fault.NotAuthenticated):
        vm.PowerOnVM_Task()
    assert soap.calls() == []


def test_a_call_that_finds_its_session_gone(lab, soap):
    vm = soap.vm(VM)
    lab.set_faults([{"on": "PowerOnVM_Task", "nth": 1, "do": "expire-session"}])
    with pytest.raises(vim.fault.NotAuthenticated):
        vm.PowerOnVM_Task()
    assert soap.calls() == []


def raw(lab, timeout):
    sock = socket.create_connection(("127.0.0.1", lab.port), timeout=timeout)
    context = ssl.create_default_context(cafile=str(lab.directory / "ca.pem"))
    return context, sock


def connected(context, sock):
    with sock:
        context.wrap_socket(sock, server_hostname="127.0.0.1")


@pytest.mark.parametrize(
    ("word", "error"),
    [("drop", (ssl.SSLError, ConnectionResetError)), ("reset", ConnectionResetError), ("hang", TimeoutError)],
)
def test_a_connection_that_ends_before_tls(lab, word, error):
    lab.set_faults([{"on": "connect", "do": word}])
    # a reset may already meet whoever still waits for the connection
    with pytest.raises(error):
        connected(*raw(lab, 0.5 if word == "hang" else 30))
    lab.clear_faults()
    context, sock = raw(lab, 30)
    context.wrap_socket(sock, server_hostname="127.0.0.1").close()


def test_a_connection_that_is_slow(lab):
    lab.set_faults([{"on": "connect", "do": {"delay": "300ms"}}])
    began = time.monotonic()  # the delay begins when the connection is accepted
    context, sock = raw(lab, 30)
    context.wrap_socket(sock, server_hostname="127.0.0.1").close()
    assert time.monotonic() - began >= 0.3


def test_a_connection_that_is_held(lab):
    lab.set_faults([{"on": "connect", "do": "hold"}])
    context, sock = raw(lab, 60)
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(connected, context, sock)
        struck(lab, 1)
        assert not done.done()
        lab.release_fault(1)
        done.result()


@pytest.mark.parametrize(("do", "status"), [("503", 503), ("malformed", 200), ("truncate", 200)])
def test_the_version_document(lab, do, status):
    lab.set_faults([{"on": "versions", "nth": 1, "when": "after", "do": do}])
    context = ssl.create_default_context(cafile=str(lab.directory / "ca.pem"))
    bodies = []
    for expected in (status, 200):
        connection = http.client.HTTPSConnection("127.0.0.1", lab.port, context=context, timeout=5)
        connection.request("GET", "/sdk/vimServiceVersions.xml")
        reply = connection.getresponse()
        assert reply.status == expected
        bodies.append(reply.read())
        connection.close()
    with pytest.raises(ET.ParseError):
        ET.fromstring(bodies[0])
    ET.fromstring(bodies[1])


def test_only_what_a_rule_names_suffers(lab, soap):
    lab.set_faults([{"on": "any-mutation", "target": VM, "do": "drop"}])
    assert soap.vm(VM).name == VM
    soap.wait(soap.vm("train-03").PowerOffVM_Task())
    with pytest.raises(http.client.HTTPException):
        soap.vm(VM).PowerOnVM_Task()


def test_a_rule_on_a_host_is_met_by_its_managers_too(lab, soap):
    lab.set_faults([{"on": "any-mutation", "target": "esx01*", "do": {"fault": "HostNotReachable"}}])
    with pytest.raises(vmodl.fault.HostNotReachable):
        soap.host("esx01").configManager.serviceSystem.StopService("TSM-SSH")
    soap.host("esx02").configManager.serviceSystem.StopService("TSM-SSH")


def test_what_fired_is_told_with_the_place_in_the_ledger(lab, soap):
    soap.wait(soap.vm("train-03").PowerOffVM_Task())
    lab.set_faults([{"on": "PowerOnVM_Task", "nth": 1, "do": "lost-reply"}], seed=11)
    with pytest.raises(http.client.HTTPException):
        soap.vm(VM).PowerOnVM_Task()
    found = lab.get("/lab/faults")
    assert found["seed"] == 11
    assert found["rules"] == [
        {"number": 1, "rule": "{on: PowerOnVM_Task, nth: 1, do: lost-reply}", "met": 1, "fired": 1}
    ]
    (fired,) = found["fired"]
    assert {k: fired[k] for k in ("number", "rule", "event", "object", "do", "when", "ledger")} == {
        "number": 1,
        "rule": 1,
        "event": "PowerOnVM_Task",
        "object": VM,
        "do": "lost-reply",
        "when": "after",
        "ledger": 1,
    }


def test_a_reset_of_the_lab_ends_every_fault(lab, soap):
    lab.set_faults([{"on": "any", "do": "hang"}])
    lab.post("/lab/reset")
    assert lab.get("/lab/faults")["rules"] == []
    assert post(lab, BODY.format(*TOTAL))[0] == 200
