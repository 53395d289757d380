"""Times of a fleet run: when each vCenter was worked on, beside how long that was expected to take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vsphere_ai.model.text import duration
from vsphere_ai.report.pages.pictures.timelines import PLANNED, at
from vsphere_ai.report.pages.tables import Entry
from vsphere_ai.report.pages.values import Bar, ReportSection, Status, Timeline

STATES: Mapping[str, Status] = {"done": "pass", "nothing to do": "pass", "failed": "fail", "refused": "fail"}
"""How shards stand; every other one can be resumed."""


def span(run: Entry | None) -> tuple[float, float]:
    """Return when the steps of a run began, and how many seconds they took; zeros where none has begun."""
    steps = run["steps"] if run else ()
    began = min((at(s["began"]) for s in steps), default=0.0)
    return began, max((at(s["ended"] or s["began"]) for s in steps), default=0.0) - began


def fleet_timeline(shards: Sequence[Entry], runs: Mapping[str, Entry]) -> ReportSection:
    """Return when each vCenter was worked on, beside how long that was expected to take."""
    spans = {s["vcenter"]: span(runs.get(s["vcenter"])) for s in shards}
    begun = {name: each for name, each in spans.items() if each[0]}
    start = min((began for began, _ in begun.values()), default=0.0)
    times = ((n, (runs[n]["approved"].get("expected") or {}).get("seconds")) for n in begun)
    expected = {name: float(long) for name, long in times if long}
    state = {s["vcenter"]: STATES.get(s["state"], "unknown") for s in shards}
    bars = tuple(
        Bar(
            name,
            (
                *([(PLANNED, began - start, expected[name])] if name in expected else []),
                (state[name], began - start, long),
            ),
        )
        for name, (began, long) in begun.items()
    )
    rows = tuple(
        (name, duration(began - start), duration(long), duration(expected[name]) if name in expected else "")
        for name, (began, long) in begun.items()
    )
    heads = ("vCenter", "first step after", "took", "expected")
    whole = max((began - start + max(long, expected.get(n, long)) for n, (began, long) in begun.items()), default=0.0)
    return ReportSection("Timeline", heads, rows, "", (Timeline(max(whole, 1.0), bars),) if bars else (), folded=True)


def moment(time: str) -> str:
    """Return a time of a journal (UTC, ISO 8601) to the second."""
    return time[:19].replace("T", " ")
