"""Logs of a host on other machines: where its syslog service sends them, and the firewall ruleset for it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, NamedTuple, Self

from pydantic import AfterValidator

from vsphere_ai.model.estate.correction import Correction
from vsphere_ai.model.estate.host_corrections import LogHosts
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.finding import Problem
from vsphere_ai.model.names.server_names import address_or_name
from vsphere_ai.model.plain import Plain, PlainObject, objects
from vsphere_ai.model.privilege import Duty
from vsphere_ai.model.state import Change, KindName, Target, setting
from vsphere_ai.model.steps import Step
from vsphere_ai.model.view import View
from vsphere_ai.resources._helpers.entries import twice
from vsphere_ai.resources._helpers.factories import set_option, switch_ruleset
from vsphere_ai.resources.base import Form, Resource, StateExport, Traits
from vsphere_ai.resources.corrections import LOG_HOST, Corrects

OPTION, RULESET = "Syslog.global.logHost", "syslog"
OPTION_FACT, RULESETS = f"option:{OPTION}", "config.firewall.ruleset"
PORTS: Mapping[str, int] = {"udp": 514, "tcp": 514, "ssl": 1514}
"""Protocol -> the port where none is named (vCenter Server and Host Management 7.0, ESXi syslog)."""
_LOG_HOST = re.compile(r"(?:(udp|tcp|ssl)://)?(\[[^\]]*\]|[^:\[\]/?]+)(?::(\d{1,5}))?(\?[\w=&]+)?")


class Place(NamedTuple):
    """A log host as ESXi understands it; without a protocol it is reached by UDP."""

    protocol: str
    server: str
    port: int
    format: str

    def __str__(self) -> str:
        server = f"[{self.server}]" if ":" in self.server else self.server
        return f"{self.protocol}://{server}:{self.port}{self.format}"


def place_of(text: str) -> Place | None:
    """Return the parts of a log host; None for what is none."""
    match = _LOG_HOST.fullmatch(text)
    if match is None:
        return None
    protocol, name, port, more = match[1] or "udp", match[2], int(match[3] or 0), match[4] or ""
    server = address_or_name(name.strip("[]"))
    bracketed = name.startswith("[")
    if server is None or port > 65535 or bracketed is not (":" in server):
        return None
    return Place(protocol, server, port or PORTS[protocol], more)


def _log_host(text: str) -> str:
    """Return a log host with its port; ValueError when it is none, or does not name its protocol."""
    place = place_of(text)
    if place is None or "://" not in text:
        words = "write PROTOCOL://SERVER or PROTOCOL://SERVER:PORT, such as ssl://logs.example.com:1514"
        raise ValueError(f"{text!r} is no log host\n{words}; protocols are udp, tcp and ssl")
    return str(place)


def _different(hosts: tuple[str, ...]) -> tuple[str, ...]:
    """Return the log hosts; ValueError when one of them is given twice."""
    if several := twice(map(str.casefold, hosts)):
        raise ValueError(f"{', '.join(several)} is given twice\nname each log host once")
    return hosts


LogHostNames = Annotated[tuple[Annotated[str, AfterValidator(_log_host)], ...], AfterValidator(_different)]


class Syslog(Corrects, Resource):
    """Sends the logs of a host to other machines; it needs neither maintenance mode nor a restart."""

    kind = KindName("syslog")
    target = "host"
    shorthand = "hosts"
    traits = Traits(
        properties={"HostSystem": (OPTION_FACT, RULESETS)},
        decides={OPTION_FACT: "hosts"},
        duties=(Duty("`syslog`", "hosts", ("UpdateOptions", "EnableRuleset", "DisableRuleset")),),
        in_profile="advanced options, firewall rulesets",
    )

    hosts: LogHostNames | None = setting(
        "Log hosts as `PROTOCOL://SERVER:PORT`, in any order; protocols are `udp`, `tcp` and `ssl`, the port may be "
        "left out; `[]` takes all away."
    )
    firewall: bool | None = setting(f"`true` opens the firewall ruleset `{RULESET}`.")

    @classmethod
    def correcting(cls, corrections: Sequence[Correction]) -> Plain:
        """A log host, which the operator has to name, and the firewall that lets logs out."""
        needed = any(isinstance(c, LogHosts) for c in corrections)
        return {"hosts": (LOG_HOST,), "firewall": True} if needed else {}

    @classmethod
    def observe(cls, facts: Facts, estate: Estate) -> Self | None:
        """Read the option and the ruleset; None where the host shows neither."""
        option, rulesets = facts.get(OPTION_FACT), facts.get(RULESETS)
        if option is None and rulesets is None:
            return None
        hosts = None if option is None else tuple(filter(None, (part.strip() for part in str(option).split(","))))
        return cls.model_construct(hosts=hosts, firewall=(_ruleset(facts) or {}).get("enabled"))

    def settle(self, target: Target, view: View) -> Self:
        """The order of log hosts does not count, nor how they are written."""
        full, now = super().settle(target, view), view.get(Syslog, target.ref)
        if now and now.hosts and full.hosts and _places(full.hosts) == _places(now.hosts):
            return full.model_copy(update={"hosts": now.hosts})
        return full

    def problems(self, target: Target, view: View) -> Iterator[Problem]:
        """The option cannot be read, or the host has no ruleset for logs."""
        facts, stated = view.facts(target.ref), view.said(Syslog, target.ref) or self
        if stated.hosts is not None and facts.get(OPTION_FACT) is None:
            why = facts.unreadable.get(OPTION_FACT, "the host does not know this option")
            message = f"the advanced option {OPTION} cannot be read: {why}"
            yield self.problem(target, "unreadable", message, "System.Read on the host; a host that is connected")
        if stated.firewall is not None and _ruleset(facts) is None:
            message = f"this host has no firewall ruleset {RULESET}"
            yield self.problem(target, "ruleset-missing", message, "leave firewall out")

    def remarks(self, target: Target, view: View) -> Iterator[str]:
        """Say which log hosts may not be reached through the firewall."""
        ruleset = _ruleset(view.facts(target.ref)) or {}
        if self.hosts and self.firewall is False:
            yield f"the firewall ruleset {RULESET} is closed: log hosts may not be reached"
        elif self.hosts and (closed := [h for h in self.hosts if not _lets_out(ruleset, place_of(h))]):
            yield f"the firewall ruleset {RULESET} does not open the port of {', '.join(closed)}"

    def steps(self, change: Change, view: View) -> Iterator[Step]:
        """Open the firewall before logs are sent; each only when it differs."""
        fields = {field.name for field in change.fields}
        if "firewall" in fields:
            yield switch_ruleset(change, RULESET, is_open=bool(self.firewall))
        if "hosts" in fields:
            hosts = ",".join(self.hosts or ())
            yield set_option(change, OPTION, hosts, f"send logs to {', '.join(self.hosts or ()) or 'no other machine'}")

    def export(self, target: Target, view: View, form: Form) -> StateExport:
        """A playbook leaves out what hosts are installed with; what cannot be written in one is left out of it."""
        if form == "shown":
            return StateExport(self)
        unwritable = [host for host in self.hosts or () if place_of(host) is None]
        hosts = None if unwritable or self.hosts is None else tuple(str(place_of(host)) for host in self.hosts)
        left_out = f"syslog hosts left out: {', '.join(unwritable)} is no log host" if unwritable else ""
        if form == "playbook" and not hosts and not self.firewall:
            return StateExport(None, left_out)
        return StateExport(self.model_copy(update={"hosts": hosts}), left_out)


def _ruleset(facts: Facts) -> PlainObject | None:
    return next((r for r in objects(facts.get(RULESETS)) if r.get("key") == RULESET), None)


def _places(hosts: tuple[str, ...]) -> set[Place | str]:
    return {place_of(host.casefold()) or host for host in hosts}


def _lets_out(ruleset: PlainObject, place: Place | None) -> bool:
    """Return whether a ruleset opens the port of a log host to the outside; a ruleset that shows no rules may."""
    rules = [rule for rule in objects(ruleset.get("rule")) if rule.get("direction") == "outbound"]
    wire = "udp" if place and place.protocol == "udp" else "tcp"
    return (
        place is None or not rules or any(_covers(rule, place.port) for rule in rules if rule.get("protocol") == wire)
    )


def _covers(rule: PlainObject, port: int) -> bool:
    first = rule.get("port")
    last = rule.get("endPort") or first
    return isinstance(first, int) and isinstance(last, int) and first <= port <= last
