"""TLS to vCenter: always verified, by a CA file, by a pinned certificate, or by the system's trust store."""

from __future__ import annotations

import hashlib
import re
import socket
import ssl
from dataclasses import dataclass, field
from pathlib import Path

from vsphere_ai.errors import Denied, Unreachable
from vsphere_ai.security.files import MIB, read_bytes
from vsphere_ai.security.redaction import untrusted

CA_SIZE = 4 * MIB
"""Bytes of a file of authorities; the bundle of Mozilla's has a quarter of one MiB."""

# in OpenSSL's reasons (https://docs.openssl.org/master/man3/ERR_reason_error_string/)
_DISAGREEMENTS = (
    "PROTOCOL",
    "VERSION",
    "CIPHER",
    "HANDSHAKE_FAILURE",
    "CERTIFICATE",
    "UNKNOWN_CA",
    "SECURITY",
    "TOO_SMALL",
)


@dataclass(frozen=True)
class Endpoint:
    """Where a vCenter is and how to log in. Without `ca_file` and `fingerprint` the system's trust store decides."""

    address: str
    port: int
    username: str
    password: str = field(repr=False)
    ca_file: Path | None = None
    fingerprint: str | None = None

    def __str__(self) -> str:
        host = f"[{self.address}]" if ":" in self.address else self.address
        return host if self.port == 443 else f"{host}:{self.port}"


def context(endpoint: Endpoint, timeout: float) -> ssl.SSLContext:
    """Return a verifying context. With a fingerprint this fetches the certificate once, and trusts only that one."""
    if endpoint.fingerprint:
        return _pinned(endpoint, timeout)
    try:
        made = ssl.create_default_context(cadata=_authorities(endpoint.ca_file) if endpoint.ca_file else None)
    except (OSError, ValueError) as error:
        raise Denied(
            f"{endpoint}: the CA file {endpoint.ca_file} cannot be used: {error}",
            "Give a readable PEM file as tls.ca_file in the inventory.",
        ) from error
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    # A file may hold the server's own certificate instead of its authority's, as `trust vcenter --write` makes it.
    made.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return made


def _authorities(path: Path) -> str:
    """Return the certificates of a file in PEM, which are never none: without any, Python takes the system's."""
    text = read_bytes(path, CA_SIZE).decode("ascii", "ignore")  # comments between them may be in any language
    if "-----BEGIN " not in text:
        raise ValueError("it has no certificate in PEM")
    return text


def _pinned(endpoint: Endpoint, timeout: float) -> ssl.SSLContext:
    """Pin with OpenSSL itself, so that a certificate swapped later is refused in the handshake.

    pyVmomi's own thumbprint check switches verification off for every later connection of the same context.
    """
    wanted = _normal(endpoint)
    der = fetch_certificate(endpoint, timeout)
    seen = digest(der)
    if seen != wanted:
        raise Denied(
            f"{endpoint} shows a certificate with the SHA-256 fingerprint {colons(seen)}, expected {colons(wanted)}",
            "Compare with the certificate in the vSphere Client; if it was renewed, change tls.fingerprint.",
        )
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    # The fingerprint names one certificate, so the name in it proves nothing more.
    made.check_hostname = False
    made.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    made.load_verify_locations(cadata=ssl.DER_cert_to_PEM_cert(der))
    return made


def _normal(endpoint: Endpoint) -> str:
    digits = re.sub(r"^sha-?256:", "", str(endpoint.fingerprint).strip(), flags=re.IGNORECASE)
    digits = re.sub(r"[:\s]", "", digits).lower()
    if not re.fullmatch(r"[0-9a-f]{64}", digits):
        raise Denied(
            f"{endpoint}: tls.fingerprint is not a SHA-256 fingerprint (64 hexadecimal digits)",
            "Take the SHA-256 one, not SHA-1.",
        )
    return digits


def colons(digits: str) -> str:
    """Return hexadecimal digits as ``AB:CD:…``."""
    return ":".join(digits[i : i + 2] for i in range(0, len(digits), 2)).upper()


def fetch_certificate(endpoint: Endpoint, timeout: float) -> bytes:
    """Return the certificate (DER) a server shows, unverified: the handshake is all that is sent."""
    unverified = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    unverified.check_hostname = False
    unverified.verify_mode = ssl.CERT_NONE
    try:
        with (
            socket.create_connection((endpoint.address, endpoint.port), timeout) as raw,
            unverified.wrap_socket(raw, server_hostname=endpoint.address) as secure,
        ):
            der = secure.getpeercert(binary_form=True)
    except OSError as error:
        raise refusal(endpoint, error) from error
    if not der:
        raise Denied(f"{endpoint} shows no certificate", "Check that address and port are those of a vCenter.")
    return der


def distrust(endpoint: Endpoint, timeout: float) -> Denied | None:
    """Return why a server's certificate is not trusted by the endpoint's settings; None when it is. No login."""
    try:
        with (
            socket.create_connection((endpoint.address, endpoint.port), timeout) as raw,
            context(endpoint, timeout).wrap_socket(raw, server_hostname=endpoint.address),
        ):
            return None
    except Denied as error:
        return error
    except OSError as error:
        seen = refusal(endpoint, error)
        if isinstance(seen, Denied):
            return seen
        raise seen from error


def digest(der: bytes) -> str:
    """Return a certificate's SHA-256 fingerprint, 64 lower-case hexadecimal digits."""
    return hashlib.sha256(der).hexdigest()


def refusal(endpoint: Endpoint, error: BaseException) -> Denied | Unreachable:
    """Say what a failed connection means: Denied when the certificate is not trusted, else Unreachable."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return Denied(
            f"{endpoint}: the certificate is not trusted: {error.verify_message}",
            "Put the CA that signed it in tls.ca_file, or the certificate's SHA-256 in tls.fingerprint; "
            "the address has to be a name in the certificate.",
        )
    reason = (error.reason or "") if isinstance(error, ssl.SSLError) else ""
    # the two could not agree; anything else is a damaged or broken connection
    if any(word in reason for word in _DISAGREEMENTS) and reason != "WRONG_VERSION_NUMBER":
        return Denied(
            f"{endpoint}: no secure connection: {reason}",
            "TLS 1.2 or newer is needed; check that address and port are those of a vCenter.",
        )
    if isinstance(error, socket.gaierror):
        return Unreachable(f"{endpoint}: the name does not resolve", "Check vcenters.*.address in the inventory.")
    if isinstance(error, TimeoutError):
        return Unreachable(f"{endpoint} did not answer in time", "Check the address, the port and firewalls.")
    if isinstance(error, ssl.SSLError):
        return Unreachable(
            f"{endpoint}: the TLS connection broke: {error.reason or describe(error)}",
            "Check that address and port are those of a vCenter, and the network on the way.",
        )
    return Unreachable(f"{endpoint} cannot be reached: {describe(error)}", "Check the address, the port and firewalls.")


def describe(error: BaseException) -> str:
    """Return an error in a few words on one line, never empty."""
    strerror = error.strerror if isinstance(error, OSError) else None
    return untrusted(" ".join(str(strerror or error).split())) or type(error).__name__
