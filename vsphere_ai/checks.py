"""Asks vCenter's own read-only checkers what they think of the planned changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

from vsphere_ai.deeds.changes import config_spec
from vsphere_ai.errors import VsphereAiError
from vsphere_ai.facts import Estate
from vsphere_ai.late import is_late
from vsphere_ai.plan import Answer, Plan
from vsphere_ai.state import Target
from vsphere_ai.steps import Lifecycle, Reconfigure

TIMEOUT = 60
MOST = 64  # each check is a task; a very large plan asks for its first VMs only, and says so


class Checker(Protocol):
    """What is needed of a vCenter (see `connect.vcenter.VCenter`)."""

    def service(self, name: str) -> str | None: ...  # noqa: D102
    def run_task(  # noqa: D102
        self, ref: str, method: str, args: Any = None, *, timeout: float, progress: Any = None
    ) -> Any: ...


def with_answers(plan: Plan, vcenter: Checker, estate: Estate) -> Plan:
    """Return the plan with the answers of CheckVmConfig_Task and CheckPowerOn_Task (API 6.7 and later).

    They judge by the state of now: for a VM whose host this plan changes, power-on is not asked, because the answer
    would be about hardware that is not there yet.
    """
    checker = vcenter.service("vmCompatibilityChecker")
    if checker is None or not plan.steps:
        return plan
    answers: list[Answer] = []
    touched = {p.step.target.ref for p in plan.steps if p.step.target.kind == "host"}
    for planned in plan.steps:
        step, target = planned.step, planned.step.target
        host = estate.host_of(target.ref) if target.kind == "vm" else None
        if host is None:
            continue
        if isinstance(step, Reconfigure) and is_late((step.spec, step.device_changes)):
            answers.append(Answer(target, "CheckVmConfig", note="not asked: it needs what this plan makes first"))
        elif isinstance(step, Reconfigure):
            args = {"spec": config_spec(step, None), "vm": target.ref, "host": host.ref}
            answers.append(_ask(vcenter, checker, target, "CheckVmConfig_Task", args))
        elif isinstance(step, Lifecycle) and step.action == "power-on" and host.ref not in touched:
            answers.append(_ask(vcenter, checker, target, "CheckPowerOn_Task", {"vm": target.ref, "host": host.ref}))
        if len(answers) >= MOST:
            answers.append(Answer(target, "", note=f"only the first {MOST} checks were asked"))
            break
    return replace(plan, answers=tuple(answers))


def _ask(vcenter: Checker, checker: str, target: Target, method: str, args: dict[str, Any]) -> Answer:
    name = method.removesuffix("_Task")
    try:
        results = vcenter.run_task(checker, method, args, timeout=TIMEOUT) or ()
    except VsphereAiError as error:
        return Answer(target, name, note=f"could not be asked: {error.message}")
    faults = tuple(_text(e) for r in results for e in r.get("error", ()))
    return Answer(target, name, faults, tuple(_text(w) for r in results for w in r.get("warning", ())))


def _text(fault: Any) -> str:
    if not isinstance(fault, dict):
        return str(fault)
    return str(fault.get("msg") or fault.get("localizedMessage") or fault.get("reason") or fault.get("_typeName"))
