"""What is waited for: a host that boots, GPUs that answer, a target that is as planned."""

from __future__ import annotations

from datetime import datetime, timedelta

from vsphere_ai.deeds.means import COMMAND_TIMEOUT, Means, Say, polling
from vsphere_ai.errors import HostUnhealthy, NotVerified, Unreachable
from vsphere_ai.gpu.nvidia_smi import QUERY_GPUS, parse_gpus
from vsphere_ai.plan import Item
from vsphere_ai.report.values import shown
from vsphere_ai.state import Target
from vsphere_ai.steps import Wait

BOOT_JITTER = timedelta(seconds=60)  # bootTime is computed from the uptime and moves by seconds between reads
READ_BACK_HOST, READ_BACK_VM = 90, 20  # seconds; a host's switches and devices lag behind its connection


class Waits:
    """Every wait has a deadline; remembers only what a reboot has to be compared with."""

    def __init__(self, means: Means) -> None:
        self._means = means
        self._booted: dict[str, datetime] = {}

    def remember_boot(self, host: Target, booted: str) -> None:
        """Take the boot time before a reboot, from a reading now or from the journal of an earlier attempt."""
        self._booted[host.ref] = datetime.fromisoformat(booted)

    def do(self, step: Wait, say: Say) -> None:
        """Wait until it is seen; `HostUnhealthy` or `NotVerified` when that takes too long."""
        match step.until:
            case "host-back":
                self._host_back(step, say)
            case "gpus-answer":
                self._gpus_answer(step, say)
            case "as-planned":
                self._as_planned(step, say)

    def _host_back(self, step: Wait, say: Say) -> None:
        before, seen_down = self._booted[step.target.ref], False
        limit = float(step.options["timeout"])
        for waited in polling(limit, fastest=0.1):
            facts = self._means.read(step.target, "runtime.connectionState", "runtime.bootTime")
            state, boot = facts.get("runtime.connectionState"), facts.get("runtime.bootTime")
            seen_down = seen_down or state != "connected"
            if state == "connected" and boot:
                booted = datetime.fromisoformat(boot)
                if booted > before + BOOT_JITTER or (seen_down and booted > before):
                    return
            never = float(step.options.get("unless_never_down", limit))
            if waited >= never and not seen_down:
                return  # an earlier attempt was cut off before it sent the reboot
            say(f"host is {state}, {waited:.0f} s")
        raise HostUnhealthy(
            f"{step.target.name} did not come back within {limit:.0f} s (boot time still "
            f"{before.isoformat(timespec='seconds')})",
            "look at its console; no further host was started",
        )

    def _gpus_answer(self, step: Wait, say: Say) -> None:
        expected, last = self._means.gpus.get(step.target.ref, 0), "no answer"
        for waited in polling(float(step.options["timeout"]), fastest=0.5):
            try:
                with self._means.shell(step.target) as shell:
                    answer = shell.run(QUERY_GPUS, COMMAND_TIMEOUT)
                seen = len(parse_gpus(answer.status, answer.stdout))
                if seen == expected:
                    return
                last = f"nvidia-smi lists {seen} of {expected} GPUs"
            except (Unreachable, HostUnhealthy) as error:
                last = error.message
            say(f"{last}, {waited:.0f} s")
        raise HostUnhealthy(f"{step.target.name}: {last}", "look at the host; no further host was started")

    def _as_planned(self, step: Wait, say: Say) -> None:
        limit = READ_BACK_HOST if step.target.kind == "host" else READ_BACK_VM
        left: tuple[Item, ...] = ()
        for waited in polling(limit, fastest=0.5):
            left = self._means.left(step.target)
            if not left:
                return
            say(f"not yet as planned, {waited:.0f} s")
        raise NotVerified(
            f"{step.target.name} was changed, but reading back shows: {describe_left(left)}",
            "nothing further was done to it; plan again to see what is left",
        )


def describe_left(items: tuple[Item, ...]) -> str:
    """Say in one line what reading back found different from the plan."""
    lines = [f"{i.kind} {f.name} is {shown(f.before)}, wanted {shown(f.after)}" for i in items for f in i.fields]
    return "; ".join(lines) or "a state that has to be made again"
