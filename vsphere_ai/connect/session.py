"""One logged-in session with a vCenter: timeouts everywhere, reads may be repeated, changes are sent once."""

from __future__ import annotations

import contextlib
import http.client
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar
from xml.parsers.expat import ExpatError

import tenacity

from vsphere_ai.connect import tls, versions
from vsphere_ai.connect.faults import error_of, type_of
from vsphere_ai.connect.plain import NAMESPACE, NotExpressible, to_plain, version_id
from vsphere_ai.connect.tls import Endpoint
from vsphere_ai.connect.vmomi import SoapAdapter, VmomiSupport, vim, vmodl
from vsphere_ai.errors import Denied, OutcomeUnknown, Refused, Unreachable, VsphereAiError

T = TypeVar("T")


@dataclass(frozen=True)
class Limits:
    """Seconds: to connect, for one answer, and how long a read is repeated while vCenter cannot be reached."""

    connect: float = 10.0
    answer: float = 60.0
    patience: float = 60.0
    backoff: float = 1.0


class Lost(Exception):
    """No answer to a request. `sent` is False when it certainly never left."""

    def __init__(self, error: BaseException, *, sent: bool) -> None:
        super().__init__(tls.describe(error))
        self.error = error
        self.sent = sent

    @property
    def may_pass(self) -> bool:
        """Tell whether asking again can help: yes for broken connections, no for answers nobody can read."""
        return isinstance(self.error, OSError | http.client.HTTPException | ExpatError)


class _NotSent(Exception):
    """The connection failed before the request was written."""


class _Stub(SoapAdapter.SoapStubAdapter):  # type: ignore[misc] # pyVmomi has no types
    """pyVmomi's adapter, with separate limits for connecting and answering."""

    def __init__(self, endpoint: Endpoint, version: str, context: ssl.SSLContext, limits: Limits) -> None:
        super().__init__(
            host=endpoint.address,
            port=endpoint.port,
            version=version,
            sslContext=context,
            httpConnectionTimeout=limits.connect,
            # A kept connection that the server has closed meanwhile would make the next change look lost.
            connectionPoolTimeout=5,
        )
        self._answer = limits.answer

    def GetConnection(self) -> Any:  # noqa: N802 pyVmomi's name
        try:
            connection = super().GetConnection()
        except (OSError, http.client.HTTPException) as error:
            raise _NotSent from error
        if getattr(connection, "sock", None) is not None:
            connection.sock.settimeout(self._answer)
        return connection

    def SerializeRequest(self, mo: Any, info: Any, args: Any) -> Any:  # noqa: N802 pyVmomi's name
        try:
            return super().SerializeRequest(mo, info, args)
        except (TypeError, ValueError) as error:
            raise NotExpressible(f"{info.wsdlName} cannot be sent: {error}") from error


