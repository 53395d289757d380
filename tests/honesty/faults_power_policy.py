"""What can be wrong with the power policy of a host."""

from __future__ import annotations

from honesty.case import Case
from honesty.faults import fault, one, want_of_host
from honesty.faults_hosts import NEEDED

POLICIES = ("high_performance", "balanced", "low_power", "custom")


def sets_power(case: Case) -> bool:
    """Another power policy than that of an installed host is chosen on some host."""
    wanted = [case.wants(h.name).get("power_policy") for h in case.hosts]
    return any(policy not in (None, "balanced") for policy in wanted)


NEEDED.setdefault("Host.Config.Power", []).append(sets_power)


@fault("a power policy beside the rest", lambda case, host: False)
def _policy(case, rng):
    host = one(rng, case.hosts)
    return want_of_host(case, host, {"power_policy": rng.choice(POLICIES)}) if host else None
