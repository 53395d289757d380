"""Time of a host: its NTP servers, the service that follows them, and the firewall ruleset of the service."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Annotated, Literal, Self

from pydantic import AfterValidator

from vsphere_ai.model.estate.correction import Correction
from vsphere_ai.model.estate.host_corrections import TimeServers
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.finding import Problem
from vsphere_ai.model.names.server_names import address_or_name
from vsphere_ai.model.plain import Plain, PlainObject
from vsphere_ai.model.privilege import Duty
from vsphere_ai.model.state import Change, KindName, Target, setting
from vsphere_ai.model.steps import Step
from vsphere_ai.model.view import View
from vsphere_ai.resources._helpers.entries import twice
from vsphere_ai.resources._helpers.factories import invoke, switch_ruleset
from vsphere_ai.resources.base import After, Form, Projection, Resource, StateExport, Traits
from vsphere_ai.resources.corrections import TIME_SERVER, Corrects

SERVICE, RULESET = "ntpd", "ntpClient"
CONFIG, PROTOCOL = "config.dateTimeInfo.ntpConfig", "config.dateTimeInfo.systemClockProtocol"
SERVICES, RULESETS = "config.service.service", "config.firewall.ruleset"
TIME, START = "configManager.dateTimeSystem", "configManager.serviceSystem"
METHODS = ("StartService", "StopService", "UpdateServicePolicy", "EnableRuleset", "DisableRuleset")


def _server(text: str) -> str:
    """Return the address or name of a time server; ValueError when it is neither."""
    if (server := address_or_name(text)) is None:
        raise ValueError(f"{text!r} is no time server\nwrite an IP address or a name, such as ntp1.example.com")
    return server


def _different(servers: tuple[str, ...]) -> tuple[str, ...]:
    """Return the servers; ValueError when one of them is given twice."""
    if several := twice(map(str.casefold, servers)):
        named = ", ".join(sorted({s for s in servers if s.casefold() in several}))
        raise ValueError(f"{named} is given twice\nname each time server once")
    return servers


Servers = Annotated[tuple[Annotated[str, AfterValidator(_server)], ...], AfterValidator(_different)]


class Ntp(Corrects, Resource):
    """Sets the time servers of a host, and whether and when its NTP service runs; no maintenance mode, no restart.

    All of it goes through vCenter: neither SSH nor a host that is out of lockdown mode is needed.
    """

    kind = KindName("ntp")
    target = "host"
    traits = Traits(
        properties={"HostSystem": (CONFIG, PROTOCOL, SERVICES, RULESETS)},
        replaces={"UpdateDateTimeConfig": CONFIG},
        decides={CONFIG: "servers"},
        duties=(
            Duty("`ntp`: time servers", "hosts", ("UpdateDateTimeConfig",)),
            Duty("`ntp`: service, firewall", "hosts", METHODS),
        ),
        in_profile="NTP servers, services, firewall rulesets",
    )

    servers: Servers | None = setting("Time servers, by IP address or name, in any order; `[]` takes all away.")
    running: bool | None = setting(f"Whether the service `{SERVICE}` runs.")
    policy: Literal["on", "off", "automatic"] | None = setting(
        "When it starts: with the host, by hand only, or with the firewall port."
    )
    firewall: bool | None = setting(f"`true` opens the firewall ruleset `{RULESET}`.")

    @classmethod
    def correcting(cls, corrections: Sequence[Correction]) -> Plain:
        """Time servers, which the operator has to name where there are none, and a service that follows them."""
        own = [c for c in corrections if isinstance(c, TimeServers)]
        if not own:
            return {}
        servers: dict[str, Plain] = {} if all(c.has_servers for c in own) else {"servers": (TIME_SERVER,)}
        return {**servers, "running": True, "policy": "on", "firewall": True}

    @classmethod
    def observe(cls, facts: Facts, estate: Estate) -> Self | None:
        """Read what vCenter shows; None where it does not show the services of the host."""
        if facts.get(SERVICES) is None:
            return None
        service = _service(facts) or {}
        rulesets = {r["key"]: bool(r["enabled"]) for r in facts.get(RULESETS, ())}
        return cls.model_construct(
            servers=tuple((facts.get(CONFIG) or {}).get("server") or ()),
            running=service.get("running"),
            policy=service.get("policy"),
            firewall=rulesets.get(RULESET),
        )

    def settle(self, target: Target, view: View) -> Self:
        """The order of the servers does not count, nor whether names are written large or small.

        Whether the service runs after a restart of this plan its policy says, where the play does not.
        """
        full, now = super().settle(target, view), view.get(Ntp, target.ref)
        if self.running is None and full.running is not None and target.ref in view.rebooting:
            full = full.model_copy(update={"running": full.starts_with_host})
        if now and now.servers and _folded(full.servers) == _folded(now.servers):
            return full.model_copy(update={"servers": now.servers})
        return full

    def problems(self, target: Target, view: View) -> Iterator[Problem]:
        """The service or the ruleset is missing or fixed, follows another clock, or would have no server."""
        facts, said = view.facts(target.ref), view.said(Ntp, target.ref) or self
        service = _service(facts)
        if facts.get(SERVICES) is None:
            why = facts.unreadable.get(SERVICES, "vCenter does not show it")
            message = f"the time service of this host cannot be read: {why}"
            yield self.problem(target, "unreadable", message, "System.Read on the host; a host that is connected")
            return
        if service is None and (said.running is not None or said.policy is not None):
            names = ", ".join(sorted(str(s["key"]) for s in facts.get(SERVICES, ())))
            yield self.problem(target, "service-missing", f"this host has no service {SERVICE}", f"it has {names}")
        if service and service.get("required") and (said.running is False or said.policy == "off"):
            message = f"ESXi does not allow {SERVICE} to be switched off here"
            yield self.problem(target, "service-required", message, "leave running and policy out")
        if said.firewall is not None and RULESET not in {r["key"] for r in facts.get(RULESETS, ())}:
            message = f"this host has no firewall ruleset {RULESET}"
            yield self.problem(target, "ruleset-missing", message, "leave firewall out")
        if facts.get(PROTOCOL) == "ptp" and (said.servers or said.running):
            remedy = "change it under Configure > Time Configuration, or leave the host out"
            yield self.problem(target, "ptp", "the clock of this host follows PTP, not NTP", remedy)
        asks = any(getattr(said, name) is not None for name in ("servers", "running", "policy"))
        if asks and not self.servers and (self.running or self.policy == "on"):
            remedy = "name servers, or write running: false and policy: off"
            yield self.problem(target, "no-servers", f"{SERVICE} would run without a time server", remedy)

    def remarks(self, target: Target, view: View) -> Iterator[str]:
        """Say where the clock will not follow the servers, or follows them only for a while."""
        if self.running is False and (self.servers or self.policy == "on"):
            until = " until the host restarts (policy on)" if self.policy == "on" else ""
            yield f"{SERVICE} is stopped{until}: the clock follows no server"
        if self.running and self.policy == "off":
            yield f"{SERVICE} runs until the next restart of the host: its policy is off"
        if self.running and self.firewall is False:
            yield f"the firewall ruleset {RULESET} is closed: time servers may not be reached"
        if len(self.servers or ()) == 2:  # RFC 8633, section 3.2
            yield "with two time servers it cannot be seen which one is wrong: name one, or four and more"

    def steps(self, change: Change, view: View) -> Iterator[Step]:
        """Set what differs. The service is stopped before its servers change, and reads them when it starts again.

        With a restart of the plan it reads them then; afterwards it runs as the policy says that this plan sets.
        """
        fields, was = {f.name for f in change.fields}, bool(change.before and change.before.running)
        restarts = change.target.ref in view.rebooting
        stops = was and not restarts and ("servers" in fields or not self.running)
        if stops:
            stop = invoke(change, START, "StopService", {"id": SERVICE}, f"stop {SERVICE}")
            yield replace(stop, pauses=SERVICE if self.running else "")
        if "servers" in fields:
            ntp = {"_typeName": "HostNtpConfig", "server": tuple(self.servers or ())}
            config = {"_typeName": "HostDateTimeConfig", "ntpConfig": ntp}
            named = ", ".join(self.servers or ()) or "none"
            yield invoke(change, TIME, "UpdateDateTimeConfig", {"config": config}, f"set time servers: {named}")
        if "firewall" in fields:
            yield switch_ruleset(change, RULESET, is_open=bool(self.firewall))
        if "policy" in fields:
            args = {"id": SERVICE, "policy": self.policy}
            yield invoke(change, START, "UpdateServicePolicy", args, f"set policy of {SERVICE} to {self.policy}")
        runs = self.starts_with_host if restarts else was and not stops
        if self.running and not runs:
            start = invoke(change, START, "StartService", {"id": SERVICE}, f"start {SERVICE}")
            yield replace(start, after_reboot=restarts, resumes=SERVICE if stops else "")
        if self.running is False and restarts and runs:
            stop = invoke(change, START, "StopService", {"id": SERVICE}, f"stop {SERVICE}")
            yield replace(stop, after_reboot=True)

    def project(self, target: Target, view: View, after: After) -> Projection:
        """After a restart the service runs where its policy says so."""
        if after == "plan" or self.running is None:
            return Projection(self)
        return Projection(self.model_copy(update={"running": self.starts_with_host}))

    @property
    def starts_with_host(self) -> bool:
        """Whether the service runs after a restart; `automatic` is with its firewall port."""
        return self.policy == "on" or (self.policy == "automatic" and bool(self.firewall))

    def export(self, target: Target, view: View, form: Form) -> StateExport:
        """State what is there; a service that runs without a server cannot be asked for."""
        if form == "shown":
            return StateExport(self)
        if not self.servers and (self.running or self.policy == "on"):
            unset = {"servers": None, "running": None, "policy": None}
            kept = self.model_copy(update=unset) if self.firewall or form == "rollback" else None
            return StateExport(kept, f"ntp left out: {SERVICE} runs, or starts with the host, without a time server")
        installed = not (self.servers or self.running or self.firewall) and self.policy in ("off", None)
        return StateExport(None if installed and form == "playbook" else self)


def _service(facts: Facts) -> PlainObject | None:
    return next((s for s in facts.get(SERVICES, ()) if s["key"] == SERVICE), None)


def _folded(servers: tuple[str, ...] | None) -> list[str]:
    return sorted(s.casefold() for s in servers or ())
