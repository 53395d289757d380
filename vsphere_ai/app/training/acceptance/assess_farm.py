"""Assess: a farm, or what a playbook makes of it, against the five pillars of a well-architected workload."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from vsphere_ai.app.estate.connection import EstateConnection
from vsphere_ai.app.estate.read_estate import read_everything, read_for
from vsphere_ai.app.estate.references import load
from vsphere_ai.app.estate.scope import EstateRequest
from vsphere_ai.app.estate.session import open_session
from vsphere_ai.app.events import Emit, ignore
from vsphere_ai.app.runs.plan_playbook import plan_of
from vsphere_ai.app.training.benchmarks.history import newest
from vsphere_ai.app.training.health.history import last_checks
from vsphere_ai.compat import assessment
from vsphere_ai.compat.assessment import Assessment
from vsphere_ai.compat.pillars.attested import QUESTIONS
from vsphere_ai.compat.pillars.base import AssessedFarm
from vsphere_ai.compat.pillars.security import NEVER_USED, OPTIONS
from vsphere_ai.errors import Denied, StepFailed
from vsphere_ai.language.attestation import load_attestations
from vsphere_ai.language.playbooks.play import Playbook
from vsphere_ai.model.facts import About, Estate
from vsphere_ai.model.finding import FailOn, Finding, exit_code
from vsphere_ai.model.records.assessment import Attestation, Records
from vsphere_ai.model.view import View
from vsphere_ai.planning.capacity import NO_SPARE, problems_of
from vsphere_ai.planning.observing import evaluate_with, observe
from vsphere_ai.planning.planner import Plan, view_as_planned, will_run
from vsphere_ai.resources import kinds

if TYPE_CHECKING:
    from vsphere_ai.app.estate.scope import EstateScope
    from vsphere_ai.app.estate.session import Session


@dataclass(frozen=True)
class AssessRequest:
    """What to assess: the farm as a playbook makes it, or as it is; within the limit of the estate request.

    `attestations` is a file of attestations (manual checks).
    """

    playbook: Path | None = None
    attestations: Path | None = None
    estate: EstateRequest = field(default_factory=EstateRequest)


@dataclass(frozen=True)
class AssessResult:
    """What the rules found, by pillar and rule, and those that apply to nothing.

    `hosts` and `vms` are the names of what was assessed, `estate` is what was read of them, as it is with a playbook
    before its changes. `by_hand`: rule -> why no playbook corrects what it finds.
    """

    about: About
    playbook: str
    hosts: tuple[str, ...]
    vms: tuple[str, ...]
    findings: tuple[Finding, ...]
    not_applicable: tuple[str, ...]
    estate: Estate
    by_hand: Mapping[str, str]

    def exit_code(self, fail_on: FailOn = "fail") -> int:
        """Return the code of the worst verdict from `fail_on` on."""
        return exit_code(self.findings, fail_on)


def attested_questions() -> Mapping[str, str]:
    """Return the questions that no software can answer, by the id of their rule."""
    return {rule: question for rule, (_, question) in QUESTIONS.items()}


def assess(request: AssessRequest, emit: Emit = ignore) -> AssessResult:
    """Assess a farm against the rules of the five pillars. Changes nothing.

    `InputError` when the playbook, the inventory or the attestations are wrong.
    """
    answers = load_attestations(request.attestations, tuple(QUESTIONS)) if request.attestations else {}
    playbook = load(request.playbook, request.estate, emit) if request.playbook else None
    with open_session(request.estate, playbook, emit) as opened:
        session = opened.reading_also(assessment.properties())
        found, farm = _assess_playbook(session, playbook, answers) if playbook else _assess_all(session, answers)
        names = tuple(h.name for h in farm.hosts), tuple(v.name for v in farm.vms)
        return AssessResult(
            session.connection.vcenter.about,
            str(request.playbook or ""),
            *names,
            found.findings,
            found.not_applicable,
            farm.view.estate,
            {rule.id: rule.by_hand for rule in assessment.rules() if rule.by_hand},
        )


def _assess_playbook(
    session: Session, playbook: Playbook, answers: Mapping[str, Attestation]
) -> tuple[Assessment, AssessedFarm]:
    made, estate = plan_of(session, playbook, read_for(session, playbook))
    desired = session.desired(playbook, estate)
    records = replace(
        _records(session.scope, session.connection, answers),
        drift=_drift(made),
        anti_affinity=frozenset(
            p.wanted.name for p in session.scope.set_plays(playbook) if p.wanted.placement.anti_affinity
        ),
    )

    def examined(estate: Estate) -> tuple[Assessment, AssessedFarm]:
        view = view_as_planned(desired, estate, kinds())
        chosen = frozenset(t.ref for t in desired) | estate.hosts_around(t.ref for t in desired)
        return _examined(view, will_run(estate, desired), records, chosen)

    return evaluate_with(kinds(), estate, examined)[0]


def _assess_all(session: Session, answers: Mapping[str, Attestation]) -> tuple[Assessment, AssessedFarm]:
    estate, records = read_everything(session), _records(session.scope, session.connection, answers)

    def examined(estate: Estate) -> tuple[Assessment, AssessedFarm]:
        chosen = frozenset(t.ref for t in session.scope.limited(estate, (*estate.hosts, *estate.vms)))
        on = frozenset(v.ref for v in estate.vms if estate.is_on(v.ref))
        return _examined(View(estate, observe(estate, kinds())), on, records, chosen)

    return evaluate_with(kinds(), estate, examined)[0]


def _examined(
    view: View, on: frozenset[str], records: Records, chosen: frozenset[str]
) -> tuple[Assessment, AssessedFarm]:
    farm = assessment.farm_of(view, replace(records, spare=_spare(view, on)), on, chosen)
    return assessment.assess(farm), farm


def _records(scope: EstateScope, connection: EstateConnection, answers: Mapping[str, Attestation]) -> Records:
    ssh = scope.inventory.ssh
    login: Literal["password", "key", "none"] = "none" if ssh is None else "password" if ssh.password else "key"
    return Records(
        datetime.now(UTC).date(),
        ssh_login=login,
        surplus=_surplus(connection),
        options=_options(connection),
        attestations=answers,
        measured=newest(connection.vcenter.about.instance),
        checked=last_checks(connection.vcenter.about.instance),
    )


def _surplus(connection: EstateConnection) -> tuple[str, ...] | None:
    root = str(connection.vcenter.service("rootFolder"))
    try:
        lacking = connection.vcenter.missing_privileges((root,), NEVER_USED).get(root, ())
    except (Denied, StepFailed):
        return None
    return tuple(p for p in NEVER_USED if p not in lacking)


def _options(connection: EstateConnection) -> Mapping[str, str]:
    manager, found = connection.vcenter.service("setting"), {}
    for name in OPTIONS if manager else ():
        try:
            answer = connection.vcenter.call(str(manager), "QueryOptions", {"name": name})
        except (Denied, StepFailed):
            continue
        found.update({str(o["key"]): str(o["value"]) for o in answer or ()})  # type: ignore[union-attr,index,call-overload]
    return found


def _spare(view: View, on: frozenset[str]) -> dict[str, str]:
    """Return, for each cluster, why its VMs with vGPUs do not all restart after the loss of a host; empty: they do."""
    found = {c.ref: "" for h in view.estate.hosts if (c := view.estate.cluster_of(h.ref))}
    for problem in sorted(problems_of(view, on, 1), key=lambda p: p.rule != NO_SPARE):
        cluster = view.estate.cluster_of(problem.target.ref)
        if cluster and not found[cluster.ref]:
            found[cluster.ref] = problem.message
    return found


def _drift(plan: Plan) -> tuple[str, ...]:
    return tuple(f"{item.target.name} {item.kind} {c.name}" for item in plan.changed() for c in item.fields)
