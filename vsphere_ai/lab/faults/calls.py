"""API calls under faults: what a call is about, and the errors and broken bodies a fault answers with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyVmomi import VmomiSupport as Vmomi
from pyVmomi import vim

from vsphere_ai.lab.faults.echo import echo
from vsphere_ai.lab.faults.engine import Fired
from vsphere_ai.lab.faults.rules import CHECKS, ON_CHECKS, ON_TASKS, Action, FaultEvent
from vsphere_ai.lab.store import ManagedObject, fill
from vsphere_ai.lab.tasks import Doom

if TYPE_CHECKING:
    from vsphere_ai.lab.farm import Farm
    from vsphere_ai.lab.wire import SoapRequest

HTTP_TEXT = {
    "503": (503, b"no healthy upstream", "text/plain"),
    "401": (401, b"<html><body><h1>401 Unauthorized</h1></body></html>", "text/html"),
}
"""What the proxy in front of vCenter's service says: HTTP status, body, content type."""

MALFORMED = b'<?xml version="1.0" encoding="UTF-8"?><html><body><hr><p>Bad Gateway & more<br></body></htm'
"""A reply that is no XML, as proxies on the way send it with status 200."""

ECHOES = ("fault-echoes", "task-echoes")
"""Faults that quote the request in their text."""
UNANSWERED = ("drop", "lost-reply", "reset", "hang", "restart")
"""Faults whose call gets no reply at all, unless the reply breaks off in the middle."""


def event_of(farm: Farm, request: SoapRequest) -> FaultEvent:
    """Return what rules are compared with: the method, and the names of the objects and hosts it is about."""
    with farm.store.lock:
        refs = [request.this, *(request.args.get("vm") or ())] if request.name == "PowerOnMultiVM_Task" else []
        if CHECKS.fullmatch(request.name) and request.args.get("vm") is not None:
            refs = [request.args["vm"]]  # the checkers are services: a check is about its VM
        found = [farm.store.objects.get(ref._moId) for ref in refs or [request.this]]
        pairs = [_about(farm, mo) for mo in found if mo is not None]
    names = tuple(name for name, _ in pairs if name)
    return FaultEvent("soap", request.name, names, tuple(host for _, host in pairs if host))


def _about(farm: Farm, mo: ManagedObject) -> tuple[str, str]:
    """Return the name of an object and of its host."""
    mo = mo.extra.get("host") or mo  # a manager of a host stands for the host
    if isinstance(mo.ref, vim.HostSystem):
        return str(mo["name"]), str(mo["name"])
    if isinstance(mo.ref, vim.VirtualMachine):
        return str(mo["name"]), str(farm.host_of(mo)["name"]) if mo["runtime"].host else ""
    if isinstance(mo.ref, vim.Task):
        return str(mo["info"].entityName or ""), ""
    return (str(mo["name"]), "") if isinstance(mo.ref, vim.ManagedEntity) else ("", "")


def error_of(action: Action, sent: bytes = b"") -> Exception:
    """Return the fault of the API a rule names, its required fields filled in; an echo quotes what was `sent`."""
    error: Exception = fill(Vmomi.GetWsdlType("urn:vim25", action.value)())
    text = f" It was sent: {echo(sent)}" if action.word in ECHOES else ""
    error.msg = f"{action.value}, as a fault of the lab demands.{text}"  # type: ignore[attr-defined]
    return error


def doom_of(fired: Fired, sent: bytes = b"") -> Doom | None:
    """Return what the fault makes of the task or the shutdown that the call starts, or of a check; None for others."""
    action = fired.rule.do
    if action.word in ON_CHECKS:
        finds = (error_of(action),) if action.word == "check-finds" else ()
        return Doom(None, None, False, fired.released, finds=finds)
    if action.word not in (*ON_TASKS, "guest-stuck"):
        return None
    error: Any = error_of(action, sent) if action.word in ("task-fails", "task-echoes") else None
    percent = action.number if action.word == "task-stuck" else None
    most = action.number if action.word == "most-tasks" else 0
    return Doom(error, percent, action.word == "task-gone", fired.released, action.word == "clone-elsewhere", most)
