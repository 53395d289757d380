"""Addresses of a fleet, its TLS settings, and the coordinator's own messages: mutual TLS, on loopback too."""

from __future__ import annotations

import contextlib
import socket
import ssl
from concurrent.futures import ThreadPoolExecutor

import pytest
import trustme

from vsphere_ai.errors import Denied, Unreachable, UsageError, VsphereAiError
from vsphere_ai.fleet.address import Address, context, loopback, parse_address, security
from vsphere_ai.fleet.certificates import TlsFiles
from vsphere_ai.fleet.place import PlaceRequest, open_place
from vsphere_ai.fleet.rpc import Caller, WorkerListener


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("tls://fleet.example:8786", Address("fleet.example", 8786)),
        ("dask:tls://[2001:db8::1]:8786", Address("2001:db8::1", 8786)),
        ("tls://127.0.0.1:1", Address("127.0.0.1", 1)),
        ("tls://[::1]:65535", Address("::1", 65535)),
    ],
)
def test_an_address_is_read(text, found):
    assert parse_address(text) == found
    assert parse_address(str(found)) == found


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("fleet.example:8786", "usage.executor"),
        ("tls://fleet.example", "usage.executor"),
        ("tls://:8786", "usage.executor"),
        ("tls://fleet.example:0", "usage.executor"),
        ("tls://fleet.example:65536", "usage.executor"),
        ("ucx://fleet.example:8786", "usage.executor"),
        ("TCP://127.0.0.1:8786", "usage.executor"),
        ("inproc://127.0.0.1:8786", "usage.executor"),
        ("ws://127.0.0.1:8786", "usage.executor"),
        ("wss://127.0.0.1:8786", "usage.executor"),
        ("tcp://fleet.example:8786", "usage.tls"),
        ("tcp://0.0.0.0:8786", "usage.tls"),
        ("tcp://127.0.0.1:8786", "usage.tls"),
        ("dask:tcp://127.0.0.1:8786", "usage.tls"),
        ("tcp://127.9.9.9:8786", "usage.tls"),
        ("tcp://[::1]:8786", "usage.tls"),
        ("tcp://localhost:8786", "usage.tls"),
    ],
)
def test_an_address_that_cannot_be_used(text, rule):
    with pytest.raises(UsageError) as refused:
        parse_address(text)
    assert refused.value.rule == rule


@pytest.mark.parametrize(
    ("scheduler", "listens"),
    [("127.0.0.1", "127.0.0.1"), ("localhost", "127.0.0.1"), ("::1", "::1"), ("192.0.2.1", None), ("a.example", None)],
)
def test_a_worker_of_a_fleet_on_one_machine_listens_on_loopback(scheduler, listens):
    assert loopback(scheduler) == listens


@pytest.mark.parametrize("executor", ["ssh:host", "dask:tcp://127.0.0.1:8786", "dask:8786"])
def test_an_executor_that_cannot_be_used_is_refused_before_anything(executor):
    with pytest.raises(UsageError), open_place(PlaceRequest(executor)):
        raise AssertionError("it was opened")


@pytest.fixture
def issued(tmp_path):
    """Make files of a certificate: `issued(authority)`; without one, of an unknown authority."""

    def make(authority, name):
        made = authority.issue_cert("dask-internal")
        files = [tmp_path / f"{name}-{part}.pem" for part in ("ca", "cert", "key")]
        authority.cert_pem.write_to_path(str(files[0]))
        made.cert_chain_pems[0].write_to_path(str(files[1]))
        made.private_key_pem.write_to_path(str(files[2]))
        files[2].chmod(0o600)
        return TlsFiles(*files)

    return make


ADDRESS = Address("fleet.example", 8786)


