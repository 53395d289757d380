"""State of a run: events go in; which hosts are out of service, what failed and which actions are pending come out."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from vsphere_ai.errors import (
    Conflict,
    Denied,
    DidNotReboot,
    HostUnhealthy,
    NoRoom,
    StepFailed,
    Storage,
    Unreachable,
    VsphereAiError,
)
from vsphere_ai.execution.rollout import rollout_of
from vsphere_ai.model.records.pending import Pending, opened_by
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import AsPlanned, Healthy, Move, PendingKind, PowerOn, Reboot, StartSsh, Step, StopSsh
from vsphere_ai.planning.moves.rolling import Roll
from vsphere_ai.planning.outcome import Outcome, RunOutcome
from vsphere_ai.planning.planner import Plan

STOPPED = "run.stopped", RunOutcome.stopped
HARMLESS = (Conflict, Denied, DidNotReboot, StepFailed, Storage, Unreachable)
"""Errors of a step that did not take effect, or whose effect does no harm to VMs that run on the host."""
EXTERNAL: Mapping[PendingKind, str] = {
    "off": "{} was powered off by someone else during the run; left powered off",
    "ssh": "SSH of {} was started by someone else during the run; left running",
}
Reason = tuple[str, str]
"""Rule id and text of why a step is not carried out."""
_S = TypeVar("_S", bound=Step)


class RunState:
    """Outcomes, pending actions and external changes of one run, and what follows from them for its next steps.

    `earlier` are pending actions of an earlier attempt. Steps begin and end in one thread; pending actions and external
    changes are noted from several.
    """

    def __init__(self, plan: Plan, earlier: Iterable[Pending] = ()) -> None:
        self.plan, self.rollout = plan, rollout_of(plan)
        self.steps = {p.id: p for p in plan.steps}
        self.outcomes: dict[str, Outcome] = {}
        self.signal, self.stopped = 0, STOPPED
        self._begun: set[Target] = set()
        self._failed: set[Target] = set()
        self._over: set[Target] = set()
        self._uncertain: set[Target] = set()
        self._unhealthy = ""
        self._halted: dict[Roll, str] = {}
        self._starts_ssh = {p.step.target for p in plan.steps if isinstance(p.step, StartSsh)}
        self._stops_ssh = {p.step.target for p in plan.steps if isinstance(p.step, StopSsh)}
        self._earlier = {(p.kind, p.target.ref) for p in earlier}
        self._own = set(self._earlier)  # what the run has switched itself, or is about to
        self._pending: dict[tuple[PendingKind, str], Target] = {}
        self._external: dict[tuple[PendingKind, str], str] = {}
        self._lock = threading.Lock()

    # -- steps

    def begin(self, id: str) -> None:
        """Note that a step was started."""
        if id in self.rollout.entries:
            self._begun.add(self.rollout.entries[id])

    def end(self, outcome: Outcome) -> None:
        """Note how a step ended."""
        self.outcomes[outcome.planned.id] = outcome
        target, host = outcome.planned.step.target, self.rollout.parts.get(outcome.planned.id)
        if host is not None and outcome.state != "skipped" and not outcome.well:
            self._failed.add(host)
        if outcome.state == "unknown":
            self._uncertain.add(target)
        if isinstance(outcome.planned.step, Healthy):
            self._over.add(target)
        if isinstance(outcome.error, HostUnhealthy) and not isinstance(outcome.error, NoRoom):
            self._unhealthy = target.name

    def blocker(self, id: str) -> Reason | None:
        """Return why a step is skipped; None when it may start."""
        planned = self.steps[id]
        for earlier in planned.after:
            outcome = self.outcomes[earlier]
            if not outcome.well and earlier not in planned.behind:
                step = outcome.planned.step
                return outcome.rule or "step.blocked", outcome.reason or f"{step.target.name}: {step.summary}"
        refusal = self._refusal(id)
        if refusal:
            return "rollout.halted", refusal
        return self.stopped if self.is_stopped(id) else None

    def is_stopped(self, id: str) -> bool:
        """Return whether the run was stopped, and a step does not end maintenance that has begun."""
        target = self.steps[id].step.target
        if isinstance(self.steps[id].step, Move):
            return bool(self.signal)  # what was moved is put back
        begun = any((kind, target.ref) in self._pending for kind in ("maintenance", "off", "gate"))
        # the maintenance of its host ends after a VM that someone else has powered off, too
        return bool(self.signal) and not begun and ("off", target.ref) not in self._external

    # -- hosts out of service

    def down(self) -> set[Target]:
        """Return the hosts that are out of service because of this run, or may be: the outcome of a step is unknown."""
        return {*self.pending("maintenance"), *self.pending("reboot"), *self._uncertain}

    def in_maintenance(self) -> set[Target]:
        """Return the hosts whose maintenance has begun and not ended, also before they are in maintenance mode."""
        return {host for host in self._begun if host not in self._over and host in self.rollout.gated}

    def _refusal(self, id: str) -> str:
        host = self.rollout.entries.get(id)
        if host is None:
            return ""
        if self._unhealthy:
            return f"{self._unhealthy} is not healthy, so no further host is started"
        if host in self._failed:  # one of its VMs could not be powered off: the others stay on
            return f"something failed on {host.name} already"
        roll = self.rollout.rolls.get(host)
        if roll is not None and host not in self._begun and roll in self._halted:
            return self._halted[roll]
        failed = [h.name for h in roll.hosts if h in self._failed] if roll else []
        if roll is None or len(failed) <= roll.max_fail:
            return ""
        return f"{', '.join(failed)} failed, and max_fail is {roll.max_fail}, so no further host is started"

    def _in_service_later(self, roll: Roll) -> list[Target]:
        down = self.down()
        return [h for h in roll.hosts if h in self._begun and (h not in self._over or h in down)]

    def waits_for(self, id: str) -> str:
        """Return why a host has to wait until other hosts of the run are back in service, "" when it need not.

        A host that failed and stays out of service counts for as long.
        """
        host = self.rollout.entries.get(id)
        roll = self.rollout.rolls.get(host) if host is not None else None
        if roll is None or host in self._begun:
            return ""
        busy = self._in_service_later(roll)
        if len(busy) < roll.at_a_time:
            return ""
        return f"{', '.join(h.name for h in busy)} is out of service, and no more hosts may be at once"

    def cluster_to_read(self, host: Target | None) -> tuple[Target, ...]:
        """Return the hosts whose state has to be read before a host goes out of service; none once it has begun."""
        roll = self.rollout.rolls.get(host) if host is not None and host not in self._begun else None
        return roll.members if roll else ()

    def over_budget(self, host: Target, seen: Mapping[str, str]) -> str:
        """Return why a host may not go out of service by the state of its cluster now, "" when it may.

        `seen` are the hosts that are out of service, as read now: reference -> why.
        """
        roll = self.rollout.rolls[host]
        own = set(self._in_service_later(roll))
        others = [h for h in roll.members if h.ref in seen and h not in own and h != host]
        # one that is down already costs nothing more; entering maintenance mode checks who has put it there
        if host.ref in seen or len(own) + len(others) < roll.max_unavailable:
            return ""
        said = ", ".join(f"{h.name} is {seen[h.ref]}" for h in others)
        busy = f", {', '.join(sorted(h.name for h in own))} is out of service for this run" if own else ""
        return f"{said}{busy}, and max_unavailable of {roll.cluster} is {roll.max_unavailable}"

    def halt(self, id: str, reason: str) -> None:
        """Start no further host in the cluster of the host that this step takes out of service."""
        roll = self.rollout.rolls.get(self.rollout.entries[id])
        if roll is not None:
            self._halted[roll] = reason

    # -- pending actions

    def opened_by(self, step: Step, detail: str) -> tuple[Pending, ...]:
        """Return the pending actions that a step adds; `detail` is the boot time before it."""
        own = step.target in self._stops_ssh and ("ssh", step.target.ref) not in self._external
        return opened_by(step, own_ssh=own, restarts_ssh=step.target in self._starts_ssh and not own, detail=detail)

    def change(self, opens: Iterable[Pending] = (), closes: Iterable[Pending] = ()) -> None:
        """Note the pending actions that were added and closed by a step that took effect, or by the cleanup."""
        with self._lock:
            self._pending |= {(p.kind, p.target.ref): p.target for p in opens}
            for pending in closes:
                self._pending.pop((pending.kind, pending.target.ref), None)

    def pending(self, kind: PendingKind) -> list[Target]:
        """Return the targets with a pending action of a kind, sorted."""
        with self._lock:
            return sorted(target for (each, _), target in self._pending.items() if each == kind)

    def is_pending(self, pending: Pending) -> bool:
        """Return whether another step of this run, or an earlier attempt, has added the same pending action."""
        key = pending.kind, pending.target.ref
        return key in self._pending or key in self._earlier

    # -- external changes

    def external(self, step: Step, opens: Sequence[Pending], is_so: Callable[[Step], bool]) -> Reason | None:
        """Return why a step is skipped because of someone else's change; None when it is to be carried out.

        What someone else has switched before the run came to it is not changed, and not switched back. `is_so` reads
        whether the target is already in the state that the step leads to.
        """
        for kind in step.closes:
            if (kind, step.target.ref) in self._external:
                return f"external.{kind}", self._external[kind, step.target.ref]
        for kind, key in ((p.kind, (p.kind, p.target.ref)) for p in opens):
            if kind in EXTERNAL and key not in self._own:
                if is_so(step):
                    self._external[key] = EXTERNAL[kind].format(step.target.name)
                    return f"external.{kind}", self._external[key]
                self._own.add(key)
        return None

    def without_external(self, step: Step) -> tuple[Step, str]:
        """Return a health gate without the VMs that stay off, and a remark; other steps unchanged."""
        off = [vm for vm in step.vms if ("off", vm.ref) in self._external] if isinstance(step, Healthy) else []
        if not isinstance(step, Healthy) or not off:
            return step, ""
        vms = tuple(vm for vm in step.vms if vm not in off)
        return replace(step, vms=vms), f"without {', '.join(vm.name for vm in off)}, left powered off"

    # -- the end

    def outcomes_of(self, target: Target) -> list[Outcome]:
        """Return how the steps of a target ended, in plan order."""
        return [o for p in self.plan.steps if p.step.target == target and (o := self.outcomes.get(p.id)) is not None]

    def step_of(self, host: Target, kind: type[_S]) -> _S | None:
        """Return the first step of a class that a host has."""
        return next((p.step for p in self.plan.steps if p.step.target == host and isinstance(p.step, kind)), None)

    def not_rebooted(self) -> list[Target]:
        """Return the hosts that were ordered to reboot and were seen not to do so, sorted."""
        return sorted({o.planned.step.target for o in self.outcomes.values() if isinstance(o.error, DidNotReboot)})

    def may_leave_maintenance(self, host: Target, was_refused: Callable[[Step, VsphereAiError], bool]) -> bool:
        """Return whether a host that this run put into maintenance mode may leave it though steps there failed.

        Not once a reboot was sent, or may have been, unless the host was seen not to follow it; not where the outcome
        of a step is unknown, where reading back showed something else than was planned, or where an earlier attempt has
        worked on it.
        """
        if any((kind, host.ref) in self._earlier for kind in ("maintenance", "gate", "reboot")):
            return False
        for outcome in self.outcomes_of(host):
            step, error = outcome.planned.step, outcome.error
            if outcome.state == "unknown" or (outcome.state == "failed" and not isinstance(error, HARMLESS)):
                return False
            refused = host in self.not_rebooted() or (error is not None and was_refused(step, error))
            if isinstance(step, Reboot) and outcome.state != "skipped" and not refused:
                return False
        return True

    def is_uncertain(self, vm: Target) -> bool:
        """Return whether the outcome of a VM's own change is unknown, or its power-on was refused."""
        return any(
            o.state == "unknown" or (o.state == "failed" and isinstance(o.planned.step, PowerOn | AsPlanned))
            for o in self.outcomes_of(vm)
        )
