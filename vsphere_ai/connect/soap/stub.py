"""pyVmomi's adapter of one session: with limits, pages in plain values, and the next page asked for ahead."""

from __future__ import annotations

import contextlib
import functools
import http.client
import logging
import re
import ssl
import threading
import time
from collections.abc import Iterator
from contextvars import ContextVar

from vsphere_ai.connect.soap.outage import WaitLimits
from vsphere_ai.connect.tls import Endpoint
from vsphere_ai.connect.wire.ahead import Ahead, Tapped
from vsphere_ai.connect.wire.answers import PlainResponse
from vsphere_ai.connect.wire.page import ERRORS
from vsphere_ai.connect.wire.page_decoder import decode
from vsphere_ai.connect.wire.plain import NAMESPACE, NotExpressible
from vsphere_ai.connect.wire.privilege_answers import METHOD, privileges
from vsphere_ai.connect.wire.untypable import NEXT, PAGES, Untypable, is_well_formed, read_without, reason_of
from vsphere_ai.connect.wire.vmomi import Method, RemoteObject, SoapAdapter, VmomiSupport
from vsphere_ai.connect.wire.wire_types import Unfamiliar

LOG = logging.getLogger("vsphere_ai.connect.soap.session")
"""Gets, at level DEBUG, each request without its arguments, and why an answer was left to pyVmomi."""
OPERATION = "operationID"
_VALUES = re.compile(rb"<changeSet[ >].*?</changeSet>", re.DOTALL)
SLOWEST = 2
"""How many times longer than its limit an answer may take that keeps coming in."""
part: ContextVar[str] = ContextVar("part", default="")
"""The part of the run that this thread works on: its requests name it."""


class NotSent(Exception):
    """The connection failed before the request was written."""


class _Seen(threading.local):
    """What a thread sees of the answer that it waits for."""

    body = b""
    read: object = None
    method = ""
    connection: Tapped | None = None
    asked: RemoteObject | None = None
    ahead: Ahead | None = None
    cuts = False


