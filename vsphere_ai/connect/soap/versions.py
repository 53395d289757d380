"""API version for a server: the newest that both sides know, read before the login."""

from __future__ import annotations

import http.client
import ssl
import time

from vsphere_ai.connect.tls import Endpoint, refusal
from vsphere_ai.connect.wire.plain import version_id
from vsphere_ai.connect.wire.vmomi import VmomiSupport
from vsphere_ai.errors import Refused, Unreachable
from vsphere_ai.model.bounded import xml_root

PATH = "/sdk/vimServiceVersions.xml"
_LARGEST = 1 << 20
_PIECE = 1 << 14


def probe(endpoint: Endpoint, tls: ssl.SSLContext, timeout: float) -> str:
    """Ask a server which versions it speaks; return pyVmomi's name of the newest common one.

    Denied when the certificate is not trusted, Unreachable when nothing that looks like a vCenter answers.
    """
    connection = http.client.HTTPSConnection(endpoint.address, endpoint.port, timeout=timeout, context=tls)
    try:
        connection.request("GET", PATH)
        answer = connection.getresponse()
        body = _body(answer, time.monotonic() + timeout)
    except (OSError, http.client.HTTPException) as error:
        raise refusal(endpoint, error) from error
    finally:
        connection.close()
    if answer.status != http.HTTPStatus.OK:
        raise Unreachable(
            f"{endpoint} answers {answer.status} {answer.reason} instead of its API versions",
            "Check that this is the address of a vCenter, and that its services are up.",
        )
    return _newest_common(endpoint, offered(endpoint, body))


def _body(answer: http.client.HTTPResponse, until: float) -> bytes:
    """Read what is sent until a time; what trickles in is noticed by no limit of the socket."""
    parts: list[bytes] = []
    while sum(map(len, parts)) < _LARGEST and (piece := answer.read1(_PIECE)):
        parts.append(piece)
        if time.monotonic() > until:
            raise TimeoutError("timed out")
    return b"".join(parts)


def offered(endpoint: Endpoint, body: bytes) -> frozenset[str]:
    """Return the version ids of the vim25 service in a vimServiceVersions.xml."""
    try:
        root = xml_root(body)
    except ValueError as error:
        raise Unreachable(f"{endpoint} does not answer like a vCenter", "Check address and port.") from error
    return frozenset(
        (item.text or "").strip()
        for namespace in root.findall("namespace")
        if (namespace.findtext("name") or "").strip() == "urn:vim25"
        for item in (*namespace.findall("version"), *namespace.findall("priorVersions/version"))
    )


def _newest_common(endpoint: Endpoint, ids: frozenset[str]) -> str:
    for version in VmomiSupport.GetServiceVersions("vim25"):
        if str(version).startswith("vim.") and version_id(version) in ids:
            return str(version)
    raise Refused(f"{endpoint} offers no version of the vSphere API that is known here", "Update pyVmomi.")
