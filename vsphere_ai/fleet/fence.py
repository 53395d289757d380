"""Fence: nothing that an earlier holder of a shard's lease may still send takes effect any more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from vsphere_ai.app.estate.scope import EstateRequest
from vsphere_ai.app.estate.session import open_session
from vsphere_ai.connect import vcenter_lock
from vsphere_ai.connect.vcenter import VCenter
from vsphere_ai.documents.fleets import Shard
from vsphere_ai.errors import Denied, StepFailed, VimFault
from vsphere_ai.fleet.shard import title_of

PRIVILEGE = "Sessions.TerminateSession"


def fence(shard: Shard, sessions: Sequence[str]) -> None:
    """End login sessions in the shard's vCenter, by their keys, and the lock there that was taken in one of them.

    `Denied` where the account may not: then nothing of the shard is carried out.
    """
    estate = EstateRequest(Path(shard.inventory) if shard.inventory else None, shard.vcenter)
    with open_session(estate) as session:
        for key in sessions:
            _end(session.connection.vcenter, key)
        found = vcenter_lock.find(session.connection.vcenter)
        if found is not None and found.holder.run in (shard.run, title_of(shard)):
            vcenter_lock.remove(session.connection.vcenter, found.ref)


def require_privilege(estate: EstateRequest) -> None:
    """`Denied` where the account may not end sessions: a worker that is lost could not be followed by another."""
    bare = replace(estate, limit="", variables=(), vars_files=())
    with open_session(bare) as session:
        root = str(session.connection.vcenter.service("rootFolder"))
        try:
            missing = session.connection.vcenter.missing_privileges([root], [PRIVILEGE])
        except StepFailed:  # a server that does not answer this says so later
            return
        if missing:
            text = (
                f"{session.scope.settings.username} lacks {PRIVILEGE}, which ends the sessions of a worker that is lost"
            )
            raise Denied(text, "give it the privilege on the root folder", rule="account.privileges")


def _end(vcenter: VCenter, key: str) -> None:
    try:
        vcenter.call(_manager(vcenter), "TerminateSession", {"sessionId": [key]})
    except VimFault as error:
        if error.fault != "NotFound":  # it was logged out, or has expired
            raise
    except Denied as error:
        text = f"the session of the worker that was lost cannot be ended: {error.message}"
        remedy = f"give the account {PRIVILEGE} on the root folder, then: vsphere-ai fleet resume"
        raise Denied(text, remedy, rule="fleet.session") from error


def _manager(vcenter: VCenter) -> str:
    found = vcenter.service("sessionManager")
    if found is None:
        raise StepFailed(f"{vcenter.name} has no session manager", "check that this is a vCenter Server")
    return found
