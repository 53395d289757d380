"""Waits: a host that boots, GPUs that answer, a target that is as planned, a healthy host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from vsphere_ai.errors import DidNotReboot, HostUnhealthy, NotVerified, Unreachable, VsphereAiError
from vsphere_ai.execution.actions.context import COMMAND_TIMEOUT, Context, Say, polling
from vsphere_ai.execution.actions.sent import Sent
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import AsPlanned, GpusAnswer, Healthy, HostBack, Wait
from vsphere_ai.model.text import shown
from vsphere_ai.planning.planner import PlanItem
from vsphere_ai.planning.scheduling import health
from vsphere_ai.planning.scheduling.windows import BOOT_JITTER

MOST_DISAGREED = 5  # looks at GPUs that answer with another MIG mode than before
UNANSWERED = 300.0
"""Seconds after which a host that is still up did not get the order to reboot, if its answer was lost."""
RECONNECTED = 120.0
"""Seconds after which a host that was out of reach, and still has its old boot time, was only out of reach."""
GATE = 3.0
"""Seconds for which a host that is back in service is still looked at once the operator has stopped the run."""
READ_BACK_HOST, READ_BACK_VM = 90, 20  # seconds; a host's switches and devices lag behind its connection


class Waits:
    """Every wait has a deadline."""

    def __init__(self, context: Context, sent: Sent) -> None:
        self._context, self._sent = context, sent

    def do(self, step: Wait, say: Say) -> None:
        """Wait until it is seen; `HostUnhealthy` or `NotVerified` when that takes too long."""
        match step:
            case HostBack():
                self._host_back(step, say)
            case GpusAnswer():
                self._gpus_answer(step, say)
            case AsPlanned():
                self._as_planned(step, say)
            case Healthy():
                self._healthy(step, say)

    def _host_back(self, step: HostBack, say: Say) -> None:
        last, seen_down, away = self._sent.boots[step.target.ref], False, 0.0
        limit = step.timeout
        self._context.leave(step.target)
        for waited in polling(limit, fastest=0.1):
            facts = self._context.read(step.target, "runtime.connectionState", "runtime.bootTime")
            state, boot = facts.get("runtime.connectionState"), facts.get("runtime.bootTime")
            if state != "connected":
                seen_down, away = True, waited
            if state == "connected" and boot:
                booted = datetime.fromisoformat(boot)
                newer = booted > last.before + BOOT_JITTER
                maybe = booted != last.before or seen_down  # the same reading is the same boot
                if newer or (maybe and self._started_since(step.target, last.sent, seen_down and booted > last.before)):
                    self._sent.rebooted.add(step.target.ref)
                    return
            never = step.unless_never_down
            if never is not None and waited - away >= max(never, RECONNECTED if seen_down else 0.0):
                return  # an earlier attempt was cut off before it sent the reboot
            unresolved = step.target.ref in self._sent.unanswered and not seen_down
            if unresolved and waited >= UNANSWERED:
                raise DidNotReboot(
                    f"{step.target.name} did not go down within {UNANSWERED:.0f} s; the order to reboot was sent, but "
                    "its answer was lost",
                    "resume the run: it looks whether the host has rebooted, and else reboots it",
                )
            say(f"host is {state}, {waited:.0f} of {min(UNANSWERED, limit) if unresolved else limit:.0f} s")
        raise HostUnhealthy(
            f"{step.target.name} did not come back within {limit:.0f} s (boot time still "
            f"{last.before.isoformat(timespec='seconds')})",
            "look at its console; no further host was started",
            rule="host.not-back",
        )

    def _started_since(self, host: Target, sent: datetime, unless_read: bool) -> bool:
        """Return whether a host has been up for less time than has passed since the command left.

        Boot times separate two boots within a minute only where the clocks of the host and of this machine agree; the
        uptime needs no clock. `unless_read` is returned where that cannot be read.
        """
        passed = (datetime.now(UTC) - sent).total_seconds()
        try:
            uptime = self._context.vcenter.call(host.ref, "RetrieveHardwareUptime")
        except VsphereAiError:
            return unless_read
        return uptime + 1 <= passed if isinstance(uptime, int) else unless_read  # it is cut to whole seconds

    def _gpus_answer(self, step: GpusAnswer, say: Say) -> None:
        last, disagreed = "no answer", 0
        for waited in polling(step.timeout, fastest=0.5):
            try:
                shows = self._context.read(step.target, "config.graphicsInfo")
                passed = health.shown_gpus(shows) - health.shown_gpus(shows, passed_through=False)
                expected = self._context.gpus.get(step.target.ref, 0) - passed
                if passed and expected <= 0:
                    return
                with self._context.shell(step.target) as shell:
                    answer = shell.run(health.MODES_COMMAND, COMMAND_TIMEOUT)
                listed = health.modes(answer.status, answer.stdout)
                last = f"nvidia-smi lists {len(listed)} of {expected} GPUs"
                if len(listed) == expected:
                    before = self._context.found.get(step.target.ref)
                    wrong = health.changed_modes(listed, before) if before else ()
                    if not wrong:
                        return
                    last, disagreed = "; ".join(wrong), disagreed + 1
                    if disagreed >= MOST_DISAGREED:  # a mode does not change by itself
                        break
            except (Unreachable, HostUnhealthy) as error:
                last = error.message
            say(f"{last}, {waited:.0f} of {step.timeout:.0f} s")
        limit = "" if disagreed >= MOST_DISAGREED else f", {step.timeout:.0f} s after it was back"
        raise HostUnhealthy(f"{step.target.name}: {last}{limit}", "look at the host; no further host was started")

    def _as_planned(self, step: AsPlanned, say: Say) -> None:
        limit = READ_BACK_HOST if step.target.kind == "host" else READ_BACK_VM
        left: tuple[PlanItem, ...] = ()
        begun = step.target.kind == "host" and self._context.is_taken(step.target)
        looks = polling if begun else self._context.looking
        for waited in looks(limit, fastest=0.5, late=0.3):  # each look reads all of it
            left = self._context.left(step.target, step.but_last)
            if not left:
                return
            say(f"not yet as planned, {waited:.0f} of {limit} s")
        raise NotVerified(
            f"{step.target.name} was changed, but reading back for {limit} s shows: {describe_left(left)}",
            "nothing further was done to it; plan again to see what is left",
        )

    def _healthy(self, step: Healthy, say: Say) -> None:
        target = step.target
        wrong: tuple[str, ...] = ()
        alarms: tuple[health.Alarm, ...] = ()
        before = self._context.found.get(target.ref, health.HostBefore(target, self._context.gpus.get(target.ref, 0)))
        for waited in self._context.looking(step.timeout, fastest=0.2, after=GATE):
            now = self._context.read(target, *health.HOST_PATHS)
            wrong = health.reasons(now, before, maintenance=step.maintenance)
            wrong += health.missing_vms(step.vms, self._vms(step), target.ref)
            alarms = health.new_alarms(now, before)
            if not wrong and not alarms:
                return
            say(f"{'; '.join([*wrong, *(['a red alarm'] if alarms else [])])}, {waited:.0f} of {step.timeout:.0f} s")
        wrong += tuple(f"the alarm '{name}' is red" for name in self._names(alarms))
        raise HostUnhealthy(
            f"{target.name} is in service but not healthy within {step.timeout:.0f} s: {'; '.join(wrong)}",
            "look at the host in the vSphere Client; no further host was started",
        )

    def all_gpus(self, host: Target, limit: float) -> None:
        """Wait until vCenter shows all GPUs of a host as before; `HostUnhealthy` after `limit` seconds."""
        before, seen = self._context.found.get(host.ref), 0
        for _ in polling(limit, fastest=0.5):
            seen = health.shown_gpus(self._context.read(host, "config.graphicsInfo")) if before else 0
            if before is None or seen == before.gpus:
                return
        raise HostUnhealthy(
            f"{host.name} shows {seen} of {before.gpus if before else 0} GPUs, so it does not leave maintenance mode",
            "look at the host, then use resume; no further host was started",
            rule="host.gpus-missing",
        )

    def _vms(self, step: Healthy) -> Mapping[str, Facts]:
        refs = [vm.ref for vm in step.vms]
        return self._context.vcenter.read_objects(refs, {"VirtualMachine": health.VM_PATHS}) if refs else {}

    def _names(self, alarms: Sequence[health.Alarm]) -> list[str]:
        """Return how the vSphere Client calls these alarms; their references where that cannot be read."""
        refs = sorted({a.definition for a in alarms})
        try:
            found = self._context.vcenter.read_objects(refs, {"Alarm": ("info.name",)}) if refs else {}
        except VsphereAiError:
            found = {}
        return [str(found[ref].get("info.name", ref)) if ref in found else ref for ref in refs]


def describe_left(items: tuple[PlanItem, ...]) -> str:
    """Say in one line what reading back found different from the plan."""
    lines = [f"{i.kind} {f.name} is {shown(f.before)}, wanted {shown(f.after)}" for i in items for f in i.fields]
    return "; ".join(lines) or "a state that has to be made again"
