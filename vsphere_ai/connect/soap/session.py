"""One logged-in session with a vCenter: timeouts everywhere, reads may be repeated, changes are sent once."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from vsphere_ai.connect import tls
from vsphere_ai.connect.leave import may_change, watch_logins
from vsphere_ai.connect.soap import versions
from vsphere_ai.connect.soap.faults import error_of, text_of, type_of
from vsphere_ai.connect.soap.keepalive import KeepAlive
from vsphere_ai.connect.soap.outage import AnswerTrial, Outage, RequestLost, WaitLimits, distrusted
from vsphere_ai.connect.soap.stub import NotSent, Stub
from vsphere_ai.connect.tls import Endpoint
from vsphere_ai.connect.wire.page import Page, from_vim
from vsphere_ai.connect.wire.plain import NAMESPACE, fields_of, version_id
from vsphere_ai.connect.wire.vmomi import RemoteObject, ServiceContent, VmomiSupport, vim, vmodl
from vsphere_ai.errors import Denied, OutcomeUnknown, Refused, Unreachable, VsphereAiError
from vsphere_ai.model.facts import numbers
from vsphere_ai.security.exceptions import MaskedCause, stand_in

T = TypeVar("T")
PROMPT = 2.0
"""Seconds in which a broken connection shows; a silent server takes longer."""
_NEEDED = ("about", "rootFolder", "propertyCollector", "viewManager", "sessionManager")
"""What every vCenter names in its service content, and nothing here works without."""


class SoapSession:
    """A session that logs in once, and again when the server has forgotten it."""

    MOST_LOGINS = 3
    LOGIN_WINDOW = 600.0

    def __init__(self, endpoint: Endpoint, limits: WaitLimits, minimum: str) -> None:
        self.endpoint = endpoint
        self.limits = limits
        self.outage = Outage(limits)
        self.key = ""
        """vCenter's id of the login session, for questions about its rights."""
        self.views: dict[frozenset[str], RemoteObject] = {}
        """Container views of this login, by the types of their objects."""
        self._lock = threading.Lock()
        self._generation = self._failures = 0
        self._closed = False
        self._relogins: deque[float] = deque()
        self._refused: VsphereAiError | None = None
        self._watch_logins, self._may_change = watch_logins.get(), may_change.get()
        self._active = time.monotonic()
        self.trust = context = tls.context(endpoint, limits.connect)
        self.version = versions.probe(endpoint, context, limits.connect)
        self._require(minimum)
        self.stub = Stub(endpoint, self.version, context, limits)
        self.content: ServiceContent = self.reading(
            lambda: self.invoke(vim.ServiceInstance("ServiceInstance"), "RetrieveServiceContent"), patient=False
        )
        missing = [name for name in _NEEDED if getattr(self.content, name, None) is None]
        if missing:
            raise Unreachable(
                f"{endpoint} does not answer like a vCenter: its service content has no {', '.join(missing)}",
                "Check the address; restart vCenter's service vpxd if it is the right one.",
            )
        if self.content.about.apiType != "VirtualCenter":
            raise Refused(f"{endpoint} is an ESXi host, not a vCenter", "Give its vCenter.", rule="vcenter.host")
        try:
            self._login()
        except RequestLost as lost:
            raise lost.refusal(endpoint) from lost.error
        self._keep_alive = KeepAlive(self._ask_time, lambda: self._active, limits.keep_alive)
        self._keep_alive.start()

    def _require(self, minimum: str) -> None:
        offered = version_id(self.version)
        if numbers(offered) < numbers(minimum):
            raise Refused(
                f"{self.endpoint} speaks vSphere API {offered}; {minimum} or newer is needed",
                "Upgrade vCenter to 7.0 Update 2 or later.",
                rule="vcenter.too-old",
            )

    def close(self) -> None:
        """Log out and close every connection; a server that is gone is no error."""
        self._closed = True  # a thread that still asks must not log in again
        self._keep_alive.stop()
        with contextlib.suppress(RequestLost, vmodl.MethodFault, VsphereAiError):
            begun = time.monotonic()
            try:
                self.invoke(self.content.sessionManager, "Logout")
            except RequestLost:
                # a session that stays open counts against vCenter's limit; but a silent server is not waited for twice
                if time.monotonic() - begun < PROMPT:
                    self.invoke(self.content.sessionManager, "Logout")
        self.stub.DropConnections()

    def _ask_time(self) -> None:
        # not SessionIsActive, which takes a privilege of its own
        with contextlib.suppress(RequestLost, vmodl.MethodFault, VsphereAiError):
            self.invoke(vim.ServiceInstance("ServiceInstance"), "CurrentTime")

    def invoke(self, target: RemoteObject, method: str, *args: object) -> Any:
        """Send one request, once, and return pyVmomi's value. Raises vSphere's faults as they are, else Lost."""
        info = VmomiSupport.GetWsdlMethod(NAMESPACE, method).info
        padded = [*args, *[None] * (len(info.params) - len(args))]
        try:
            answer = self.stub.InvokeMethod(target, info, padded)
        except vmodl.MethodFault:
            self._active = time.monotonic()
            raise
        except VsphereAiError:
            raise
        except NotSent as error:
            cause = error.__cause__ or error
            if distrusted(cause):
                raise tls.refusal(self.endpoint, cause) from cause
            raise RequestLost(cause, sent=False) from cause
        except Exception as error:  # pyVmomi's parser lets anything out when an answer is damaged
            raise RequestLost(error, sent=True) from error
        if answer is None and info.result is not type(None) and not info.resultFlags & VmomiSupport.F_OPTIONAL:
            raise RequestLost(ValueError(f"{method} was answered with nothing"), sent=True)
        self._active = time.monotonic()
        return answer

    def page(self, method: str, *args: object) -> Page | None:
        """Send one request for a page of objects to the property collector; as `invoke`, but in plain values.

        Raises NotAuthenticated where that is why properties are missing: the session is gone, not the properties.
        """
        answer = self.invoke(self.content.propertyCollector, method, *args)
        page = answer if answer is None or isinstance(answer, Page) else from_vim(answer)
        for content in page.objects if page else ():
            if any(fault["_typeName"] == "NotAuthenticated" for _, fault in content.missing):
                raise vim.fault.NotAuthenticated
        return page

    def reading(self, read: Callable[[], T], *, patient: bool = True) -> T:
        """Run something that only reads: after a lost session again, after a lost answer until patience ends."""
        trial = AnswerTrial(self.outage, self.limits)
        while True:
            try:
                return self._answered(read)
            except RequestLost as lost:
                if patient and trial.again(lost):
                    continue
                refused, cause = lost.refusal(self.endpoint), stand_in(lost.error)
            except vmodl.MethodFault as fault:
                refused, cause = error_of(fields_of(fault), str(self.endpoint)), _cause(fault)
            raise refused from cause  # not while the fault is handled: it holds what was sent

    def changing(self, change: Callable[[], T], doing: str, *, repeatable: bool = False) -> T:
        """Run one call that changes something: sent again only when it certainly was not sent, or was not carried out.

        A server that cannot be reached is waited for as in `reading`; a lost answer is `OutcomeUnknown` at once, but
        for a `repeatable` call, which leaves the same when it is carried out twice: it is sent until it is answered.
        """
        trial = AnswerTrial(self.outage, self.limits)
        while True:
            self._may_change()
            try:
                return self._answered(change)
            except RequestLost as lost:
                if (repeatable or not lost.sent) and trial.again(lost):
                    continue
                refused, cause = self._lost_change(lost, doing), stand_in(lost.error)
            except vmodl.MethodFault as fault:
                refused, cause = error_of(fields_of(fault), doing), _cause(fault)
            raise refused from cause  # not while the fault is handled: it holds what was sent

    def _lost_change(self, lost: RequestLost, doing: str) -> VsphereAiError:
        if not lost.sent:
            return lost.refusal(self.endpoint)
        text = f"{doing}: sent, but the answer was lost ({lost})"
        return OutcomeUnknown(text, "Plan again to see whether it took effect.")

    def _answered(self, work: Callable[[], T]) -> T:
        try:
            found = self._logged_in(work)
        except vmodl.MethodFault:
            self.outage.over()
            raise
        self.outage.over()
        return found

    def _logged_in(self, work: Callable[[], T]) -> T:
        for _ in range(self.MOST_LOGINS):  # the new session may end as well before this is done
            generation = self._generation
            try:
                return work()
            except vim.fault.NotAuthenticated:
                # The server refused before doing anything, so this may be repeated even when it changes something.
                self._login_again(generation)
        return work()

    def _login_again(self, generation: int) -> None:
        failures = self._failures
        with self._lock:
            if self._closed:
                raise Unreachable(f"{self.endpoint}: this session was closed", "start the command again")
            if generation != self._generation:
                return
            if self._refused is not None:  # another attempt would bring the account closer to being locked
                raise self._refused
            if failures != self._failures:
                raise RequestLost(TimeoutError("another login was not answered"), sent=False)
            now = time.monotonic()
            while self._relogins and now - self._relogins[0] > self.LOGIN_WINDOW:
                self._relogins.popleft()
            if len(self._relogins) >= self.MOST_LOGINS:
                raise Denied(
                    f"{self.endpoint} ended the session {len(self._relogins)} times within ten minutes",
                    "Check whether an administrator terminates sessions, and vCenter's session timeout.",
                )
            try:
                self._login()
            except RequestLost as lost:
                self._failures += 1
                # what was to be done was refused before it began, so it may be tried again
                raise RequestLost(lost.error, sent=False) from lost.error
            self._relogins.append(now)

    def _login(self) -> None:
        manager = self.content.sessionManager
        try:
            self._watch_logins("")
        except VsphereAiError as error:
            self._refused = error
            raise
        refused: Denied | None = None
        try:
            session = self.invoke(manager, "Login", self.endpoint.username, self.endpoint.password)
        except vim.fault.InvalidLogin:
            self._refused = refused = Denied(
                f"{self.endpoint} does not accept the user name or the password of {self.endpoint.username}",
                "Correct them in the inventory. It is not tried again, so that the account is not locked.",
                rule="login.refused",
            )
        except vmodl.MethodFault as fault:
            text = f"{self.endpoint} refuses the login of {self.endpoint.username}: {type_of(fields_of(fault))}"
            refused = Denied(text, "log in with the vSphere Client to see why")
        if refused is not None:
            raise refused  # not while the fault is handled: it holds what was sent
        try:
            self._watch_logins(str(session.key))
        except VsphereAiError as error:
            self._refused = error
            with contextlib.suppress(RequestLost, vmodl.MethodFault):
                self.invoke(manager, "Logout")
            raise
        self.key = str(session.key)
        self._generation += 1
        self.views.clear()


def _cause(fault: vmodl.MethodFault) -> MaskedCause:
    return stand_in(fault, text_of(fields_of(fault)))
