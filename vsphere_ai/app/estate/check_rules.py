"""Check: hosts and VMs against the compatibility rules, with evidence."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from vsphere_ai.app.estate.read_estate import read_everything, read_for
from vsphere_ai.app.estate.references import load
from vsphere_ai.app.estate.scope import EstateRequest
from vsphere_ai.app.estate.session import open_session
from vsphere_ai.app.events import Emit, ignore
from vsphere_ai.compat import gate
from vsphere_ai.errors import UsageError
from vsphere_ai.language.playbooks.play import Playbook
from vsphere_ai.model.facts import About, Estate
from vsphere_ai.model.finding import Finding, exit_code
from vsphere_ai.model.view import View
from vsphere_ai.planning.observing import evaluate_with, observe
from vsphere_ai.planning.planner import check as check_states
from vsphere_ai.resources import kinds

if TYPE_CHECKING:
    from vsphere_ai.app.estate.session import Session


@dataclass(frozen=True)
class CheckRequest:
    """What to check: what a playbook is about, or everything within the limit of the estate request."""

    playbook: Path | None = None
    estate: EstateRequest = field(default_factory=EstateRequest)


@dataclass(frozen=True)
class CheckResult:
    """The findings of all rules, also of those that passed."""

    about: About
    findings: tuple[Finding, ...]

    @property
    def exit_code(self) -> int:
        """2 when a rule fails, 1 when something is not known, else 0."""
        return exit_code(self.findings)


def check(request: CheckRequest, emit: Emit = ignore) -> CheckResult:
    """Check an estate against the compatibility rules. Changes nothing."""
    if request.estate.only_kinds and request.playbook is None:
        raise UsageError("--kind is for a playbook, and none is given", "give the playbook", rule="usage.kind")
    playbook = load(request.playbook, request.estate, emit) if request.playbook else None
    with open_session(request.estate, playbook, emit) as session:
        findings = _check_playbook(session, playbook) if playbook else _check_all(session)
        return CheckResult(session.connection.vcenter.about, findings)


def _check_playbook(session: Session, playbook: Playbook) -> tuple[Finding, ...]:
    """Check what a playbook is about against the compatibility rules."""
    estate = read_for(session, playbook)
    return evaluate_with(kinds(), estate, lambda e: check_states(session.desired(playbook, e), e, kinds()))[0]


def _check_all(session: Session) -> tuple[Finding, ...]:
    """Check everything that was read against the compatibility rules."""

    def examined(estate: Estate) -> tuple[Finding, ...]:
        chosen = set(session.scope.limited(estate, (*estate.hosts, *estate.vms)))
        view = View(estate, observe(estate, kinds()))
        return tuple(f for f in gate.examine_all(view) if f.target is None or f.target in chosen)

    return evaluate_with(kinds(), read_everything(session), examined)[0]
