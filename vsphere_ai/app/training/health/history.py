"""History of health: counters of each VM, XIDs by physical GPU, and when GPUs were busy, kept between two checks.

One file per vCenter in the state folder. It is read, merged and written under a lock, so that two checks at once lose
nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from vsphere_ai.health.checks import ObservedVm
from vsphere_ai.health.counters import SHORTEST, Reading, readings_of
from vsphere_ai.health.kernel.kernel_log import KernelEvent, Kind
from vsphere_ai.health.kernel.xid_rules import GpuEvent
from vsphere_ai.model.bounded import json_value
from vsphere_ai.security.files import STATE, locked, read_bytes, write_private
from vsphere_ai.security.state_dir import file_name, own_folder

KEPT = timedelta(days=7)
"""How long XIDs are kept for what repeats."""
SAME = 10.0
"""Seconds within which two readings mean one XID: boot times of guests waver."""


@dataclass
class _KeptHistory:
    """The values of a file: counters and use of GPUs by VM, and XIDs."""

    counters: dict[str, dict[str, object]] = field(default_factory=dict)
    use: dict[str, dict[str, object]] = field(default_factory=dict)
    xids: list[GpuEvent] = field(default_factory=list)


class HealthHistory:
    """What earlier checks of a vCenter saw, as it was when this was made; `keep` merges into what is there by then."""

    def __init__(self, vcenter: str) -> None:
        self._path = own_folder("health") / f"{file_name(vcenter)}.json"
        self._kept = _read(self._path)

    def readings(self, vm: str, uptime: float | None, now: datetime) -> tuple[Reading, ...]:
        """Return the last reading of a VM since it has booted; counters begin anew at a boot."""
        own = self._kept.counters.get(vm)
        if own is None or uptime is None:
            return ()
        try:
            taken = datetime.fromisoformat(str(own["taken"]))
            values = own["values"]
            counters = {str(path): int(value) for path, value in values.items()} if isinstance(values, dict) else {}
            if taken < now - timedelta(seconds=uptime) or now - taken < SHORTEST:
                return ()
        except (KeyError, ValueError, TypeError):
            return ()
        return readings_of(counters, taken)

    def before(self, new: Sequence[GpuEvent]) -> list[GpuEvent]:
        """Return the earlier XIDs that are none of the new ones, nor of a GPU that was replaced since."""
        now = {e.gpu: e.uuid for e in new if e.uuid}
        kept = (old for old in self._kept.xids if not (old.uuid and old.uuid != now.get(old.gpu, old.uuid)))
        return list(_without(kept, new))

    def idle_since(self, vm: str) -> datetime | None:
        """Return from when on every check saw the GPUs of a VM idle; None where the last one saw them busy, or none."""
        try:
            return datetime.fromisoformat(str(self._kept.use[vm]["idle_since"]))
        except (KeyError, ValueError, TypeError):
            return None

    def keep(
        self, observed: Sequence[ObservedVm], new: Sequence[GpuEvent], now: datetime, busy: Mapping[str, bool]
    ) -> None:
        """Write what was seen now, and what is not older than a week; `busy`: whether the GPUs of a VM were."""
        with locked(self._path.with_suffix(".lock")):
            kept = _read(self._path)
            for each in observed:
                taken = max((r.taken for r in each.after), default=None)
                if taken is not None and _is_newer(kept.counters.get(each.node.vm), taken):
                    values = dict(each.guest.counters)
                    kept.counters[each.node.vm] = {"taken": taken.isoformat(), "values": values}
            for vm, was_busy in busy.items():
                if was_busy:
                    kept.use[vm] = {"busy": now.isoformat()}
                else:
                    kept.use.setdefault(vm, {}).setdefault("idle_since", now.isoformat())
            events = [*_without(kept.xids, new), *new]
            kept.xids = [e for e in events if e.event.time is None or now - e.event.time <= KEPT]
            _write(self._path, kept, now)


def _read(path: Path) -> _KeptHistory:
    """Return the values of a file; those of none where there is none, and without what cannot be read."""
    try:
        document = json_value(read_bytes(path, STATE))
    except (OSError, ValueError):
        return _KeptHistory()
    if not isinstance(document, dict):
        return _KeptHistory()
    parts = [document.get(name) for name in ("counters", "use")]
    counters, use = ({k: v for k, v in p.items() if isinstance(v, dict)} if isinstance(p, dict) else {} for p in parts)
    rows = document.get("xids")
    found = (_event(row) for row in (rows if isinstance(rows, list) else ()))
    return _KeptHistory(counters, use, [e for e in found if e is not None])


def _write(path: Path, kept: _KeptHistory, now: datetime) -> None:
    rows = [
        {
            "gpu": e.gpu,
            "uuid": e.uuid,
            "vm": e.vm,
            "boot": e.boot,
            "kind": e.event.kind,
            "number": e.event.number,
            "place": e.event.place,
            "text": e.event.text[:200],
            "time": (e.event.time or now).isoformat(),
        }
        for e in kept.xids
    ]
    write_private(path, json.dumps({"counters": kept.counters, "use": kept.use, "xids": rows}).encode())


def _is_newer(own: Mapping[str, object] | None, taken: datetime) -> bool:
    try:
        return own is None or datetime.fromisoformat(str(own["taken"])) < taken
    except (KeyError, ValueError, TypeError):
        return True


def _event(row: object) -> GpuEvent | None:
    try:
        if not isinstance(row, dict):
            return None
        when = datetime.fromisoformat(str(row["time"])).astimezone(UTC)
        kind: Kind = (
            "off_the_bus" if row.get("kind") == "off_the_bus" else "sxid" if row.get("kind") == "sxid" else "xid"
        )
        event = KernelEvent(
            kind, str(row["text"]), number=int(row["number"]), time=when, place=str(row.get("place", ""))
        )
        boot, uuid = int(row.get("boot", 0)), str(row.get("uuid", ""))
        return GpuEvent(str(row["gpu"]), event, str(row["vm"]), boot, old=True, uuid=uuid)
    except (KeyError, ValueError, TypeError):
        return None


def _without(kept: Iterable[GpuEvent], new: Sequence[GpuEvent]) -> Iterator[GpuEvent]:
    return (old for old in kept if not any(_same(old, each) for each in new))


def _same(old: GpuEvent, new: GpuEvent) -> bool:
    if (old.gpu, old.event.number) != (new.gpu, new.event.number):
        return False
    if old.event.time is None or new.event.time is None:
        return True
    return abs((old.event.time - new.event.time).total_seconds()) < SAME
