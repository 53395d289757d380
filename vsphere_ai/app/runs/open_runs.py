"""Open runs: what earlier runs have left to put back on a vCenter, as it is there now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from vsphere_ai.app.events import Emit, Remark
from vsphere_ai.app.runs.out_of_service import PATHS, WORDS, left_out_of_service
from vsphere_ai.errors import VsphereAiError
from vsphere_ai.runs import history, journal
from vsphere_ai.runs.history import RunSummary, look, successor, way_on

if TYPE_CHECKING:
    from vsphere_ai.app.estate.connection import EstateConnection
    from vsphere_ai.app.estate.scope import EstateScope
    from vsphere_ai.connect.vcenter import VCenter
    from vsphere_ai.model.facts import Facts
    from vsphere_ai.model.records.recorded_steps import RecordedPending


def pending_runs(instance: str) -> tuple[tuple[RunSummary, str], ...]:
    """Return the runs on a vCenter, by its instance UUID, with pending cleanup that are not under way, oldest first.

    Each with the command line that finishes it. From the records of this machine only: vCenter is not asked.
    """
    among = look()
    own = (s for s in among if s.has_pending and not s.alive and s.instance == instance)
    return tuple((s, way_on(s, among)) for s in sorted(own, key=lambda s: s.since) if successor(s.run, among) is None)


def open_runs(vcenter: VCenter, objects: Mapping[str, Facts] | None = None) -> tuple[str, ...]:
    """Return in sentences what earlier runs have left on a vCenter and what puts it back; what is back is left out.

    Runs of this machine by their journals, others by their records in vCenter: those among `objects`, where these are
    given, with all folders. What vCenter does not answer counts as left.
    """
    found = []
    for seen, request in pending_runs(vcenter.about.instance):
        record = journal.open_run(seen.run)
        left = [o for o in record.ever_pending() if not o.closed and o.pending.kind in WORDS]
        record.close()
        facts = _read(vcenter, {o.pending.target.ref for o in left})
        since = f"since run {seen.run}, which was not finished: {request}"
        found += [f"{name} {WORDS[o.pending.kind]} {since}" for o, name in _true(left, facts)]
    return (*found, *left_out_of_service(vcenter, objects))


def _read(vcenter: VCenter, refs: set[str]) -> dict[str, Facts] | None:
    kinds = {r.partition(":")[0] for r in refs}
    try:
        return vcenter.read_objects(sorted(refs), {k: PATHS.get(k, ("name",)) for k in kinds}) if refs else {}
    except VsphereAiError:
        return None


def _true(left: list[RecordedPending], facts: dict[str, Facts] | None) -> Iterator[tuple[RecordedPending, str]]:
    from vsphere_ai.planning.resume import still_so

    for each in left:
        pending = each.pending
        if facts is None:
            yield each, pending.target.name
        elif pending.target.ref in facts:
            now = facts[pending.target.ref]
            if (each.sent or pending.kind != "reboot") and still_so(pending, now) is not False:
                yield each, now.name


def announce(scope: EstateScope, connection: EstateConnection, emit: Emit) -> None:
    """Report earlier runs on this vCenter that were not finished, and SSH that a killed command left running."""
    for run, command in history.unfinished(connection.vcenter.about.instance).items():
        text = f"Run {run} was not finished. See: vsphere-ai run show {run}. Finish it: {command}"
        emit(Remark("run.unfinished", text))
    troubles = journal.unreadable()
    for trouble in troubles[:1]:
        emit(Remark("run.unreadable", f"A run may not be finished: {trouble.message}. {trouble.remedy}"))
    if len(troubles) > 1:
        emit(Remark("", f"There are {len(troubles) - 1} more of this kind: vsphere-ai run list"))
    announce_ssh(scope, connection, emit)


def announce_ssh(scope: EstateScope, connection: EstateConnection, emit: Emit) -> None:
    """Report where SSH runs since a command was killed, and what stops it."""
    from vsphere_ai.reading.collector import left_running

    for host in left_running(connection.vcenter):
        way = "This command stops it" if scope.may_start_ssh else f"Stop it: {scope.stopping_ssh(host.name)}"
        text = f"SSH of {host.name} runs because a command that was killed had started it to read. {way}"
        emit(Remark("ssh.left-running", text))
