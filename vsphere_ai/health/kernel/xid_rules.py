"""Judgement of XIDs: one alone, and what repeats on one physical GPU.

Repeat rules: NVIDIA/NVSentinel, health-events-analyzer (five fatal ones in 24 hours, bursts of 3 minutes count once;
13 and 31 on one or on several GPUs); leptonai/gpud (the same XID after two restarts).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from vsphere_ai.health.kernel.kernel_log import KernelEvent, nvlink_code
from vsphere_ai.health.kernel.xids import (
    LADDER,
    LINK_XID,
    NVLINK_NUMBERS,
    RECOVERY_XID,
    WORDS,
    Action,
    is_recovered,
    known,
    link_error,
    nvlink_error,
    recovery_action,
    table,
)
from vsphere_ai.model.finding import Finding, Subject, Verdict, seriousness

BURST = timedelta(minutes=3)
DAY = timedelta(hours=24)
MOST_IN_A_DAY = 5
MOST_RESTARTS = 2
CONTAINED, ECC = 94, 48
"""A contained memory error, and the double-bit error that it is a detail of: beside 94, 48 asks for nothing more."""
BESIDE = timedelta(seconds=30)
"""XID 154 is the driver's judgement of what came so long before or after it (NVIDIA, XID Errors, Xid 154 linkage)."""
SOFTWARE = (13, 31)
"""XIDs that a program causes, unless they come back at the same place of the same GPU."""


@dataclass(frozen=True)
class GpuEvent:
    """An XID of a physical GPU, whichever VM had it.

    `boot` is different for each start of the guest. `old`: it is from before the window, or from before the restart
    that it asks for: it counts for what repeats, and is no fault of now. `uuid` is that of the GPU, empty where it is
    not known.
    """

    gpu: str
    event: KernelEvent
    vm: str = ""
    boot: int = 0
    old: bool = False
    uuid: str = ""
    by_host: bool = False
    """Only the host's log has it."""


@dataclass(frozen=True)
class XidVerdict:
    """What the XIDs of one GPU ask for: the finding that says why, with its source, and the action on NVIDIA's ladder.

    `vms` are those that had one of the XIDs.
    """

    finding: Finding[Subject]
    action: Action
    vms: tuple[str, ...] = ()

    @property
    def gpu(self) -> str:
        """The physical GPU, or the NVSwitch."""
        return self.finding.target.name


def _asks(gpu: str, verdict: Verdict, action: Action, message: str, source: str) -> XidVerdict:
    return XidVerdict(Finding(Subject("gpu", gpu), "xid", verdict, message, WORDS[action], (), source), action)


def judged(found: Iterable[GpuEvent], now: datetime) -> tuple[XidVerdict, ...]:
    """Return a verdict for every GPU with XIDs of now, or that repeat, the worst first; `now` ends the 24 hours."""
    by_gpu: dict[str, list[GpuEvent]] = {}
    for each in found:
        by_gpu.setdefault(each.gpu, []).append(each)
    shared = _by_several_gpus(by_gpu)
    made = (_of_gpu(gpu, tuple(own), now, shared) for gpu, own in by_gpu.items())
    verdicts = [each for each in made if each is not None]
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


def _of_gpu(gpu: str, events: tuple[GpuEvent, ...], now: datetime, shared: frozenset[int]) -> XidVerdict | None:
    vms = tuple(dict.fromkeys(e.vm for e in events if e.vm))
    new = _without_consequences([e for e in events if not e.old])
    said = [v for e in new if (v := _alone(e, shared))] + [v for v in _repeated(gpu, events, now) if v]
    # of equal actions the more serious one; whatever order the lines came in
    worst = max(said, key=lambda v: (LADDER.index(v.action), seriousness(v.finding), v.finding.message), default=None)
    if worst is None and not new:
        return None
    if worst is None:
        numbers = ", ".join(str(n) for n in sorted({e.event.number for e in new}))
        if all(e.event.kind == "sxid" for e in new):
            worst = _asks(gpu, "info", "none", f"SXid {numbers} of an NVSwitch, not fatal", "imbue")
        else:
            worst = _asks(gpu, "info", "none", f"XID {numbers}: {WORDS['none']}", "nvidia")
    return replace(worst, vms=vms)


