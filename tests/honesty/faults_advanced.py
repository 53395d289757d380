"""What can be wrong with advanced options of a host."""

from __future__ import annotations

from honesty.case import Case
from honesty.faults import always, fault, one, want_of_host
from honesty.faults_hosts import NEEDED


def sets_options(case: Case) -> bool:
    """An option of some host is set to what it is not."""
    return any(case.wants(h.name).get("advanced", {}).get("UserVars.SuppressShellWarning") for h in case.hosts)


NEEDED.setdefault("Host.Config.AdvancedConfig", []).append(sets_options)


@fault("an advanced option beside the rest", lambda case, host: False)
def _option(case, rng):
    host = one(rng, case.hosts)
    wanted = {"UserVars.SuppressShellWarning": rng.choice((0, 1))}
    return want_of_host(case, host, {"advanced": wanted}) if host else None


@fault("an advanced option that cannot be set", always)
def _wrong(case, rng):
    host = one(rng, case.hosts)
    choices = ({"Nothing.AtAll": 1}, {"UserVars.SuppressShellWarning": "1"}, {"Syslog.global.logHost": ""})
    return want_of_host(case, host, {"advanced": rng.choice(choices)}) if host else None
