"""Certificate authority of a fleet: makes it in a folder that only its owner can use, and certificates for machines."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from vsphere_ai.errors import Conflict, Denied, Storage, UsageError
from vsphere_ai.fleet.certificates import certificates, date
from vsphere_ai.security.files import SMALL, Unfit, read_bytes, write_private
from vsphere_ai.security.state_dir import private_folder

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

AUTHORITY = "ca"
LOCAL = "localhost,127.0.0.1,::1"
"""Names of the certificate for a fleet on one machine."""
AUTHORITY_DAYS, DAYS = 1825, 90
CLOCKS = timedelta(hours=1)
"""How long ago a certificate begins: clocks of machines differ."""


@dataclass(frozen=True)
class CertificatesRequest:
    """Names of certificates to make in a folder, each with further names after commas, DNS names or IP addresses.

    `days`: how long they are valid, never longer than the authority. `renew`: in place of those that are there.
    `dry_run`: nothing is written.
    """

    folder: Path
    names: tuple[str, ...] = ()
    days: int = DAYS
    renew: bool = False
    dry_run: bool = False


@dataclass(frozen=True)
class MadeCertificate:
    """A certificate on the disk, its key beside it, and when it ends. `made`: by this call."""

    name: str
    path: Path
    key: Path
    until: datetime
    made: bool = True


def make_certificates(request: CertificatesRequest) -> tuple[MadeCertificate, ...]:
    """Make certificates of the authority of a folder, and the authority where there is none; return it first.

    Files are 0600 and the folder 0700. `Conflict` where a certificate is there, and nothing is made then;
    `Denied` where the folder is not this user's alone, or its authority cannot sign any more.
    """
    wanted = [_names(text) for text in request.names or (LOCAL,)]
    files = [name for name, *_ in wanted]
    if len(set(files)) != len(files):
        raise UsageError(f"two certificates would have the same name: {', '.join(files)}", "name each once")
    is_new = not os.path.lexists(request.folder)
    folder = request.folder if request.dry_run and is_new else private_folder(request.folder)
    there = [name for name in files if os.path.lexists(folder / f"{name}.pem")]
    if there and not request.renew:
        text = f"there is a certificate {folder / there[0]}.pem already, and nothing was made"
        raise Conflict(text, "give --renew to replace it, or another name", rule="fleet.certificate")
    if request.dry_run:
        return _would_make(request, files)
    try:
        authority, key, signer = _authority(folder)
        until = min(datetime.now(UTC) + timedelta(days=request.days), authority.until)
        return authority, *(_certificate(folder, names, until, key, signer) for names in wanted)
    except Unfit as error:
        text = f"{error.filename} is not written: {error.strerror}"
        raise Denied(text, "remove it, or give another folder") from error
    except OSError as error:
        raise Storage(f"{folder}: {error.strerror}", "give another folder") from error


def _would_make(request: CertificatesRequest, names: Sequence[str]) -> tuple[MadeCertificate, ...]:
    """Return what `make_certificates` would make, and which authority there is."""
    folder, now = request.folder, datetime.now(UTC)
    if os.path.lexists(folder / f"{AUTHORITY}.pem"):
        authority, *_ = _authority(folder)
    else:
        until = now + timedelta(days=AUTHORITY_DAYS)
        authority = MadeCertificate(AUTHORITY, folder / f"{AUTHORITY}.pem", folder / f"{AUTHORITY}.key", until)
    until = min(now + timedelta(days=request.days), authority.until)
    return authority, *(MadeCertificate(n, folder / f"{n}.pem", folder / f"{n}.key", until) for n in names)


def _certificate(
    folder: Path,
    names: Sequence[str],
    until: datetime,
    authority_key: EllipticCurvePrivateKey,
    authority: x509.Certificate,
) -> MadeCertificate:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import ExtendedKeyUsageOID

    builder, key = _builder(names[0], until)
    signer = authority.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    builder = (
        builder.issuer_name(authority.subject)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage("digital_signature"), critical=True)
        # each process of a fleet listens, and connects to others
        .add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False
        )
        .add_extension(x509.SubjectAlternativeName([_general(each) for each in names]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(signer), critical=False)
    )
    return _save(folder, names[0], builder.sign(authority_key, hashes.SHA256()), key)


def _authority(folder: Path) -> tuple[MadeCertificate, EllipticCurvePrivateKey, x509.Certificate]:
    """Return the authority of a folder, made where there is none."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

    path, key_path = folder / f"{AUTHORITY}.pem", folder / f"{AUTHORITY}.key"
    if not path.exists():
        builder, key = _builder("vsphere-ai fleet", datetime.now(UTC) + timedelta(days=AUTHORITY_DAYS))
        builder = (
            builder.issuer_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "vsphere-ai fleet")]))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage("key_cert_sign", "crl_sign"), critical=True)
        )
        certificate = builder.sign(key, hashes.SHA256())
        return _save(folder, AUTHORITY, certificate, key), key, certificate
    (certificate, *_) = certificates(path, read_bytes(path, SMALL))
    other = "make the certificates of the whole fleet in another folder"
    if certificate.not_valid_after_utc < datetime.now(UTC):
        text = f"the certificate authority {path} has expired on {date(certificate.not_valid_after_utc)}"
        raise Denied(text, other, rule="fleet.certificate")
    try:
        loaded = serialization.load_pem_private_key(read_bytes(key_path, SMALL), None)
    except (FileNotFoundError, ValueError, TypeError) as error:
        text = f"{key_path}, the key of the certificate authority, is not there or cannot be read"
        raise Denied(text, f"put it there, or {other}", rule="fleet.certificate") from error
    if not isinstance(loaded, EllipticCurvePrivateKey) or loaded.public_key() != certificate.public_key():
        raise Denied(f"{key_path} is not the key of {path}", f"put that there, or {other}", rule="fleet.certificate")
    return MadeCertificate(AUTHORITY, path, key_path, certificate.not_valid_after_utc, made=False), loaded, certificate


