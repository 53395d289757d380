"""Services by which people get into a host, SSH and the ESXi Shell: whether they run, and when they start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal, Self

from vsphere_ai.model.estate.correction import Correction
from vsphere_ai.model.estate.host_corrections import ServiceStopped
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.finding import Problem
from vsphere_ai.model.plain import Plain, PlainObject, objects
from vsphere_ai.model.privilege import Duty
from vsphere_ai.model.state import Change, KindName, Settings, Target, setting
from vsphere_ai.model.steps import Step
from vsphere_ai.model.view import View
from vsphere_ai.resources._helpers.factories import invoke
from vsphere_ai.resources._helpers.ssh_use import uses_of_ssh
from vsphere_ai.resources.base import After, Form, Projection, Resource, StateExport, Traits
from vsphere_ai.resources.corrections import Corrects

Service = Literal["ssh", "shell"]
SSH: Service = "ssh"
KEYS: Mapping[Service, str] = {"ssh": "TSM-SSH", "shell": "TSM"}
"""Name in a playbook -> `HostService.key`."""
SERVICES, MANAGER = "config.service.service", "configManager.serviceSystem"


class ServiceSettings(Settings):
    """One service of a host. What is left out stays as it is."""

    running: bool | None = setting("Whether it runs.")
    policy: Literal["on", "off", "automatic"] | None = setting(
        "When it starts: with the host, by hand only, or with its firewall port."
    )


class HostServices(Corrects, Resource):
    """Starts and stops SSH and the ESXi Shell of a host, and sets when they start; it needs no maintenance mode.

    A run that needs SSH starts it and stops it again by itself (`ssh: {start_service: apply}` of the inventory).
    """

    kind = KindName("services")
    target = "host"
    shorthand = "services"
    keyed = True
    traits = Traits(
        properties={"HostSystem": (SERVICES,)},
        duties=(Duty("`services`", "hosts", ("StartService", "StopService", "UpdateServicePolicy")),),
        in_profile="services",
    )

    services: Mapping[Service, ServiceSettings] | None = setting(
        "`ssh` or `shell` -> its settings: `{ssh: {running: false, policy: off}}`."
    )

    @classmethod
    def correcting(cls, corrections: Sequence[Correction]) -> Plain:
        """Services that do not run, and do not start with the host."""
        stopped = {c.name for c in corrections if isinstance(c, ServiceStopped)}
        return {name: {"running": False, "policy": "off"} for name, key in KEYS.items() if key in stopped}

    @classmethod
    def observe(cls, facts: Facts, estate: Estate) -> Self | None:
        """Read the services that there are; None where vCenter does not show them."""
        if facts.get(SERVICES) is None:
            return None
        shown = {name: _service(facts, name) for name in KEYS}
        services = {
            name: ServiceSettings.model_construct(running=s.get("running"), policy=s.get("policy"))
            for name, s in shown.items()
            if s is not None
        }
        return cls.model_construct(services=services)

    def settle(self, target: Target, view: View) -> Self:
        """What is left out is not compared: whether SSH runs is for a run to change and to restore."""
        return self

    def problems(self, target: Target, view: View) -> Iterator[Problem]:
        """The services cannot be read, one is missing or fixed, or SSH is needed by the run that would switch it."""
        facts = view.facts(target.ref)
        if facts.get(SERVICES) is None:
            why = facts.unreadable.get(SERVICES, "vCenter does not show them")
            message = f"the services of this host cannot be read: {why}"
            yield self.problem(target, "unreadable", message, "System.Read on the host; a host that is connected")
            return
        for name, wanted in (self.services or {}).items():
            service = _service(facts, name)
            if service is None:
                message = f"this host has no service {KEYS[name]}"
                yield self.problem(target, "missing", message, f"leave {name} out")
            elif service.get("required") and (wanted.running is False or wanted.policy == "off"):
                message = f"ESXi does not allow {KEYS[name]} to be switched off here"
                yield self.problem(target, "required", message, f"leave running and policy of {name} out")
        ssh = (self.services or {}).get(SSH)
        if ssh is not None and ssh.running is not None and (users := tuple(uses_of_ssh(target, view))):
            message = f"the run itself needs SSH on this host, and restores it as it was: {', '.join(users)}"
            remedy = "set running of ssh in a playbook of its own, or leave it out here; its policy may stay"
            yield self.problem(target, "ssh-in-use", message, remedy)

    def remarks(self, target: Target, view: View) -> Iterator[str]:
        """Say what runs until the next restart only, and what the next restart starts."""
        for name, wanted in (self.services or {}).items():
            if wanted.running and wanted.policy == "off":
                yield f"{KEYS[name]} runs until the next restart of the host: its policy is off"
            if wanted.running is False and wanted.policy == "on":
                yield f"{KEYS[name]} is stopped until the next restart of the host: its policy is on"

    def steps(self, change: Change, view: View) -> Iterator[Step]:
        """Set what differs: first when a service starts, then whether it runs."""
        before = change.before.services if change.before else {}
        restarts = change.target.ref in view.rebooting
        for name, wanted in sorted((self.services or {}).items()):
            now, key = before.get(name) or ServiceSettings(), KEYS[name]
            if wanted.policy not in (None, now.policy):
                args = {"id": key, "policy": wanted.policy}
                yield invoke(change, MANAGER, "UpdateServicePolicy", args, f"set policy of {key} to {wanted.policy}")
            # a restart of this plan starts what its policy says, which may be the one that this plan sets
            runs = (wanted.policy or now.policy) == "on" if restarts else now.running
            if wanted.running is not None and wanted.running != runs:
                method, verb = ("StartService", "start") if wanted.running else ("StopService", "stop")
                step = invoke(change, MANAGER, method, {"id": key}, f"{verb} {key}")
                yield replace(step, after_reboot=restarts)

    def project(self, target: Target, view: View, after: After) -> Projection:
        """After a restart a service runs where its policy says so; one whose policy is not known may run or not."""
        if after == "plan":
            return Projection(self)
        now = (view.get(HostServices, target.ref) or HostServices()).services or {}
        later = {n: _restarted(s, now.get(n)) for n, s in (self.services or {}).items()}
        return Projection(self.model_copy(update={"services": later}))

    def export(self, target: Target, view: View, form: Form) -> StateExport:
        """A playbook states what differs from an installed host; of SSH its policy, which no run changes by itself."""
        if form == "shown":
            return StateExport(self)
        differing = {n: s for n, s in (self.services or {}).items() if s.running or s.policy != "off"}
        if SSH in differing:
            differing[SSH] = differing[SSH].model_copy(update={"running": None})
        differing = {n: s for n, s in differing.items() if n != SSH or s.policy != "off"}
        services = self.services if form == "rollback" else differing
        return StateExport(self.model_copy(update={"services": services}) if services else None)


def _service(facts: Facts, name: Service) -> PlainObject | None:
    return next((s for s in objects(facts.get(SERVICES)) if s.get("key") == KEYS[name]), None)


def _restarted(wanted: ServiceSettings, now: ServiceSettings | None) -> ServiceSettings:
    policy = wanted.policy or (now.policy if now else None)
    running = None if wanted.running is None else policy == "on"
    return wanted.model_copy(update={"running": running})
