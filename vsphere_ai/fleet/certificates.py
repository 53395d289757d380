"""Certificates of a fleet as files: who can read or replace them, whether a process may use them, and their end."""

from __future__ import annotations

import os
import ssl
import stat
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from vsphere_ai.errors import Denied
from vsphere_ai.security.files import Unfit, load_key_pair, reading

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

MAKE = "make certificates: vsphere-ai fleet certificates FOLDER"
RENEW = "make it anew: vsphere-ai fleet certificates FOLDER NAME --renew"
SOON = timedelta(days=14)
LIMIT = 1 << 20
"""Bytes of a file; a bundle of authorities has a few kilobytes each."""


@dataclass(frozen=True)
class TlsFiles:
    """Certificate authority of a fleet, and certificate and key of this process; Dask's configuration without."""

    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None


def require_usable(ca: Path, cert: Path, key: Path) -> datetime:
    """Return when a certificate of a fleet ends; `Denied` (``fleet.certificate``) where it must not be used.

    Others must not be able to read the key, or to put another authority, certificate or key in the place of these. A
    key that its group reads is accepted where root owns it: so Kubernetes mounts a Secret for a group.
    The certificate has to be valid now, of an authority in `ca`, and that of `key`.
    """
    authorities = certificates(ca, _content(ca, "certificate authority"))
    own, *chain = certificates(cert, _content(cert, "certificate"))
    _content(key, "key", secret=True)
    now = datetime.now(UTC)
    issuers = [each for each in (*authorities, *chain) if issued(own, each)]
    if not issuers:
        text = f"the certificate {cert} is not of the certificate authority {ca}"
        raise Denied(text, f"give files of one fleet, or {MAKE}", rule="fleet.certificate")
    for path, each in ((cert, own), (ca, issuers[0])):
        if not each.not_valid_before_utc <= now <= each.not_valid_after_utc:
            early = now < each.not_valid_before_utc
            when = each.not_valid_before_utc if early else each.not_valid_after_utc
            what = "is not valid before" if early else "has expired: it was valid until"
            remedy = "check the clock of this machine" if early else RENEW
            raise Denied(f"the certificate {path} {what} {date(when)}", remedy, rule="fleet.certificate")
    try:
        load_key_pair(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), cert, key, _no_password)
    except (ssl.SSLError, ValueError) as error:
        text = f"{key} is not the key of the certificate {cert}, or is encrypted"
        raise Denied(text, "give the two files that were made together", rule="fleet.certificate") from error
    return min(own.not_valid_after_utc, issuers[0].not_valid_after_utc)


def issued(certificate: Certificate, issuer: Certificate) -> bool:
    """Return whether an authority has signed a certificate."""
    try:
        certificate.verify_directly_issued_by(issuer)
    except Exception:  # one class for each reason: other names, another key, another algorithm
        return False
    return True


def certificates(path: Path, content: bytes) -> list[Certificate]:
    """Return the certificates in the text of a file, at least one; `Denied` where there is none."""
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificates(content)
    except ValueError as error:
        raise Denied(f"{path} holds no certificate in PEM form", MAKE, rule="fleet.certificate") from error


def expires_soon(when: datetime) -> bool:
    """Return whether it is time for another certificate."""
    return when - datetime.now(UTC) < SOON


def date(when: datetime) -> str:
    """Return a time as it is shown, in UTC."""
    return when.strftime("%Y-%m-%d %H:%M:%S UTC")


def _no_password() -> str:
    """Answer in the place of a prompt on the terminal."""
    raise ValueError("an encrypted key")


def _content(path: Path, what: str, *, secret: bool = False) -> bytes:
    """Return what a file holds that only this user and root can change; a `secret` one only they can read."""
    try:
        with reading(path) as file:
            _require_own(path, what, os.fstat(file.fileno()), secret=secret)
            content = file.read(LIMIT + 1)
    except Unfit as error:
        text = f"the {what} {path} is not a regular file: {error.strerror}"
        raise Denied(text, MAKE, rule="fleet.certificate") from error
    except OSError as error:
        text = f"the {what} {path} cannot be read: {error.strerror}"
        raise Denied(text, f"see: ls -l {path}; or {MAKE}", rule="fleet.certificate") from error
    if len(content) > LIMIT:
        raise Denied(f"the {what} {path} is larger than {LIMIT >> 10} KiB", MAKE, rule="fleet.certificate")
    return content


def _require_own(path: Path, what: str, status: os.stat_result, *, secret: bool) -> None:
    # Kubernetes gives a mounted Secret to root and to the group of the pod, which is of this pod alone
    by_group = stat.S_IRGRP if status.st_uid == 0 and os.geteuid() != 0 else 0
    mode = stat.S_IMODE(status.st_mode)
    folder = path.resolve().parent
    inside = os.lstat(folder)
    if status.st_uid not in (0, os.geteuid()):
        why, remedy = f"belongs to another user (user {status.st_uid})", f"chown {os.geteuid()} {path}"
    elif mode & 0o022:
        why, remedy = f"can be changed by others (mode {mode:03o})", f"chmod go-w {path}"
    elif secret and mode & 0o077 & ~by_group:
        why, remedy = f"can be read by others (mode {mode:03o})", f"chmod 600 {path}, or {RENEW}"
    elif inside.st_uid not in (0, os.geteuid()) or (inside.st_mode & 0o022 and not inside.st_mode & stat.S_ISVTX):
        why, remedy = f"lies in a folder in which others can replace it, {folder}", f"chmod go-w {folder}"
    else:
        return
    raise Denied(f"the {what} {path} {why}", remedy, rule="fleet.certificate")
