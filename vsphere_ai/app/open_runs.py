"""What earlier runs have left to put back on a vCenter, as it is there now."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vsphere_ai.connect.vcenter import VCenter
    from vsphere_ai.model.facts import Facts
    from vsphere_ai.model.recorded_steps import RecordedPending
    from vsphere_ai.runs.history import Seen

LEFT_OPEN = 1
"""Exit code when all of a run went well, but an earlier one has left something to put back."""
PATHS = {
    "HostSystem": ("name", "runtime.inMaintenanceMode", "runtime.bootTime", "config.service.service"),
    "VirtualMachine": ("name", "runtime.powerState"),
}
WORDS = {
    "maintenance": "is in maintenance mode",
    "ssh": "has SSH running",
    "ssh-on": "has SSH stopped",
    "off": "is powered off",
    "reboot": "may be about to reboot",
    "restart": "has to restart before what was changed there counts",
}


def pending(instance: str) -> tuple[tuple[Seen, str], ...]:
    """Return the runs on a vCenter, by its instance UUID, that owe something and are not under way; the oldest first.

    Each with the command line that finishes it.

    From the journals of this machine only: nothing is asked of vCenter.
    """
    from vsphere_ai.runs.history import look, successor, way_on

    among = look()
    found = (
        s for s in among if s.has_pending and not s.alive and s.instance == instance and successor(s.run, among) is None
    )
    return tuple((s, way_on(s, among)) for s in sorted(found, key=lambda s: s.since))


def left_open(vcenter: VCenter) -> tuple[str, ...]:
    """Return in sentences what earlier runs have left on a vCenter and what puts it back; what is back is left out.

    Where vCenter does not tell, it counts as left.
    """
    from vsphere_ai.runs import journal

    found = []
    for seen, request in pending(vcenter.about.instance):
        record = journal.open_run(seen.run)
        owed = [o for o in record.ever_pending() if not o.closed and o.pending.kind in WORDS]
        record.close()
        facts = _read(vcenter, {o.pending.target.ref for o in owed})
        found += [
            f"{name} {WORDS[o.pending.kind]} since run {seen.run}, which was not finished: {request}"
            for o, name in _true(owed, facts)
        ]
    return tuple(found)


def _read(vcenter: VCenter, refs: set[str]) -> dict[str, Facts] | None:
    from vsphere_ai.errors import VsphereAiError

    kinds = {r.partition(":")[0] for r in refs}
    try:
        return vcenter.read_objects(sorted(refs), {k: PATHS.get(k, ("name",)) for k in kinds}) if refs else {}
    except VsphereAiError:
        return None


def _true(owed: list[RecordedPending], facts: dict[str, Facts] | None) -> Iterator[tuple[RecordedPending, str]]:
    from vsphere_ai.planning.resume import still_so

    for each in owed:
        pending = each.pending
        if facts is None:
            yield each, pending.target.name
        elif pending.target.ref in facts:
            now = facts[pending.target.ref]
            if (each.sent or pending.kind != "reboot") and still_so(pending, now) is not False:
                yield each, now.name
