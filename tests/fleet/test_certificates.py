"""Certificates of a fleet: how they are made, who can read them, and with which of them nothing is begun."""

from __future__ import annotations

import os
import stat
import subprocess
from datetime import UTC, datetime, timedelta

import pytest
import trustme
from cryptography import x509
from support.dask_fleet import certificate, expired_certificate
from support.programs import needs_program

from vsphere_ai.app import (
    CertificatesRequest,
    EstateRequest,
    FleetOptions,
    FleetPlan,
    begin_fleet,
    make_certificates,
)
from vsphere_ai.errors import Conflict, Denied, Storage, UsageError
from vsphere_ai.fleet import authority as fleet_authority
from vsphere_ai.fleet.certificates import expires_soon, require_usable
from vsphere_ai.security.state_dir import state_dir


@pytest.fixture
def pki(tmp_path):
    return tmp_path / "pki"


def modes(folder):
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.iterdir())}


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_keys_and_their_folder_are_their_owners_whatever_the_umask(pki, umask):
    before = os.umask(umask)
    try:
        make_certificates(CertificatesRequest(pki, ("scheduler", "worker-berlin")))
        make_certificates(CertificatesRequest(pki, ("scheduler",), renew=True))
    finally:
        os.umask(before)
    names = [f"{name}.{ending}" for name in ("ca", "scheduler", "worker-berlin") for ending in ("pem", "key")]
    assert modes(pki) == {"pki": 0o700, **dict.fromkeys(names, 0o600)}


@needs_program("openssl")
def test_an_authority_is_made_once_and_signs_what_comes_later(pki):
    authority, first = make_certificates(CertificatesRequest(pki, ("scheduler,fleet.example.com,192.0.2.7",)))
    text = authority.path.read_bytes()
    again, second = make_certificates(CertificatesRequest(pki, ("worker-munich",), days=7))
    assert (authority.made, again.made, second.made) == (True, False, True)
    assert authority.path.read_bytes() == text
    for each in (first, second):
        assert require_usable(authority.path, each.path, each.key) == each.until
        argv = ["openssl", "verify", "-x509_strict", "-purpose", "sslserver", "-CAfile", authority.path, each.path]
        assert subprocess.run(argv, capture_output=True).returncode == 0, "openssl does not agree"
    made = x509.load_pem_x509_certificate(first.path.read_bytes())
    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["scheduler", "fleet.example.com"]
    assert [str(each) for each in names.get_values_for_type(x509.IPAddress)] == ["192.0.2.7"]
    assert not made.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert timedelta(days=6) < second.until - datetime.now(UTC) <= timedelta(days=7)
    assert (expires_soon(second.until), expires_soon(first.until)) == (True, False)


def test_a_certificate_ends_with_its_authority(pki, monkeypatch):
    monkeypatch.setattr(fleet_authority, "AUTHORITY_DAYS", 30)
    authority, made = make_certificates(CertificatesRequest(pki))
    assert made.until == authority.until


def broken_folder(pki):
    pki.mkdir(mode=0o755)
    pki.chmod(0o755)


def linked_folder(pki):
    (pki.parent / "elsewhere").mkdir(mode=0o700)
    pki.symlink_to(pki.parent / "elsewhere")


def without_its_key(pki):
    certificate(pki)
    (pki / "ca.key").unlink()


def with_another_key(pki):
    certificate(pki)
    os.replace(pki / "localhost.key", pki / "ca.key")


def linked_key(pki):
    certificate(pki)
    (pki / "worker.key").symlink_to(pki.parent / "anything")


@pytest.mark.parametrize(
    ("before", "name", "error"),
    [
        (broken_folder, "worker", Storage),
        (linked_folder, "worker", Storage),
        (lambda pki: pki.write_text("a file"), "worker", Storage),
        (without_its_key, "worker", Denied),
        (with_another_key, "worker", Denied),
        (linked_key, "worker", Denied),
        (certificate, "../worker", UsageError),
        (certificate, "ca", UsageError),
        (certificate, "-worker", UsageError),
        (certificate, "worker,not a name", UsageError),
        (certificate, "localhost", Conflict),
    ],
)
def test_what_cannot_be_made_changes_nothing(pki, before, name, error):
    before(pki)
    there = {path: path.read_bytes() for path in pki.parent.rglob("*") if path.is_file()}
    with pytest.raises(error) as refused:
        make_certificates(CertificatesRequest(pki, (name,)))
    assert refused.value.remedy
    assert {path: path.read_bytes() for path in pki.parent.rglob("*") if path.is_file()} == there


