"""From the bytes of a SOAP request to the bytes of its answer: version, session, arguments, method."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pyVmomi import VmomiSupport as Vmomi
from pyVmomi import vim, vmodl

from vsphere_ai.lab import ledger, wire
from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.faults import calls
from vsphere_ai.lab.faults.engine import Fired
from vsphere_ai.lab.managed import Call, handler_for
from vsphere_ai.lab.managed.property_collector import PUBLIC
from vsphere_ai.lab.managed.vms.vm_states import refuse_disabled
from vsphere_ai.lab.store import read, static_type
from vsphere_ai.lab.tasks import Doom

COOKIE = "vmware_soap_session"
_SESSION = re.compile(rf'(?:^|;)\s*{COOKIE}="?([^";\s]+)')

# what may be called before a login; object reads are then restricted by the collector
WITHOUT_LOGIN = frozenset(
    {"RetrieveServiceContent", "Login", "Fetch", "RetrieveProperties", "RetrievePropertiesEx", "CurrentTime"}
)


@dataclass(frozen=True)
class SoapAnswer:
    """A SOAP answer: HTTP status, body, the cookie to set (empty: none), and the fault it goes out under."""

    status: int
    body: bytes
    cookie: str = ""
    kind: str = "text/xml; charset=utf-8"
    fired: Fired | None = None


@dataclass(frozen=True)
class Sender:
    """Where a request comes from: HTTP headers, address, and whether the service that took it still runs."""

    headers: Mapping[str, str]
    peer: str
    served: Callable[[], bool]


CarryOut = Callable[[Doom | None], SoapAnswer]


def answer(farm: Farm, body: bytes, sender: Sender) -> SoapAnswer:
    """Carry out one request."""
    version = negotiated(sender.headers.get("SOAPAction", ""), farm.scenario.vcenter.api_version)
    try:
        request = wire.RequestParser().parse(body)
    except wire.MalformedCall as error:
        return _refused(error, version)

    def carry_out(doom: Doom | None) -> SoapAnswer:
        carried = _carried_out(farm, request, version, sender, doom)
        farm.traffic.answered(request.name, len(carried.body))
        return carried

    fired = farm.faults.meet(calls.event_of(farm, request)) if farm.faults.rules else None
    if fired is None:
        return carry_out(None)
    return under_fault(farm, fired, version, carry_out, body)


def under_fault(farm: Farm, fired: Fired, version: str, carry_out: CarryOut, sent: bytes = b"") -> SoapAnswer:
    """Carry out a call as far as a fault lets it; the server does to the reply what is left to do.

    `sent` is the request, for faults that echo it.
    """
    action, early = fired.rule.do, fired.rule.when == "before"
    if not early:
        result = carry_out(None)
    farm.faults.strike(fired)
    if fired.rule.when != "mid-body":
        fired.wait()
    if action.word in ("fault", "fault-echoes"):
        return SoapAnswer(500, wire.fault(calls.error_of(action, sent), version), fired=fired)
    if action.word in calls.HTTP_TEXT:
        status, body, kind = calls.HTTP_TEXT[action.word]
        return SoapAnswer(status, body, kind=kind, fired=fired)
    if action.word == "malformed":
        return SoapAnswer(200, calls.MALFORMED, fired=fired)
    if early and action.word in (*calls.UNANSWERED, "truncate"):
        return SoapAnswer(200, calls.MALFORMED, fired=fired)
    return replace(carry_out(calls.doom_of(fired, sent)) if early else result, fired=fired)


def _carried_out(farm: Farm, request: wire.SoapRequest, version: str, sender: Sender, doom: Doom | None) -> SoapAnswer:
    ledger.operation.set(request.operation[: ledger.LONGEST_OPERATION])
    try:
        with farm.store.lock:
            if not sender.served():
                return SoapAnswer(*calls.HTTP_TEXT["503"][:2], kind="text/plain")  # no client reads it
            farm.settle()
            call = _call(farm, request, version, sender)
            farm.tasks.doom = doom
            try:
                result, result_type = _by_client(call, request)
            finally:
                farm.tasks.doom = None
            farm.settle()
            out = wire.response(request, result, result_type, version)
        return SoapAnswer(200, out, _cookie(call))
    except vmodl.MethodFault as error:
        return SoapAnswer(500, wire.fault(error, version))
    except wire.MalformedCall as error:
        return _refused(error, version)
    except Exception as error:  # a bug of the lab: the client gets a fault, the log the traceback
        traceback.print_exc()
        return SoapAnswer(500, wire.fault(vmodl.fault.SystemError(reason=repr(error), msg=repr(error)), version))


def _by_client(call: Call, request: wire.SoapRequest) -> tuple[Any, Any]:
    """Carry out a method so that whatever it changes, now or in a task, is known as its sender's."""
    sender = ledger.Client(call.session.user, bool(request.operation)) if call.session else None
    before = ledger.client.set(sender)
    try:
        return _invoke(call, request)
    finally:
        ledger.client.reset(before)  # what the farm does by itself next, in this thread, has no client


