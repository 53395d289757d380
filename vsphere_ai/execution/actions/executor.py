"""Executor of steps: sends each to vCenter or a host; every wait has a deadline, every effect is read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime

from vsphere_ai.errors import (
    Conflict,
    Denied,
    GuestStillRuns,
    HostUnhealthy,
    OutcomeUnknown,
    StepFailed,
    Unreachable,
    VimFault,
    VsphereAiError,
)
from vsphere_ai.execution.actions import cluster_rules, leases, mig_instances, vm_tags
from vsphere_ai.execution.actions.configure import ConfigureChanges
from vsphere_ai.execution.actions.context import AWAY, UNCERTAIN, Context, Say, Withdrawn, polling
from vsphere_ai.execution.actions.in_flight import is_refusal
from vsphere_ai.execution.actions.lifecycle import Lifecycles
from vsphere_ai.execution.actions.reconcile import Reconciler
from vsphere_ai.execution.actions.relocation import Relocations, detail_of
from vsphere_ai.execution.actions.sent import Boot, Sent
from vsphere_ai.execution.actions.ssh_guard import ShellGuard
from vsphere_ai.execution.actions.vm_life import VmLife
from vsphere_ai.execution.actions.waits import Waits
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import (
    Clone,
    ClusterRules,
    Destroy,
    EnterMaintenance,
    ExitMaintenance,
    GuestReady,
    Invoke,
    Lifecycle,
    Measured,
    Migrate,
    Move,
    MoveAway,
    PowerOff,
    PowerOn,
    Reboot,
    Reconfigure,
    SetTags,
    Shell,
    StartSsh,
    Step,
    Wait,
    WriteLeases,
)
from vsphere_ai.planning.moves.rolling import STATE_PATHS, why_down

LOST_CALL = 15.0  # seconds after which a call whose response was lost has shown its effect
MOST_LOST = 3  # answers to one step that may get lost
BEING_READ = 60.0  # seconds that another command of this machine may take to read a host over SSH
BUSY, BUSY_PAUSE = 600.0, 2.0  # seconds something else at work is waited for, and the first pause
UNTOUCHED = ("TaskInProgress", "VAppTaskInProgress", "FailToLockFaultToleranceVMs")
"""Faults of calls that did nothing, because something else was at work."""
PASSING = (*UNTOUCHED, *AWAY)
"""Faults that pass by themselves."""

_REFERENCE = re.compile(r"\b[A-Z][A-Za-z]+:[\w-]+")
"""A reference, as it stands in messages."""
MADE_ALREADY = ("DuplicateName", "AlreadyExists")
AS_WANTED = ("InvalidPowerState", "InvalidState")
"""Faults of a call whose target was somewhere else than the call takes it from: maybe where it leads to."""


class StepExecutor:
    """Carries out steps one at a time, from several threads."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._reconciler = Reconciler(context, self._took_effect)
        self._sent = Sent()
        self._changes, self._waits = ConfigureChanges(context), Waits(context, self._sent)
        self._lifecycles, self._life = Lifecycles(context, self._sent), VmLife(context)
        self.switch_ssh, self.start_service = self._lifecycles.switch_ssh, self._lifecycles.start_service
        self._relocations = Relocations(context)
        self.is_there = self._relocations.is_done
        self.runs, self.power_on = self._lifecycles.runs, self._lifecycles.power_on
        self._access = ShellGuard(context, lambda host: self.switch_ssh(host, running=True))

    def before(self, step: Step) -> str:
        """Return what has to be remembered about a target before a step: the boot time before a reboot.

        Also before a change that counts only after one; and the way back of a VM that is moved away.

        `HostUnhealthy` when someone else has put a host into maintenance mode that is to enter it, when one that is to
        leave it has lost a GPU, and when vCenter does not show the boot time.
        """
        if isinstance(step, ExitMaintenance):
            self._waits.all_gpus(step.target, step.settle)
        if isinstance(step, EnterMaintenance) and not step.begun:
            self._lifecycles.refuse_taken(step.target)
        if isinstance(step, MoveAway):
            return detail_of(step)
        reboots = isinstance(step, Reboot)
        if not (reboots or (isinstance(step, Invoke) and step.needs_reboot)):
            return ""
        booted = str(self._context.read(step.target, "runtime.bootTime").get("runtime.bootTime") or "")
        if not booted:
            raise HostUnhealthy(
                f"vCenter does not show when {step.target.name} booted, so a reboot could not be verified",
                "look at the host and its connection to vCenter, then resume",
            )
        if reboots:
            self.remember_boot(step.target, booted)
        return booted

    def was_refused(self, step: Step, error: VsphereAiError) -> bool:
        """Return whether a step with pending actions failed so that it had no effect, and will have none."""
        if isinstance(step, Reboot) and step.target.ref not in self._sent.reboots:
            return True
        if not isinstance(error, VimFault | Denied | Conflict | StepFailed) or isinstance(error, GuestStillRuns):
            return False
        if _key(step) in self._sent.uncertain or (isinstance(error, VimFault) and error.fault in UNCERTAIN):
            return False
        match step:
            case PowerOff():
                return step.target.ref not in self._sent.shutdowns
            case EnterMaintenance() | StartSsh() | Reboot():
                return True
            case Invoke():
                return bool(step.pauses)
        return False

    def is_so(self, step: Step) -> bool:
        """Read whether a VM is off that a step is to switch off, or SSH runs that it is to start; else False.

        SSH that another command has started to read for a moment is soon stopped again: that is waited for.
        """
        match step:
            case PowerOff():
                return self._took_effect(step)
            case StartSsh():
                for _ in self._context.looking(BEING_READ, fastest=0.1, slowest=1.0):
                    if not self._context.is_being_read(step.target):
                        break
                return self._lifecycles.ssh_runs(step.target)
        return False

    def remember_boot(self, host: Target, booted: str, sent: str = "") -> None:
        """Take the boot time before a reboot, from a reading now or from the journal of an earlier attempt.

        `sent` is when that attempt's command left; without it, it has yet to leave.
        """
        leaves = datetime.fromisoformat(sent) if sent else datetime.now(UTC)
        self._sent.boots[host.ref] = Boot(datetime.fromisoformat(booted), leaves)

    def has_rebooted(self, host: Target) -> bool:
        """Return whether a host that was waited for has been seen with a newer boot time."""
        return host.ref in self._sent.rebooted

    def do(self, step: Step, say: Say, name: str = "") -> None:
        """Do one step; returns when its effect was accepted (or, for a wait, seen). `say` gets progress.

        `name` is what requests of this step are marked with.
        """
        try:
            with self._context.within(name):
                self._do_surely(step, say)
        except VsphereAiError as error:
            # the API names objects by reference, operators by name
            error.message = _REFERENCE.sub(lambda found: self._name(found[0], step.target), error.message)
            error.args = (error.message,)
            raise

    def _name(self, ref: str, target: Target) -> str:
        known = self._context.planned.get(ref)
        return target.name if ref == target.ref else known.name if known is not None else ref

    def _do_surely(self, step: Step, say: Say) -> None:
        """Do a step; when its answer is lost, look what happened, and repeat it only where that cannot do it twice."""
        for left in reversed(range(MOST_LOST)):
            try:
                self._when_free(step, say)
            except OutcomeUnknown as lost:
                self._sent.uncertain.add(_key(step))
                if self._reconciler.resolve(step, lost, say, LOST_CALL):
                    return
                if not (left and (_repeatable(step) or self._is_next(step))):
                    raise
            except Conflict:
                # the configuration has changed: by an earlier call whose response was lost?
                if left + 1 < MOST_LOST and self._took_effect(step):
                    return
                raise
            except VimFault as refused:
                # it exists already: made by an earlier call whose response was lost?
                if left + 1 < MOST_LOST and refused.fault in MADE_ALREADY and self._took_effect(step):
                    return
                if refused.fault in AS_WANTED and _comes_by_itself(step) and self._took_effect(step):
                    return
                raise
            else:
                return

    def _when_free(self, step: Step, say: Say) -> None:
        """Do a step; while something else is at work on its target, wait for that."""
        refused: VimFault | None = None
        for waited in polling(BUSY, fastest=BUSY_PAUSE, slowest=30.0, wake=self._context.stop):
            if refused is not None:
                if self._is_given_up(step):
                    raise Withdrawn
                say(f"{refused.message}; trying again, {waited:.0f} of {BUSY:.0f} s")
            try:
                self._do(step, say)
            except VimFault as error:
                untouched = error.fault in UNTOUCHED or is_refusal(error)
                if not untouched and not (error.fault in PASSING and _repeatable(step)):
                    raise
                refused = error
            else:
                return
        if refused is not None:
            refused.message += f" (tried again for {BUSY:.0f} s)"
            raise refused

    def _is_given_up(self, step: Step) -> bool:
        """Return whether the run was stopped, and a step of which nothing happened is not what puts something back.

        What a window or a power cycle has taken out before is put back by the cleanup, but for a host that was ordered
        to reboot: there the steps go on.
        """
        if not self._context.stop.is_set():
            return False
        if isinstance(step, PowerOff):
            return step.target.ref not in self._sent.shutdowns
        if isinstance(step, Lifecycle | Move) and not isinstance(step, EnterMaintenance | Migrate):
            return not self._context.is_taken(step.target)
        return step.target.ref not in self._sent.reboots

    def _took_effect(self, step: Step) -> bool:
        """Read back whether the effect of one step is there."""
        match step:
            case Clone():
                return self._life.exists(step.target)
            case Destroy():
                return not self._life.is_there(step.target)
            case WriteLeases():
                return leases.is_written(self._context, step)
            case ClusterRules():
                return cluster_rules.is_applied(self._context, step)
            case SetTags():
                return vm_tags.are_set(self._context, step)
            case EnterMaintenance() | ExitMaintenance():
                return self._context.in_maintenance(step.target) == isinstance(step, EnterMaintenance)
            case Migrate():
                return bool(self._context.read(step.target, "runtime.host").get("runtime.host") == step.to)
            case Move():
                return self._relocations.is_done(step)
            case PowerOff() | PowerOn():
                wanted = "poweredOff" if isinstance(step, PowerOff) else "poweredOn"
                return bool(self._context.read(step.target, "runtime.powerState").get("runtime.powerState") == wanted)
            case Shell() if mig_instances.is_about(step):
                return mig_instances.took_effect(step, self._context.again(step.target)) is True
            case Reconfigure() | Shell() | Invoke():
                left = self._context.left(step.target, not step.comes_last)
                return not any(item.kind in step.kinds for item in left) or self._is_no_more_left(step)
        return False

    def _is_no_more_left(self, step: Step) -> bool:
        """Return whether a call or command is done though its kind is not: another of its steps is still to come."""
        left = None if isinstance(step, Reconfigure) else self._context.again(step.target)
        return left is not None and not any(_is_same(step, other) for other in left)

    def _is_next(self, step: Step) -> bool:
        """Return whether a command about MIG instances would be the next one again, because nothing of it happened."""
        if not (isinstance(step, Shell) and mig_instances.is_about(step)):
            return False
        try:
            return mig_instances.took_effect(step, self._context.again(step.target)) is False
        except (Denied, Unreachable):
            return False

    def _do(self, step: Step, say: Say) -> None:
        self._access.before(step)
        match step:
            case Clone():
                self._life.clone(step, say)
            case Destroy():
                self._life.destroy(step, say)
            case GuestReady():
                self._life.ready(step, say)
            case WriteLeases():
                leases.write(self._context, step, say)
            case ClusterRules():
                cluster_rules.apply(self._context, step, say)
            case SetTags():
                vm_tags.apply(self._context, step)
            case Reconfigure():
                self._changes.reconfigure(step, say)
            case Invoke():
                self._changes.invoke(step, say)
            case Shell():
                self._changes.shell(step)
            case Measured():
                self._context.measure(say)
            case Wait():
                self._waits.do(step, say)
            case Move():
                self._relocations.do(step, say)
            case Lifecycle():
                self._lifecycles.do(step, say)

    def out_of_service(self, hosts: Sequence[Target]) -> dict[str, str]:
        """Read which of these hosts are out of service now: reference -> why; those that are gone are left out."""
        found = self._context.vcenter.read_objects([h.ref for h in hosts], {"HostSystem": STATE_PATHS})
        return {ref: why for ref, facts in found.items() if (why := why_down(facts))}

    def host_of(self, vm: Target) -> str | None:
        """Return the reference of the host a VM is on, as planned where that cannot be read."""
        try:
            return str(self._context.read(vm, "runtime.host").get("runtime.host") or "") or self._context.hosts.get(
                vm.ref
            )
        except VsphereAiError:
            return self._context.hosts.get(vm.ref)


def _key(step: Step) -> tuple[str, str]:
    return step.target.ref, step.summary


def _comes_by_itself(step: Step) -> bool:
    """Return whether what a step is to bring about also happens without it: a guest shuts down, HA restarts a VM.

    Not entering maintenance mode: a host that someone else put there is not brought out of it.
    """
    return isinstance(step, PowerOff | PowerOn | ExitMaintenance)


def _is_same(step: Step, other: Step) -> bool:
    """Return whether two steps of one target do the same: where nothing happened, a new plan has the same words."""
    match step, other:
        case Invoke(), Invoke():
            return (step.method, step.path, step.summary) == (other.method, other.path, other.summary)
        case Shell(), Shell():
            return step.argv == other.argv
    return False


def _repeatable(step: Step) -> bool:
    """Return whether sending a step again cannot do it twice: states are set again, a reconfigure has its version.

    A folder has one VM of a name, so that of two clones one is refused.
    """
    if isinstance(step, Lifecycle):
        return not isinstance(step, Reboot)
    # nvidia-smi's verbs that make and destroy instances are no states; setting the mode is one, as is esxcli's verb
    return not isinstance(step, Shell) or "-mig" in step.argv or (step.argv[0] == "esxcli" and "set" in step.argv)
