"""Privileges that a playbook takes, and which of them the account lacks."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from vsphere_ai.app.estate.references import load
from vsphere_ai.app.estate.scope import EstateRequest
from vsphere_ai.app.estate.session import open_session
from vsphere_ai.app.events import Emit, ignore
from vsphere_ai.app.project.doctor_checks import examine
from vsphere_ai.app.runs.account_privileges import record_needs, still_lacking
from vsphere_ai.app.runs.plan_playbook import make_plan
from vsphere_ai.connect.vcenter_lock import place
from vsphere_ai.connect.wire.plain import privilege_of
from vsphere_ai.model.finding import Finding
from vsphere_ai.planning.check_privileges import for_checks
from vsphere_ai.planning.privileges import PrivilegeNeed, for_lock, missing_privileges, needed, unplanned


@dataclass(frozen=True)
class PrivilegesRequest:
    """Whose privileges to look for: those that planning and applying a playbook takes."""

    playbook: Path
    estate: EstateRequest = field(default_factory=EstateRequest)


@dataclass(frozen=True)
class PrivilegesResult:
    """All privileges per object, and those that the account lacks. `complete` is false when the plan has problems."""

    account: str
    needs: tuple[PrivilegeNeed, ...]
    missing: frozenset[PrivilegeNeed]
    complete: bool

    @property
    def exit_code(self) -> int:
        """4 when a privilege is missing, 1 when the list may be incomplete, else 0."""
        return 4 if self.missing else int(not self.complete)


def privileges(request: PrivilegesRequest, emit: Emit = ignore) -> PrivilegesResult:
    """Return which privileges a playbook takes, and which the account lacks. Changes nothing."""
    playbook = load(request.playbook, request.estate, emit)
    with open_session(request.estate, playbook, emit) as session:
        plan, estate = make_plan(session, playbook)
        needs = (
            *needed(plan, estate, privilege_of),
            *record_needs(session.connection.vcenter, plan, estate),
            *for_checks(plan, estate, privilege_of),
            *unplanned(plan, session.desired(playbook, estate), estate, privilege_of),
        )
        if session.scope.settings.lock == "vcenter":
            needs = (*needs, *for_lock(*place(session.connection.vcenter), privilege_of))
        needs = tuple({(n.ref, n.privilege): n for n in reversed(needs)}.values())
        missing = still_lacking(
            missing_privileges(needs, session.connection.vcenter.missing_privileges), session.connection.vcenter
        )
        return PrivilegesResult(session.scope.settings.username, needs, missing, not plan.problems)


def doctor(estate: EstateRequest, emit: Emit = ignore) -> tuple[Finding, ...]:
    """Look at everything a run needs: libraries, files, names, certificate, login, clocks, SSH, drivers and DRS."""
    with open_session(estate, None, emit) as session:
        return tuple(examine(session.scope, session.connection))
