"""What a run that was cut off has left under way comes to its rest, before anything is read to go on from there."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from vsphere_ai.cli import streams
from vsphere_ai.errors import Conflict, OutcomeUnknown, VsphereAiError
from vsphere_ai.model.text import safe

if TYPE_CHECKING:
    from vsphere_ai.execution.actions.context import Context
    from vsphere_ai.execution.actions.executor import Executor
    from vsphere_ai.model.pending import Pending
    from vsphere_ai.model.recorded_steps import RecordedPending, RecordedStep
    from vsphere_ai.model.state import Target
    from vsphere_ai.runs.journal import Journal

HEARTBEAT = 8.0
NEVER_DOWN = 120.0
"""Seconds after which a host that stayed up did not get the command to reboot, counted from when it left."""
AT_LEAST = 15.0
"""Seconds a host is watched in any case: a little more than the delay of the command."""
STILL_RUNNING = 600.0
"""Seconds after which a guest that still runs is not going to shut down, however long it was given."""
EVENTS_LAG = 10.0
"""Seconds after which vCenter's tasks and events show a call that it has accepted, also one that was on its way."""
_NO_TASK = "vCenter has no task for the reboot of run {}: the run was cut off before the request was sent"
LONGEST_TASK = 600.0
"""Seconds that a task of the run, or another one on what it was working on, is waited for."""


def come_to_rest(context: Context, executor: Executor, record: Journal) -> tuple[Pending, ...]:
    """Wait for what vCenter, hosts and guests still do because of a run; return debts that could not be put back now.

    `OutcomeUnknown` when that does not end, `HostUnhealthy` when a host does not come back.
    """
    _stay_out(context, record)
    _await_tasks(context, record)
    _await_reboots(context, executor, record)
    _await_guests(context, record)
    return _start_ssh_again(executor, record)


def _stay_out(context: Context, record: Journal) -> None:
    """A host that is still on its way into maintenance mode does not get there behind our back.

    Where our own order to enter it has failed, whatever else is on its way there is somebody else's, and not touched.
    """
    from vsphere_ai.execution.actions.cancel import leave_alone

    for pending in (d for d in record.pending() if d.kind == "maintenance"):
        if _has_failed(context, record, pending.target):
            record.resolve(
                *(d for d in record.pending() if d.target == pending.target and d.kind in ("maintenance", "gate"))
            )
            continue
        with suppress(Conflict):  # it is gone from the inventory
            leave_alone(context, pending.target)


def _has_failed(context: Context, record: Journal, host: Target) -> bool:
    """Tell whether the last order of a run to enter maintenance mode became a task that has failed."""
    from vsphere_ai.execution.actions.cancel import arrived_twice

    own = [s for s in record.steps() if s.is_on(host) and s.what == "enter-maintenance"]
    if not own or not own[-1].task or own[-1].state == "done":
        return False
    found = context.vcenter.read_objects([own[-1].task], {"Task": ("info.state",)})
    failed = any(task.get("info.state") == "error" for task in found.values())
    return failed and not arrived_twice(context, host, own[-1].task)


def _await_tasks(context: Context, record: Journal) -> None:
    """What vCenter still works on would change what is read now, and look like somebody else's doing.

    Of the steps that nobody saw end; a host's reboot is told by its boot time instead.
    """
    from vsphere_ai.execution.actions.context import polling

    steps = [
        s for s in record.steps() if s.state in ("begun", "unknown") and s.what not in ("reboot", "enter-maintenance")
    ]
    if not steps:
        return
    refs = _references(record)
    on = sorted({ref for s in steps for ref in ([s.ref] if s.ref else refs.get(s.target, ()))})
    of = {s.task: s.target for s in steps if s.task}
    say, told, busy = _sign_of_life(", ".join(sorted({s.target for s in steps}))), False, ""
    for waited in polling(LONGEST_TASK, fastest=0.1):
        busy = _busy(context, on, of)
        if not busy:
            return
        if not told:
            streams.say(f"{safe(busy)}; waiting for its end", "wait.task")
        told = True
        say(f"{busy}, {waited:.0f} s")
    raise OutcomeUnknown(
        f"{busy}, {LONGEST_TASK:.0f} s after run {record.id} was taken up",
        "look at it in the vSphere Client; once it has ended, resume the run",
    )


