"""Outages of links: times in which a link was down, from the kernel's log of a guest and the event log of a host.

Forms of the lines: drivers mlx5_core, vmxnet3 and bnxt_en of Linux (guest, unverified for bnxt_en); vobd.log of ESXi
(https://knowledge.broadcom.com/external/article/376568). Limits: leptonai/gpud (flaps, drops); NVIDIA Health
Validation, InfiniBand (one outage of 30 s).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from vsphere_ai.health.counters import LinkOutage, link_problem
from vsphere_ai.health.kernel.kernel_log import LONGEST_LINE, time_of

GUEST_LINK = re.compile(
    r"(?:mlx5_core|vmxnet3|bnxt_en) [0-9a-f:.]+ (?P<name>\w[\w.-]*): (?:NIC )?Link (?:is )?(?P<state>up|down)",
    re.IGNORECASE,
)
HOST_LINK = re.compile(r"\[vob\.net\.vmnic\.linkstate\.(?P<state>up|down)\] vmnic (?P<name>vmnic\d+)")
LONG = timedelta(seconds=30)


def outages_in(
    lines: Iterable[str], boot: datetime | None = None, ahead: float = 0.0
) -> Mapping[str, list[LinkOutage]]:
    """Return the outages by interface or vmnic, the oldest first.

    `boot` turns seconds since boot into times, `ahead` is how many seconds the clock of the log is ahead. Lines without
    a time, and a link that comes up without having gone down, are left out.
    """
    found: dict[str, list[LinkOutage]] = {}
    for line in lines:
        line = line[:LONGEST_LINE]
        said = HOST_LINK.search(line) or GUEST_LINK.search(line)
        when = time_of(line, boot) if said else None
        if said is None or when is None:
            continue
        when -= timedelta(seconds=ahead)
        own = found.setdefault(said["name"], [])
        waits = bool(own) and own[-1].up is None
        if said["state"].lower() == "down" and not waits:
            own.append(LinkOutage(when, None))
        elif said["state"].lower() == "up" and waits:
            own[-1] = LinkOutage(own[-1].down, when)
    return found


def outage_problem(outages: list[LinkOutage], now: datetime, hours: float) -> str:
    """Return why a link is not sound: it flaps, it is down, or was down for 30 s within the last hours; "" where it is.

    Of an outage that has not ended only the drop counts: the state of the link itself is another check.
    """
    if problem := link_problem(outages, now):
        return problem
    late = [o for o in outages if o.up and o.up - o.down >= LONG and now - o.up <= timedelta(hours=hours)]
    longest = max(late, key=lambda o: (o.up or now) - o.down, default=None)
    if longest is None or longest.up is None:
        return ""
    seconds = (longest.up - longest.down).total_seconds()
    return f"the link was down for {seconds:.0f} s at {longest.down:%Y-%m-%d %H:%M} UTC"
