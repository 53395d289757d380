"""Timelines of plans and runs: per target when its steps are expected, and when they were carried out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from vsphere_ai.model.text import duration
from vsphere_ai.report.layout import grouped
from vsphere_ai.report.pages.tables import Entry
from vsphere_ai.report.pages.values import Bar, ReportSection, Row, Status, Timeline

MOST_BARS = 1_000
"""Targets that a timeline has."""
ALL = 60
"""Targets up to which VMs are drawn beside hosts."""
CLOSE = 1 / 500
"""Part of the whole time below which two spans of the same kind are drawn as one."""
STATES: Mapping[str, Status] = {"done": "pass", "skipped": "warn", "begun": "unknown"}
"""How steps ended; every other state is a failure."""
PLANNED = "planned"
AT_WORK = 0.0
"""Length of a step that has not ended: it is drawn as a mark."""
Span = tuple[str, float, float]


def plan_timeline(plan: Entry) -> ReportSection:
    """Return when the steps of a plan are expected on each target; no rows where that is not known."""
    expected = plan.get("expected") or {}
    steps = {step["id"]: step["target"] for step in plan["steps"]}
    spans = _planned(expected, ((key, target["name"]) for key, target in steps.items()))
    hosts = {target["name"] for target in steps.values() if target["kind"] == "host"}
    heads = ("target", "first step after", "last step ends after", "time in steps")
    rows = tuple(_planned_row(name, own) for name, own in spans.items())
    by = "by earlier runs here" if expected.get("runs") else "estimate: no history"
    note = f"How long it is expected to take: {by}."
    return _section("Expected rollout", spans, hosts, (heads, rows, note))


def run_timeline(run: Entry) -> ReportSection:
    """Return when something was done on each target, beside when that was expected."""
    steps: Sequence[Entry] = run["steps"]
    start = min((at(s["began"]) for s in steps), default=0.0)
    known = [(s["id"], s["target"]) for s in (*steps, *run["not_begun"])]
    planned = _planned(run["approved"].get("expected") or {}, dict(known).items())
    own = grouped((s["target"], s) for s in steps)
    spans = {name: [*planned.get(name, ()), *_done(own.get(name, ()), start)] for name in {**own, **planned}}
    hosts = {s["target"] for s in steps if s["ref"].startswith("HostSystem:")}
    heads = ("target", "first step after", "last step ended after", "time in steps", "expected", "steps", "failed")
    rows = tuple(_run_row(name, own.get(name, ()), planned.get(name, ()), start) for name in spans)
    return _section("Timeline", spans, hosts, (heads, rows, ""))


def at(moment: str) -> float:
    """Return a time of a journal in seconds."""
    return datetime.fromisoformat(moment).timestamp()


def took(step: Entry) -> float | None:
    """Return how many seconds a step of a run took; None where its end is not known."""
    return at(step["ended"]) - at(step["began"]) if step["ended"] else None


def status_of(step: Entry) -> Status:
    """Return how a step of a run ended."""
    return STATES.get(step["state"], "fail")


def _section(
    title: str, spans: Mapping[str, Sequence[Span]], hosts: set[str], table: tuple[Row, tuple[Row, ...], str]
) -> ReportSection:
    """Return a timeline with its table. Where there are many targets, only hosts are drawn."""
    heads, rows, note = table
    if not any(spans.values()):
        return ReportSection(title, heads, ())
    whole = max((begin + long for own in spans.values() for _, begin, long in own), default=0.0)
    whole = max(whole, 1.0)
    drawn = [n for n in spans if n in hosts] + [n for n in spans if n not in hosts]
    if len(spans) > ALL and hosts:
        drawn = [name for name in drawn if name in hosts]
    bars = tuple(Bar(name, _joined(spans[name], whole * CLOSE)) for name in drawn[:MOST_BARS])
    return ReportSection(title, heads, rows, note, (Timeline(whole, bars, len(spans) - len(bars)),), folded=True)


def _planned(expected: Entry, targets: Iterable[tuple[str, str]]) -> dict[str, list[Span]]:
    times = expected.get("steps") or {}
    own = ((name, times[key]) for key, name in targets if key in times)
    return grouped((name, (PLANNED, float(begin), float(end) - float(begin))) for name, (begin, end) in own)


def _done(steps: Sequence[Entry], start: float) -> list[Span]:
    lengths = ((s, took(s)) for s in steps)
    return [(status_of(s), at(s["began"]) - start, AT_WORK if long is None else long) for s, long in lengths]


def _joined(spans: Iterable[Span], close: float) -> tuple[Span, ...]:
    """Return spans in order; those of the same kind that follow each other at once are one."""
    found: list[Span] = []
    for state, begin, long in sorted(spans):
        if found and found[-1][0] == state and begin - (found[-1][1] + found[-1][2]) < close:
            _, first, before = found[-1]
            found[-1] = (state, first, max(first + before, begin + long) - first)
        else:
            found.append((state, begin, long))
    return tuple(found)


def _planned_row(name: str, spans: Sequence[Span]) -> Row:
    first, last, busy = _bounds(spans)
    return name, duration(first), duration(last), duration(busy)


def _run_row(name: str, steps: Sequence[Entry], planned: Sequence[Span], start: float) -> Row:
    done = _done(steps, start)
    first, last, busy = map(duration, _bounds(done)) if done else ("", "", "")
    failed = sum(status_of(s) == "fail" for s in steps)
    expected = duration(_bounds(planned)[2]) if planned else ""
    return name, first, last, busy, expected, str(len(steps)), str(failed)


def _bounds(spans: Sequence[Span]) -> tuple[float, float, float]:
    """Return when the first span begins, when the last one ends, and how long they take together."""
    return min(b for _, b, _ in spans), max(b + long for _, b, long in spans), sum(long for _, _, long in spans)