def _refused(error: wire.MalformedCall, version: str) -> SoapAnswer:
    return SoapAnswer(500, wire.fault(vmodl.fault.InvalidRequest(msg=str(error)), version))


def negotiated(action: str, served: str) -> str:
    """Return the API version to answer in: what the client asked for, at most what the server has."""
    try:
        version = str(Vmomi.GetVersionFromVersionUri(action.strip('"')))
    except KeyError:
        return served  # a client newer than this pyVmomi
    return served if Vmomi.IsChildVersion(version, served) else version


def _call(farm: Farm, request: wire.SoapRequest, version: str, sender: Sender) -> Call:
    session = farm.sessions.find(_token(sender.headers.get("Cookie", "")))
    hidden = request.name == "Fetch" and request.this._moId not in PUBLIC
    if session is None and (hidden or request.name not in WITHOUT_LOGIN):
        raise _not_authenticated(request.this)
    agent = sender.headers.get("User-Agent", "")
    return Call(farm, farm.store.get(request.this), session, version, sender.peer, agent)


def _invoke(call: Call, request: wire.SoapRequest) -> tuple[Any, Any]:
    if request.name == "Fetch":
        return _fetch(call, str(request.args.get("prop", "")))
    handler = handler_for(request.this, request.name)
    if not Vmomi.IsChildVersion(call.version, request.info.version):
        raise vmodl.fault.MethodNotFound(receiver=request.this, method=request.name)
    refuse_disabled(call.mo, request.name)
    args: dict[str, Any] = {}
    for param in request.info.params:
        value = request.args.get(param.name)
        if value is None and not param.flags & Vmomi.F_OPTIONAL:
            raise vmodl.fault.InvalidArgument(
                invalidProperty=param.name, msg=f"A specified parameter was not correct: {param.name}"
            )
        if value is not None:
            wire.check_complete(value, call.version)
            args[param.name] = value
    return handler(call, **args), request.info.result


def _fetch(call: Call, path: str) -> tuple[Any, Any]:
    static_type(call.mo.type, path, call.version)
    return read(call.mo, path, call.session), object  # an anyType: recorded answers of vCenter carry xsi:type


def _not_authenticated(ref: Any) -> Exception:
    error: Exception = vim.fault.NotAuthenticated(
        object=ref, privilegeId="System.View", msg="The session is not authenticated."
    )
    return error


def _token(header: str) -> str | None:
    """Return the session's cookie, whatever other cookies a client keeps beside it."""
    found = _SESSION.search(header)
    return found.group(1) if found else None


def _cookie(call: Call) -> str:
    made = call.new_session
    return f'{COOKIE}="{made.token}"; Path=/; HttpOnly; Secure; ' if made else ""
