"""T-50: every certificate a server can show, by IP address and by name; only a trusted one ever sees a request."""

from __future__ import annotations

import datetime
import hashlib
import socket
import ssl
import threading
from dataclasses import replace

import pytest
import trustme

from vsphere_ai.connect.secure_shell.trusted import keep_certificate
from vsphere_ai.connect.tls import Endpoint, distrust, fetch_certificate, refusal
from vsphere_ai.connect.vcenter import VCenter
from vsphere_ai.errors import Denied, Unreachable

NOW = datetime.datetime.now(datetime.UTC)
DAY = datetime.timedelta(days=1)
ADDRESSES = ["127.0.0.1", "localhost"]


def self_signed():
    """A certificate that nobody but itself vouches for."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "photon-machine")])
    made = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(7).not_valid_before(NOW - DAY).not_valid_after(NOW + DAY)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    return made.public_bytes(serialization.Encoding.PEM) + key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def old(context, version):
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = context.maximum_version = version
    return context


@pytest.fixture
def server(authority, tmp_path):
    """Server settings by case."""

    def make(case):
        names = tuple(ADDRESSES)
        match case:
            case "self-signed":
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                (tmp_path / "own.pem").write_bytes(self_signed())
                context.load_cert_chain(tmp_path / "own.pem")
                return context
            case "expired":
                return authority.context(*names, not_before=NOW - 9 * DAY, not_after=NOW - DAY)
            case "not yet valid":
                return authority.context(*names, not_before=NOW + DAY, not_after=NOW + 9 * DAY)
            case "other name":
                return authority.context("vc.example.com", "10.255.255.1")
            case "other CA":
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                trustme.CA().issue_cert(*names).configure_cert(context)
                return context
            case "TLS 1.0":
                return old(authority.context(*names), ssl.TLSVersion.TLSv1)
            case "TLS 1.1":
                return old(authority.context(*names), ssl.TLSVersion.TLSv1_1)
        return authority.context(*names)

    return make


def pin(fake):
    pem = ssl.get_server_certificate(fake.address)
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem)).hexdigest()


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize(
    "case", ["self-signed", "expired", "not yet valid", "other name", "other CA", "TLS 1.0", "TLS 1.1"]
)
def test_by_the_ca_file_every_other_certificate_is_refused_unasked(serve, server, authority, limits, case, address):
    fake = serve(server(case))
    endpoint = replace(fake.endpoint(ca_file=authority.file), address=address)
    with pytest.raises(Denied) as caught:
        VCenter.connect(endpoint, limits=limits)
    assert fake.received == 0
    assert "tls." in caught.value.remedy or "TLS 1.2" in caught.value.remedy
    refused = distrust(endpoint, 2.0)
    assert refused is not None
    assert refused.message == caught.value.message


@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize("case", ["self-signed", "other name", "other CA", "good"])
def test_a_wrong_pin_is_refused_unasked_and_the_right_one_is_trusted(serve, server, limits, case, address):
    fake = serve(server(case))
    right = pin(fake)
    wrong = right[:-1] + ("0" if right[-1] != "0" else "1")
    with pytest.raises(Denied) as caught:
        VCenter.connect(replace(fake.endpoint(fingerprint=wrong), address=address), limits=limits)
    assert fake.received == 0
    assert "tls.fingerprint" in caught.value.remedy
    endpoint = replace(fake.endpoint(fingerprint=right), address=address)
    assert distrust(endpoint, 2.0) is None
    with VCenter.connect(endpoint, limits=limits):
        assert fake.count("Login") == 1


@pytest.mark.parametrize("case", ["good", "self-signed"])
def test_the_servers_own_certificate_in_a_file_is_trusted_and_survives_no_swap(serve, server, limits, tmp_path, case):
    """As `trust vcenter --write` stores it: a leaf its authority signed, without the authority."""
    fake = serve(server(case))
    seen = replace(fake.endpoint(), address="localhost")
    keep_certificate(tmp_path / "trusted" / "vc.pem", fetch_certificate(seen, 2.0))
    assert fake.received == 0
    endpoint = replace(seen, ca_file=tmp_path / "trusted" / "vc.pem")
    with VCenter.connect(endpoint, limits=limits) as vcenter:
        vcenter.now()
        fake.tls = server("good" if case == "self-signed" else "other CA")
        fake.cut_connections()
        before = fake.received
        with pytest.raises(Denied):
            vcenter.now()
        assert fake.received == before


def test_without_anything_the_system_decides(serve, server, limits):
    fake = serve(server("good"))
    with pytest.raises(Denied):
        VCenter.connect(fake.endpoint(), limits=limits)
    assert fake.received == 0


BROKEN = [
    "SSLV3_ALERT_BAD_RECORD_MAC",
    "DECRYPTION_FAILED_OR_BAD_RECORD_MAC",
    "WRONG_VERSION_NUMBER",
    "BAD_LENGTH",
    None,
]
NO_AGREEMENT = [
    "UNSUPPORTED_PROTOCOL",
    "TLSV1_ALERT_PROTOCOL_VERSION",
    "NO_SHARED_CIPHER",
    "SSLV3_ALERT_HANDSHAKE_FAILURE",
    "DH_KEY_TOO_SMALL",
    "TLSV1_ALERT_UNKNOWN_CA",
    "SSLV3_ALERT_BAD_CERTIFICATE",
]


@pytest.mark.parametrize("reason", BROKEN + NO_AGREEMENT)
def test_a_damaged_connection_is_not_a_refusal(fake, reason):
    error = ssl.SSLError(1, "said by OpenSSL")
    error.reason = reason
    found = refusal(fake.endpoint(), error)
    assert isinstance(found, Unreachable if reason in BROKEN else Denied)
    assert (reason or "said by OpenSSL") in found.message


def test_a_port_that_speaks_no_tls_is_no_vcenter(authority, limits):
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            client, _ = listener.accept()
            client.recv(4096)
            client.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
            client.close()

        threading.Thread(target=serve, daemon=True).start()
        endpoint = Endpoint("127.0.0.1", listener.getsockname()[1], "svc", "p", authority.file)
        with pytest.raises(Unreachable) as caught:
            VCenter.connect(endpoint, limits=replace(limits, patience=0.1))
        assert "are those of a vCenter" in caught.value.remedy
