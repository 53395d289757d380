"""What changes a configuration: one ReconfigVM_Task per VM, methods of managers, commands on hosts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vsphere_ai.deeds.means import COMMAND_TIMEOUT, Means, Say
from vsphere_ai.errors import Conflict, StepFailed
from vsphere_ai.steps import Invoke, Reconfigure, Shell


class Changes:
    """Remembers the version of a VM it first meant to change, so that sending twice cannot change twice."""

    def __init__(self, means: Means) -> None:
        self._means = means
        self._versions: dict[int, str | None] = {}

    def invoke(self, step: Invoke, say: Say) -> None:
        """Call a method of the target or of one of its managers; a task is waited for."""
        if step.method.endswith("_Task"):
            self._means.task(step.target, step.method, step.args, say)
            return
        ref = self._means.vcenter.resolve_path(step.target.ref, step.path)
        self._means.vcenter.call(ref, step.method, step.args)

    def reconfigure(self, step: Reconfigure, say: Say) -> None:
        """Send one ReconfigVM_Task; `Conflict` when a device it is about is not what it was."""
        now = self._means.read(step.target, "config.changeVersion", "config.hardware.device")
        # when this is sent a second time, the version of the first time keeps it from being done twice
        version = self._versions.setdefault(id(step), now.get("config.changeVersion"))
        present = {d["key"]: d for d in now.get("config.hardware.device", ())}
        for change in step.device_changes:
            key = change["device"]["key"]
            if change["operation"] != "add" and not _same_device(present.get(key), change):
                raise Conflict(
                    f"{step.target.name}: device {key} is not what it was when this was planned",
                    "somebody changed the VM: plan again",
                )
        self._means.task(step.target, "ReconfigVM_Task", {"spec": config_spec(step, version)}, say)

    def shell(self, step: Shell) -> None:
        """Run one command; `StepFailed` with its words when it ends badly."""
        with self._means.shell(step.target) as shell:
            answer = shell.run(step.argv, COMMAND_TIMEOUT, changes=True)
        if answer.status != 0:
            text = " / ".join(line for line in (answer.stdout + answer.stderr).splitlines() if line.strip())
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


def _same_device(present: Mapping[str, Any] | None, change: Mapping[str, Any]) -> bool:
    """Compare what identifies a device; an edit changes other fields, and the server fills in more of its own."""
    return present is not None and _identity(present) == _identity(change["device"])


def _identity(device: Mapping[str, Any]) -> tuple[Any, ...]:
    backing = device.get("backing") or {}
    port = backing.get("port") or {}
    return (
        device.get("_typeName"),
        device.get("macAddress"),
        backing.get("_typeName"),
        backing.get("vgpu"),
        port.get("portgroupKey"),
    )
