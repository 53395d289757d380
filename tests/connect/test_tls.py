"""Which servers are trusted: nothing but a verified or a pinned one ever sees a login."""

from __future__ import annotations

import datetime
import socket
import ssl
import time

import pytest
import trustme
from support.gates import busy
from support.raising import refused

from vsphere_ai.connect.soap.outage import WaitLimits
from vsphere_ai.connect.tls import Endpoint, fetch_certificate
from vsphere_ai.connect.vcenter import VCenter
from vsphere_ai.errors import Denied, Refused, Unreachable

NOW = datetime.datetime.now(datetime.UTC)
DAY = datetime.timedelta(days=1)


def _refused(fake, limits, **trust):
    with pytest.raises(Denied) as caught:
        VCenter.connect(fake.endpoint(**trust), limits=limits)
    assert caught.value.remedy
    assert fake.received == 0, "not a single request may reach a server that is not trusted"
    return caught.value.message


def _pin(fake):
    from hashlib import sha256

    return sha256(ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate(fake.address))).hexdigest()


def test_a_certificate_of_the_given_ca_is_trusted(fake, authority, limits):
    with VCenter.connect(fake.endpoint(ca_file=authority.file), limits=limits) as vcenter:
        assert vcenter.about.api == "7.0.2.0"
    assert fake.calls == ["RetrieveServiceContent", "Login", "Logout"]


def test_a_certificate_nobody_vouches_for_is_refused_on_127_0_0_1_too(fake, limits):
    assert "not trusted" in _refused(fake, limits)


def test_a_certificate_of_another_ca_is_refused(serve, authority, limits):
    other = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(other)
    _refused(serve(other), limits, ca_file=authority.file)


def test_a_certificate_for_another_name_is_refused(serve, authority, limits):
    message = _refused(serve(authority.context("vc.example.com")), limits, ca_file=authority.file)
    assert "127.0.0.1" in message


@pytest.mark.parametrize(("begin", "end"), [(-9 * DAY, -DAY), (DAY, 9 * DAY)], ids=["expired", "not yet valid"])
def test_a_certificate_out_of_its_time_is_refused(serve, authority, limits, begin, end):
    server = serve(authority.context("127.0.0.1", not_before=NOW + begin, not_after=NOW + end))
    _refused(server, limits, ca_file=authority.file)


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_old_tls_is_refused(serve, authority, limits):
    old = authority.context()
    old.set_ciphers("ALL:@SECLEVEL=0")
    old.minimum_version = ssl.TLSVersion.TLSv1_1
    old.maximum_version = ssl.TLSVersion.TLSv1_1
    assert "secure connection" in _refused(serve(old), limits, ca_file=authority.file)


@pytest.mark.parametrize("names", [("127.0.0.1",), ("vc.example.com",)], ids=["name fits", "other name"])
@pytest.mark.parametrize(
    "form", [str, str.upper, lambda f: "SHA256:" + ":".join(f[i : i + 2] for i in range(0, 64, 2))]
)
def test_a_pinned_certificate_is_trusted_whatever_its_name(serve, limits, names, form):
    unknown = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert(*names).configure_cert(unknown)
    fake = serve(unknown)
    with VCenter.connect(fake.endpoint(fingerprint=form(_pin(fake))), limits=limits):
        assert fake.count("Login") == 1


def test_a_wrong_pin_is_refused_even_if_the_system_would_trust(fake, authority, limits):
    message = _refused(fake, limits, fingerprint="00" * 32, ca_file=authority.file)
    assert "00:00:00" in message


def test_a_pin_that_is_no_sha_256_is_refused(fake, limits):
    assert "SHA-256" in _refused(fake, limits, fingerprint="AB:CD")


def test_an_expired_certificate_is_refused_although_pinned(serve, authority, limits):
    fake = serve(authority.context("127.0.0.1", not_before=NOW - 9 * DAY, not_after=NOW - DAY))
    fake_pin = _pin(fake)
    _refused(fake, limits, fingerprint=fake_pin)


def test_a_certificate_swapped_after_the_connection_is_refused(fake, authority, limits):
    with VCenter.connect(fake.endpoint(fingerprint=_pin(fake)), limits=limits) as vcenter:
        vcenter.now()
        fake.tls = authority.context()
        fake.cut_connections()
        before = fake.received
        with pytest.raises(Denied):
            vcenter.now()
        assert fake.received == before
        assert fake.count("Login") == 1


def test_a_ca_file_that_is_none_says_so(fake, tmp_path, limits):
    broken = tmp_path / "ca.pem"
    broken.write_text("no certificate")
    assert str(broken) in _refused(fake, limits, ca_file=broken)
    _refused(fake, limits, ca_file=tmp_path / "absent.pem")


@pytest.mark.parametrize("pin", [None, "00" * 32])
def test_a_black_hole_is_left_in_time(pin):
    with socket.create_server(("127.0.0.1", 0)) as hole:
        endpoint = Endpoint("127.0.0.1", hole.getsockname()[1], "u", "p", fingerprint=pin)
        begun = time.monotonic()
        with pytest.raises(Unreachable, match="did not answer in time"):
            VCenter.connect(endpoint, limits=WaitLimits(connect=0.3))
        assert time.monotonic() - begun < 30 * busy(), "the other limits are a minute"


def test_a_server_that_stops_answering_is_left_in_time(fake, authority):
    limits = WaitLimits(connect=1, answer=0.3, patience=0.1, backoff=0.01)
    with VCenter.connect(fake.endpoint(ca_file=authority.file), limits=limits) as vcenter:
        fake.script["CurrentTime"] = lambda _: str(fake.hang.wait(60) or "")
        begun = time.monotonic()
        with pytest.raises(Unreachable, match="did not answer in time"):
            vcenter.now()
        assert time.monotonic() - begun < 30 * busy(), "the server is silent for a minute"


def test_nothing_listening_and_an_unknown_name_are_unreachable():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        with pytest.raises(Unreachable, match="refused"):
            VCenter.connect(Endpoint("127.0.0.1", unused.getsockname()[1], "u", "p"))
    with pytest.raises(Unreachable):
        fetch_certificate(Endpoint("no-such-host.invalid", 443, "u", "p"), 2)


def test_an_old_vcenter_is_refused_before_anybody_logs_in(fake, authority, limits):
    fake.api = "6.7.3"
    with refused(Refused, "vcenter.too-old", "6.7.3", "7.0.2.0"):
        VCenter.connect(fake.endpoint(ca_file=authority.file), limits=limits)
    assert fake.calls == []
    VCenter.connect(fake.endpoint(ca_file=authority.file), limits=limits, minimum="6.5").close()


def test_a_newer_vcenter_is_spoken_to_in_a_version_both_know(fake, authority, limits):
    fake.api = "uA99999"
    with VCenter.connect(fake.endpoint(ca_file=authority.file), limits=limits, minimum="6.5") as vcenter:
        assert vcenter.about.api == "6.7"


def test_an_esxi_host_is_no_vcenter(fake, authority, limits):
    fake.api_type = "HostAgent"
    with refused(Refused, "vcenter.host"):
        VCenter.connect(fake.endpoint(ca_file=authority.file), limits=limits)
    assert fake.count("Login") == 0


def test_the_password_is_not_shown():
    assert "hunter2" not in repr(Endpoint("a", 443, "u", "hunter2"))
