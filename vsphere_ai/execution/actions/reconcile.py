"""Reconciliation of a call whose response was lost: running tasks are waited for, and the effect is read."""

from __future__ import annotations

from collections.abc import Callable

from vsphere_ai.errors import Conflict, Denied, OutcomeUnknown, OutOfSight, Unreachable
from vsphere_ai.execution.actions.context import Context, Say, polling
from vsphere_ai.model.deferred import is_deferred
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import Clone, Invoke, Step

LONGEST = 600.0  # seconds that tasks which run on the target, or its host's absence, can prolong the search
_UNDER_WAY = ("queued", "running")
_STATEFUL = ("HostSystem", "VirtualMachine")


class Reconciler:
    """Reads until it is sure; `seen` reads whether the effect of a step is there."""

    def __init__(self, context: Context, seen: Callable[[Step], bool]) -> None:
        self._context, self._seen = context, seen

    def resolve(self, step: Step, lost: OutcomeUnknown, say: Say, calm: float) -> bool:
        """Return whether a step took effect after all.

        False once the target was without the effect, and without a task that might still bring it, for `calm` seconds.
        Raises `lost` when a task does not end, `OutOfSight` when vCenter cannot be asked.
        """
        say("response lost; checking whether the change took effect")
        quiet_since = looks = 0.0
        try:
            for waited in polling(max(LONGEST, calm), fastest=0.5, slowest=2.0, late=0.3):
                if self._seen(step):
                    return True
                try:
                    busy = self._busy(step, lost.task)
                except Conflict:  # the target is gone, which may be the effect
                    if self._seen(step):
                        return True
                    raise
                if busy:
                    say(f"{busy}, {waited:.0f} s")
                    quiet_since, looks = waited, 0
                    if lost.task and waited > calm:
                        break  # its time was over before
                    continue
                looks += 1
                if waited - quiet_since >= calm and looks > 1:
                    return False
        except Unreachable as error:
            raise OutOfSight(f"{lost.message}; {error.message}", _RESUME) from lost
        except Denied as error:
            raise OutcomeUnknown(f"{lost.message}; {error.message}", _RESUME, task=lost.task) from lost
        raise lost

    def _busy(self, step: Step, task: str) -> str:
        """Return what may still change the target, or what the step was sent to; in words, empty when nothing does."""
        # a VM that is to be made has no tasks, those of its source make it
        target = Target("vm", "its source", step.source) if isinstance(step, Clone) else step.target
        on = step.on if isinstance(step, Invoke) and not is_deferred(step.on) else ""
        connection = ("runtime.connectionState",) if target.ref.startswith(_STATEFUL) else ()
        facts = self._context.read(target, "recentTask", *connection)
        state = facts.get("runtime.connectionState") or "connected"
        if state != "connected":
            return f"{target.name} is {state}"  # what vCenter shows of it may be old
        sent_to = self._context.vcenter.read_objects([on], {on.partition(":")[0]: ("recentTask",)}) if on else {}
        recent = [ref for f in (facts, *sent_to.values()) for ref in map(str, f.get("recentTask") or ())]
        refs = list(dict.fromkeys([*([task] if task else []), *recent]))
        found = self._context.vcenter.read_objects(refs, {"Task": ("info.state",)}) if refs else {}
        running = [ref for ref, info in found.items() if info.get("info.state") in _UNDER_WAY]
        return f"{running[0].partition(':')[2]} is still running on {target.name}" if running else ""


_RESUME = "vsphere-ai resume looks at it again once vCenter answers."