class Session:
    """A session that logs in once, and again when the server has forgotten it."""

    MOST_LOGINS = 3
    LOGIN_WINDOW = 600.0

    def __init__(self, endpoint: Endpoint, limits: Limits, minimum: str) -> None:
        self.endpoint = endpoint
        self.limits = limits
        self._lock = threading.Lock()
        self._generation = 0
        self.key = ""
        """vCenter's id of the login session, for questions about its rights."""
        self._relogins: deque[float] = deque()
        context = tls.context(endpoint, limits.connect)
        self.version = versions.probe(endpoint, context, limits.connect)
        self._require(minimum)
        self.stub: Any = _Stub(endpoint, self.version, context, limits)
        self.content: Any = self.reading(
            lambda: self.invoke(vim.ServiceInstance("ServiceInstance"), "RetrieveServiceContent"), patient=False
        )
        if self.content.about.apiType != "VirtualCenter":
            raise Refused(f"{endpoint} is an ESXi host, not a vCenter", "Give the vCenter that manages the host.")
        try:
            self._login()
        except Lost as lost:
            raise tls.refusal(endpoint, lost.error) from lost.error

    def _require(self, minimum: str) -> None:
        offered = version_id(self.version)
        if versions.numbers(offered) < versions.numbers(minimum):
            raise Refused(
                f"{self.endpoint} speaks vSphere API {offered}; {minimum} or newer is needed",
                "Upgrade vCenter to 7.0 Update 2 or later.",
            )

    def close(self) -> None:
        """Log out and close every connection; a server that is gone is no error."""
        with contextlib.suppress(Lost, vmodl.MethodFault, VsphereAiError):
            self.invoke(self.content.sessionManager, "Logout")
        self.stub.DropConnections()

    def invoke(self, target: Any, method: str, *args: Any) -> Any:
        """Send one request, once, and return pyVmomi's value. Raises vSphere's faults as they are, else Lost."""
        info = VmomiSupport.GetWsdlMethod(NAMESPACE, method).info
        padded = [*args, *[None] * (len(info.params) - len(args))]
        try:
            answer = self.stub.InvokeMethod(target, info, padded)
        except (vmodl.MethodFault, VsphereAiError):
            raise
        except _NotSent as error:
            cause = error.__cause__ or error
            if isinstance(cause, ssl.SSLError):
                raise tls.refusal(self.endpoint, cause) from cause
            raise Lost(cause, sent=False) from cause
        except Exception as error:  # pyVmomi's parser lets anything out when an answer is damaged
            raise Lost(error, sent=True) from error
        if answer is None and info.result is not type(None) and not info.resultFlags & VmomiSupport.F_OPTIONAL:
            raise Lost(ValueError(f"{method} was answered with nothing"), sent=True)
        return answer

    def reading(self, read: Callable[[], T], *, patient: bool = True) -> T:
        """Run something that only reads: after a lost session once more, after a lost answer until patience ends."""
        attempts = tenacity.Retrying(
            retry=tenacity.retry_if_exception(lambda e: isinstance(e, Lost) and e.may_pass),
            wait=tenacity.wait_exponential(self.limits.backoff, 16) + tenacity.wait_random(0, self.limits.backoff / 2),
            stop=tenacity.stop_after_delay(self.limits.patience) if patient else tenacity.stop_after_attempt(1),
            reraise=True,
        )
        try:
            found: T = attempts(self._logged_in, read)
            return found
        except Lost as lost:
            if lost.may_pass:
                raise tls.refusal(self.endpoint, lost.error) from lost.error
            raise Unreachable(f"{self.endpoint} gave an answer that cannot be read: {lost}") from lost.error
        except vmodl.MethodFault as fault:
            raise error_of(fault, str(self.endpoint)) from fault

    def changing(self, change: Callable[[], T], doing: str) -> T:
        """Run one call that changes something. It is never sent twice unless the server said it did not run it."""
        try:
            return self._logged_in(change)
        except Lost as lost:
            if not lost.sent:
                raise tls.refusal(self.endpoint, lost.error) from lost.error
            raise OutcomeUnknown(
                f"{doing}: sent, but the answer was lost ({lost})", "Plan again to see whether it took effect."
            ) from lost.error
        except vmodl.MethodFault as fault:
            raise error_of(fault, doing) from fault

    def _logged_in(self, work: Callable[[], T]) -> T:
        generation = self._generation
        try:
            return work()
        except vim.fault.NotAuthenticated:
            # The server refused before doing anything, so this one may be repeated even when it changes something.
            self._login_again(generation)
            return work()

    def _login_again(self, generation: int) -> None:
        with self._lock:
            if generation != self._generation:
                return
            now = time.monotonic()
            while self._relogins and now - self._relogins[0] > self.LOGIN_WINDOW:
                self._relogins.popleft()
            if len(self._relogins) >= self.MOST_LOGINS:
                raise Denied(
                    f"{self.endpoint} ended the session {len(self._relogins)} times within ten minutes",
                    "Look whether somebody terminates sessions, and at vCenter's session timeout.",
                )
            self._relogins.append(now)
            try:
                self._login()
            except Lost as lost:
                raise tls.refusal(self.endpoint, lost.error) from lost.error

    def _login(self) -> None:
        manager = self.content.sessionManager
        try:
            session = self.invoke(manager, "Login", self.endpoint.username, self.endpoint.password)
        except vim.fault.InvalidLogin:
            raise Denied(
                f"{self.endpoint} does not accept the user name or the password of {self.endpoint.username}",
                "Correct them in the inventory. It is not tried again, so that the account is not locked.",
            ) from None
        except vmodl.MethodFault as fault:
            raise Denied(f"{self.endpoint} refuses the login: {type_of(to_plain(fault))}") from fault
        self.key = str(session.key)
        self._generation += 1
