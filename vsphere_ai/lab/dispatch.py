"""From the bytes of a SOAP request to the bytes of its answer: version, session, arguments, method."""

from __future__ import annotations

import re
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyVmomi import VmomiSupport as Vmomi
from pyVmomi import vim, vmodl

from vsphere_ai.lab import wire
from vsphere_ai.lab.collector import PUBLIC
from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.managed import Call, handler_for
from vsphere_ai.lab.store import read, static_type

COOKIE = "vmware_soap_session"
_SESSION = re.compile(rf'(?:^|;)\s*{COOKIE}="?([^";\s]+)')

# what may be called before a login; object reads are then restricted by the collector
WITHOUT_LOGIN = frozenset(
    {"RetrieveServiceContent", "Login", "Fetch", "RetrieveProperties", "RetrievePropertiesEx", "CurrentTime"}
)


@dataclass(frozen=True)
class Answer:
    """A SOAP answer: HTTP status, body, and the cookie to set (empty: none)."""

    status: int
    body: bytes
    cookie: str = ""


def answer(farm: Farm, body: bytes, headers: Mapping[str, str], peer: str) -> Answer:
    """Carry out one request."""
    version = negotiated(headers.get("SOAPAction", ""), farm.scenario.vcenter.api_version)
    try:
        request = wire.RequestParser().parse(body)
        with farm.store.lock:
            farm.settle()
            call = _call(farm, request, headers, version, peer)
            result, result_type = _invoke(call, request)
            farm.settle()
            out = wire.response(request, result, result_type, version)
        return Answer(200, out, _cookie(call))
    except vmodl.MethodFault as error:
        return Answer(500, wire.fault(error, version))
    except wire.BadRequest as error:
        return Answer(500, wire.fault(vmodl.fault.InvalidRequest(msg=str(error)), version))
    except Exception as error:  # a bug of the lab: the client gets a fault, the log the traceback
        traceback.print_exc()
        return Answer(500, wire.fault(vmodl.fault.SystemError(reason=repr(error), msg=repr(error)), version))


def negotiated(action: str, served: str) -> str:
    """Return the API version to answer in: what the client asked for, at most what the server has."""
    try:
        version = str(Vmomi.GetVersionFromVersionUri(action.strip('"')))
    except KeyError:
        return served  # a client newer than this pyVmomi
    return served if Vmomi.IsChildVersion(version, served) else version


def _call(farm: Farm, request: wire.Request, headers: Mapping[str, str], version: str, peer: str) -> Call:
    session = farm.sessions.find(_token(headers.get("Cookie", "")))
    hidden = request.name == "Fetch" and request.this._moId not in PUBLIC
    if session is None and (hidden or request.name not in WITHOUT_LOGIN):
        raise _not_authenticated(request.this)
    return Call(farm, farm.store.get(request.this), session, version, peer, headers.get("User-Agent", ""))


def _invoke(call: Call, request: wire.Request) -> tuple[Any, Any]:
    if request.name == "Fetch":
        return _fetch(call, str(request.args.get("prop", "")))
    handler = handler_for(request.this, request.name)
    if not Vmomi.IsChildVersion(call.version, request.info.version):
        raise vmodl.fault.MethodNotFound(receiver=request.this, method=request.name)
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
