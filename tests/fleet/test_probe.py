"""A scheduler is looked at before anything is sent to it: it has to refuse who has no certificate of the fleet."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading

import pytest
from support.dask_fleet import certificate

from vsphere_ai.errors import Denied, Unreachable
from vsphere_ai.fleet import probe as fleet_probe
from vsphere_ai.fleet.address import Address, context, security
from vsphere_ai.fleet.certificates import TlsFiles
from vsphere_ai.fleet.probe import require_mutual_tls


@pytest.fixture
def settings(tmp_path):
    return security(Address("127.0.0.1", 1), TlsFiles(*certificate(tmp_path / "pki")))


class Server:
    """Accepts on loopback, and does something with each connection; `heard`: what was sent to it after that."""

    def __init__(self, serve):
        self.heard, self.count, self._serve = b"", 0, serve
        self.server = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self):
        return Address(*self.server.getsockname())

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                sock, _ = self.server.accept()
                self.count += 1
                sock.settimeout(5)
                with sock, contextlib.suppress(OSError):
                    secure = self._serve(sock)
                    if secure is not None:
                        with secure:
                            self.heard += secure.recv(1 << 16)


@pytest.fixture
def server():
    made = []

    def make(serve):
        made.append(Server(serve))
        return made[-1]

    yield make
    for each in made:
        each.server.close()


def speaking(settings, verify, *, greets=True, version=None):
    tls = context(settings, "worker", listens=True)
    tls.verify_mode = verify
    if version:
        tls.maximum_version = version

    def serve(sock):
        secure = tls.wrap_socket(sock, server_side=True)
        if greets:
            secure.sendall(b"what a scheduler of Dask says first")
        return secure

    return serve


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_scheduler_that_wants_a_certificate_is_accepted(server, settings, version):
    at = server(speaking(settings, ssl.CERT_REQUIRED, version=version))
    for _ in range(10):
        require_mutual_tls(at.address, settings)
    assert at.heard == b""


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("verify", [ssl.CERT_NONE, ssl.CERT_OPTIONAL])
def test_one_that_serves_others_too_is_refused(server, settings, verify, version):
    """It has a certificate of the fleet itself."""
    at = server(speaking(settings, verify, version=version))
    with pytest.raises(Denied, match="serves also who has no certificate") as refused:
        require_mutual_tls(at.address, settings)
    assert (refused.value.rule, at.heard) == ("fleet.tls", b"")


def test_one_that_waits_for_what_others_send_is_refused(server, settings, monkeypatch):
    monkeypatch.setattr(fleet_probe, "WAIT", 0.5)
    at = server(speaking(settings, ssl.CERT_NONE, greets=False))
    with pytest.raises(Denied, match="does not refuse who has no certificate"):
        require_mutual_tls(at.address, settings)
    assert at.heard == b""


def test_one_with_a_certificate_of_others_is_refused(server, settings, tmp_path):
    other = security(Address("127.0.0.1", 1), TlsFiles(*certificate(tmp_path / "other")))
    at = server(speaking(other, ssl.CERT_REQUIRED))
    with pytest.raises(Denied, match="no certificate of the fleet's authority"):
        require_mutual_tls(at.address, settings)


def plain(sock):
    sock.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    return sock


def test_one_without_tls_is_refused(server, settings):
    at = server(plain)
    with pytest.raises(Denied, match="does not speak TLS"):
        require_mutual_tls(at.address, settings)


def test_what_only_ends_connections_is_not_taken_for_a_refusal(server, settings):
    """As a balancer of load with nothing behind it: whether the scheduler wants certificates is not known."""

    def ends(sock):
        speaking(settings, ssl.CERT_NONE, greets=False)(sock).unwrap()

    for serve in (ends, lambda sock: None):
        at = server(serve)
        with pytest.raises((Unreachable, Denied)) as refused:
            require_mutual_tls(at.address, settings)
        assert refused.value.rule in ("fleet.scheduler", "fleet.tls")
        assert at.heard == b""


def test_a_port_on_which_no_one_listens(settings):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(Unreachable) as refused:
        require_mutual_tls(Address("127.0.0.1", port), settings)
    assert refused.value.rule == "fleet.scheduler"
