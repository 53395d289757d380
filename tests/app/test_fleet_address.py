"""Addresses of a fleet and its certificates: nothing leaves this machine without mutual TLS."""

from __future__ import annotations

import contextlib
import socket
import ssl

import pytest
import trustme

from vsphere_ai.app.fleet_address import Address, TlsFiles, context, parse_address, require_loopback, security
from vsphere_ai.app.fleet_place import PlaceRequest, open_place
from vsphere_ai.app.fleet_rpc import Caller, Listener
from vsphere_ai.errors import Denied, Unreachable, UsageError, VsphereAiError


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("tls://fleet.example:8786", Address("fleet.example", 8786, True)),
        ("dask:tls://[2001:db8::1]:8786", Address("2001:db8::1", 8786, True)),
        ("tcp://127.0.0.1:1", Address("127.0.0.1", 1, False)),
        ("tcp://127.9.9.9:1", Address("127.9.9.9", 1, False)),
        ("tcp://[::1]:65535", Address("::1", 65535, False)),
        ("tcp://localhost:8786", Address("localhost", 8786, False)),
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
        ("tcp://fleet.example:8786", "usage.tls"),
        ("tcp://10.0.0.1:8786", "usage.tls"),
        ("tcp://0.0.0.0:8786", "usage.tls"),
        ("tcp://[::]:8786", "usage.tls"),
        ("tcp://localhost.example:8786", "usage.tls"),
    ],
)
def test_an_address_that_cannot_be_used(text, rule):
    with pytest.raises(UsageError) as refused:
        parse_address(text)
    assert refused.value.rule == rule


def test_a_listener_without_tls_stays_on_loopback():
    require_loopback("127.0.0.1", "--listen 127.0.0.1")
    with pytest.raises(UsageError, match=r"0\.0\.0\.0"):
        require_loopback("0.0.0.0", "--listen 0.0.0.0")


@pytest.mark.parametrize("executor", ["ssh:host", "dask:tcp://10.0.0.1:8786", "dask:8786"])
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
        return TlsFiles(*files)

    return make


ADDRESS = Address("fleet.example", 8786, True)


def test_tls_needs_all_files_by_options_or_by_dask(issued):
    import dask

    assert security(Address("127.0.0.1", 1, False), TlsFiles()) is None
    with pytest.raises(UsageError) as refused:
        security(ADDRESS, TlsFiles())
    assert refused.value.rule == "usage.tls"
    files = issued(trustme.CA(), "own")
    with pytest.raises(UsageError, match="no file of --tls-key"):
        security(ADDRESS, TlsFiles(files.ca, files.cert, files.ca.with_name("absent.pem")))
    assert security(ADDRESS, files).require_encryption
    home = "distributed.comm.tls"
    given = {f"{home}.{r}.{p}": str(vars(files)[p]) for r in ("client", "worker", "scheduler") for p in ("cert", "key")}
    with dask.config.set({**given, f"{home}.ca-file": str(files.ca)}):
        assert security(ADDRESS, TlsFiles()).tls_worker_key == str(files.key)


def test_only_certificates_of_the_fleet_are_answered(issued):
    authority, seen = trustme.CA(), []

    def answer(op, values, blob):
        seen.append((op, values["run"], blob))
        return {"run": values["run"]}, blob

    own, other = (security(ADDRESS, issued(each, name)) for each, name in ((authority, "own"), (trustme.CA(), "other")))
    with Listener("127.0.0.1", 0, context(own, "client", listens=True), answer) as listener:

        def ask(tls):
            with contextlib.closing(Caller(listener.server_address, listener.token, tls)) as caller:
                return caller.call("acquire", {"run": "r"}, b"x" * 100_000)

        assert ask(context(own, "worker", listens=False)) == ({"run": "r"}, b"x" * 100_000)
        bare = ssl.create_default_context(cafile=own.tls_ca_file)
        bare.check_hostname = False
        for wrong in (context(other, "worker", listens=False), bare, None):
            with pytest.raises((Denied, Unreachable)):
                ask(wrong)
        with socket.create_connection(listener.server_address) as raw:
            raw.sendall(b"\0" * 64)
            with contextlib.suppress(ConnectionResetError):
                assert raw.recv(1) in (b"", b"\x15"), "an alert of TLS, and the end"
        assert ask(context(own, "worker", listens=False)), "it still listens"
    assert len(seen) == 2


def test_errors_of_the_other_side_keep_their_code_and_rule(issued):
    def answer(op, values, blob):
        raise Denied("no", "ask", rule="fleet.session")

    with Listener("127.0.0.1", 0, None, answer) as listener:
        with pytest.raises(VsphereAiError, match="no") as error:
            Caller(listener.server_address, listener.token, None).call("acquire", {})
        assert (error.value.exit_code, error.value.rule, error.value.remedy) == (4, "fleet.session", "ask")