def test_tls_needs_all_files_by_options_or_by_dask(issued):
    import dask

    for each in (ADDRESS, Address("127.0.0.1", 1)):
        with pytest.raises(UsageError, match="needs a certificate authority") as refused:
            security(each, TlsFiles())
        assert refused.value.rule == "usage.tls"
        assert "vsphere-ai fleet certificates" in refused.value.remedy
    files = issued(trustme.CA(), "own")
    with pytest.raises(UsageError, match="no file of --tls-key"):
        security(ADDRESS, TlsFiles(files.ca, files.cert, files.ca.with_name("absent.pem")))
    assert security(ADDRESS, files).require_encryption
    home = "distributed.comm.tls"
    given = {f"{home}.{r}.{p}": str(vars(files)[p]) for r in ("client", "worker", "scheduler") for p in ("cert", "key")}
    with dask.config.set({**given, f"{home}.ca-file": str(files.ca)}):
        assert security(ADDRESS, TlsFiles()).tls_worker_key == str(files.key)
        other = issued(trustme.CA(), "other")
        mixed = {f"{home}.worker.cert": str(other.cert), f"{home}.worker.key": str(other.key)}
        with dask.config.set(mixed), pytest.raises(Denied, match=r"other-cert\.pem is not of the certificate auth"):
            security(ADDRESS, TlsFiles())
        text = files.key.read_text("utf-8")
        with dask.config.set({f"{home}.client.key": text}), pytest.raises(UsageError) as inline:
            security(ADDRESS, TlsFiles())
        assert "PRIVATE" not in str(inline.value) + inline.value.remedy


def test_only_certificates_of_the_fleet_are_answered(issued):
    authority, seen = trustme.CA(), []

    def answer(op, values, blob):
        seen.append((op, values["run"], blob))
        return {"run": values["run"]}, blob

    own, other = (security(ADDRESS, issued(each, name)) for each, name in ((authority, "own"), (trustme.CA(), "other")))
    with WorkerListener("127.0.0.1", 0, context(own, "client", listens=True), answer) as listener:

        def ask(tls):
            with contextlib.closing(Caller(listener.server_address, listener.token, tls)) as caller:
                return caller.call("acquire", {"run": "r"}, b"x" * 100_000)

        assert ask(context(own, "worker", listens=False)) == ({"run": "r"}, b"x" * 100_000)
        bare = ssl.create_default_context(cafile=own.tls_ca_file)
        bare.check_hostname = False
        unverified = context(other, "worker", listens=False)
        unverified.verify_mode = ssl.CERT_NONE
        for wrong in (context(other, "worker", listens=False), unverified, bare):
            with pytest.raises((Denied, Unreachable)):
                ask(wrong)
        with socket.create_connection(listener.server_address) as raw:
            raw.sendall(b"\0" * 64)
            with contextlib.suppress(ConnectionResetError):
                assert raw.recv(1) in (b"", b"\x15"), "an alert of TLS, and the end"
        assert ask(context(own, "worker", listens=False)), "it still listens"
    assert len(seen) == 2


def test_a_worker_tells_nothing_to_a_coordinator_without_a_certificate_of_the_fleet(issued):
    """Of what listens in the coordinator's place, also on loopback: it gets no token and no journal."""
    own, other = (security(ADDRESS, issued(trustme.CA(), name)) for name in ("own", "other"))
    heard = []
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as pool:

        def impostor(tls):
            sock, _ = server.accept()
            sock.settimeout(5)
            with sock, contextlib.suppress(OSError):
                heard.append(sock.recv(1 << 16) if tls is None else tls.wrap_socket(sock, server_side=True).recv(1))

        for tls in (None, context(other, "client", listens=True)):
            attempt = pool.submit(impostor, tls)
            caller = Caller(server.getsockname(), "the-token", context(own, "worker", listens=False))
            with pytest.raises((Denied, Unreachable)):
                caller.call("acquire", {"run": "the-run"}, b"the-journal", within=2)
            attempt.result()
    assert len(heard) == 1, "the handshake with another certificate has failed"
    assert heard[0].startswith(b"\x16"), "a handshake of TLS"
    assert not [word for word in (b"the-token", b"the-run", b"the-journal") if word in heard[0]]


def test_errors_of_the_other_side_keep_their_code_and_rule(issued):
    def answer(op, values, blob):
        raise Denied("no", "ask", rule="fleet.session")

    own = security(ADDRESS, issued(trustme.CA(), "own"))
    tls = context(own, "worker", listens=False)
    with WorkerListener("127.0.0.1", 0, context(own, "client", listens=True), answer) as listener:
        with pytest.raises(VsphereAiError, match="no") as error:
            Caller(listener.server_address, listener.token, tls).call("acquire", {})
        assert (error.value.exit_code, error.value.rule, error.value.remedy) == (4, "fleet.session", "ask")
