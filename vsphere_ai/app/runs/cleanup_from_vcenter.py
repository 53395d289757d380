"""Resume without a journal: what a run has out of service is put back by what vCenter keeps of it, on any machine."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pydantic import ValidationError

from vsphere_ai.app.estate.scope import EstateRequest
from vsphere_ai.app.estate.session import open_session
from vsphere_ai.app.events import Begun, Emit, Remark, ignore
from vsphere_ai.app.runs.approval import Confirm, ConfirmedCounts, no_confirmation
from vsphere_ai.app.runs.locking import held
from vsphere_ai.app.runs.out_of_service import OutRun, facts_of, out_runs, require_readable, unknown_here
from vsphere_ai.app.runs.resume_run import ResumeRequest, resume
from vsphere_ai.errors import Locked, UsageError
from vsphere_ai.language.playbooks.play import Play, Playbook, Power, Rolling, to_document
from vsphere_ai.model.names.suggestion import did_you_mean
from vsphere_ai.model.records.out_of_service import OutItem
from vsphere_ai.model.records.pending import Pending
from vsphere_ai.model.records.recorded_steps import RecordedPending
from vsphere_ai.model.records.run_record import RunDocuments, RunRecord, Scope
from vsphere_ai.model.state import Target
from vsphere_ai.planning.document import Approved
from vsphere_ai.planning.scheduling.health import HostBefore, form_of_before
from vsphere_ai.planning.scheduling.schedule import Impact
from vsphere_ai.runs import journal

if TYPE_CHECKING:
    from vsphere_ai.app.estate.connection import EstateConnection
    from vsphere_ai.app.estate.scope import EstateScope
    from vsphere_ai.app.events.results import RunResult
    from vsphere_ai.connect.vcenter import VCenter
    from vsphere_ai.model.facts import Facts
    from vsphere_ai.runs.journal import Journal
    from vsphere_ai.runs.locks import Mode


@dataclass(frozen=True)
class FromVCenterRequest:
    """What to put back of which run: by its name or the beginning of it, the only one there is where it is empty.

    `confirm` is called with the plan, unless `yes`.
    """

    run: str = ""
    estate: EstateRequest = EstateRequest()  # noqa: RUF009 - it is frozen
    yes: bool = False
    confirm: Confirm = no_confirmation
    lock: Mode | None = None
    numbers: ConfirmedCounts = ConfirmedCounts()  # noqa: RUF009 - it is frozen
    dry_run: bool = False


def resume_from_vcenter(request: FromVCenterRequest, emit: Emit = ignore) -> RunResult:
    """Put back what a run has out of service, as a run of its own that is recorded on this machine.

    Only what is still so is touched. `UsageError` where no run has a record in vCenter, or its journal is here;
    `Locked` where it works on this machine; `Conflict` where its record cannot be read.
    """
    emit(Begun())
    with (
        open_session(request.estate, None, emit) as session,
        held(session.scope, session.connection, f"resume --from-vcenter {request.run}", request.lock),
    ):
        chosen = _chosen(session.connection.vcenter, request.run)
        record = _recorded(session.scope, session.connection, chosen)
    emit(Remark("run.from-vcenter", f"{chosen.who}: what it has out of service is put back by run {record.id}"))
    again = ResumeRequest(
        record.id,
        request.estate.inventory,
        request.yes,
        request.confirm,
        request.lock,
        cleanup=True,
        destroy=request.numbers.destroy,
        reboot=request.numbers.reboot,
        dry_run=request.dry_run,
    )
    record.close()
    try:
        return resume(again, emit)
    finally:
        _forget_unbegun(record.id)


def _chosen(vcenter: VCenter, name: str) -> OutRun:
    """Return the run that is meant; `UsageError` where that is none, or one that this machine has a journal of."""
    runs = out_runs(vcenter)
    named = [each for each in runs if each.run.startswith(name)]
    foreign = unknown_here(vcenter, named)
    if len(foreign) == 1:
        require_readable(foreign[0])
        if foreign[0].works:
            raise Locked(f"{foreign[0].who}", "wait for its end, or stop it", rule="run.under-way")
        return foreign[0]
    if foreign:
        names = ", ".join(each.run for each in foreign)
        raise UsageError(f"several runs have something out of service: {names}", "name one of them", rule="run.none")
    if named:
        here = named[0].run
        raise UsageError(f"the journal of run {here} is on this machine", f"vsphere-ai resume {here}", rule="run.here")
    what = f"no run {name} has" if name else "no run has"
    near = did_you_mean(name, (each.run for each in runs)) if name else ""
    remedy = near or "vsphere-ai run list lists the runs of this machine"
    raise UsageError(f"{what} anything out of service by what this vCenter keeps", remedy, rule="run.none")


def _recorded(scope: EstateScope, connection: EstateConnection, run: OutRun) -> Journal:
    """Make a journal of what is out of service, in which it is pending since it was written in vCenter."""
    written = run.record.items if run.record else ()
    facts = facts_of(connection.vcenter, written) or {}
    items = [(item, _target(item, facts)) for item in written]
    pending = [part for item, target in items for part in _pending(item, target)]
    playbook = _playbook(f"run {run.run}", scope.settings.name, [target for _, target in items])
    hit = tuple(target for item, target in items if item.kind == "off")
    approved = Approved(impact=Impact(found=_found(run), power_cycles=hit))
    return journal.create(
        RunRecord(
            what=f"resume --from-vcenter {run.run}",
            inventory=str(scope.inventory.path.absolute()),
            scope=Scope(vcenter=scope.settings.name, address=connection.vcenter.name),
            instance=connection.vcenter.about.instance,
            out_record=run.run,
        ),
        RunDocuments(
            approved=approved.as_json(), desired=to_document(playbook), before=to_document(replace(playbook, plays=()))
        ),
        pending,
    )


def _pending(item: OutItem, target: Target) -> Iterator[RecordedPending]:
    """Yield what an item means for a run that goes on: an order to reboot, or to shut down, may have been sent."""
    sent = item.at if item.kind in ("reboot", "off") else ""
    yield RecordedPending(replace(item.pending, target=target), item.at, sent, "")
    if item.kind == "maintenance":
        yield RecordedPending(Pending("gate", target), item.at, "", "")


def _target(item: OutItem, facts: Mapping[str, Facts]) -> Target:
    """Return the object of an item as it is called now; a VM that has another reference by now is that one."""
    now = facts.get(item.ref)
    return Target(item.of, now.name if now else item.name, now.ref if now else item.ref)


def _playbook(name: str, vcenter: str, targets: list[Target]) -> Playbook:
    """Return a playbook that wants nothing of these targets, so that planning only ends what was begun there.

    A host in maintenance mode has no VM that runs, so none is switched off for it.
    """
    plays = tuple(
        Play(name, kind, name, (), Rolling(evacuate="power_off"), Power(), vcenter, targets=own)
        for kind in ("host", "vm")
        if (own := tuple(sorted({t for t in targets if t.kind == kind})))
    )
    return Playbook(name, hashlib.sha256(name.encode()).hexdigest(), plays)


def _found(run: OutRun) -> tuple[HostBefore, ...]:
    """Return what the health of the hosts is measured by, as far as it was written."""
    found = []
    for each in run.record.before if run.record else ():
        try:
            found.append(form_of_before().validate_python(each))
        except ValidationError:
            continue
    return tuple(found)


def _forget_unbegun(run: str) -> None:
    """Remove the journal of a run that has begun no step and still has all pending: vCenter has the same."""
    if not any(path.stem == run for path in journal.files()):
        return
    record = journal.open_run(run)
    unbegun = not record.steps() and not record.run.ended
    record.close()
    if unbegun:
        journal.remove(run)
