"""Plan: what a playbook would change and disrupt, on the estate as it is now; and its file."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from pydantic import JsonValue

from vsphere_ai.app.estate.read_estate import read_for
from vsphere_ai.app.estate.references import load
from vsphere_ai.app.estate.scope import EstateRequest
from vsphere_ai.app.estate.session import open_session
from vsphere_ai.app.estate.session_outputs import planned_outputs
from vsphere_ai.app.events import Emit, ignore
from vsphere_ai.app.events.results import VCenterContext, exit_code_of
from vsphere_ai.app.runs.account_privileges import with_privileges
from vsphere_ai.app.runs.open_runs import announce
from vsphere_ai.app.runs.out_of_service import out_problems
from vsphere_ai.app.runs.surroundings import surroundings
from vsphere_ai.errors import UsageError
from vsphere_ai.gpu.smi import live
from vsphere_ai.language.playbooks.desired import managed
from vsphere_ai.language.playbooks.play import Playbook, TargetPlan
from vsphere_ai.model.facts import Estate, with_probes
from vsphere_ai.model.finding import by_target
from vsphere_ai.model.records.pending import Pending
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import Step
from vsphere_ai.planning import document
from vsphere_ai.planning.capacity import NO_ROOM
from vsphere_ai.planning.document import PlanDocument
from vsphere_ai.planning.observing import evaluate_with
from vsphere_ai.planning.planner import Plan, PlanContext, planned, reading_back
from vsphere_ai.planning.printed_plan import PrintedPlan, printed_plan
from vsphere_ai.planning.scheduling.rebooted_gpus import hosts_to_probe
from vsphere_ai.reading.scope import depth_for
from vsphere_ai.resources import kinds
from vsphere_ai.security.files import DOCUMENT, read_text, write_output

if TYPE_CHECKING:
    from vsphere_ai.app.estate.connection import EstateConnection
    from vsphere_ai.app.estate.scope import EstateScope
    from vsphere_ai.app.estate.session import Session
    from vsphere_ai.planning.resume import Resumed
    from vsphere_ai.sets.outputs import OutputValue


@dataclass(frozen=True)
class Continued:
    """What a plan takes over of an unfinished run; nothing of it where there is none.

    `extra` are steps that end what the run has begun, and `hosts` maps the reference of a VM that it is to make to the
    name of the approved host. `as_read` is the estate that was read, where the plan is made on one that shows what the
    run has switched as it was before: whether SSH has to be started, and stopped again, is seen there.
    """

    extra: Mapping[Target, Sequence[Step]] = field(default_factory=dict)
    hosts: Mapping[str, str] = field(default_factory=dict)
    as_read: Estate | None = None


@dataclass(frozen=True)
class PlanRequest:
    """Which playbook to plan, on which estate."""

    playbook: Path
    estate: EstateRequest = field(default_factory=EstateRequest)


@dataclass(frozen=True)
class PlanResult:
    """A plan, and what it was made of. `excluded` are the playbook's targets that the limit leaves out.

    `scope` is what narrowed it: the name of the vCenter, and the limit. `outputs` are as they will be.
    `around` is the vCenter, and the expected time.
    """

    playbook: Playbook
    plan: Plan
    estate: Estate
    excluded: frozenset[Target]
    scope: Mapping[str, str]
    around: VCenterContext
    outputs: tuple[OutputValue, ...] = ()

    @cached_property
    def _plan_document(self) -> PlanDocument:
        return PlanDocument.of(self.plan, self.around.estimate, self.around.world)

    @cached_property
    def _said(self) -> Mapping[str, JsonValue]:
        return self._plan_document.as_json()

    @cached_property
    def digest(self) -> str:
        """SHA-256 of what the plan would do and where."""
        return document.digest(self.plan, self._said)

    @property
    def exit_code(self) -> int:
        """0, or why the plan is refused: 1, 4 (not accepted) or 5 (out of reach)."""
        return exit_code_of(self.plan.problems) if self.plan.problems and not self.plan.awaits_ssh else 0

    def document(self) -> PrintedPlan:
        """Return the plan as it is printed."""
        outputs = {each.name: each.document for each in self.outputs}
        return printed_plan(self._plan_document, self.digest, self.playbook.variables, self.excluded, outputs)

    def saved(self) -> Mapping[str, object]:
        """Return the content of a plan file, which `apply` takes."""
        return document.saved_plan(self._said, self.digest, self.playbook, self.scope)


def plan(request: PlanRequest, emit: Emit = ignore) -> PlanResult:
    """Plan a playbook, with vCenter's own checks and the account's privileges. Changes nothing.

    Problems are part of the plan; `InputError` when the playbook or the inventory is wrong.
    """
    return plan_loaded(load(request.playbook, request.estate, emit), request, emit)


def plan_loaded(playbook: Playbook, request: PlanRequest, emit: Emit = ignore) -> PlanResult:
    """Plan a playbook that was loaded of the file that the request names."""
    with open_session(request.estate, playbook, emit) as session:
        announce(session.scope, session.connection, emit)
        made, estate = make_plan(session, playbook)
        made = checked(session.scope, session.connection, made, estate)
        scope = {"vcenter": session.scope.settings.name, "limit": session.scope.options.limit}
        outputs = planned_outputs(session, playbook, estate)
        playbook = session.split(playbook, estate)
        around = surroundings(session.scope, made)
        return PlanResult(playbook, made, estate, session.left_out(playbook, estate), scope, around, outputs)


def require_replaceable(path: Path) -> None:
    """Refuse to put a plan in place of anything but an older plan: `plan X --to X` would delete the playbook."""
    try:
        if not path.is_symlink() and document.is_saved(read_text(path, DOCUMENT, "replace")):
            return
    except FileNotFoundError:
        return
    except OSError:  # what cannot be read is not known to be a plan
        pass
    raise UsageError(
        f"{path} exists and is not a saved plan; it is not overwritten",
        "give another name with --to, or remove it first",
        rule="usage.not-overwritten",
    )


def save_plan(result: PlanResult, path: Path) -> None:
    """Write a plan to a file that only its owner can read: it names hosts, VMs and networks."""
    require_replaceable(path)  # something else may have been written there since
    write_output(path, f"{document.dumps(result.saved())}\n")


def checked(scope: EstateScope, connection: EstateConnection, made: Plan, estate: Estate) -> Plan:
    """Return a plan with what vCenter answers to its steps, and with the privileges that the account lacks."""
    from vsphere_ai.execution.disk_children import child_problems
    from vsphere_ai.execution.running_clones import clone_problems
    from vsphere_ai.execution.vcenter_checks import with_answers

    lost = {
        *child_problems(made, connection.vcenter, estate),
        *clone_problems(made, connection.vcenter, estate),
    }
    made = replace(made, problems=tuple(sorted({*made.problems, *lost}, key=by_target))) if lost else made
    made = with_answers(made, connection.vcenter, estate, parallel=scope.options.parallel)
    return with_privileges(scope, connection, made, estate)


def make_plan(session: Session, playbook: Playbook) -> tuple[Plan, Estate]:
    """Read, and plan. `UsageError` where `--limit` leaves nothing of the playbook."""
    found = read_for(session, playbook)
    session.require_targets(playbook, found)
    made, estate = _plan(session, playbook, found, Continued())
    out = out_problems(session.connection.vcenter, made, found.objects, session.connection.emit)
    made = replace(made, problems=tuple(sorted({*made.problems, *out}, key=by_target))) if out else made
    return _with_logins(session, made, estate, playbook), estate


def plan_of(session: Session, playbook: Playbook, estate: Estate) -> tuple[Plan, Estate]:
    """Plan on what was read already; no login is proved."""
    return _plan(session, playbook, estate, Continued())


def plan_again(
    session: Session,
    playbook: Playbook,
    all_pending: Iterable[Pending],
    looks: Collection[str] = (),
    hosts: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Plan, Estate, Resumed]:
    """Read, and plan what an unfinished run has left, with what is pending. `looks`: see `resume.overlay_pending`.

    `hosts`: reference of a VM that the run is to make -> name of the host that was approved for it.
    """
    from vsphere_ai.planning.resume import overlay_pending

    found = read_for(session, playbook)
    resumed = overlay_pending(found, all_pending, looks)
    made, estate = _plan(session, playbook, resumed.estate, Continued(resumed.extra, hosts, found))
    return _with_logins(session, made, with_probes(found, estate), playbook), estate, resumed


def _with_logins(session: Session, plan: Plan, estate: Estate, playbook: Playbook) -> Plan:
    """Prove that the hosts on which a plan needs SSH let us in; `estate` is what was read, as it is now."""
    from vsphere_ai.execution import ssh_checks
    from vsphere_ai.reading.collector import prober_of

    probing = reading_back(session.desired(playbook, estate))
    request = session.request(lambda _: depth_for(estate, {}))
    prober = (
        prober_of(session.connection.vcenter, session.connection.shells, request) if session.connection.shells else None
    )
    access = ssh_checks.SshAccess(
        session.scope.inventory.ssh, prober, session.scope.options.ssh_login, session.scope.options.parallel
    )
    return ssh_checks.with_logins(plan, estate, access, probing)


def _plan(session: Session, playbook: Playbook, estate: Estate, run: Continued) -> tuple[Plan, Estate]:
    """Plan; where that reboots hosts whose GPUs were not asked, or VMs may move there, ask and plan again."""
    from vsphere_ai.reading.collector import ask_hosts

    made, estate = _made(session, playbook, estate, run)
    if any(p.rule == NO_ROOM for p in made.problems):
        from vsphere_ai.execution.second_read import read_around

        shells = session.connection.shells if session.scope.options.ssh_login else None
        request = replace(session.request(lambda _: depth_for(estate, {})), probes=live.STATE)
        estate = read_around(session.connection.vcenter, shells, request, made, estate)
        made, estate = _made(session, playbook, estate, run)
    unread = hosts_to_probe(made.impact, estate)
    if session.connection.shells is None or not unread or not session.scope.options.ssh_login:
        return made, estate
    request = replace(session.request(lambda _: depth_for(estate, {})), probes=live.STATE)
    asked = ask_hosts(session.connection.vcenter, session.connection.shells, request, run.as_read or estate, unread)
    estate = with_probes(estate, asked)
    return _made(session, playbook, estate, run)


def _made(session: Session, playbook: Playbook, estate: Estate, run: Continued) -> tuple[Plan, Estate]:
    """Plan; the estate comes back without values that are not as vSphere defines them."""

    def wanted(estate: Estate) -> tuple[Mapping[Target, TargetPlan], PlanContext, Estate]:
        estate = session.placed(playbook, estate, run.hosts)
        out = frozenset(t.ref for t in session.left_out(playbook, estate))
        agents = managed(playbook, session.scope.inventory, estate, vcenter=session.scope.settings.name)
        desired = session.desired(playbook, estate)
        return desired, PlanContext(_with_set_steps(session, playbook, estate, run), out, agents), estate

    (desired, besides, estate), _ = evaluate_with(kinds(), estate, wanted)
    return planned(desired, estate, kinds(), playbook.path, besides)


def _with_set_steps(
    session: Session, playbook: Playbook, estate: Estate, run: Continued
) -> Mapping[Target, Sequence[Step]]:
    """Return the steps that end what a run has begun, and those that the sets of a playbook need."""
    plays = session.scope.set_plays(playbook)
    if not plays:
        return run.extra
    from vsphere_ai.sets.lay_out import ledger_steps
    from vsphere_ai.sets.rules import merged, rule_steps

    desired = session.desired(playbook, estate)
    return merged(run.extra, ledger_steps(estate, desired), rule_steps(plays, desired, estate))
