"""What can be wrong with the log hosts of a host."""

from __future__ import annotations

from honesty.case import Case
from honesty.faults import fault, one, want_of_host
from honesty.faults_hosts import NEEDED

LOG_HOSTS = ("udp://10.0.0.5:514", "tcp://logs.example.com:514", "ssl://logs.example.com:1514")


def _wanted(case: Case) -> list[dict]:
    return [case.wants(h.name).get("syslog", {}) for h in case.hosts]


def names_log_hosts(case: Case) -> bool:
    """Log hosts are set on some host; hosts of these farms have none."""
    return any(wanted.get("hosts") for wanted in _wanted(case))


def opens_firewall(case: Case) -> bool:
    """The firewall of some host is opened for its logs."""
    return any(wanted.get("firewall") for wanted in _wanted(case))


NEEDED.setdefault("Host.Config.AdvancedConfig", []).append(names_log_hosts)
NEEDED.setdefault("Host.Config.NetService", []).append(opens_firewall)


@fault("log hosts beside the rest", lambda case, host: False)
def _log_hosts(case, rng):
    host = one(rng, case.hosts)
    wanted = {"hosts": rng.sample(LOG_HOSTS, rng.choice((0, 1, 2))), "firewall": rng.choice((True, False))}
    return want_of_host(case, host, {"syslog": wanted}) if host else None
