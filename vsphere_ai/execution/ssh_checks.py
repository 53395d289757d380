"""Proves, while planning, that every host on which a plan needs SSH lets the run in: key on file, lockdown, login."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from vsphere_ai.connect import service
from vsphere_ai.connect.probing import Prober
from vsphere_ai.connect.secure_shell.hostkeys import HostKeys
from vsphere_ai.errors import Denied
from vsphere_ai.language.inventories.inventory import SshSettings
from vsphere_ai.model.facts import CommandOutput, Estate, Facts, ProbeFailure
from vsphere_ai.model.finding import Finding, Problem, by_target
from vsphere_ai.model.names.name_ranges import shell_word
from vsphere_ai.model.state import Target
from vsphere_ai.planning.planner import Login, Plan
from vsphere_ai.planning.ssh_needs import SshNeed, needs, no_section, service_problems, stays_stopped

TRIED = ("ssh.denied", "ssh.unreachable")
"""The rules of failures of a login that was tried."""
STOPPED = "ssh.stopped"
SKIPPED = "--no-ssh-login"
"""The option that leaves logins untried."""


@dataclass(frozen=True)
class SshAccess:
    """How hosts are reached: what the inventory says, and what logs in. `tries`: logins are to be tried."""

    settings: SshSettings | None
    prober: Prober | None
    tries: bool = True
    parallel: int = 8


def with_logins(plan: Plan, estate: Estate, access: SshAccess, probing: frozenset[Target]) -> Plan:
    """Return the plan with a problem for each host that needs SSH and has none, and the logins that were not tried.

    `estate` is what was read, SSH as it runs now; `probing` are hosts that are read back over SSH. Each login is one
    handshake and one attempt; a credential that one host refused is not tried on the next (see `connect.gate`).
    """
    found, logins, todo = list(plan.problems), [], []
    never = access.settings is not None and access.settings.start_service == "never"
    for need in needs(plan, probing):
        host = estate[need.host.ref]
        problems, why = _asked(need, host, access)
        failure = _failure(host)
        found += problems
        if why:
            logins.append(Login(need.host, why))
        elif failure is not None and not problems:
            found.append(_problem(need.host, failure))
        elif not (
            problems or any(isinstance(answer, CommandOutput) for answer in host.probes.values())
        ):  # not proved yet
            todo.append(need.host)
    found += _refused(todo, estate, access)
    stopped = stays_stopped(plan, estate) if never else ()
    starts = access.prober is not None and not access.prober.may_start and not never
    plan = replace(plan, logins=tuple(logins), ssh_stays_stopped=stopped)
    return replace(
        plan, problems=tuple(sorted(set(found), key=by_target)), stopped_ssh=_stopped(estate) if starts else ()
    )


def _asked(need: SshNeed, host: Facts, access: SshAccess) -> tuple[list[Problem], str]:
    """Return what is known to block a login without trying it; and why it cannot be tried, "" if it can."""
    settings = access.settings
    if settings is None or access.prober is None:
        return [no_section(need)], ""
    found = list(_key_problems(need.host, settings))
    locked = service.locked_out(host, settings.username)
    if locked is not None:
        found.append(_problem(need.host, locked))
    found += service_problems(need, host) if settings.start_service == "never" else ()
    if not access.tries:
        return found, f"not tried: {SKIPPED}"
    if service.is_running(host) is False and not access.prober.may_start and not found:
        return found, "not tried: SSH is stopped; apply starts it and proves the login before its first change"
    return found, ""


def _key_problems(host: Target, settings: SshSettings) -> Iterator[Problem]:
    try:
        address, port = settings.endpoint(host.name)
    except ValueError as error:
        help_ = "give its address under ssh: addresses: in the inventory"
        yield Finding.problem(host, "ssh.section", f"its name is no address: {str(error).splitlines()[0]}", help_)
        return
    try:
        known = HostKeys(Path(settings.known_hosts)).known(host.name, address, port)
    except Denied as error:
        yield Finding.problem(host, "ssh.host-key", error.message, error.remedy)
        return
    if not known:
        at = address if port == 22 else f"[{address}]:{port}"
        message = f"its SSH host key is not known: {settings.known_hosts} has none for {at}"
        yield Finding.problem(host, "ssh.host-key", message, f"vsphere-ai trust host {shell_word(host.name)}")


def _stopped(estate: Estate) -> tuple[str, ...]:
    """Return why hosts did not answer commands whose SSH is stopped, each reason once."""
    answers = (answer for host in estate.hosts for answer in estate[host.ref].probes.values())
    return tuple(sorted({a.reason for a in answers if isinstance(a, ProbeFailure) and a.rule == STOPPED}))


def _failure(host: Facts) -> ProbeFailure | None:
    """Return why this host did not let a command in while it was read: it is not tried once more."""
    failed = (a for a in host.probes.values() if isinstance(a, ProbeFailure))
    return next((f for f in failed if f.rule in TRIED), None)


def _refused(hosts: Sequence[Target], estate: Estate, access: SshAccess) -> Iterator[Problem]:
    prober = access.prober
    if prober is None or not hosts:
        return
    meant = {host.ref: host for host in hosts}
    answers = prober.each([estate[ref] for ref in meant], prober.log_in, access.parallel)
    yield from (_problem(meant[facts.ref], failure) for facts, failure in answers if failure)


def _problem(host: Target, failure: ProbeFailure) -> Problem:
    return Finding.problem(host, failure.rule, failure.reason, failure.help)
