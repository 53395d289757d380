"""Out of service: what runs have written in vCenter that they put out of service, and what of it is still so."""

from __future__ import annotations

import socket
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from vsphere_ai.app.events import Emit, Remark
from vsphere_ai.connect import out_records
from vsphere_ai.connect.out_records import OutRecord, StoredRecord
from vsphere_ai.connect.vcenter_lock import HOME, root_of
from vsphere_ai.errors import Conflict, VsphereAiError
from vsphere_ai.execution.openings import openings
from vsphere_ai.model.finding import Finding, Problem
from vsphere_ai.model.records.out_of_service import OutItem, OutOfService
from vsphere_ai.model.state import Target
from vsphere_ai.model.vm_sets import is_planned_ref, planned_ref
from vsphere_ai.planning.document import Approved
from vsphere_ai.planning.scheduling.health import form_of_before
from vsphere_ai.runs import journal, process_id, ssh_markers

if TYPE_CHECKING:
    from vsphere_ai.connect.vcenter import VCenter
    from vsphere_ai.model.facts import Estate, Facts
    from vsphere_ai.planning.planner import Plan
    from vsphere_ai.runs.journal import Journal
    from vsphere_ai.runs.shared_record import SharedRecord

RULE = "run.out-of-service"
SETTLED = 3600.0
"""Seconds after which vCenter has ended the tasks of a run that is no more."""
PATHS = {
    "HostSystem": ("name", "runtime.inMaintenanceMode", "runtime.bootTime", "config.service.service"),
    "VirtualMachine": ("name", "runtime.powerState", "runtime.host", "config.instanceUuid"),
}
WORDS = {
    "maintenance": "is in maintenance mode",
    "ssh": "has SSH running",
    "ssh-on": "has SSH stopped",
    "service": "has a service stopped that was running",
    "off": "is powered off",
    "moved": "is on another host",
    "reboot": "may be about to reboot",
    "restart": "has to restart before what was changed there counts",
}


@dataclass(frozen=True)
class OutRun:
    """A run that has something out of service, by its record in vCenter; `still` is what of it is so now.

    `damage` says why the record cannot be read, "" otherwise; nothing is known of what is out then.
    """

    ref: str
    run: str
    record: OutOfService | None
    still: tuple[OutItem, ...] = ()
    damage: str = ""

    @property
    def works(self) -> bool:
        """Whether its process runs on this machine; of another machine that is not known."""
        record = self.record
        here = record is not None and record.machine == socket.gethostname()
        return record is not None and here and process_id.runs(record.pid, record.born)

    @property
    def is_over(self) -> bool:
        """Whether it was a run of this machine, and its process is gone."""
        return self.record is not None and self.record.machine == socket.gethostname() and not self.works

    @property
    def is_settled(self) -> bool:
        """Whether nothing that it has asked vCenter for can still be under way."""
        record = self.record
        if record is None:
            return False
        try:
            passed = datetime.now(UTC) - datetime.fromisoformat(record.written)
        except (ValueError, TypeError):
            return False
        return all(item.kind == "ssh" for item in record.items) or passed.total_seconds() > SETTLED

    @property
    def who(self) -> str:
        """Who it is, in words."""
        if self.record is None or not self.record.machine:
            return f"run {self.run}"
        state = ", which works now" if self.works else ""
        return f"{self.record.holder} (process {self.record.pid}){state}"

    @property
    def way_on(self) -> str:
        """The command that puts back what is out."""
        return f"vsphere-ai resume --from-vcenter {self.run}"

    def lines(self) -> tuple[str, ...]:
        """Return in sentences what is out of service and what puts it back."""
        if self.damage:
            return (f"what {self.who} has out of service cannot be read in vCenter: {self.damage}",)
        since = f"because of {self.who}, which has not ended: {self.way_on}"
        return tuple(f"{item.name} {WORDS.get(item.kind, item.kind)} {since}" for item in self.still)


# -- writing


def shared_record(vcenter: VCenter, plan: Plan, record: Journal, estate: Estate | None = None) -> SharedRecord:
    """Return the record of a run that is kept in its journal and in vCenter; `estate` is what the plan was made on."""
    from vsphere_ai.runs.shared_record import SharedRecord

    run = record.run
    about = SharedRecord.about(run.out_record or record.id, run.what)
    found = Approved.model_validate(record.documents.approved).impact.found
    before = {each.host.ref: form_of_before().dump_python(each, mode="json") for each in found}
    home = out_records.home_among(estate.objects, root_of(vcenter)) if estate else ""
    return SharedRecord(record, OutRecord(vcenter, about.run, home), about, openings(plan), before)


def drop_record(vcenter: VCenter, record: Journal) -> None:
    """Remove the record in vCenter of a run that has nothing out of service any more."""
    OutRecord(vcenter, record.run.out_record or record.id).remove()


def settle_record(vcenter: VCenter, plan: Plan, record: Journal, emit: Emit) -> None:
    """Bring a run's record in vCenter up to its journal, where nothing is left to carry out."""
    shared = shared_record(vcenter, plan, record)
    shared.take_up(kept=True)
    if why := shared.finish():
        emit(Remark("out-record.not-removed", f"What this run had out of service still stands in vCenter: {why}"))


# -- reading


def out_runs(vcenter: VCenter, records: Sequence[StoredRecord] | None = None) -> tuple[OutRun, ...]:
    """Return the runs that have a record in vCenter, with what of it is still so; what is not answered counts as so."""
    stored = out_records.read_records(vcenter) if records is None else records
    read = [(each, *_document(each)) for each in stored]
    items = [item for _, document, _ in read if document for item in document.items]
    facts = facts_of(vcenter, items)
    return tuple(
        OutRun(each.ref, each.run, document, tuple(_still(document, facts)), damage) for each, document, damage in read
    )


