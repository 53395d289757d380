"""Address of a Dask scheduler, and what secures the connections of a fleet: mutual TLS, or loopback."""

from __future__ import annotations

import ipaddress
import logging
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from vsphere_ai.errors import UsageError
from vsphere_ai.language.document import require

if TYPE_CHECKING:
    from distributed.security import Security

PACKAGE = "distributed"
LIBRARIES = (PACKAGE, "dask", "tornado", "cloudpickle", "tblib", "zict", "msgpack")
FORMS = "dask:tls://HOST:PORT, or on this machine dask:tcp://127.0.0.1:PORT"
VARIABLES = "DASK_DISTRIBUTED__COMM__TLS__CA_FILE"


@dataclass(frozen=True)
class TlsFiles:
    """Certificate authority of a fleet, and certificate and key of this process; Dask's configuration without."""

    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None


@dataclass(frozen=True)
class Address:
    """Where something listens. `tls` is false on loopback only."""

    host: str
    port: int
    tls: bool

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'tls' if self.tls else 'tcp'}://{host}:{self.port}"


def parse_address(text: str) -> Address:
    """Return the address that a text such as ``tls://fleet.example:8786`` is; `UsageError` where it is none."""
    scheme, found, rest = text.removeprefix("dask:").partition("://")
    host, colon, port = rest.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not (found and colon and host and port.isascii() and port.isdigit() and 0 < int(port) < 1 << 16):
        raise UsageError(f"'{text}' is not the address of a Dask scheduler", FORMS, rule="usage.executor")
    if scheme not in ("tls", "tcp"):
        raise UsageError(f"'{text}' is neither tls:// nor tcp://", FORMS, rule="usage.executor")
    made = Address(host, int(port), scheme == "tls")
    if not made.tls:
        require_loopback(host, text)
    return made


def require_loopback(host: str, text: str) -> None:
    """`UsageError` where connections without TLS would leave this machine: who reads them has every vCenter."""
    try:
        loopback = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = False
    if not loopback:
        why = f"'{text}' has no TLS, and {host} is not this machine"
        remedy = "use tls://, with --tls-ca, --tls-cert and --tls-key: a fleet's connections carry out changes"
        raise UsageError(why, remedy, rule="usage.tls")


@contextmanager
def needed() -> Iterator[None]:
    """Turn the absence of a library of the extra into an error that names the command; Dask says only what is wrong."""
    try:
        yield
        logging.getLogger(PACKAGE).setLevel(logging.ERROR)  # importing it has set another level
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in LIBRARIES:
            raise
        remedy = f"add it: pipx inject vsphere-ai {PACKAGE}; in a virtual environment: pip install {PACKAGE}"
        raise UsageError(f"this needs {error.name}, which is not installed", remedy, rule="usage.extra") from None


def security(address: Address, files: TlsFiles) -> Security | None:
    """Return Dask's TLS settings, the same files for each role; None for connections on loopback without TLS."""
    given = {"--tls-ca": files.ca, "--tls-cert": files.cert, "--tls-key": files.key}
    if not address.tls:
        return None
    for option, path in given.items():
        if path is not None:
            require(path, f"file of {option}")
    with needed():
        from distributed.security import Security

        roles = ("client", "worker", "scheduler")
        names = {f"tls_{role}_cert": str(files.cert) for role in roles if files.cert}
        names |= {f"tls_{role}_key": str(files.key) for role in roles if files.key}
        names |= {"tls_ca_file": str(files.ca)} if files.ca else {}
        made = Security(require_encryption=True, **names)
    if not (made.tls_ca_file and made.tls_client_cert and made.tls_worker_cert):
        text = f"'{address}' needs a certificate authority, a certificate and its key"
        raise UsageError(text, f"give {', '.join(given)}, or {VARIABLES} and its like", rule="usage.tls")
    return made


def context(settings: Security | None, role: Literal["client", "worker"], *, listens: bool) -> ssl.SSLContext | None:
    """Return a TLS context in which both sides have to show a certificate of the fleet; None without TLS."""
    if settings is None:
        return None
    made = settings.get_listen_args(role) if listens else settings.get_connection_args(role)
    found: ssl.SSLContext = made["ssl_context"]
    return found
