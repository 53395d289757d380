"""Look at a scheduler before anything is sent to it: it has to show a certificate of the fleet, and to ask for one."""

from __future__ import annotations

import socket
import ssl
from typing import TYPE_CHECKING

from vsphere_ai.errors import Denied, Unreachable
from vsphere_ai.fleet.certificates import MAKE

if TYPE_CHECKING:
    from distributed.security import Security

    from vsphere_ai.fleet.address import Address

WAIT = 10.0
"""Seconds, of each part."""
TIMES = 3
"""Times that a connection may end without a word before that counts as no answer: a reset can overtake an alert."""
REFUSALS = ("CERTIFICATE_REQUIRED", "HANDSHAKE_FAILURE", "BAD_CERTIFICATE")
"""Alerts of a server that wants a certificate and got none: RFC 8446, 6.2; with TLS 1.2 RFC 5246, 7.4.6."""
START = "start it with --tls-ca-file, --tls-cert and --tls-key, and --host tls://HOST:PORT"


def require_mutual_tls(address: Address, settings: Security) -> None:
    """`Denied` (``fleet.tls``) where a scheduler would serve others too, `Unreachable` where it cannot be known.

    The connection is made without a certificate: a scheduler with mutual TLS ends it by an alert.
    """
    for _ in range(TIMES):
        try:
            with socket.create_connection((address.host, address.port), WAIT) as raw:
                raw.settimeout(WAIT)
                ended = _refused(address, raw, _without_certificate(settings))
        except OSError as error:
            raise unreachable(address, error) from error
        if ended:
            return
    text = f"{address} ends connections, but does not say that it wants a certificate"
    raise Unreachable(text, f"check that this is the Dask scheduler itself; {START}", rule="fleet.scheduler")


def unreachable(address: Address, error: object) -> Unreachable:
    """Return the error that a scheduler does not answer."""
    remedy = "start it: dask scheduler --no-dashboard; check the certificates of both sides"
    return Unreachable(f"the scheduler at {address} does not answer: {error}", remedy, rule="fleet.scheduler")


def _without_certificate(settings: Security) -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    made.check_hostname = False  # the authority signs for this fleet alone; its members go by addresses
    made.load_verify_locations(settings.tls_ca_file)
    return made


def _refused(address: Address, raw: socket.socket, context: ssl.SSLContext) -> bool:
    """Return whether a server refuses who has no certificate; false where it ends the connection without a reason."""
    try:
        with context.wrap_socket(raw) as sock:
            if not sock.recv(1):
                return False
    except ssl.SSLCertVerificationError as error:
        text = f"{address} shows no certificate of the fleet's authority: {error.verify_message}"
        raise Denied(text, f"give files of one fleet on both sides; {MAKE}", rule="fleet.tls") from error
    except ssl.SSLError as error:
        if any(word in (error.reason or "") for word in REFUSALS):
            return True
        text = f"{address} does not speak TLS as the fleet does: {error.reason or error}"
        raise Denied(text, START, rule="fleet.tls") from error
    except TimeoutError as error:
        text = f"{address} does not refuse who has no certificate: it waits for what such a one would send"
        raise Denied(text, START, rule="fleet.tls") from error
    except ConnectionError:
        return False
    text = f"{address} serves also who has no certificate, so that any program could run code in this fleet"
    raise Denied(text, START, rule="fleet.tls")
