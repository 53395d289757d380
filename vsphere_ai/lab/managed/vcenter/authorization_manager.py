"""AuthorizationManager: the lab's user has every privilege the scenario does not deny."""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.managed import Call, denied, reads
from vsphere_ai.lab.managed.refusals import invalid_argument


@reads(vim.AuthorizationManager, "HasPrivilegeOnEntities")
def has_privilege_on_entities(call: Call, entity: Any, sessionId: str, privId: Any = None) -> Any:
    """Return for each entity and privilege whether a session has it."""
    Manager = vim.AuthorizationManager  # noqa: N806 - a type
    return [
        Manager.EntityPrivilege(
            entity=call.farm.store.get(ref).ref,
            privAvailability=[
                Manager.PrivilegeAvailability(privId=p, isGranted=granted)
                for p, granted in zip(privId or (), _granted(call, ref, sessionId, privId), strict=True)
            ],
        )
        for ref in entity
    ]


@reads(vim.AuthorizationManager, "HasPrivilegeOnEntity")
def has_privilege_on_entity(call: Call, entity: Any, sessionId: str, privId: Any = None) -> list[bool]:
    """Return for each privilege whether a session has it on an entity."""
    return _granted(call, entity, sessionId, privId)


def _granted(call: Call, entity: Any, session: str, privileges: Any) -> list[bool]:
    if not any(s.key == session for s in call.farm.sessions.live.values()):
        raise invalid_argument("sessionId")
    mo = call.farm.store.get(entity)
    return [not denied(call.farm, mo, p) for p in privileges or ()]
