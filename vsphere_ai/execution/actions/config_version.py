"""Changes of objects that count their configurations (distributed switches, port groups), sent for the present one."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace

from vsphere_ai.errors import ConcurrentChange, Conflict
from vsphere_ai.execution.actions.conflicts import keeps_changing, refuse
from vsphere_ai.execution.actions.context import Context, Say
from vsphere_ai.execution.actions.resolve import looked_up
from vsphere_ai.model.deferred import is_deferred
from vsphere_ai.model.steps import Invoke
from vsphere_ai.model.three_way import compare

VERSION = "configVersion"
_PATH = f"config.{VERSION}"


def has_version(step: Invoke) -> bool:
    """Return whether a step is for one version of a configuration: the server refuses it for any other."""
    spec = step.args.get("spec")
    return isinstance(spec, Mapping) and VERSION in spec


class Versions:
    """Sends a change for the present version, where nothing that it is about has changed since planning.

    Other settings of the same object may have: several hosts of one plan join the same switch, each makes a version.
    """

    def __init__(self, context: Context, attempts: int) -> None:
        self._context, self._attempts = context, attempts
        self._locks: dict[str, threading.Lock] = {}

    def send(self, step: Invoke, ref: str, say: Say) -> None:
        """Send until the version was the present one; `Conflict` when someone else changed what this is about."""
        with self._locks.setdefault(ref, threading.Lock()):  # steps of one plan do not refuse each other
            for _ in range(self._attempts):
                args = looked_up(step.args, self._context.vcenter)
                spec = {**args["spec"], VERSION: self._version(step, ref)}
                try:
                    self._context.task(replace(step.target, ref=ref), step.method, {**args, "spec": spec}, say)
                except ConcurrentChange:
                    say("changed by someone else at the same moment; comparing again")
                else:
                    return
        raise keeps_changing(step.target.name, self._attempts)

    def _version(self, step: Invoke, ref: str) -> str:
        # what is looked up is made, or changed, by an earlier step of the same plan
        spec = {f"config.{n}": v for n, v in step.args["spec"].items() if n != VERSION and not is_deferred(v)}
        paths = (_PATH, *(f"config.{name}" for name in step.args["spec"] if name != VERSION))
        now = self._context.vcenter.read_objects([ref], {ref.partition(":")[0]: paths}).get(ref)
        if now is None:
            raise Conflict(f"{step.target.name}: {ref} is gone from the inventory", "plan again", rule="object.gone")
        planned = self._context.planned.get(ref)
        if planned is not None:
            refuse(planned.name, (p for p in compare(planned.properties, now.properties, spec) if not p.unchanged))
        return str(now.get(_PATH, ""))
