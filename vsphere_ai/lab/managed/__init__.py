"""One file per managed type: what it shows, and the methods it really carries out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyVmomi import vim, vmodl

if TYPE_CHECKING:
    from vsphere_ai.lab.farm import Farm
    from vsphere_ai.lab.sessions import Session
    from vsphere_ai.lab.store import ManagedObject

Handler = Callable[..., Any]
_handlers: dict[tuple[str, str], Handler] = {}


@dataclass
class Call:
    """One method call: on which object of which farm, by whom, at which API version."""

    farm: Farm
    mo: ManagedObject
    session: Session | None
    version: str
    peer: str = ""
    agent: str = ""
    new_session: Session | None = None
    """Set by a login; the server answers with its cookie."""

    @property
    def login(self) -> Session:
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


def handles(typ: Any, method: str) -> Callable[[Handler], Handler]:
    """Register a function as the implementation of a WSDL method of a managed type and its subtypes."""

    def register(function: Handler) -> Handler:
        _handlers[(typ._wsdlName, method)] = function
        return function

    return register


def methods() -> frozenset[str]:
    """Return the WSDL names of all methods that are carried out for some type."""
    return frozenset(method for _, method in _handlers)


def handler_for(ref: Any, method: str) -> Handler:
    """Return the implementation for an object, or raise MethodNotFound: never a faked success."""
    for cls in type(ref).__mro__:
        found = _handlers.get((getattr(cls, "_wsdlName", ""), method))
        if found is not None:
            return found
    name = type(ref)._wsdlName
    raise vmodl.fault.MethodNotFound(receiver=ref, method=method, msg=f"The lab's {name} does not implement {method}.")
