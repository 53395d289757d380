"""What changes a configuration: one ReconfigVM_Task per VM, methods of managers, commands on hosts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from vsphere_ai.errors import ConcurrentChange, Conflict, StepFailed
from vsphere_ai.execution.actions import conflicts
from vsphere_ai.execution.actions.config_version import Versions, has_version
from vsphere_ai.execution.actions.context import COMMAND_TIMEOUT, Context, Say
from vsphere_ai.execution.actions.merge import Merging
from vsphere_ai.execution.actions.resolve import looked_up
from vsphere_ai.model.steps import Invoke, Reconfigure, Shell
from vsphere_ai.security import redaction

_AGAIN = "somebody changed it: look at it, then plan again"
MOST_ATTEMPTS = 4
"""How often a reconfiguration is sent when others change the same VM at the same moment."""
WHOLE = {"UpdateGraphicsConfig": "config.graphicsConfig"}
"""Methods that replace all there is: what they replace has to be what was planned with."""


class Changes:
    """Sends only what was planned against what is there now."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._versions = Versions(context, MOST_ATTEMPTS)
        self._merging = Merging(context)

    def invoke(self, step: Invoke, say: Say) -> None:
        """Call a method of the target or of one of its managers; a task is waited for."""
        vcenter = self._context.vcenter
        ref = vcenter.resolve_path(looked_up(step.on, vcenter) or step.target.ref, step.path)
        if has_version(step):
            self._versions.send(step, ref, say)
            return
        args = looked_up(step.args, vcenter)
        if self._is_there(step, args):
            return
        if step.method.endswith("_Task"):
            self._context.task(replace(step.target, ref=ref), step.method, args, say)
            return
        prepared = self._merging.prepared(step.target, ref, step.method, args)
        if prepared is not None:
            vcenter.call(ref, step.method, prepared)

    def _is_there(self, step: Invoke, args: Mapping[str, Any]) -> bool:
        """Tell whether what replaces all there is was set since planning; `Conflict` when something else was."""
        path, planned = WHOLE.get(step.method, ""), self._context.planned.get(step.target.ref)
        if not path or planned is None or path not in planned.properties:
            return False
        now = self._context.read(step.target, path).get(path)
        if now == planned.get(path):
            return False
        if all(conflicts.holds(now, value) for value in args.values()):
            return True  # by the call whose answer was lost
        raise Conflict(
            f"{step.target.name}: somebody changed {path.removeprefix('config.')} since this was planned",
            _AGAIN,
            rule="object.changed",
        )

    def reconfigure(self, step: Reconfigure, say: Say) -> None:
        """Send one ReconfigVM_Task; `Conflict` when what it is about is not what it was when this was planned.

        Each time vCenter refuses because somebody changed the VM after it was read, it is read and compared again.
        """
        for _ in range(MOST_ATTEMPTS):
            spec = looked_up(config_spec(step, self._version(step)), self._context.vcenter)
            try:
                self._context.task(step.target, "ReconfigVM_Task", {"spec": spec}, say)
            except ConcurrentChange:
                say("somebody else changed the VM at the same moment; looking what is different")
            else:
                return
        raise Conflict(
            f"{step.target.name}: somebody else keeps changing it; {MOST_ATTEMPTS} times refused",
            _AGAIN,
            rule="object.keeps-changing",
        )

    def _version(self, step: Reconfigure) -> str | None:
        """Return the version a change is for: sent again after a lost answer, it cannot be done twice."""
        now = self._context.read(step.target, "config.changeVersion", *conflicts.paths(step))
        planned = self._context.planned.get(step.target.ref)
        changed = conflicts.differences(step, planned, now) if planned is not None else ()
        if changed:
            raise Conflict(
                f"{step.target.name}: somebody changed it since this was planned: {'; '.join(changed)}",
                _AGAIN,
                rule="object.changed",
            )
        present = {d["key"]: d for d in now.get(conflicts.DEVICES) or ()}
        known = {d["key"]: d for d in (planned.get(conflicts.DEVICES) if planned is not None else None) or ()}
        for change in step.device_changes:
            key = change["device"].get("key")
            # an edit may change the MAC address, so what is sent does not say which device was meant
            if change["operation"] != "add" and not _same_device(present.get(key), known.get(key, change["device"])):
                raise Conflict(
                    f"{step.target.name}: device {key} is not what it was when this was planned",
                    _AGAIN,
                    rule="object.changed",
                )
        version: str | None = now.get("config.changeVersion")
        return version

    def shell(self, step: Shell) -> None:
        """Run one command; `StepFailed` with its words when it ends badly."""
        with self._context.shell(step.target) as shell:
            answer = shell.run(step.argv, COMMAND_TIMEOUT, changes=True)
        if answer.status != 0:
            text = " / ".join(
                line for line in redaction.untrusted(answer.stdout + answer.stderr).splitlines() if line.strip()
            )
            raise StepFailed(
                f"{' '.join(step.argv)} ended with {answer.status}: {text}",
                "the state of the GPUs was read again; plan shows what is left to do",
            )


def config_spec(step: Reconfigure, version: str | None) -> dict[str, Any]:
    """Build the one ConfigSpec of a VM. `version` guards against a change between reading and sending."""
    spec: dict[str, Any] = {"_typeName": "VirtualMachineConfigSpec", **step.spec}
    if version:
        spec["changeVersion"] = version
    if step.device_changes:
        spec["deviceChange"] = step.device_changes
    if step.extra_config:
        spec["extraConfig"] = tuple({"_typeName": "OptionValue", "key": k, "value": v} for k, v in step.extra_config)
    return spec


def _same_device(present: Mapping[str, Any] | None, meant: Mapping[str, Any]) -> bool:
    """Compare what identifies a device; an edit changes other fields, and the server fills in more of its own."""
    return present is not None and conflicts.identity(present) == conflicts.identity(meant)