def _references(record: Journal) -> dict[str, set[str]]:
    """Return the references of what a run is about, by name, as its journal tells of steps."""
    found: dict[str, set[str]] = {}
    for step in record.get("approved", {}).get("steps", ()):
        found.setdefault(step["target"]["name"], set()).add(step["target"]["ref"])
    for owed in record.ever_pending():
        found.setdefault(owed.pending.target.name, set()).add(owed.pending.target.ref)
    return found


def _busy(context: Context, refs: list[str], noted: dict[str, str]) -> str:
    """Return in words which task still runs, of those that were noted and the latest ones of these objects."""
    objects = (
        context.vcenter.read_objects(refs, {r.partition(":")[0]: ("name", "recentTask") for r in refs}) if refs else {}
    )
    of = {str(task): str(facts.name) for facts in objects.values() for task in facts.get("recentTask") or ()} | noted
    tasks = context.vcenter.read_objects(sorted(of), {"Task": ("info.descriptionId", "info.state")}) if of else {}
    for ref, task in tasks.items():
        if task.get("info.state") in ("queued", "running"):
            what = str(task.get("info.descriptionId") or "").rpartition(".")[2]
            return f"{of[ref]}: the task {ref.partition(':')[2]}{f' ({what})' if what else ''} is still under way"
    return ""


def _await_reboots(context: Context, executor: Executor, record: Journal) -> None:
    """A host that was told to reboot is waited for before anything is read of it."""
    from vsphere_ai.model.steps import HostBack

    for owed in (o for o in record.ever_pending() if o.pending.kind == "reboot" and not o.closed):
        pending = owed.pending
        if owed.sent and _never_arrived(context, record, owed):
            streams.say(f"{safe(pending.target.name)}: {_NO_TASK.format(record.id)}", "reboot.never-sent")
            record.rebooted(pending.target, did=False)
        elif owed.sent:
            executor.remember_boot(pending.target, pending.detail, owed.sent)
            doubt = _doubt(owed.sent)
            # a play's shorter timeout is no reason to call a host lost that never went down
            patience = max(_patience(record, pending.target), doubt + AT_LEAST)
            summary = "wait until the host is back"
            wait = HostBack(target=pending.target, timeout=patience, unless_never_down=doubt, summary=summary)
            streams.say(f"{safe(pending.target.name)}: waiting for the reboot of run {record.id}", "wait.reboot")
            executor.do(wait, _sign_of_life(pending.target.name))
            rebooted = executor.has_rebooted(pending.target)
            record.rebooted(pending.target, did=rebooted)
            # its boot time may be too near to the one before to tell that from the times alone
            paid = [d for d in record.pending() if d.kind == "restart" and d.target.ref == pending.target.ref]
            record.resolve(*(paid if rebooted else ()))
        record.resolve(pending)


def _never_arrived(context: Context, record: Journal, owed: RecordedPending) -> bool:
    """Tell whether vCenter has no task for a reboot that was about to be ordered through it.

    The run's last task on the host shows that this account sees the tasks there; without one nothing is concluded.
    """
    from vsphere_ai.execution.actions.context import polling
    from vsphere_ai.execution.actions.events import was_told_to_reboot

    host = owed.pending.target
    own = [s for s in record.steps() if s.task and s.is_on(host) and s.began <= owed.sent]
    if not own or not _through_vcenter(record, host):
        return False
    told: bool | None = None
    for _ in polling(EVENTS_LAG - _since(owed.sent), fastest=0.5, slowest=2.0):
        told = was_told_to_reboot(context, host, own[-1].task, own[-1].began)
        if told is not False:
            break
    return told is False


def _through_vcenter(record: Journal, host: Target) -> bool:
    """Tell whether the approved plan orders a host's reboot through vCenter; an order over SSH makes no task."""
    steps = (s for s in record.get("approved")["steps"] if s["target"]["ref"] == host.ref)
    return [s["via"] for s in steps if s.get("action") == "reboot"] == ["api"]


