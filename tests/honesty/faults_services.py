"""What can be wrong with SSH and the ESXi Shell of a host."""

from __future__ import annotations

from honesty import needs
from honesty.case import Case
from honesty.faults import fault, one, want_of_host
from honesty.faults_hosts import NEEDED


def switches_shell(case: Case) -> bool:
    """The ESXi Shell of some host is started; it is stopped on hosts of these farms."""
    return any(case.wants(h.name).get("services", {}).get("shell", {}).get("running") for h in case.hosts)


def switches_ssh(case: Case) -> bool:
    """SSH of some host is to be switched to what it is not."""
    wanted = [(h, case.wants(h.name).get("services", {}).get("ssh", {}).get("running")) for h in case.hosts]
    return any(running is not None and running != h.ssh for h, running in wanted)


NEEDED.setdefault("Host.Config.NetService", []).extend((switches_shell, switches_ssh))


def _needed_by_the_run(case: Case, name: str) -> bool:
    """Docs of `services`: beside what needs SSH on the host, and beside its restart, SSH is not switched."""
    host = next(h for h in case.hosts if h.name == name)
    return needs.over_ssh(case, host) or needs.reboots(case, host)


@fault("SSH switched by a play", _needed_by_the_run)
def _ssh(case, rng):
    host = one(rng, case.hosts)
    wanted = {"ssh": {"running": rng.choice((True, False))}}
    return want_of_host(case, host, {"services": wanted}) if host else None


@fault("the ESXi Shell switched beside the rest", lambda case, host: False)
def _shell(case, rng):
    host = one(rng, case.hosts)
    wanted = {"shell": {"running": rng.choice((True, False)), "policy": rng.choice(("on", "off"))}}
    return want_of_host(case, host, {"services": wanted}) if host else None
