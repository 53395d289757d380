"""Quiescing: after a run was cut off, its tasks, reboots and guest shutdowns end before anything is read again."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from vsphere_ai.app.events import Emit, Remark
from vsphere_ai.app.runs.unfinished_tasks import EVENTS_LAG, await_tasks, heartbeat
from vsphere_ai.errors import Conflict, StepFailed, VsphereAiError
from vsphere_ai.execution.actions.cancel import arrived_twice, leave_alone
from vsphere_ai.execution.actions.context import Context, polling
from vsphere_ai.execution.actions.events import was_ordered_to_reboot, was_shut_down
from vsphere_ai.execution.put_back import PutBack
from vsphere_ai.model.steps import HostBack, Step
from vsphere_ai.planning.document import Approved

if TYPE_CHECKING:
    from vsphere_ai.execution.actions.executor import StepExecutor
    from vsphere_ai.model.records.pending import Pending
    from vsphere_ai.model.records.recorded_steps import RecordedPending, RecordedStep
    from vsphere_ai.model.state import Target
    from vsphere_ai.runs.journal import Journal

NEVER_DOWN = 120.0
"""Seconds after which a host that stayed up did not get the command to reboot, counted from when it left."""
AT_LEAST = 15.0
"""Seconds a host is watched in any case: a little more than the delay of the command."""
STILL_RUNNING = 600.0
"""Seconds after which a guest that still runs is not going to shut down, however long it was given."""
_NO_TASK = "vCenter has no task for the reboot of run {}: the run was cut off before the request was sent"


def quiesce(context: Context, executor: StepExecutor, record: Journal, emit: Emit) -> tuple[Pending, ...]:
    """Wait for what vCenter, hosts and guests still do because of a run.

    Returns the pending actions that cannot be closed now, because a host does not answer.

    `OutcomeUnknown` when that does not end, `HostUnhealthy` when a host does not come back.
    """
    _stay_out(context, record)
    await_tasks(context, record, emit)
    _await_reboots(context, executor, record, emit)
    _await_guests(context, record, emit)
    _put_back(executor, record, emit)
    return _start_again(executor, record, emit)


def _stay_out(context: Context, record: Journal) -> None:
    """Cancel a request of the run to enter maintenance mode that is still being worked on.

    Where the run's own request has failed, another request for the same host is someone else's and is not cancelled.
    """
    for pending in (d for d in record.pending() if d.kind == "maintenance"):
        if _has_failed(context, record, pending.target):
            record.resolve(
                *(d for d in record.pending() if d.target == pending.target and d.kind in ("maintenance", "gate"))
            )
            continue
        with suppress(Conflict):  # it is gone from the inventory
            leave_alone(context, pending.target)


def _has_failed(context: Context, record: Journal, host: Target) -> bool:
    """Return whether the last request of a run to enter maintenance mode became a task that has failed."""
    own = [s for s in record.steps() if s.is_on(host) and s.what == "enter-maintenance"]
    if not own or not own[-1].task or own[-1].state == "done":
        return False
    found = context.vcenter.read_objects([own[-1].task], {"Task": ("info.state",)})
    failed = any(task.get("info.state") == "error" for task in found.values())
    return failed and not arrived_twice(context, host, own[-1].task)


def _approved(record: Journal) -> Approved:
    return Approved.model_validate(record.documents.approved)


def _await_reboots(context: Context, executor: StepExecutor, record: Journal, emit: Emit) -> None:
    """Wait for the hosts that were ordered to reboot."""
    for each in (o for o in record.ever_pending() if o.pending.kind == "reboot" and not o.closed):
        pending = each.pending
        if each.sent and _never_arrived(context, record, each):
            emit(Remark("reboot.never-sent", f"{pending.target.name}: {_NO_TASK.format(record.id)}"))
            record.rebooted(pending.target, did=False)
        elif each.sent:
            executor.remember_boot(pending.target, pending.detail, each.sent)
            watch = _seconds_to_watch(each.sent)
            # a play's shorter timeout is no reason to call a host lost that never went down
            patience = max(_patience(record, pending.target), watch + AT_LEAST)
            summary = "wait until the host is back"
            wait = HostBack(target=pending.target, timeout=patience, unless_never_down=watch, summary=summary)
            emit(Remark("wait.reboot", f"{pending.target.name}: waiting for the reboot of run {record.id}"))
            executor.do(wait, heartbeat(emit, pending.target.name))
            rebooted = executor.has_rebooted(pending.target)
            record.rebooted(pending.target, did=rebooted)
            # its boot time may be too near to the one before to see that from the times alone
            paid = [d for d in record.pending() if d.kind == "restart" and d.target.ref == pending.target.ref]
            record.resolve(*(paid if rebooted else ()))
        record.resolve(pending)


def _never_arrived(context: Context, record: Journal, each: RecordedPending) -> bool:
    """Return whether vCenter has no task for a reboot that was about to be ordered through it.

    The run's last task on the host shows that this account sees the tasks there; without one nothing is concluded.
    """
    host = each.pending.target
    own = [s for s in record.steps() if s.task and s.is_on(host) and s.began <= each.sent]
    if not own or not _through_vcenter(record, host):
        return False
    rebooting: bool | None = None
    for _ in polling(EVENTS_LAG - _since(each.sent), fastest=0.5, slowest=2.0):
        rebooting = was_ordered_to_reboot(context, host, own[-1].task, own[-1].began)
        if rebooting is not False:
            break
    return rebooting is False


def _through_vcenter(record: Journal, host: Target) -> bool:
    """Return whether the approved plan orders a host's reboot through vCenter; an order over SSH makes no task."""
    return [s.via for s in _approved(record).steps_of(host.ref) if s.action == "reboot"] == ["api"]


