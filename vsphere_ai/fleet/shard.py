"""Shard of a fleet: the part of it in one vCenter, as one run that is opened or resumed, wherever that is called."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from vsphere_ai.app.estate.scope import EstateRequest
from vsphere_ai.app.events import Emit, ignore
from vsphere_ai.app.runs.apply_plan import ApplyRequest, apply
from vsphere_ai.app.runs.resume_run import ResumeRequest, resume
from vsphere_ai.documents.fleets import Shard, ShardOutcome, ShardState
from vsphere_ai.errors import InputError, Storage, UsageError, VsphereAiError
from vsphere_ai.model.records.pending import PENDING
from vsphere_ai.runs import journal
from vsphere_ai.runs.locks import hold_run

if TYPE_CHECKING:
    from vsphere_ai.app.events.results import Proposal
    from vsphere_ai.execution.host_budget import HostBudget
    from vsphere_ai.model.records.recorded_steps import RecordedStep
    from vsphere_ai.runs.journal import Journal

LOOKS = ("as-planned", "healthy", "host-back", "nvidia-smi")
"""Types of steps (see `steps.what`) that change nothing."""


class ShardExecutor(Protocol):
    """Chooses where and when shards are carried out. It never decides what is sent: `open_or_resume` does.

    `run` calls `open_or_resume` once per shard, all side by side, and yields each outcome as soon as it is known, one
    per shard, in any order. A shard may be called again, also while an earlier call is not known to have ended, as
    after a lost worker: the executor has to see to it that two calls never work at once (by a lease, and by ending the
    session of the earlier one), and that the later call finds the journal of the earlier one. A shard whose outcome
    cannot be known is yielded as ``unfinished``. `emit` gets the name of a vCenter and an event, from any thread.
    """

    def run(self, shards: Sequence[Shard], emit: FleetEmit) -> Iterator[ShardOutcome]:
        """Carry shards out."""


class FleetEmit(Protocol):
    """Receives the events of a fleet."""

    def __call__(self, vcenter: str, event: object) -> None:
        """Take an event of the shard of a vCenter."""


def open_or_resume(shard: Shard, emit: Emit = ignore, budget: HostBudget | None = None) -> ShardOutcome:
    """Bring a shard to its end, from whatever is there; return how it stands. Each effect is made once.

    Looks at the journal of run `shard.run` first. It ended well: its stored outcome is returned, and nothing is read
    of vCenter. It is there and has not: it is resumed, so that what was sent is read back and never sent again; more
    than was approved is only done with `shard.yes`. There is none: the estate is planned again, compared with the
    saved plan, and the run is begun under exactly this id; where the estate differs nothing is changed.

    Needs the journal of an earlier call, and that no such call still works: the locks of `apply` see to that on one
    machine. Errors of vCenter, files and accounts are outcomes and not raised.
    """
    try:
        record = find_run(shard.run)
        if record is None:
            return _start(shard, emit, budget)
        finished = record.finished
        record.close()
        if not finished:
            _resume(shard, emit, budget)
        return outcome_of(shard)
    except VsphereAiError as error:
        return failed_outcome(shard, error)


def outcome_of(shard: Shard) -> ShardOutcome:
    """Return how a shard stands by the journal of its run on this machine; nothing is asked of vCenter."""
    record = find_run(shard.run)
    if record is None:
        return _outcome(shard, "not started", 1)
    try:
        return _stored(shard, record)
    finally:
        record.close()


def find_run(run: str) -> Journal | None:
    """Return the journal of a run; None where it was never begun."""
    if not (journal.runs_dir() / f"{run}.db").exists():
        return None
    return journal.open_run(run)


def title_of(shard: Shard) -> str:
    """Return what a lock in vCenter is for that its run takes, until it has a journal."""
    return f"apply fleet {shard.fleet}"


def _start(shard: Shard, emit: Emit, budget: HostBudget | None) -> ShardOutcome:
    inventory = Path(shard.inventory) if shard.inventory else None
    estate = EstateRequest(inventory, shard.vcenter, parallel=shard.parallel, ssh_login=shard.ssh_login)
    request = ApplyRequest(
        Path(f"fleet {shard.fleet}"),
        estate,
        yes=True,
        lock=shard.lock,
        destroy=len(_impact(shard, "destroyed")) or None,
        reboot=len(_impact(shard, "reboots")),
        document=json.dumps(shard.plan),
        run=shard.run,
        budget=budget,
    )
    with hold_run(shard.run):
        result = apply(request, emit)
    if not result.record:
        return _outcome(shard, "nothing to do", result.exit_code)
    return outcome_of(shard)


def _resume(shard: Shard, emit: Emit, budget: HostBudget | None) -> None:
    inventory = Path(shard.inventory) if shard.inventory else None
    request = ResumeRequest(shard.run, inventory, shard.yes, _decline, shard.lock, budget=budget)
    resume(request, emit)


def _decline(proposal: Proposal) -> bool:
    """Do no more than was approved: the operator approved the fleet as a whole."""
    del proposal
    return False


def _impact(shard: Shard, what: str) -> Sequence[object]:
    impact = shard.plan.get("impact")
    found = impact.get(what) if isinstance(impact, Mapping) else None
    return found if isinstance(found, list | tuple) else ()


def _stored(shard: Shard, record: Journal) -> ShardOutcome:
    run, steps, pending = record.run, record.steps(), record.pending()
    last = [s for s in steps if s.attempt == max(each.attempt for each in steps)]
    failed = [s for s in last if s.state == "failed"]
    unknown = [s for s in last if s.state in ("unknown", "begun")]
    state: ShardState = "failed"
    if record.finished:
        state = "done"
    elif not run.ended:
        state = "unfinished"
    elif run.signal and not run.exit_code:
        state = "stopped"
    code = 0 if state == "done" else run.exit_code or (128 + run.signal if run.signal else 0) or 1
    first = next((s for s in (*failed, *unknown)), None)
    # a run that has ended well was planned anew when it was resumed: what was sent before is there, and was read
    resumed = state == "done" and sum(s.state == "done" for s in steps) < _planned(shard)
    effects = [s for s in steps if s.what not in LOOKS and (s.state == "done" or resumed)]
    seen = [s for s in steps if s.state == "done" and s.what == "as-planned"]
    return ShardOutcome(
        fleet=shard.fleet,
        vcenter=shard.vcenter,
        run=shard.run,
        state=state,
        exit_code=code,
        changed=_targets(effects),
        verified=_targets([*seen, *(effects if resumed else ())]),
        failed=len(failed),
        unknown=len(unknown),
        skipped=run.skipped,
        left_open=tuple(
            dict.fromkeys((*run.open, *(f"{p.target.name} {PENDING.get(p.kind, p.kind)}" for p in pending)))
        ),
        message=f"{first.target}: {first.error or first.summary}"
        if first
        else run.stopped
        if state == "stopped"
        else "",
        go_on="" if state == "done" else f"vsphere-ai fleet resume {shard.fleet}",
    )


def _outcome(shard: Shard, state: ShardState, exit_code: int = 0) -> ShardOutcome:
    return ShardOutcome(fleet=shard.fleet, vcenter=shard.vcenter, run=shard.run, state=state, exit_code=exit_code)


def _planned(shard: Shard) -> int:
    steps = shard.plan.get("steps")
    return len(steps) if isinstance(steps, list | tuple) else 0


def _targets(steps: Iterable[RecordedStep]) -> int:
    return len({step.ref or step.target for step in steps})


def failed_outcome(shard: Shard, error: VsphereAiError) -> ShardOutcome:
    """Return the outcome of a shard that an error ended: of its journal, where there is one, with the error."""
    message = error.message if not isinstance(error, InputError) else error.message.splitlines()[0]
    try:
        stored = outcome_of(shard)
    except (Storage, UsageError):
        stored = _outcome(shard, "unfinished")
    state: ShardState = "refused" if stored.state == "not started" else stored.state
    values = {"state": state, "exit_code": error.exit_code, "message": message, "rule": error.rule}
    return stored.model_copy(update={**values, "go_on": f"vsphere-ai fleet resume {shard.fleet}"})
