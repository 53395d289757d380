"""Record of the last check of health, as the state folder keeps it: when each VM was checked, and XIDs of its GPUs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date, datetime

from vsphere_ai.health.kernel.xids import known
from vsphere_ai.model.bounded import json_value
from vsphere_ai.model.records.assessment import HealthChecked
from vsphere_ai.security.files import STATE, read_bytes
from vsphere_ai.security.state_dir import file_name, state_dir


def last_checks(vcenter: str) -> Mapping[str, HealthChecked]:
    """Return the last check of each VM of a vCenter (its instance id); empty where none is kept or can be read."""
    try:
        path = state_dir() / "health" / f"{file_name(vcenter)}.json"
        kept = json_value(read_bytes(path, STATE))
        return dict(_checks(kept["counters"], kept["xids"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _checks(
    counters: Mapping[str, Mapping[str, str]], xids: list[Mapping[str, str]]
) -> Iterator[tuple[str, HealthChecked]]:
    for vm, last in counters.items():
        own = sorted({int(x["number"]) for x in xids if x["vm"] == vm})
        fatal = tuple(number for number in own if known(number).fatal)
        yield vm, HealthChecked(_day(last["taken"]), tuple(own), fatal)


def _day(text: str) -> date:
    return datetime.fromisoformat(text).date()
