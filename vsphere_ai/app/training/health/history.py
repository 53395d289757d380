"""History of health: counters of each VM, XIDs by physical GPU, and when GPUs were busy, kept between two checks.

One file per vCenter in the state folder. It is read, merged and written under a lock, so that two checks at once lose
nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from vsphere_ai.documents.health_history import HealthHistoryDocument, KeptCounters, KeptUse, KeptXid
from vsphere_ai.health.checks import ObservedVm
from vsphere_ai.health.counters import SHORTEST, Reading, readings_of
from vsphere_ai.health.kernel.kernel_log import KernelEvent
from vsphere_ai.health.kernel.xid_rules import GpuEvent
from vsphere_ai.health.kernel.xids import known
from vsphere_ai.model.records.assessment import HealthChecked
from vsphere_ai.runs.state_files import read_state, write_state
from vsphere_ai.security.files import locked
from vsphere_ai.security.state_dir import file_name, own_folder, state_dir

FOLDER = "health"
KEPT = timedelta(days=7)
"""How long XIDs are kept for what repeats."""
SAME = 10.0
"""Seconds within which two readings mean one XID: boot times of guests waver."""
LONGEST = 200
"""Characters that are kept of a line of a kernel log."""


class HealthHistory:
    """What earlier checks of a vCenter saw, as it was when this was made; `keep` merges into what is there by then.

    `DamagedDocument` where its file holds something else.
    """

    def __init__(self, vcenter: str) -> None:
        self._path = own_folder(FOLDER) / _name(vcenter)
        self._kept = _read(self._path)

    def readings(self, vm: str, uptime: float | None, now: datetime) -> tuple[Reading, ...]:
        """Return the last reading of a VM since it has booted; counters begin anew at a boot."""
        own = self._kept.counters.get(vm)
        if own is None or uptime is None or own.taken < now - timedelta(seconds=uptime) or now - own.taken < SHORTEST:
            return ()
        return readings_of(own.values, own.taken)

    def before(self, new: Sequence[GpuEvent]) -> list[GpuEvent]:
        """Return the earlier XIDs that are none of the new ones, nor of a GPU that was replaced since."""
        now = {e.gpu: e.uuid for e in new if e.uuid}
        events = map(_event, self._kept.xids)
        kept = (old for old in events if not (old.uuid and old.uuid != now.get(old.gpu, old.uuid)))
        return list(_without(kept, new))

    def idle_since(self, vm: str) -> datetime | None:
        """Return from when on every check saw the GPUs of a VM idle; None where the last one saw them busy, or none."""
        own = self._kept.use.get(vm)
        return own.idle_since if own else None

    def keep(
        self, observed: Sequence[ObservedVm], new: Sequence[GpuEvent], now: datetime, busy: Mapping[str, bool]
    ) -> None:
        """Write what was seen now, and what is not older than a week; `busy`: whether the GPUs of a VM were."""
        with locked(self._path.with_suffix(".lock")):
            kept = _read(self._path)
            counters, use = dict(kept.counters), dict(kept.use)
            for each in observed:
                vm, taken = each.node.vm, max((r.taken for r in each.after), default=None)
                if taken is not None and (vm not in counters or counters[vm].taken < taken):
                    seen = tuple(sorted({e.event.number for e in new if e.vm == vm and not e.old}))
                    counters[vm] = KeptCounters(taken=taken, values=dict(each.guest.counters), xids=seen)
            for vm, was_busy in busy.items():
                if was_busy:
                    use[vm] = KeptUse(busy=now)
                elif vm not in use or use[vm].idle_since is None:
                    use[vm] = KeptUse(busy=use[vm].busy if vm in use else None, idle_since=now)
            events = [*_without(map(_event, kept.xids), new), *new]
            xids = tuple(_xid(e, now) for e in events if e.event.time is None or now - e.event.time <= KEPT)
            write_state(self._path, HealthHistoryDocument(counters=counters, use=use, xids=xids))


def last_checks(vcenter: str) -> Mapping[str, HealthChecked]:
    """Return the last check of each VM of a vCenter (its instance id), with the XIDs that it saw of the VM's GPUs.

    What a GPU has had stays in the history, also when its VM has left it; such an XID is not one of the VM. Empty where
    none is kept; `DamagedDocument` where the file holds something else.
    """
    kept, found = _read(state_dir() / FOLDER / _name(vcenter)), {}
    for vm, last in kept.counters.items():
        # files that earlier versions wrote do not have what the last check saw
        before = tuple(sorted({each.number for each in kept.xids if each.vm == vm}))
        numbers = before if last.xids is None else last.xids
        fatal = tuple(number for number in numbers if known(number).fatal)
        found[vm] = HealthChecked(last.taken.date(), numbers, fatal)
    return found


def _name(vcenter: str) -> str:
    return f"{file_name(vcenter)}.json"


def _read(path: Path) -> HealthHistoryDocument:
    return read_state(path, HealthHistoryDocument) or HealthHistoryDocument(counters={}, use={}, xids=())


def _xid(event: GpuEvent, now: datetime) -> KeptXid:
    log = event.event
    return KeptXid(
        gpu=event.gpu,
        uuid=event.uuid,
        vm=event.vm,
        boot=event.boot,
        kind=log.kind,
        number=log.number,
        place=log.place,
        text=log.text[:LONGEST],
        time=(log.time or now).astimezone(UTC),
    )


def _event(kept: KeptXid) -> GpuEvent:
    event = KernelEvent(kept.kind, kept.text, number=kept.number, time=kept.time.astimezone(UTC), place=kept.place)
    return GpuEvent(kept.gpu, event, kept.vm, kept.boot, old=True, uuid=kept.uuid)


def _without(kept: Iterable[GpuEvent], new: Sequence[GpuEvent]) -> Iterator[GpuEvent]:
    return (old for old in kept if not any(_same(old, each) for each in new))


def _same(old: GpuEvent, new: GpuEvent) -> bool:
    if (old.gpu, old.event.number) != (new.gpu, new.event.number):
        return False
    if old.event.time is None or new.event.time is None:
        return True
    return abs((old.event.time - new.event.time).total_seconds()) < SAME