def _seconds_to_watch(sent: str) -> float:
    """Return for how long a host that stays up may still be about to go down."""
    return max(NEVER_DOWN - _since(sent), min(AT_LEAST, NEVER_DOWN))


def _since(moment: str) -> float:
    return max(0.0, (datetime.now(UTC) - datetime.fromisoformat(moment)).total_seconds())


def _await_guests(context: Context, record: Journal, emit: Emit) -> None:
    """Wait for guests that were asked to shut down: their VMs would look as if someone else had powered them off."""
    for each in requested_shutdowns(record):
        vm = each.pending.target
        left, say = min(_given(record, vm), STILL_RUNNING) - _since(each.sent), heartbeat(emit, vm.name)
        reported = asked = False
        for waited in polling(left, fastest=0.1) if left > 0 else ():
            if not asked and _since(each.sent) > EVENTS_LAG:
                asked = True
                if was_shut_down(context, vm, each.sent) is False:  # the run died before the call left
                    break
            if context.read(vm, "runtime.powerState").get("runtime.powerState") != "poweredOn":
                break
            if not reported:
                emit(
                    Remark("wait.guest", f"{vm.name}: waiting for its guest, which run {record.id} asked to shut down")
                )
            reported = True
            say(f"its guest still runs, {waited:.0f} s")


def requested_shutdowns(record: Journal) -> tuple[RecordedPending, ...]:
    """Return the pending power-ons of VMs whose guests a run asked to shut down, and which were not seen off since.

    A VM that was seen off and runs now was powered on again, by this run or by someone else.
    """
    asked = [o for o in record.ever_pending() if o.pending.kind == "off" and o.sent and not o.closed]
    switched = [s for s in record.steps() if s.what in ("power-off", "power-on")] if asked else []
    return tuple(o for o in asked if not _was_seen_off(o.pending.target, switched))


def _was_seen_off(vm: Target, switched: Sequence[RecordedStep]) -> bool:
    own = [s for s in switched if s.is_on(vm)]
    return bool(own) and (own[-1].what == "power-on" or own[-1].state == "done")


def _given(record: Journal, vm: Target) -> float:
    """Return how long the approved plan gives a guest to shut down."""
    offs = (s.shutdown_timeout for s in _approved(record).steps_of(vm.ref) if s.action == "power-off")
    return float(next(offs, None) or STILL_RUNNING)


def _patience(record: Journal, host: Target) -> float:
    """Return how long the approved plan waits for a host to come back."""
    waits = (s.timeout for s in _approved(record).steps_of(host.ref) if s.until == "host-back")
    return float(next(waits, None) or 1800)


def _put_back(executor: StepExecutor, record: Journal, emit: Emit) -> None:
    """Bring VMs back that the run has moved to other hosts; `StepFailed` where one stays elsewhere."""

    def report(step: Step, error: VsphereAiError | None) -> None:
        text = f"{step.target.name}: {step.summary}"
        emit(Remark("run.put-back", f"{text}: {error.message}" if error else text))

    back = PutBack(executor, record, report)
    back.run()
    if back.failed:
        named = "; ".join(f"{vm.name}: {why}" for vm, why in sorted(back.failed.items()))
        text = f"not everything is on its host as before the run: {named}"
        raise StepFailed(text, f"remove what blocks it, then: vsphere-ai resume {record.id}")


def _start_again(executor: StepExecutor, record: Journal, emit: Emit) -> tuple[Pending, ...]:
    """Start SSH again where it ran before a reboot, and services that were stopped while their settings changed.

    Returns what stays pending because a host does not answer; the other hosts are done all the same.
    """
    stay = []
    for pending in (d for d in record.pending() if d.kind in ("ssh-on", "service")):
        service = pending.detail if pending.kind == "service" else ""
        try:
            if service:
                executor.start_service(pending.target, service)
            else:
                executor.switch_ssh(pending.target, running=True)
        except VsphereAiError as error:
            text = f"{service or 'SSH'} of {pending.target.name} cannot be started again: {error.message}"
            emit(Remark("service.not-started" if service else "ssh.not-started", text))
            stay.append(pending)
        else:
            record.resolve(pending)
    return tuple(stay)