def _without_consequences(events: list[GpuEvent]) -> list[GpuEvent]:
    """Return the events without those that another one beside or after them decides."""
    events = _since_recovery(events)
    numbers = {each.event.number for each in events if each.event.kind != "sxid"}
    if {CONTAINED, ECC} <= numbers:
        events = [each for each in events if each.event.kind == "sxid" or each.event.number != ECC]
    judged_by_driver = [
        each.event.time
        for each in events
        if each.event.number == RECOVERY_XID and each.event.time and recovery_action(each.event.text)
    ]
    return [
        each
        for each in events
        if each.event.number == RECOVERY_XID
        or each.event.kind == "sxid"
        or not any(each.event.time and abs(each.event.time - time) <= BESIDE for time in judged_by_driver)
    ]


def _since_recovery(events: list[GpuEvent]) -> list[GpuEvent]:
    """Return the events without earlier judgements of the driver, and without all before the GPU recovered."""
    asked = [(each.event.time, each) for each in events if each.event.number == RECOVERY_XID and each.event.time]
    last = max((time for time, _ in asked), default=None)
    recovered = max((time for time, each in asked if is_recovered(each.event.text)), default=None)
    return [
        each
        for each in events
        if each.event.kind == "sxid"
        or each.event.time is None
        or not (
            (recovered is not None and each.event.time < recovered)
            or (last is not None and each.event.number == RECOVERY_XID and each.event.time < last)
        )
    ]


def _is_fatal(event: KernelEvent) -> bool:
    """Return whether an XID counts among those that take a GPU out of service; the word of the line comes first."""
    error = nvlink_error(event.number, event.text)
    return error.is_fatal if error is not None else known(event.number).fatal


def _alone(each: GpuEvent, shared: frozenset[int]) -> XidVerdict | None:
    event, xid = each.event, known(each.event.number)
    if event.kind == "sxid":
        return _of_switch(each)
    if event.kind == "init":
        message = "the driver cannot initialise the GPU (RmInitAdapter)"
        return _asks(each.gpu, "fail", "restart_vm", message, "gpud")
    if event.number == RECOVERY_XID:
        action = recovery_action(event.text) or "inspect"
        if action == "none":
            return None
        # traffic between GPUs to drain, or an action of a later driver: there is no action for the GPU yet
        verdict: Verdict = "warn" if action == "inspect" else "fail"
        return _asks(each.gpu, verdict, action, f"XID 154: the driver asks for: {event.text}", "aws")
    if xid.action == "none":
        return None
    if error := nvlink_error(event.number, event.text):
        if error.action == "none" and not error.is_fatal:
            return None
        message = f"XID {xid.number}: {xid.name}, {error.unit} {'Fatal' if error.is_fatal else 'Nonfatal'}"
        fails = error.is_fatal and error.action not in ("none", "restart_app")
        return _asks(each.gpu, "fail" if fails else "warn", error.action, message, xid.source)
    if event.number == LINK_XID and (link := link_error(event.text)):
        action, words = link
        if action == "none":
            return None
        return _asks(each.gpu, "fail" if action == "reset_gpu" else "warn", action, f"XID 74: {words}", xid.source)
    if event.number in SOFTWARE:
        # one alone is a program's mistake; on several GPUs it is one as well
        if event.number not in shared:
            return None
        message = f"XID {event.number} ({xid.name}) on several GPUs: a program causes it"
        return _asks(each.gpu, "warn", "restart_app", message, "NVSentinel")
    status: Verdict = "fail" if xid.fatal else "warn"
    code = nvlink_code(event.text) if event.number in NVLINK_NUMBERS else None
    name = f"{xid.name}, sub-code {code}" if code is not None else xid.name
    return _asks(each.gpu, status, xid.action, f"XID {xid.number}: {name}", xid.source)


