"""What each step does to vCenter and to hosts; every wait has a deadline, nothing is believed that was not read."""

from __future__ import annotations

import re

from vsphere_ai.deeds.changes import Changes
from vsphere_ai.deeds.lifecycle import Lifecycles
from vsphere_ai.deeds.means import Means, Say, polling
from vsphere_ai.deeds.waits import Waits
from vsphere_ai.errors import Conflict, OutcomeUnknown, Unreachable, VsphereAiError
from vsphere_ai.state import Target
from vsphere_ai.steps import Invoke, Lifecycle, Reconfigure, Shell, Step, Wait

DOUBT = 15.0  # seconds a lost call is given to show its effect


class Deeds:
    """Carries out steps one at a time, from several threads."""

    def __init__(self, means: Means) -> None:
        self._means = means
        self._changes, self._lifecycles, self._waits = Changes(means), Lifecycles(means), Waits(means)

    def before(self, step: Step) -> str:
        """Return what has to be remembered about a target before a step: the boot time before a reboot."""
        if not (isinstance(step, Lifecycle) and step.action == "reboot"):
            return ""
        booted = str(self._means.read(step.target, "runtime.bootTime").get("runtime.bootTime"))
        self._waits.remember_boot(step.target, booted)
        return booted

    def remember_boot(self, host: Target, booted: str) -> None:
        """Take over the boot time before a reboot from the journal of an earlier attempt."""
        self._waits.remember_boot(host, booted)

    def do(self, step: Step, say: Say) -> None:
        """Do one step; returns when its effect was accepted (or, for a wait, seen). `say` gets progress."""
        try:
            self._do_surely(step, say)
        except VsphereAiError as error:
            # the API names objects by reference, operators by name
            whole = rf"{re.escape(step.target.ref)}(?!\d)"  # vm-1 is not the beginning of vm-12
            error.message = re.sub(whole, lambda _: step.target.name, error.message)
            error.args = (error.message,)
            raise

    def _do_surely(self, step: Step, say: Say) -> None:
        """Do a step; when its answer is lost, look what happened, and repeat it only where that cannot do it twice."""
        try:
            self._do(step, say)
        except OutcomeUnknown as lost:
            say("the answer was lost, looking what happened")
            for _ in polling(DOUBT, fastest=0.5):
                if self._took_effect(step):
                    return
            if not _repeatable(step):
                raise
            try:
                self._do(step, say)
            except Conflict:  # the configuration did change meanwhile: by the call whose answer was lost?
                if not self._took_effect(step):
                    raise lost from None

    def _took_effect(self, step: Step) -> bool:
        """Read back whether the effect of one step is there."""
        try:
            match step:
                case Lifecycle(action="enter-maintenance" | "exit-maintenance" as action):
                    return self._means.in_maintenance(step.target) == (action == "enter-maintenance")
                case Lifecycle(action="power-off" | "power-on" as action):
                    wanted = "poweredOff" if action == "power-off" else "poweredOn"
                    return bool(self._means.read(step.target, "runtime.powerState").get("runtime.powerState") == wanted)
                case Reconfigure() | Shell() | Invoke():
                    return not any(item.kind in step.kinds for item in self._means.left(step.target))
        except (Unreachable, OutcomeUnknown):
            pass  # still in the dark; asked again until the time is over
        return False

    def _do(self, step: Step, say: Say) -> None:
        match step:
            case Reconfigure():
                self._changes.reconfigure(step, say)
            case Invoke():
                self._changes.invoke(step, say)
            case Shell():
                self._changes.shell(step)
            case Wait():
                self._waits.do(step, say)
            case Lifecycle():
                self._lifecycles.do(step, say)

    def host_of(self, vm: Target) -> str | None:
        """Return the reference of the host a VM was on when this was planned."""
        return self._means.hosts.get(vm.ref)

    def switch_ssh(self, host: Target, *, running: bool) -> None:
        """Start or stop TSM-SSH; its policy stays as it is. Nothing is sent when it is as wanted already."""
        self._lifecycles.switch_ssh(host, running=running)

    def power_on(self, vm: Target, say: Say) -> None:
        """Power a VM on, on the host it was on."""
        self._lifecycles.power_on(vm, say)


def _repeatable(step: Step) -> bool:
    """Tell whether sending a step again cannot do it twice: states are set again, a reconfigure has its version."""
    if isinstance(step, Lifecycle):
        return step.action != "reboot"
    # nvidia-smi's verbs that make and destroy instances are no states; setting the mode is one
    return not isinstance(step, Shell) or "-mig" in step.argv