def _doubt(sent: str) -> float:
    """Return for how long a host that stays up may still be about to go down."""
    return max(NEVER_DOWN - _since(sent), min(AT_LEAST, NEVER_DOWN))


def _since(moment: str) -> float:
    return max(0.0, (datetime.now(UTC) - datetime.fromisoformat(moment)).total_seconds())


def _await_guests(context: Context, record: Journal) -> None:
    """A guest that was told to shut down does so behind our back, and its VM would stay off as somebody else's."""
    from vsphere_ai.execution.actions.context import polling
    from vsphere_ai.execution.actions.events import was_shut_down

    for owed in requested_shutdowns(record):
        vm = owed.pending.target
        left, say = min(_given(record, vm), STILL_RUNNING) - _since(owed.sent), _sign_of_life(vm.name)
        told = asked = False
        for waited in polling(left, fastest=0.1) if left > 0 else ():
            if not asked and _since(owed.sent) > EVENTS_LAG:
                asked = True
                if was_shut_down(context, vm, owed.sent) is False:  # the run died before the call left
                    break
            if context.read(vm, "runtime.powerState").get("runtime.powerState") != "poweredOn":
                break
            if not told:
                streams.say(
                    f"{safe(vm.name)}: waiting for its guest, which run {record.id} told to shut down", "wait.guest"
                )
            told = True
            say(f"its guest still runs, {waited:.0f} s")


def requested_shutdowns(record: Journal) -> tuple[RecordedPending, ...]:
    """Return what is owed to VMs whose guests a run told to shut down, and which nobody has seen off since.

    One that was seen off and runs was powered on again, by this run or by somebody else.
    """
    told = [o for o in record.ever_pending() if o.pending.kind == "off" and o.sent and not o.closed]
    switched = [s for s in record.steps() if s.what in ("power-off", "power-on")] if told else []
    return tuple(o for o in told if not _was_seen_off(o.pending.target, switched, _references(record)))


def _was_seen_off(vm: Target, switched: Sequence[RecordedStep], refs: Mapping[str, Collection[str]]) -> bool:
    own = [s for s in switched if s.is_on(vm)]
    if not own or (not own[-1].ref and len(refs.get(vm.name, ())) > 1):
        return False  # of twins in an older journal nobody knows which one was seen
    return own[-1].what == "power-on" or own[-1].state == "done"


def _given(record: Journal, vm: Target) -> float:
    """Return how long the approved plan gives a guest to shut down."""
    offs = (
        s for s in record.get("approved")["steps"] if s["target"]["ref"] == vm.ref and s.get("action") == "power-off"
    )
    return float(next((s["shutdown_timeout"] for s in offs), STILL_RUNNING))


def _patience(record: Journal, host: Target) -> float:
    """Return how long the approved plan waits for a host to come back."""
    waits = (
        s for s in record.get("approved")["steps"] if s["target"]["ref"] == host.ref and s.get("until") == "host-back"
    )
    return float(next((s["timeout"] for s in waits), 1800))


def _sign_of_life(name: str) -> Callable[[str], None]:
    """Return a function that passes on what is said about a host, but not more often than every few seconds."""
    said = time.monotonic()

    def say(text: str) -> None:
        nonlocal said
        if time.monotonic() - said > HEARTBEAT:
            said = time.monotonic()
            click.echo(safe(f"{name}: {text}"), err=True)

    return say


def _start_ssh_again(executor: Executor, record: Journal) -> tuple[Pending, ...]:
    """SSH that was running before a reboot of this run runs again, whatever else there is to do.

    Returns the debts that stay, because a host cannot be asked: that is no reason to leave the others as they are.
    """
    stay = []
    for pending in (d for d in record.pending() if d.kind == "ssh-on"):
        try:
            executor.switch_ssh(pending.target, running=True)
        except VsphereAiError as error:
            streams.say(
                f"SSH of {safe(pending.target.name)} cannot be started again: {safe(error.message)}", "ssh.not-started"
            )
            stay.append(pending)
        else:
            record.resolve(pending)
    return tuple(stay)
