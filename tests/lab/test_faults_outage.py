"""Outages of the vCenter: refused connections, 503 while it starts, sessions gone, another certificate."""

import http.client
import ssl
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyVmomi import vim


def connect(lab, timeout=5.0):
    context = ssl.create_default_context(cafile=str(lab.directory / "ca.pem"))
    return http.client.HTTPSConnection("127.0.0.1", lab.port, context=context, timeout=timeout)


def versions(lab):
    """The status of a request on a new connection, or the error that there was instead."""
    connection = connect(lab)
    try:
        connection.request("POST", "/sdk", b"<a/>")
        return connection.getresponse().status
    except OSError as error:
        return type(error)
    finally:
        connection.close()


def test_a_restart_refuses_then_says_503_then_serves_without_sessions(lab, soap):
    vm = soap.vm("train-04")
    lab.set_faults([{"on": "PowerOnVM_Task", "nth": 1, "do": {"restart": "2s", "starting": "2s"}}])
    began = time.monotonic()
    with pytest.raises(http.client.RemoteDisconnected):
        vm.PowerOnVM_Task()
    assert versions(lab) is ConnectionRefusedError
    assert lab.get("/lab/farm")["sessions"] == 0  # the control endpoint has a port of its own
    while (answer := versions(lab)) is ConnectionRefusedError:
        time.sleep(0.02)
    assert answer == 503
    assert time.monotonic() - began >= 2
    while versions(lab) == 503:
        time.sleep(0.02)
    assert time.monotonic() - began >= 4
    with pytest.raises(vim.fault.NotAuthenticated):
        vm.PowerOnVM_Task()
    assert soap.calls() == []


def test_a_restart_after_the_effect(lab, soap, new_client):
    vm = soap.vm("train-04")
    lab.set_faults([{"on": "PowerOnVM_Task", "nth": 1, "when": "after", "do": {"restart": "200ms"}}])
    with pytest.raises(http.client.RemoteDisconnected):
        vm.PowerOnVM_Task()
    soap.until(lambda: versions(lab) == 500)  # no SOAP, but served
    fresh = new_client(lab)
    fresh.until(lambda: fresh.vm("train-04").runtime.powerState == "poweredOn")
    assert fresh.calls() == [("train-04", "PowerOnVM_Task")]


def test_a_restart_cuts_the_connections_of_others(lab, soap):
    other = connect(lab)
    other.request("GET", "/sdk/vimServiceVersions.xml")
    other.getresponse().read()
    lab.set_faults([{"on": "CurrentTime", "nth": 1, "do": {"restart": "100ms"}}])
    with pytest.raises(http.client.RemoteDisconnected):
        soap.instance.CurrentTime()
    other.sock.settimeout(2)
    assert other.sock.recv(1) == b""  # its end, not more waiting
    other.close()


def test_what_a_service_had_not_begun_dies_with_it(lab, soap, new_client):
    """A login that waits to be carried out when vCenter goes down opens no session in the vCenter that comes up."""
    lab.set_faults(
        [
            {"on": "Login", "nth": 1, "do": {"delay": "400ms"}},
            {"on": "CurrentTime", "nth": 1, "do": {"restart": "100ms"}},
        ]
    )
    logins = lab.get("/lab/traffic")["calls"]["Login"]
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(new_client, lab)
        soap.until(lambda: lab.get("/lab/faults")["fired"])
        with pytest.raises(http.client.RemoteDisconnected):
            soap.instance.CurrentTime()
        with pytest.raises(ConnectionError):
            waiting.result()
    soap.until(lambda: lab.get("/lab/traffic")["calls"]["Login"] > logins)  # it had its turn after the restart
    assert lab.get("/lab/farm")["sessions"] == 0
    assert lab.check()["ok"]


def test_a_reset_of_the_lab_ends_an_outage(lab, soap):
    lab.set_faults([{"on": "CurrentTime", "do": {"restart": "1m", "starting": "1m"}}])
    with pytest.raises(http.client.RemoteDisconnected):
        soap.instance.CurrentTime()
    assert versions(lab) is ConnectionRefusedError
    lab.post("/lab/reset")
    assert versions(lab) == 500


def test_another_certificate(lab, soap, new_client):
    kept = connect(lab)
    kept.request("GET", "/sdk/vimServiceVersions.xml")
    kept.getresponse().read()
    lab.set_faults([{"on": "CurrentTime", "nth": 1, "do": "cert-swap"}])
    soap.instance.CurrentTime()  # the call itself is answered
    with pytest.raises(ssl.SSLCertVerificationError):
        soap.instance.CurrentTime()
    kept.request("GET", "/sdk/vimServiceVersions.xml")
    reply = kept.getresponse()
    reply.read()
    assert reply.getheader("Connection") == "close"
    kept.close()
    assert [f["do"] for f in lab.get("/lab/faults")["fired"]] == ["cert-swap"]
    lab.post("/lab/reset")
    assert new_client(lab).content.about.name == "VMware vCenter Server"