def unknown_here(vcenter: VCenter, runs: Sequence[OutRun]) -> tuple[OutRun, ...]:
    """Return those of which this machine has no journal that can be read: only vCenter knows what they have out.

    SSH that was started only to read, and of which this machine has a note, is left out: the next command stops it.
    """
    known: set[str] = set()
    for record in journal.every():
        known |= {record.id, record.run.out_record}
        record.close()
    noted = {
        ("ssh", ref) for ref in (*ssh_markers.left(vcenter.about.instance), *ssh_markers.held(vcenter.about.instance))
    }
    return tuple(
        replace(each, still=tuple(i for i in each.still if i.key not in noted))
        for each in runs
        if each.run not in known
    )


def sweep(vcenter: VCenter, objects: Mapping[str, Facts]) -> None:
    """Remove records of runs of this machine that are over and have nothing out any more; called under the lock.

    What vCenter may still be working on is no reason to keep one after `SETTLED`; SSH is started at once or not at all.
    """
    runs = runs_among(vcenter, objects)
    for each in unknown_here(vcenter, runs) if runs else ():
        if each.is_over and not each.still and not each.damage and each.is_settled:
            with suppress(VsphereAiError):
                out_records.remove_record(vcenter, each.ref, each.run)


def facts_of(vcenter: VCenter, items: Collection[OutItem]) -> Mapping[str, Facts] | None:
    """Read the objects of items, under the references that the items have; None where vCenter does not answer."""
    refs = sorted({item.ref for item in items})
    try:
        found = vcenter.read_objects(refs, {k: PATHS.get(k, ("name",)) for k in {r.partition(":")[0] for r in refs}})
        found = dict(found) if refs else {}
        for item in (i for i in items if i.uuid and not is_planned_ref(i.ref)):
            if item.ref not in found or found[item.ref].get("config.instanceUuid") != item.uuid:
                found.pop(item.ref, None)  # it has got another reference, or is gone
                named = planned_ref(item.uuid)
                again = vcenter.read_objects([named], PATHS).get(named)
                found |= {item.ref: replace(again, ref=vcenter.called(named))} if again is not None else {}
    except VsphereAiError:
        return None
    return found


def out_problems(vcenter: VCenter, plan: Plan, objects: Mapping[str, Facts], emit: Emit) -> tuple[Problem, ...]:
    """Return a problem for every target of a plan that a run of which only vCenter knows has out of service.

    What such runs have out besides is remarked. `objects` are those of the estate, all folders included: vCenter is
    only asked where a record is among them. `Conflict` where a record cannot be read: what it has out is not known.
    """
    found_runs = runs_among(vcenter, objects)
    runs = unknown_here(vcenter, found_runs) if found_runs else ()
    targets = {i.target.ref: i.target for i in plan.items} | {p.step.target.ref: p.step.target for p in plan.steps}
    found = []
    for each in runs:
        require_readable(each)
        for item, line in zip(each.still, each.lines(), strict=True):
            target = targets.get(item.ref)
            if target is not None:
                found.append(_problem(each, item, target))
            else:
                emit(Remark(RULE, f"! {line}"))
    return tuple(found)


def left_out_of_service(vcenter: VCenter, objects: Mapping[str, Facts] | None = None) -> tuple[str, ...]:
    """Return in sentences what runs of which only vCenter knows have out of service; see `open_runs.open_runs`."""
    runs = out_runs(vcenter) if objects is None else runs_among(vcenter, objects)
    return tuple(line for each in unknown_here(vcenter, runs) for line in each.lines()) if runs else ()


def runs_among(vcenter: VCenter, objects: Mapping[str, Facts]) -> tuple[OutRun, ...]:
    """Return the runs whose records are among objects that were read; vCenter is only asked where there are some."""
    refs = out_records.among(objects)
    return out_runs(vcenter, out_records.read_those(vcenter, refs)) if refs else ()


def _problem(run: OutRun, item: OutItem, target: Target) -> Problem:
    words = f"{WORDS.get(item.kind, item.kind)} because of {run.who}"
    if run.works:
        return Finding.problem(target, RULE, words, "wait for its end")
    help = f"put it back first: {run.way_on} (not while that run still works on its machine)"
    return Finding.problem(target, RULE, f"{words}, which has not ended", help)


def require_readable(run: OutRun) -> None:
    """`Conflict` where the record of a run cannot be read."""
    if run.damage:
        raise Conflict(
            f"what run {run.run} has out of service cannot be read in vCenter: {run.damage}",
            "look for hosts in maintenance mode, powered-off VMs and running SSH services, put them back, then remove "
            f"the folder '{out_records.PREFIX}{run.run}' in '{HOME}'",
            rule="out-record.damaged",
        )


def _document(stored: StoredRecord) -> tuple[OutOfService | None, str]:
    if stored.damage or not stored.text:
        return None, stored.damage
    try:
        return OutOfService.model_validate_json(stored.text), ""
    except ValidationError as error:
        first: Any = error.errors()[0]
        return None, f"{'.'.join(map(str, first['loc']))}: {first['msg']}"


def _still(document: OutOfService | None, facts: Mapping[str, Facts] | None) -> Iterator[OutItem]:
    from vsphere_ai.planning.resume import still_so

    for item in document.items if document else ():
        now = facts.get(item.ref) if facts is not None else None
        if facts is None:
            yield item
        elif now is not None and still_so(item.pending, now) is not False:
            yield item.model_copy(update={"name": now.name})
