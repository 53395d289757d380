"""Counters of RDMA NICs as rates: two readings, the limit of each counter, and flapping links.

Limits: NVIDIA/NVSentinel, nic-health-monitor; leptonai/gpud (flaps and drops). Totals say nothing: a counter that rose
years ago is no fault of today.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from vsphere_ai.model.finding import Verdict


@dataclass(frozen=True)
class CounterLimit:
    """More than `most` per `per` seconds is too much; 0 seconds: any increase is."""

    verdict: Verdict
    most: float = 0.0
    per: int = 0


LIMITS: Mapping[str, tuple[CounterLimit, ...]] = {
    "link_downed": (CounterLimit("fail"),),
    "excessive_buffer_overrun_errors": (CounterLimit("fail"),),
    "local_link_integrity_errors": (CounterLimit("fail"),),
    "rnr_nak_retry_err": (CounterLimit("fail"),),
    "symbol_error": (CounterLimit("fail", 120, 3600), CounterLimit("warn", 10, 1)),
    "link_error_recovery": (CounterLimit("warn", 5, 60),),
    "port_rcv_errors": (CounterLimit("warn", 10, 1),),
    "local_ack_timeout_err": (CounterLimit("warn", 1, 1),),
    "port_xmit_discards": (CounterLimit("warn", 100, 1),),
    "roce_slow_restart": (CounterLimit("warn", 10, 1),),
    "carrier_changes": (CounterLimit("warn", 2, 3600),),
}
SHORTEST = timedelta(seconds=10)
"""Two readings that are nearer give no rate."""
FLAPS, FLAP_DOWN, FLAP_WINDOW = 3, timedelta(seconds=25), timedelta(hours=12)
DROP = timedelta(minutes=4)


@dataclass(frozen=True)
class Reading:
    """The counters of one device and port at a time."""

    taken: datetime
    device: str
    values: Mapping[str, int]
    port: int = 1


@dataclass(frozen=True)
class CounterRise:
    """A counter that rose too fast: how much, in how many seconds, and the limit that it exceeds."""

    device: str
    port: int
    counter: str
    rise: int
    seconds: float
    limit: CounterLimit

    @property
    def message(self) -> str:
        """The rise in a sentence."""
        if not self.limit.per:
            return f"{self.counter} rose by {self.rise}"
        per = {1: "second", 60: "minute", 3600: "hour"}[self.limit.per]
        rate = self.rise / self.seconds * self.limit.per
        return f"{self.counter} rises by {rate:.3g} per {per}, more than {self.limit.most:g}"


def findings(before: Reading, after: Reading) -> tuple[CounterRise, ...]:
    """Return the counters that rose too fast between two readings of one port, the worst limit of each.

    A counter that is smaller than before was reset: nothing is known of it. A limit per hour needs a longer time than
    one per second: a rise by one event in 10 seconds is no rate of 360 per hour. ValueError: readings of two ports, or
    nearer than 10 seconds.
    """
    if (before.device, before.port) != (after.device, after.port):
        raise ValueError("readings of two ports cannot be compared")
    seconds = (after.taken - before.taken).total_seconds()
    if seconds < SHORTEST.total_seconds():
        raise ValueError(f"readings {seconds:g} s apart give no rate; 10 s or more are needed")
    found = []
    for counter, limits in LIMITS.items():
        if counter not in before.values or counter not in after.values:
            continue
        rise = after.values[counter] - before.values[counter]
        worst = next((limit for limit in limits if _exceeds(rise, seconds, limit)), None)
        if rise > 0 and worst:
            found.append(CounterRise(after.device, after.port, counter, rise, seconds, worst))
    return tuple(found)


def _exceeds(rise: int, seconds: float, limit: CounterLimit) -> bool:
    if not limit.per:
        return rise > 0
    # of a time shorter than that of the limit, the whole amount has to have come already
    return rise > limit.most * max(1.0, seconds / limit.per)


@dataclass(frozen=True)
class LinkOutage:
    """A time in which a link was down; `up` None: it still is."""

    down: datetime
    up: datetime | None


def link_problem(outages: Sequence[LinkOutage], now: datetime) -> str:
    """Return whether a link flaps (three times down for 25 s or more within 12 hours) or is down; "" for neither."""
    current = next((o for o in outages if o.up is None), None)
    if current and now - current.down > DROP:
        return f"the link is down since {current.down:%Y-%m-%d %H:%M} UTC"
    flaps = [o for o in outages if o.up and o.up - o.down >= FLAP_DOWN and now - o.down <= FLAP_WINDOW]
    if len(flaps) >= FLAPS:
        return f"the link was down {len(flaps)} times in 12 hours"
    return ""


def pcie_replays_allowed(generation: int, lanes: int) -> int:
    """Return how many PCIe replays per minute a link may have (NVIDIA DCGM, health watch).

    ValueError: a generation that is not 1 to 6.
    """
    per_lane = {1: 0.15, 2: 0.3, 3: 0.48, 4: 0.96, 5: 1.92, 6: 3.84}
    if generation not in per_lane:
        raise ValueError(f"PCIe generation {generation} is not known")
    return -(-round(per_lane[generation] * lanes * 100) // 100)


def uncabled(active: Mapping[str, int]) -> tuple[str, ...]:
    """Return the cards with fewer active ports than most of their peers: card -> number of active ports."""
    if len(active) < 2:
        return ()
    counts = sorted(active.values())
    usual = counts[len(counts) // 2]
    return tuple(sorted(card for card, ports in active.items() if ports < usual))


def readings_of(counters: Mapping[str, int], taken: datetime) -> tuple[Reading, ...]:
    """Return readings of counters by their paths: of RDMA ports, interfaces (carrier changes), and GPUs (replays)."""
    found = list(readings_in((f"{path}:{value}" for path, value in counters.items()), taken))
    for path, value in counters.items():
        parts = path.split("/")
        if parts[3:4] == ["net"] and parts[-1] == "carrier_changes":
            found.append(Reading(taken, parts[4], {"carrier_changes": value}))
        elif parts[1:2] == ["gpu"] and len(parts) == 4:
            found.append(Reading(taken, parts[2], {parts[3]: value}))
    return tuple(found)


def readings_in(listing: Iterable[str], taken: datetime) -> tuple[Reading, ...]:
    """Return readings by device and port: ``grep -H . /sys/class/infiniband/*/ports/*/{counters,hw_counters}/*``.

    Lines of another form, and values that are no numbers, are left out.
    """
    found: dict[tuple[str, int], dict[str, int]] = {}
    for line in listing:
        path, _, value = line.strip().rpartition(":")
        parts = path.split("/")
        if len(parts) < 9 or parts[3] != "infiniband" or parts[5] != "ports" or not value.strip().isdecimal():
            continue
        if parts[6].isdecimal():
            found.setdefault((parts[4], int(parts[6])), {})[parts[8]] = int(value)
    return tuple(Reading(taken, device, values, port) for (device, port), values in sorted(found.items()))
