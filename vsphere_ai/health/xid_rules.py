"""Judgement of XIDs: one alone, and what repeats on one physical GPU.

Repeat rules: NVIDIA/NVSentinel, health-events-analyzer (five fatal ones in 24 hours, bursts of 3 minutes count once;
13 and 31 on one or on several GPUs); leptonai/gpud (the same XID after two restarts).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from vsphere_ai.health.kernel_log import Event
from vsphere_ai.health.xids import LADDER, RECOVERY_XID, WORDS, Action, known, recovery_action

Judged = Literal["pass", "warn", "fail"]
BURST = timedelta(minutes=3)
DAY = timedelta(hours=24)
MOST_IN_A_DAY = 5
MOST_RESTARTS = 2
SOFTWARE = (13, 31)
"""XIDs that a program causes, unless they come back at the same place of the same GPU."""


@dataclass(frozen=True)
class GpuEvent:
    """An XID of a physical GPU, whichever VM had it; `boot` counts restarts of the host, as far as they are known."""

    gpu: str
    event: Event
    vm: str = ""
    boot: int = 0


@dataclass(frozen=True)
class XidVerdict:
    """What the XIDs of one GPU ask for: the action with its source, and the sentence that says why."""

    gpu: str
    status: Judged
    action: Action
    message: str
    source: str
    vms: tuple[str, ...] = ()

    @property
    def remedy(self) -> str:
        """The action in words."""
        return WORDS[self.action]


def judged(found: Iterable[GpuEvent], now: datetime) -> tuple[XidVerdict, ...]:
    """Return a verdict for every GPU with XIDs, the worst first; `now` ends the window of 24 hours."""
    by_gpu: dict[str, list[GpuEvent]] = {}
    for each in found:
        by_gpu.setdefault(each.gpu, []).append(each)
    shared = _by_several_gpus(by_gpu)
    verdicts = [_of_gpu(gpu, tuple(own), now, shared) for gpu, own in by_gpu.items()]
    return tuple(sorted(verdicts, key=lambda v: (-LADDER.index(v.action), v.gpu)))


def without_bursts(events: Sequence[GpuEvent]) -> tuple[GpuEvent, ...]:
    """Return the events without those that follow one of the same XID within 3 minutes; without a time, all count."""
    kept: list[GpuEvent] = []
    last: dict[int, datetime] = {}
    for each in sorted(events, key=lambda e: e.event.time.timestamp() if e.event.time else 0.0):
        when, number = each.event.time, each.event.number
        if when and number in last and when - last[number] < BURST:
            last[number] = when
            continue
        if when:
            last[number] = when
        kept.append(each)
    return tuple(kept)


def _of_gpu(gpu: str, events: tuple[GpuEvent, ...], now: datetime, shared: frozenset[int]) -> XidVerdict:
    vms = tuple(dict.fromkeys(e.vm for e in events if e.vm))
    said = [v for e in events if (v := _alone(e, shared))] + [v for v in _repeated(gpu, events, now) if v]
    worst = max(said, key=lambda v: LADDER.index(v.action), default=None)
    if worst is None:
        numbers = ", ".join(str(n) for n in sorted({e.event.number for e in events}))
        return XidVerdict(gpu, "pass", "none", f"XID {numbers}: {WORDS['none']}", "nvidia", vms)
    return XidVerdict(gpu, worst.status, worst.action, worst.message, worst.source, vms)


def _alone(each: GpuEvent, shared: frozenset[int]) -> XidVerdict | None:
    event, xid = each.event, known(each.event.number)
    if event.number == RECOVERY_XID:
        action = recovery_action(event.text) or "inspect"
        if action == "none":
            return None
        return XidVerdict(each.gpu, "fail", action, f"XID 154: the driver asks for: {event.text}", "aws")
    if xid.action == "none":
        return None
    if event.number in SOFTWARE:
        # one alone is a program's mistake; on several GPUs it is one as well
        if event.number not in shared:
            return None
        message = f"XID {event.number} ({xid.name}) on several GPUs: a program causes it"
        return XidVerdict(each.gpu, "warn", "restart_app", message, "NVSentinel")
    status: Judged = "fail" if xid.fatal else "warn"
    return XidVerdict(each.gpu, status, xid.action, f"XID {xid.number}: {xid.name}", xid.source)


def _repeated(gpu: str, events: tuple[GpuEvent, ...], now: datetime) -> Iterable[XidVerdict | None]:
    counted = without_bursts(events)
    recent = [e for e in counted if e.event.time is None or now - e.event.time <= DAY]
    fatal = [e for e in recent if known(e.event.number).fatal]
    if len(fatal) >= MOST_IN_A_DAY:
        yield XidVerdict(gpu, "fail", "isolate", f"{len(fatal)} fatal XIDs in 24 hours", "NVSentinel")
    places: dict[tuple[int, str], int] = {}
    for each in counted:
        if each.event.number in SOFTWARE and each.event.place:
            key = each.event.number, each.event.place
            places[key] = places.get(key, 0) + 1
    for (number, place), times in places.items():
        if times > 1:
            message = f"XID {number} {times} times at {place} of the same GPU: its hardware"
            yield XidVerdict(gpu, "fail", "isolate", message, "NVSentinel")
    boots: dict[int, set[int]] = {}
    for each in counted:
        if known(each.event.number).fatal:
            boots.setdefault(each.event.number, set()).add(each.boot)
    for number, own in boots.items():
        if len(own) > MOST_RESTARTS:
            message = f"XID {number} came back after {len(own) - 1} restarts"
            yield XidVerdict(gpu, "fail", "isolate", message, "gpud")


def _by_several_gpus(by_gpu: Mapping[str, Sequence[GpuEvent]]) -> frozenset[int]:
    return frozenset(n for n in SOFTWARE if sum(any(e.event.number == n for e in own) for own in by_gpu.values()) > 1)
