"""What can be wrong with lockdown mode of a host."""

from __future__ import annotations

from honesty import needs
from honesty.case import Case
from honesty.faults import fault, one, want_of_host
from honesty.faults_hosts import NEEDED


def locks(case: Case) -> bool:
    """Lockdown mode of some host is set; it is off on hosts of these farms."""
    return any(case.wants(h.name).get("lockdown", {}).get("mode") in ("normal", "strict") for h in case.hosts)


def excepts(case: Case) -> bool:
    """Exception users of some host are read, and set where they differ."""
    return any("exception_users" in case.wants(h.name).get("lockdown", {}) for h in case.hosts)


NEEDED.setdefault("Host.Config.Settings", []).append(locks)
NEEDED.setdefault("Global.Settings", []).append(excepts)


def _needed_by_the_run(case: Case, name: str) -> bool:
    """Docs of `lockdown`: beside what needs SSH on the host, and beside its restart, it is not switched on."""
    host = next(h for h in case.hosts if h.name == name)
    return needs.over_ssh(case, host) or needs.reboots(case, host)


@fault("lockdown mode beside the rest", _needed_by_the_run)
def _lockdown(case, rng):
    host = one(rng, case.hosts)
    wanted = {"mode": rng.choice(("normal", "strict")), "exception_users": rng.choice(([], ["root"]))}
    return want_of_host(case, host, {"lockdown": wanted}) if host else None
