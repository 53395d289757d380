"""Changes of a configuration: one ReconfigVM_Task per VM, methods of managers, commands on hosts."""

from __future__ import annotations

from dataclasses import replace

from vsphere_ai.errors import ConcurrentChange, StepFailed
from vsphere_ai.execution.actions import conflicts
from vsphere_ai.execution.actions.config_version import Versions, has_version
from vsphere_ai.execution.actions.context import COMMAND_TIMEOUT, Context, Say
from vsphere_ai.execution.actions.merge import Merging
from vsphere_ai.execution.actions.resolve import looked_up
from vsphere_ai.model.plain import Plain
from vsphere_ai.model.steps import Invoke, Reconfigure, Shell
from vsphere_ai.security import redaction

MOST_ATTEMPTS = 4
"""How often a reconfiguration is sent when others change the same VM at the same moment."""


class ConfigureChanges:
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
        if step.method.endswith("_Task"):
            self._context.task(replace(step.target, ref=ref), step.method, args, say)
            return
        prepared = self._merging.prepared(step.target, ref, step.method, args)
        if prepared is not None:
            vcenter.call(ref, step.method, prepared)

    def reconfigure(self, step: Reconfigure, say: Say) -> None:
        """Send one ReconfigVM_Task; `Conflict` when what it is about is not as it was at planning.

        Each time vCenter refuses because someone else changed the VM after it was read, it is read and compared again.
        """
        for _ in range(MOST_ATTEMPTS):
            spec = looked_up(config_spec(step, self._version(step)), self._context.vcenter)
            try:
                self._context.task(step.target, "ReconfigVM_Task", {"spec": spec}, say)
            except ConcurrentChange:
                say("changed by someone else at the same moment; comparing again")
            else:
                return
        raise conflicts.keeps_changing(step.target.name, MOST_ATTEMPTS)

    def _version(self, step: Reconfigure) -> str | None:
        """Return the version a change is for: sent again after a lost response, it cannot be done twice."""
        now = self._context.read(step.target, "config.changeVersion", *conflicts.paths(step))
        planned = self._context.planned.get(step.target.ref)
        if planned is not None:
            conflicts.refuse(step.target.name, conflicts.differences(step, planned, now))
        present = {d["key"]: d for d in now.get(conflicts.DEVICES) or ()}
        known = {d["key"]: d for d in (planned.get(conflicts.DEVICES) if planned is not None else None) or ()}
        for change in step.device_changes:
            key, there = change["device"].get("key"), present.get(change["device"].get("key"))
            # an edit may change the MAC address, so what is sent does not say which device was meant
            meant = conflicts.identity(known.get(key) or change["device"])
            if change["operation"] != "add" and (there is None or conflicts.identity(there) != meant):
                raise conflicts.changed(f"{step.target.name}: device {key} is not what it was at planning")
        version: str | None = now.get("config.changeVersion")
        return version

    def shell(self, step: Shell) -> None:
        """Run one command; `StepFailed` with its output when it fails."""
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


def config_spec(step: Reconfigure, version: str | None) -> dict[str, Plain]:
    """Build the one ConfigSpec of a VM. `version` guards against a change between reading and sending."""
    spec: dict[str, Plain] = {"_typeName": "VirtualMachineConfigSpec", **step.spec}
    if version:
        spec["changeVersion"] = version
    if step.device_changes:
        spec["deviceChange"] = step.device_changes
    if step.extra_config:
        spec["extraConfig"] = tuple({"_typeName": "OptionValue", "key": k, "value": v} for k, v in step.extra_config)
    return spec