def _builder(name: str, until: datetime) -> tuple[x509.CertificateBuilder, EllipticCurvePrivateKey]:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    made = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.now(UTC) - CLOCKS)
        .not_valid_after(until)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return made, key


def _usage(*uses: str) -> x509.KeyUsage:
    from cryptography import x509

    names = (
        "digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
        "key_cert_sign", "crl_sign", "encipher_only", "decipher_only",
    )  # fmt: skip
    return x509.KeyUsage(**{name: name in uses for name in names})


def _save(folder: Path, name: str, certificate: x509.Certificate, key: EllipticCurvePrivateKey) -> MadeCertificate:
    """Write the key, then the certificate: one without a key is never left."""
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    path, key_path = folder / f"{name}.pem", folder / f"{name}.key"
    write_private(key_path, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    write_private(path, certificate.public_bytes(Encoding.PEM))
    return MadeCertificate(name, path, key_path, certificate.not_valid_after_utc)


def _names(text: str) -> tuple[str, ...]:
    """Return the names of a certificate, the first of which is that of its files."""
    first, *others = names = tuple(part.strip() for part in text.split(","))
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", first) or first.casefold() == AUTHORITY:
        remedy = "give letters, digits, '.', '_' and '-', such as worker-berlin,worker.berlin.example"
        raise UsageError(f"'{first}' cannot be the name of a certificate and of its files", remedy)
    for each in others:
        if not _is_address(each) and not re.fullmatch(r"(\*\.)?([A-Za-z0-9_-]{1,63}\.)*[A-Za-z0-9_-]{1,63}", each):
            text = f"'{each}', a further name of the certificate {first}, is neither a DNS name nor an IP address"
            raise UsageError(text, "separate names by commas: worker-berlin,worker.berlin.example,192.0.2.7")
    return names


def _general(name: str) -> x509.GeneralName:
    from cryptography import x509

    return x509.IPAddress(ipaddress.ip_address(name)) if _is_address(name) else x509.DNSName(name)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