class Stub(SoapAdapter.SoapStubAdapter):  # type: ignore[misc] # pyVmomi has no types
    """pyVmomi's adapter, with separate limits for connecting and answering."""

    def __init__(self, endpoint: Endpoint, version: str, context: ssl.SSLContext, limits: WaitLimits) -> None:
        super().__init__(
            host=endpoint.address,
            port=endpoint.port,
            version=version,
            sslContext=context,
            httpConnectionTimeout=limits.connect,
            connectionPoolTimeout=5,
            poolSize=32,  # so that calls side by side do not each open a connection of their own
        )
        self._answer = limits.answer
        self._seen = _Seen()
        self.run = ""
        self.left = 0
        """How many answers were left to pyVmomi, because the decoder did not know a shape in them."""

    def InvokeMethod(  # noqa: N802 pyVmomi's name
        self,
        mo: RemoteObject,
        info: Method,
        args: list[object],
        outerStub: object = None,  # noqa: N803 pyVmomi's name
    ) -> object:
        """Return what pyVmomi makes of an answer; a `Page` of objects, or `Held` privileges, where shapes are known."""
        seen = self._seen
        seen.body, seen.read, seen.method, seen.asked = b"", None, info.wsdlName, mo
        if seen.ahead is not None and not (info.wsdlName == NEXT and args == [seen.ahead.token]):
            self.forget_ahead()
        try:
            with _logged(info.wsdlName, mo):
                answer = super().InvokeMethod(mo, info, args, outerStub)
            return seen.read or answer
        except ERRORS as error:
            body = seen.body
            if not (body and is_well_formed(body)):
                raise
            if info.wsdlName in PAGES:
                with contextlib.suppress(*ERRORS):
                    return read_without(self, body, info.result)
            raise Untypable(reason_of(error)) from error
        finally:
            seen.body, seen.read, seen.connection = b"", None, None

    @contextlib.contextmanager
    def without_values(self) -> Iterator[None]:
        """Leave out the values of updates in what this thread is answered: which objects they are about remains."""
        self._seen.cuts = True
        try:
            yield
        finally:
            self._seen.cuts = False

    def forget_ahead(self) -> None:
        """Give up a page that this thread has asked for ahead."""
        ahead, self._seen.ahead = self._seen.ahead, None
        if ahead is not None:
            ahead.connection.connection.close()

    def _ask_ahead(self, token: str) -> None:
        """Ask for the page that a token leads to, on the connection that this page came by."""
        seen = self._seen
        if token and seen.connection and seen.asked and b"NotAuthenticated" not in seen.body:
            request = self.SerializeRequest(seen.asked, VmomiSupport.GetWsdlMethod(NAMESPACE, NEXT).info, [token])
            if seen.connection.send_ahead(request, self.cookie):
                seen.ahead = Ahead(token, seen.connection)

    def ReturnConnection(self, conn: Tapped) -> None:  # noqa: N802 pyVmomi's name
        """Keep a connection for others, but not one that has a request on it."""
        if self._seen.ahead is None or self._seen.ahead.connection is not conn:
            super().ReturnConnection(conn)

    def _replaced(self, status: int, body: bytes) -> bytes:
        """Keep an answer, and return what pyVmomi is to read in its place: nothing of what was read here."""
        seen = self._seen
        seen.body = body
        if seen.cuts and b"<!" not in body:
            return _VALUES.sub(b"", body)
        if status != http.HTTPStatus.OK or seen.method not in (*PAGES, METHOD):
            return body
        try:
            seen.read = privileges(body) if seen.method == METHOD else decode(body, self.version, self._ask_ahead)
        except Unfamiliar as unfamiliar:
            self.left += 1
            LOG.debug("an answer of %d bytes is left to pyVmomi: %s", len(body), unfamiliar)
            return body
        return b"<read/>"

    def GetConnection(self) -> Tapped:  # noqa: N802 pyVmomi's name
        """Return a connection, the one that the request went out on where it was sent ahead."""
        ahead, self._seen.ahead = self._seen.ahead, None
        self._seen.connection = ahead.connection if ahead else self._connected()
        return self._seen.connection

    def _connected(self) -> Tapped:
        try:
            kept = super().GetConnection()
            while isinstance(kept, Tapped) and _left(kept.connection):
                kept.connection.close()
                kept = super().GetConnection()
        except (OSError, http.client.HTTPException) as error:
            raise NotSent from error
        connection: http.client.HTTPConnection = kept.connection if isinstance(kept, Tapped) else kept
        answer = functools.partial(PlainResponse, seconds=self._answer * SLOWEST)
        connection.response_class = answer  # type: ignore[assignment] # it is only called
        if connection.sock is not None:
            connection.sock.settimeout(self._answer)
        return Tapped(connection, self._replaced)

    def SerializeRequest(self, mo: RemoteObject, info: Method, args: list[object]) -> bytes:  # noqa: N802 pyVmomi's name
        """Return the text of a request, which names the run and its step."""
        context = VmomiSupport.GetRequestContext()  # pyVmomi has one for each thread, whatever it is connected to
        if self.run:
            context[OPERATION] = "-".join(filter(None, (self.run, part.get())))
        try:
            request: bytes = super().SerializeRequest(mo, info, args)
            return request
        except (TypeError, ValueError) as error:
            raise NotExpressible(f"{info.wsdlName} cannot be sent: {error}") from error
        finally:
            context.pop(OPERATION, None)


@contextlib.contextmanager
def _logged(method: str, mo: RemoteObject) -> Iterator[None]:
    """Log a request with its time, and the type of the fault that it was answered with."""
    began, outcome = time.monotonic(), "answered"
    try:
        yield
    except BaseException as error:
        outcome = type(error).__name__
        raise
    finally:
        LOG.debug("%s on %s: %s after %.0f ms", method, mo._GetMoId(), outcome, 1000 * (time.monotonic() - began))


def _left(connection: http.client.HTTPConnection) -> bool:
    """Return whether the server has closed a connection that was kept: written to it, a change would only look sent."""
    sock = connection.sock
    if sock is None:
        return False
    sock.settimeout(0)
    try:
        sock.recv(1)
    except (ssl.SSLWantReadError, BlockingIOError):
        return False
    except OSError:
        return True
    return True  # its end, or an answer without a request
