"""Carrying a plan out, with its journal, its progress and its signals: what apply, resume and rollback share."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from vsphere_ai.cli import json_stream, signals, streams

if TYPE_CHECKING:
    from vsphere_ai.app.session import Session
    from vsphere_ai.execution.actions.context import Context
    from vsphere_ai.execution.outcome import Event, Run
    from vsphere_ai.execution.runner import Runner
    from vsphere_ai.language.playbook import Playbook
    from vsphere_ai.model.facts import Estate
    from vsphere_ai.model.state import Target
    from vsphere_ai.planning.planner import Plan
    from vsphere_ai.planning.schedule import Impact
    from vsphere_ai.runs.journal import Journal
    from vsphere_ai.runs.locks import Hold

LEFT_OUT = 1
"""Exit code when all went well, but something of what was approved is gone."""


@dataclass(frozen=True)
class Request:
    """How a plan is carried out: output format, what the operator named, shared options, earlier journal, locks.

    `journal` continues an earlier run. What is pending of the run that it `takes_over` becomes the new run's; with
    `back` the new run is the rollback of that run, instead of its continuation. What is `missing` was approved and is
    gone: the rest is done, and the end says so.
    """

    form: str
    what: str
    shared: Mapping[str, Any]
    journal: Journal | None = None
    locks: Hold | None = None
    takes_over: Journal | None = None
    missing: tuple[Target, ...] = ()
    back: bool = False
    partly: int = 0
    """Exit code when all went well, but the plan of the whole run has problems."""
    rest: int = 0
    """How many steps of the whole run are not part of the plan."""
    looks_back: bool = False
    """The end tells, also by its exit code, what earlier runs have left to put back."""


def announce(session: Session) -> None:
    """Say on standard error that earlier runs on this vCenter were not finished, and what commands left behind."""
    from vsphere_ai.runs import history, journal

    for run, request in history.unfinished(session.vcenter.about.instance).items():
        streams.say(f"Run {run} was not finished. See: vsphere-ai show {run}. Finish it: {request}", "run.unfinished")
    troubles = journal.unreadable()
    for trouble in troubles[:1]:
        streams.say(f"A run may not be finished: {trouble.message}. {trouble.remedy}", "run.unreadable")
    if len(troubles) > 1:
        click.echo(f"There are {len(troubles) - 1} more of this kind: vsphere-ai runs", err=True)
    announce_ssh(session)


def announce_ssh(session: Session) -> None:
    """Say on standard error where SSH runs since a command was killed, and who stops it."""
    from vsphere_ai.model.text import safe
    from vsphere_ai.reading.collector import left_running

    for host in left_running(session.vcenter):
        request = "This command stops it" if session.may_start_ssh else f"Stop it: {session.stopping_ssh(host.name)}"
        name = safe(host.name)
        streams.say(
            f"SSH of {name} runs because a command that was killed had started it to read. {request}",
            "ssh.left-running",
        )


def carry_out(session: Session, loaded: Playbook, plan: Plan, estate: Estate, request: Request) -> int:
    """Run an approved plan to its end, write its journal, and return the exit code."""
    from vsphere_ai.app.account_privileges import require_privileges
    from vsphere_ai.app.open_runs import LEFT_OPEN, left_open
    from vsphere_ai.cli.progress import make_progress
    from vsphere_ai.execution.actions.executor import Executor
    from vsphere_ai.execution.runner import Runner
    from vsphere_ai.runs import history

    require_privileges(session, plan, estate)
    record = request.journal or _new_journal(session, loaded, plan, estate, request)
    if request.journal is not None:
        history.take_up(record)
    if request.locks is not None:
        request.locks.serve(record)
    if request.form == "text":
        click.echo(f"Run {record.id}", err=True)
    with make_progress(plan, record.id, request.form) as show:
        watch = _Watch(plan, request, show)
        context = _context(session, loaded, estate, record, watch)
        runner = Runner(plan, Executor(context), watch.emit, parallel=session.options.parallel, record=record)
        watch.runner = runner
        session.vcenter.serve(record.id, notify=watch.tell, submitted=_noting(record))
        with signals.first(watch.stopped), signals.farewell(watch.last_words):
            run = runner.run()
            code = watch.exit_code(run) or request.partly or (LEFT_OUT if request.missing else 0)
            elsewhere = left_open(session.vcenter) if request.looks_back and not run.signal else ()
            code = code or (LEFT_OPEN if elsewhere or run.open else 0)
            if not signals.claim(code):
                signals.stay()
    skipped, own_code = run.unstarted + request.rest, run.exit_code or request.partly
    record.update(ended=True, exit_code=own_code, signal=run.signal, skipped=skipped, open=list(run.open))
    history.rolled_back(record)
    return _finish(run, code, request, record, elsewhere)


def _context(session: Session, loaded: Playbook, estate: Estate, record: Journal, watch: _Watch) -> Context:
    from vsphere_ai.execution.actions.context import Context
    from vsphere_ai.gpu.inventory import nvidia_gpus
    from vsphere_ai.planning.document import Approved
    from vsphere_ai.runs import ssh_markers

    # an earlier attempt of this run has seen the hosts as they were: a GPU that is gone since is missed
    found = {f.host.ref: f for f in Approved.read(record.documents.approved).impact.found}
    # what hosts and VMs share stays as it was read for the plan, unless the plan itself changes some of it
    shared = any(item.target.kind not in ("host", "vm") for item in watch.plan.changed())
    instance = session.vcenter.about.instance
    return Context(
        vcenter=session.vcenter,
        shell=session.shell,
        left=lambda target, but_last: session.left(loaded, estate, target, but_last=but_last, shared=shared),
        again=lambda target: session.again(loaded, estate, target, shared=shared),
        gpus={h.ref: len(nvidia_gpus(estate[h.ref])) for h in estate.hosts} | {r: f.gpus for r, f in found.items()},
        found=found,
        hosts={v.ref: str(estate[v.ref].get("runtime.host", "")) for v in estate.vms},
        stop=watch.stop,
        note=record,
        planned=estate.objects,
        notice=watch.notice,
        start_ssh=session.inventory.start_ssh,
        ssh_user=session.inventory.ssh.username if session.inventory.ssh else "",
        is_being_read=lambda host: ssh_markers.is_held(instance, host.ref),
        within=session.vcenter.doing,
    )


def _noting(record: Journal) -> Callable[[str, str], None]:
    """Return what notes tasks. What cannot be noted is still waited for: the next step cannot begin, though."""
    from vsphere_ai.errors import Storage

    def note(step: str, task: str) -> None:
        with suppress(Storage):
            record.submitted(step, task)

    return note


class _Watch:
    """Shows what happens in a run, and stops it: on a signal, and when nobody takes the output any more."""

    def __init__(self, plan: Plan, request: Request, show: Callable[[Event], None]) -> None:
        self.plan, self._form, self._show = plan, request.form, show
        self._last: dict[str, str] = {}
        self._lost: OSError | None = None
        self._speaking = threading.RLock()  # losing the output is told while it is being used
        self.stop = threading.Event()
        self.runner: Runner | None = None

    def emit(self, event: Event) -> None:
        """Show an event; a lost output stops the run, but is no reason to leave VMs switched off."""
        from vsphere_ai.cli.progress import lose_output

        if event.planned is not None and event.what != "progress":
            self._last[event.planned.id] = event.what
        try:
            with self._speaking:
                if not signals.leaving():  # the last words have been said, or are about to be
                    self._show(event)
        except OSError as error:  # `| head`, a closed terminal, a full disk
            self._lost = error
            lose_output(error)
            self._halt(signal.SIGPIPE, tell=False)

    def tell(self, line: str, rule: str = "vcenter.waiting") -> None:
        """Show a line about the connection."""
        from vsphere_ai.execution.outcome import Event

        self.emit(Event("waiting", text=line, rule=rule))

    def notice(self, line: str) -> None:
        """Show a line about what a step meets: a task that stands still, SSH that is started again."""
        self.tell(line, "run.notice")

    def stopped(self, number: int) -> None:
        """Take the first signal."""
        self._halt(number)

    def _halt(self, number: int, *, tell: bool = True) -> None:
        self.stop.set()
        if self.runner is not None:
            self.runner.stop(self.runner.signalled or number, report=tell)

    def exit_code(self, run: Run) -> int:
        """Return the exit code of the process."""
        from vsphere_ai.errors import Storage, most_serious

        if self._lost is not None and not isinstance(self._lost, BrokenPipeError):
            return most_serious((run.exit_code, Storage.exit_code))
        return 128 + run.signal if run.signal else run.exit_code

    def last_words(self) -> None:
        """End a JSON stream as it has to end, though this process leaves before its steps have ended."""
        from vsphere_ai.execution.outcome import Outcome, Run, State
        from vsphere_ai.report.run_json import summary_line

        code = signals.leaving()
        if self._form != "json" or self.runner is None or not code:
            return
        states: dict[str, State] = {"done": "done", "failed": "failed", "unknown": "unknown", "start": "unknown"}
        found = ((p, states.get(self._last.get(p.id, ""), "skipped")) for p in self.plan.steps)
        outcomes = tuple(Outcome(p, s, reason="" if s == "done" else "left at once") for p, s in found)
        run = Run(self.plan, outcomes, 0.0, self.runner.signalled or code - 128)  # the first may still be dealt with
        with self._speaking:
            json_stream.write("summary", summary_line(run, code, streams.remarks()))


def _new_journal(session: Session, loaded: Playbook, plan: Plan, estate: Estate, request: Request) -> Journal:
    from vsphere_ai.language.playbook import to_document
    from vsphere_ai.model.run_record import RunDocuments, RunRecord, Scope
    from vsphere_ai.planning.document import PlanDocument
    from vsphere_ai.runs import journal

    approved = PlanDocument.of(plan).approved()
    if request.takes_over and not request.back:
        approved = approved.model_copy(update={"impact": _as_first_found(plan.impact, request.takes_over)})
    earlier = request.takes_over
    # the lock is taken over with the lock itself
    taken = [o for o in earlier.ever_pending() if not o.closed and o.pending.kind != "lock"] if earlier else []
    record = journal.create(
        RunRecord(
            what=request.what,
            inventory=str(session.inventory.path.absolute()),
            scope=Scope(vcenter=session.settings.name, limit=request.shared["limit"] or ""),
            instance=plan.about.instance,
            rolls_back=earlier.id if earlier and request.back else "",
            takes_over=earlier.id if earlier else "",
            lock=request.locks.mode if request.locks else None,
        ),
        RunDocuments(
            approved=approved.as_json(),
            desired=to_document(session.pinned(loaded, estate)),
            before=to_document(session.before(loaded, plan, estate)),
        ),
        taken,
    )
    if earlier and taken:  # whoever dies before this owes nothing twice: past.look settles it then
        earlier.resolve(*(o.pending for o in taken))
    return record


def _as_first_found(impact: Impact, earlier: Journal) -> Impact:
    """Let hosts be measured by what they were like before the earlier run: a GPU that is gone since is missed."""
    from vsphere_ai.planning.document import Approved

    known = {f.host.ref: f for f in Approved.read(earlier.documents.approved).impact.found}
    return replace(impact, found=tuple(known.get(f.host.ref, f) for f in impact.found))


def _finish(run: Run, code: int, request: Request, record: Journal, elsewhere: tuple[str, ...]) -> int:
    from vsphere_ai.model.text import safe
    from vsphere_ai.report.run_json import summary_line
    from vsphere_ai.report.run_text import run_text

    if request.form == "json":
        json_stream.write("summary", summary_line(replace(run, open=(*run.open, *elsewhere)), code, streams.remarks()))
    else:
        click.echo(f"\n{run_text(run)}")
        for line in elsewhere:
            streams.say(safe(f"! {line}"), "run.left-open")
    if request.missing and request.form == "text":
        names = ", ".join(t.name for t in request.missing)
        streams.say(safe(f"Left out, because it is gone from the inventory: {names}"), "object.gone")
    if (run.exit_code or run.open or run.signal) and request.form == "text":
        click.echo(f"Continue from what is there: vsphere-ai resume {record.id}", err=True)
    return code