def _of_switch(each: GpuEvent) -> XidVerdict | None:
    """Return what an error of an NVSwitch asks for; the word of the line decides about a number that is not listed."""
    event, listed = each.event, table().sxids.get(each.event.number)
    action: Action = "restart_vm" if event.fatal else "none"
    # of a listed number the guide's action; where the line is fatal and that is nothing, the line counts
    if listed is not None and (listed.action != "none" or not event.fatal):
        action = listed.action
    if action == "none":
        return None
    name = f" ({listed.name})" if listed else ""
    more = f": {listed.note}" if listed and listed.note else ""
    fabric = " for all of its links" if action == "restart_host" else ""
    message = f"SXid {event.number}{name} of an NVSwitch, {'fatal' if event.fatal else 'not fatal'}{fabric}{more}"
    status: Verdict = "fail" if event.fatal or action == "restart_host" else "warn"
    return _asks(each.gpu, status, action, message, "fabric_manager")


def _repeated(gpu: str, events: tuple[GpuEvent, ...], now: datetime) -> Iterable[XidVerdict | None]:
    counted = without_bursts([e for e in events if e.event.kind not in ("sxid", "init")])
    recent = [e for e in counted if e.event.time is None or now - e.event.time <= DAY]
    fatal = [e for e in recent if _is_fatal(e.event)]
    if len(fatal) >= MOST_IN_A_DAY:
        yield _asks(gpu, "fail", "isolate", f"{len(fatal)} fatal XIDs in 24 hours", "NVSentinel")
    places: dict[tuple[int, str], int] = {}
    for each in counted:
        if each.event.number in SOFTWARE and each.event.place:
            key = each.event.number, each.event.place
            places[key] = places.get(key, 0) + 1
    for (number, place), times in places.items():
        if times > 1:
            message = f"XID {number} {times} times at {place} of the same GPU: its hardware"
            yield _asks(gpu, "fail", "isolate", message, "NVSentinel")
    boots: dict[int, set[int]] = {}
    for each in counted:
        if _is_fatal(each.event):
            boots.setdefault(each.event.number, set()).add(each.boot)
    for number, own in boots.items():
        if len(own) > MOST_RESTARTS:
            message = f"XID {number} came back after {len(own) - 1} restarts"
            yield _asks(gpu, "fail", "isolate", message, "gpud")


def _by_several_gpus(by_gpu: Mapping[str, Sequence[GpuEvent]]) -> frozenset[int]:
    def has(own: Sequence[GpuEvent], number: int) -> bool:
        return any(e.event.number == number and not e.old for e in own)

    return frozenset(n for n in SOFTWARE if sum(has(own, n) for own in by_gpu.values()) > 1)


RESETS: tuple[Action, ...] = ("restart_app", "reset_gpu", "restart_vm")
"""Actions that a start of the VM carries out: its GPU is reset, whether whole or a vGPU."""


def is_over(event: KernelEvent, guest_boot: datetime | None, host_boot: datetime | None) -> bool:
    """Return whether the restart that an XID asks for has taken place since; without a time it is one of now."""
    if event.time is None:
        return False
    if event.kind == "init":
        return any(boot is not None and event.time < boot for boot in (guest_boot, host_boot))
    action = recovery_action(event.text) if event.number == RECOVERY_XID else known(event.number).action
    if host_boot is not None and event.time < host_boot:
        return action not in ("isolate", "inspect", "update")
    return guest_boot is not None and event.time < guest_boot and action in (*RESETS, "none")


def numbered(found: Iterable[GpuEvent]) -> tuple[GpuEvent, ...]:
    """Return events with their starts counted from 0: times of one start, in seconds, waver by less than a minute."""
    every = tuple(found)
    starts: dict[int, int] = {}
    last: int | None = None
    for start in sorted({e.boot for e in every}):
        starts[start] = len(set(starts.values())) - int(last is not None and start - last < SAME_START)
        last = start
    return tuple(replace(e, boot=starts[e.boot]) for e in every)


SAME_START = 60
