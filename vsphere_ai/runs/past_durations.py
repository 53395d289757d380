"""Past durations: how long steps took in the last runs on a vCenter, from their journals on this machine."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from datetime import datetime
from statistics import median

from vsphere_ai.runs import journal

LATEST = 20
"""Runs that are looked at, the latest ones."""


def past_durations(instance: str, sort_of: Callable[[str, str], str]) -> tuple[Mapping[str, tuple[float, int]], int]:
    """Return the median seconds of steps that were done, and their number, by their sort; and of how many runs.

    `instance` is the UUID of the vCenter; `sort_of` makes a sort of a step's type and its summary.
    """
    found: dict[str, list[float]] = defaultdict(list)
    runs = 0
    for record in [*journal.every()][::-1]:
        if runs < LATEST and record.run.instance == instance:
            done = [s for s in record.steps() if s.state == "done" and s.ended]
            for step in done:
                took = datetime.fromisoformat(step.ended) - datetime.fromisoformat(step.began)
                found[sort_of(step.what, step.summary)].append(took.total_seconds())
            runs += bool(done)
        record.close()
    return {sort: (median(seconds), len(seconds)) for sort, seconds in found.items()}, runs
