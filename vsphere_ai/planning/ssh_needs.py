"""Hosts on which a plan needs SSH, and what vCenter and the inventory say of it: none of it takes a connection."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.finding import Finding, Problem
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import AsPlanned, GpusAnswer, Reboot, Shell, Step
from vsphere_ai.planning.planner import NOT_CONNECTED, Plan
from vsphere_ai.planning.scheduling.step_order import PlannedStep
from vsphere_ai.planning.scheduling.windows import SSH_SERVICE

RULES = ("ssh.section", "ssh.host-key", "ssh.lockdown", "ssh.service", "ssh.stopped", "ssh.denied", "ssh.unreachable")
"""The rules of problems with SSH."""


@dataclass(frozen=True)
class SshNeed:
    """A host on which steps of a plan use SSH.

    `first` is the summary of the first of them; `after`: some come after a reboot.
    """

    host: Target
    first: str
    after: bool


def needs(plan: Plan, probing: Collection[Target]) -> tuple[SshNeed, ...]:
    """Return the hosts that need SSH, by name. `probing` are those that are read back with commands.

    A host that has a problem with SSH, or with its connection to vCenter, already is left out.
    """
    refused = {p.target for p in plan.problems if p.rule in (*RULES, NOT_CONNECTED)}
    own: dict[Target, list[PlannedStep]] = {}
    for planned in plan.steps:
        if planned.step.target.kind == "host" and planned.step.target not in refused:
            own.setdefault(planned.step.target, []).append(planned)
    found = (_need(host, steps, reads=host in probing) for host, steps in sorted(own.items()))
    return tuple(need for need in found if need is not None)


def _need(host: Target, steps: Sequence[PlannedStep], *, reads: bool) -> SshNeed | None:
    rebooted, after, first = False, False, ""
    for planned in steps:
        if _uses_ssh(planned.step, reads=reads):
            first = first or planned.step.summary
            after = after or rebooted
        rebooted = rebooted or isinstance(planned.step, Reboot)
    return SshNeed(host, first, after) if first else None


def _uses_ssh(step: Step, *, reads: bool) -> bool:
    reboots = isinstance(step, Reboot) and step.via == "ssh"
    return reboots or isinstance(step, Shell | GpusAnswer) or (reads and isinstance(step, AsPlanned))


def no_section(need: SshNeed) -> Problem:
    """Return the problem of a host that needs SSH, for an inventory that does not say how to reach it."""
    message = f"the inventory has no ssh: section, and this step needs SSH: {need.first}"
    help_ = "add ssh: {username: ..., password: ..., known_hosts: ...} to the inventory"
    return Finding.problem(need.host, "ssh.section", message, help_)


def service_problems(need: SshNeed, facts: Facts) -> Iterator[Problem]:
    """Yield why SSH will not run when it is needed, for an inventory with ``start_service: never``."""
    service = _service(facts)
    if service is None:
        return
    where = "in the vSphere Client under Configure > Services, or let apply start it: ssh: {start_service: apply}"
    never = "and the inventory says start_service: never"
    if not service.get("running"):
        message = f"{SSH_SERVICE} is stopped, {never}; needed for: {need.first}"
        yield Finding.problem(need.host, "ssh.service", message, f"start {SSH_SERVICE} {where}")
    if need.after and service.get("policy") != "on":
        message = f"{SSH_SERVICE} will be stopped after the reboot (policy {service.get('policy')}), {never}"
        policy = f"set the policy of {SSH_SERVICE} to 'Start and stop with host'"
        yield Finding.problem(need.host, "ssh.service", message, f"{policy} {where}")


def without_ssh_problems(plan: Plan) -> Plan:
    """Return a plan as it is where every host lets us in."""
    return replace(plan, problems=tuple(p for p in plan.problems if p.rule not in RULES))


def stays_stopped(plan: Plan, estate: Estate) -> tuple[Target, ...]:
    """Return the hosts whose SSH runs now and will not after the reboot of a run that never starts it."""
    found = ((host, _service(estate[host.ref])) for host in plan.impact.reboots)
    return tuple(host for host, s in found if s is not None and s.get("running") and s.get("policy") != "on")


def _service(facts: Facts) -> dict[str, object] | None:
    services = facts.get("config.service.service") or ()
    return next((dict(s) for s in services if s.get("key") == SSH_SERVICE), None)
