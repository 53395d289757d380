"""Managed types, one file each: what one shows, and the methods it really carries out. A file registers its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, wraps
from importlib import import_module
from pkgutil import walk_packages
from typing import TYPE_CHECKING, Any

from pyVmomi import vim, vmodl

from vsphere_ai.lab.managed.refusals import no_permission

if TYPE_CHECKING:
    from vsphere_ai.lab.farm import Farm
    from vsphere_ai.lab.sessions import LabSession
    from vsphere_ai.lab.store import ManagedObject

Handler = Callable[..., Any]
_handlers: dict[tuple[str, str], Handler] = {}
_changing: set[str] = set()


@dataclass
class Call:
    """One method call: on which object of which environment, by whom, at which API version."""

    farm: Farm
    mo: ManagedObject
    session: LabSession | None
    version: str
    peer: str = ""
    agent: str = ""
    new_session: LabSession | None = None
    """Set by a login; the server answers with its cookie."""

    @property
    def login(self) -> LabSession:
        """The caller's session; only methods that need no login may look at `session` instead."""
        if self.session is None:
            raise vim.fault.NotAuthenticated(
                object=self.mo.ref, privilegeId="System.View", msg="The session is not authenticated."
            )
        return self.session

    def check_alive(self) -> None:
        """Refuse to go on after a wait during which the session ended or the object went away."""
        if self.session not in self.farm.sessions.live.values():
            self.session = None
        _ = self.login
        self.farm.store.get(self.mo.ref)


def reads(typ: Any, method: str, privilege: str = "") -> Callable[[Handler], Handler]:
    """Register a function as the implementation of a WSDL method of a managed type and its subtypes.

    The method changes nothing an administrator would call a change. With a privilege, it is refused to a user whom the
    scenario denies that.
    """

    def register(function: Handler) -> Handler:
        if (typ._wsdlName, method) in _handlers:
            raise ValueError(f"two functions carry out {method} of {typ._wsdlName}")

        @wraps(function)
        def allowed(call: Call, *args: Any, **kwargs: Any) -> Any:
            demand(call, privilege)
            return function(call, *args, **kwargs)

        made = _handlers[typ._wsdlName, method] = allowed if privilege else function
        return made

    return register


def changes(typ: Any, method: str, privilege: str = "") -> Callable[[Handler], Handler]:
    """Register the implementation of a method that changes the environment; otherwise like `reads`."""
    _changing.add(method)
    return reads(typ, method, privilege)


def demand(call: Call, privilege: str, mo: ManagedObject | None = None) -> None:
    """Refuse when the scenario denies the user a privilege on an object, without one on that of the call."""
    on = mo or call.mo
    if denied(call.farm, on, privilege):
        raise no_permission(on.ref, privilege)


def denied(farm: Farm, mo: ManagedObject, privilege: str) -> bool:
    """Return whether the scenario denies a privilege everywhere, or on an object or what is above it."""
    refused = farm.scenario.privileges_denied
    if privilege in refused:
        return True
    places = {entry.removeprefix(f"{privilege} on ") for entry in refused if entry.startswith(f"{privilege} on ")}
    at: ManagedObject | None = mo
    while places and at is not None:
        if at.props.get("name") in places:
            return True
        at = farm.store.objects.get(at["parent"]._moId) if at["parent"] is not None else None
    return False


@cache
def load() -> None:
    """Import every module of this folder and those in it; each registers what it has: a new manager is a new file."""
    for module in walk_packages(__path__, f"{__name__}."):
        import_module(module.name)


def methods() -> frozenset[str]:
    """Return the WSDL names of all methods that are carried out for some type."""
    load()
    return frozenset(method for _, method in _handlers)


def changing_methods() -> frozenset[str]:
    """Return those of `methods` that change the environment."""
    load()
    return frozenset(_changing)


def handler_for(ref: Any, method: str) -> Handler:
    """Return the implementation for an object, or raise MethodNotFound: never a faked success."""
    for cls in type(ref).__mro__:
        found = _handlers.get((getattr(cls, "_wsdlName", ""), method))
        if found is not None:
            return found
    name = type(ref)._wsdlName
    raise vmodl.fault.MethodNotFound(receiver=ref, method=method, msg=f"The lab's {name} does not implement {method}.")