def changed(which, mode):
    def change(*files):
        files[which].chmod(mode)
        return files

    return change


def open_folder(ca, cert, key):
    ca.parent.chmod(0o777)
    return ca, cert, key


def expired(ca, cert, key):
    return expired_certificate(ca.parent)


def early(ca, cert, key):
    made = fleet_authority.CLOCKS
    fleet_authority.CLOCKS = timedelta(days=-1)
    try:
        return certificate(ca.parent)
    finally:
        fleet_authority.CLOCKS = made


def of_another(ca, cert, key):
    return (ca, *certificate(ca.parent.parent / "other")[1:])


def key_of_another(ca, cert, key):
    return ca, cert, certificate(ca.parent.parent / "other")[2]


def encrypted(ca, cert, key):
    subprocess.run(["openssl", "pkey", "-in", key, "-out", f"{key}.new", "-aes256", "-passout", "pass:x"], check=True)
    os.replace(f"{key}.new", key)
    key.chmod(0o600)
    return ca, cert, key


def fifo(ca, cert, key):
    key.unlink()
    os.mkfifo(key, 0o600)
    return ca, cert, key


def large(ca, cert, key):
    with ca.open("ab") as file:
        file.truncate(2 << 20)
    return ca, cert, key


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (changed(2, 0o604), "can be read by others"),
        (changed(2, 0o640), "can be read by others"),
        (changed(2, 0o620), "can be changed by others"),
        (changed(1, 0o664), "can be changed by others"),
        (changed(0, 0o646), "can be changed by others"),
        (open_folder, "in which others can replace it"),
        (expired, "has expired: it was valid until"),
        (early, "is not valid before"),
        (of_another, "is not of the certificate authority"),
        (key_of_another, "is not the key of the certificate"),
        pytest.param(encrypted, "or is encrypted", marks=needs_program("openssl")),
        (fifo, "is not a regular file"),
        (large, "is larger than"),
        (lambda ca, cert, key: (ca, key, key), "no certificate in PEM form"),
        (lambda ca, cert, key: (ca, cert, key.with_name("absent.key")), "cannot be read"),
    ],
)
def test_a_certificate_that_must_not_be_used(pki, change, why):
    files = change(*certificate(pki))
    with pytest.raises(Denied, match=why) as refused:
        require_usable(*files)
    assert refused.value.rule == "fleet.certificate"
    assert refused.value.remedy
    assert "PRIVATE KEY" not in str(refused.value)


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize("which", [0, 1, 2])
def test_files_of_another_user_are_not_used(pki, which):
    files = certificate(pki)
    os.chown(files[which], 12345, -1)
    with pytest.raises(Denied, match="belongs to another user"):
        require_usable(*files)


@pytest.mark.skipif(os.getuid() != 0, reason="only root makes files of root")
def test_a_key_that_kubernetes_mounts_is_used(pki, monkeypatch):
    """A Secret with defaultMode 0440 belongs to root and the group of the pod, in a folder like /tmp."""
    files = certificate(pki)
    pki.chmod(0o1777)
    for each in files:
        each.chmod(0o440)
    monkeypatch.setattr(os, "geteuid", lambda: 10001)
    assert require_usable(*files) > datetime.now(UTC)
    files[2].chmod(0o444)
    with pytest.raises(Denied, match="can be read by others"):
        require_usable(*files)


def test_an_intermediate_authority_is_accepted(tmp_path):
    root = trustme.CA()
    made = root.create_child_ca().issue_cert("worker")
    files = [tmp_path / name for name in ("ca.pem", "cert.pem", "key.pem")]
    root.cert_pem.write_to_path(str(files[0]))
    files[1].write_bytes(b"".join(each.bytes() for each in made.cert_chain_pems))
    made.private_key_pem.write_to_path(str(files[2]))
    files[2].chmod(0o600)
    assert require_usable(*files) > datetime.now(UTC)


@pytest.mark.parametrize("executor", ["dask:tcp://127.0.0.1:8786", "tcp://127.0.0.1:8786", "dask:8786"])
def test_the_api_begins_no_fleet_run_that_could_only_go_on_without_tls(executor):
    with pytest.raises(UsageError):
        begin_fleet(FleetPlan("x.yml", (), (), None), FleetOptions(EstateRequest(), executor=executor))
    assert not (state_dir() / "fleets").exists()
