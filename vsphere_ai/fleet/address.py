"""Address of a Dask scheduler, and what secures every connection of a fleet, on loopback too: mutual TLS."""

from __future__ import annotations

import ipaddress
import logging
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from vsphere_ai.errors import UsageError
from vsphere_ai.fleet.certificates import MAKE, TlsFiles, require_usable
from vsphere_ai.language.yaml_files.document import require

if TYPE_CHECKING:
    from distributed.security import Security

PACKAGE = "distributed"
LIBRARIES = (PACKAGE, "dask", "tornado", "cloudpickle", "tblib", "zict", "msgpack")
FORMS = "dask:tls://HOST:PORT"
VARIABLES = "DASK_DISTRIBUTED__COMM__TLS__CA_FILE"


@dataclass(frozen=True)
class Address:
    """Where the scheduler of a fleet listens, with TLS: there is no address without."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"tls://{host}:{self.port}"


def parse_address(text: str) -> Address:
    """Return the address that a text such as ``tls://fleet.example:8786`` is; `UsageError` where it is none."""
    scheme, found, rest = text.removeprefix("dask:").partition("://")
    host, colon, port = rest.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not (found and colon and host and port.isascii() and port.isdecimal() and 0 < int(port) < 1 << 16):
        raise UsageError(f"'{text}' is not the address of a Dask scheduler", FORMS, rule="usage.executor")
    if scheme == "tcp":
        why = f"'{text}' has no TLS: who reaches it, any user of this machine on loopback, could run code as you there"
        raise UsageError(why, f"{MAKE}; start the scheduler with them, and give tls://{rest}", rule="usage.tls")
    if scheme != "tls":
        raise UsageError(f"'{text}' is not a tls:// address", FORMS, rule="usage.executor")
    return Address(host, int(port))


def loopback(host: str) -> str | None:
    """Return the address to listen on for a peer on this machine; None for all, where the peer is another one."""
    if host == "localhost":
        return "127.0.0.1"
    try:
        return host if ipaddress.ip_address(host).is_loopback else None
    except ValueError:
        return None


@contextmanager
def needed() -> Iterator[None]:
    """Turn the absence of a library of the extra into an error that names the command; Dask says only what is wrong."""
    try:
        yield
        logging.getLogger(PACKAGE).setLevel(logging.ERROR)  # importing it has set another level
        # it logs the stack of each vain reconnection; that the scheduler is gone is said in our own words
        logging.getLogger(f"{PACKAGE}.client").setLevel(logging.CRITICAL)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in LIBRARIES:
            raise
        remedy = f"add it: pipx inject vsphere-ai {PACKAGE}; in a virtual environment: pip install {PACKAGE}"
        raise UsageError(f"this needs {error.name}, which is not installed", remedy, rule="usage.extra") from None


def security(address: Address, files: TlsFiles) -> Security:
    """Return Dask's TLS settings, the same files for each role, looked at as `require_usable` does.

    Without `files` they are those of Dask's configuration; `UsageError` where these are not complete.
    """
    given = {"--tls-ca": files.ca, "--tls-cert": files.cert, "--tls-key": files.key}
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
        remedy = f"give {', '.join(given)}, or {VARIABLES} and its like; {MAKE}"
        raise UsageError(text, remedy, rule="usage.tls")
    if any("\n" in text for text in _files(made)):
        text = "the configuration of Dask holds certificates or keys themselves, and not the names of files"
        raise UsageError(text, f"give {', '.join(given)}", rule="usage.tls")
    valid_until(made)
    return made


def valid_until(settings: Security) -> datetime:
    """Return when the first certificate of a process ends; `Denied` where one must not be used: `require_usable`."""
    ca, *files = map(Path, _files(settings))
    return min(require_usable(ca, cert, key) for cert, key in zip(files[::2], files[1::2], strict=True))


def _files(settings: Security) -> list[str]:
    """Return the names of the authority's file, and of the certificate and the key of each role."""
    roles = [settings.get_tls_config_for_role(role) for role in ("client", "worker")]
    own = [text for role in roles for text in (role["cert"], role["key"] or role["cert"])]
    return [settings.tls_ca_file, *own]


def context(settings: Security, role: Literal["client", "worker"], *, listens: bool) -> ssl.SSLContext:
    """Return a TLS context in which both sides have to show a certificate of the fleet."""
    made = settings.get_listen_args(role) if listens else settings.get_connection_args(role)
    found: ssl.SSLContext = made["ssl_context"]
    return found
