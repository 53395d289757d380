"""What can be wrong with the time servers of a host."""

from __future__ import annotations

from honesty.case import Case
from honesty.faults import always, fault, one, want_of_host
from honesty.faults_hosts import NEEDED

SERVERS = ["10.0.0.1", "10.0.0.2"]


def sets_time(case: Case) -> bool:
    """Time servers and their service are set on some host."""
    return any("ntp" in case.wants(h.name) for h in case.hosts)


for _privilege in ("Host.Config.DateTime", "Host.Config.NetService"):
    NEEDED.setdefault(_privilege, []).append(sets_time)


@fault("a time service without servers", always)
def _no_servers(case, rng):
    host = one(rng, case.hosts)
    return want_of_host(case, host, {"ntp": {"servers": [], "running": True}}) if host else None


@fault("time servers beside the rest", lambda case, host: False)
def _servers(case, rng):
    host = one(rng, case.hosts)
    wanted = {
        "servers": SERVERS,
        "running": rng.choice((True, False)),
        "policy": rng.choice(("on", "off", "automatic")),
        "firewall": rng.choice((True, False)),
    }
    if rng.random() < 0.3:
        del wanted["running"]
    return want_of_host(case, host, {"ntp": wanted}) if host else None
