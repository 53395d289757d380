"""Report of a run: what was approved, when each step began and how it ended, and what is pending."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from vsphere_ai.model.text import counted, duration
from vsphere_ai.report.pages.gpu_pictures import gpu_pictures
from vsphere_ai.report.pages.tables import Entry, changes, impact, kept, text
from vsphere_ai.report.pages.values import Bar, Case, Report, Result, Row, Section, Status, Timeline
from vsphere_ai.runs.history import OVER

BARS = 100
"""Targets that the timeline has."""
STATES: Mapping[str, Status] = {"done": "pass", "skipped": "warn", "begun": "unknown"}
"""How steps ended; every other state is a failure."""
_FACTS = ("run", "state", "what", "vcenter", "user", "started", "ended", "exit_code", "signal", "lock", "process")
_MORE = ("attempts", "operation", "scope", "resume_command", "closed", "journal", "vsphere_ai")
NAMES = {
    "vcenter": "vCenter",
    "vsphere_ai": "version of vsphere-ai",
    "started": "started (UTC)",
    "ended": "ended (UTC)",
}
_TIMES = ("started", "ended")
_STEP = ("step", "target", "summary", "state", "began (UTC)", "took", "attempt", "error", "task")
_PENDING = ("name", "kind", "detail", "opened (UTC)", "sent (UTC)", "closed (UTC)", "reference")


def run_report(run: Entry) -> Report:
    """Return the report of a run, given as the JSON values of its record."""
    steps, left, pending = run["steps"], run["not_begun"], run["pending_actions"]
    failed = [s for s in steps if _status(s) == "fail"]
    approved = run["approved"]
    over = run["state"] in OVER
    keys = [k for k in (*_FACTS, *_MORE) if run.get(k) is not None and not (over and k == "resume_command")]
    facts = tuple((NAMES.get(k, k.replace("_", " ")), _moment(run[k]) if k in _TIMES else text(run[k])) for k in keys)
    sections = kept(
        Section("Failed steps", _STEP, tuple(map(_row, failed)), wrong=True),
        Section("Left open", ("what",), tuple((text(each),) for each in run["open"]), wrong=True),
        Section("Still pending", _PENDING, tuple(_pending(p) for p in pending if not p["closed"]), wrong=True),
        _targets(steps),
        impact(approved.get("impact", {})),
        replace(
            changes(approved.get("items", ())),
            title="Approved changes",
            pictures=gpu_pictures(approved.get("items", ())),
        ),
        Section("Steps", _STEP, tuple(map(_row, steps))),
        Section("Pending actions that are closed", _PENDING, tuple(_pending(p) for p in pending if p["closed"])),
        Section(
            "Steps not begun", ("step", "target", "summary"), tuple((s["id"], s["target"], s["summary"]) for s in left)
        ),
    )
    done = sum(s["state"] == "done" for s in steps)
    words = f"{done} of {counted(len(steps) + len(left), 'step')} done, {len(failed)} failed"
    bad = bool(failed or run["open"]) or run["state"] == "failed"
    status: Status = "fail" if bad else ("pass" if run["state"] == "finished" else "warn")
    cases = [Case("steps", _name(s), _status(s), s["error"] or s["state"], _took(s)) for s in steps]
    cases += [Case("steps", f"{s['id']} {s['target']}: {s['summary']}", "unknown", "not begun") for s in left]
    results = tuple(
        Result("run.step", "fail", f"{_name(s)}: {s['error'] or s['state']}", (s["target"],)) for s in failed
    )
    return Report(f"Run {run['run']}", f"{run['state']}: {words}", status, facts, sections, tuple(cases), results)


def _moment(moment: str | None) -> str:
    """Return a time of a journal (UTC, ISO 8601) to the second."""
    return moment[:19].replace("T", " ") if moment else ""


def _pending(each: Entry) -> Row:
    times = (_moment(each[key]) for key in ("opened", "sent", "closed"))
    return each["name"], each["kind"], text(each["detail"]), *times, each["ref"]


def _status(step: Entry) -> Status:
    return STATES.get(step["state"], "fail")


def _name(step: Entry) -> str:
    return f"{step['id']} {step['target']}: {step['summary']} (attempt {step['attempt']})"


def _took(step: Entry) -> float | None:
    return _at(step["ended"]) - _at(step["began"]) if step["ended"] else None


def _at(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()


def _row(step: Entry) -> Row:
    took = _took(step)
    end = "" if took is None else (duration(took) if took >= 1 else f"{took:.1f}s")
    state = "began, its end is not known" if step["state"] == "begun" else step["state"]
    head = (step["id"], step["target"], step["summary"], state, _moment(step["began"]), end)
    return (*head, str(step["attempt"]), text(step["error"]), text(step["task"]))


def _targets(steps: Sequence[Entry]) -> Section:
    """Return when something was done on each target, drawn and as a table."""
    by: dict[str, list[Entry]] = {}
    for step in steps:
        by.setdefault(step["target"], []).append(step)
    if not steps:
        return Section("Timeline", (), ())
    start = min(_at(s["began"]) for s in steps)
    stop = max(_at(s["ended"] or s["began"]) for s in steps)
    rows, bars = [], []
    for name, own in by.items():
        first, last = _at(own[0]["began"]) - start, max(_at(s["ended"] or s["began"]) for s in own) - start
        busy = sum(_took(s) or 0 for s in own)
        failed = sum(_status(s) == "fail" for s in own)
        rows.append((name, duration(first), duration(last), duration(busy), str(len(own)), str(failed)))
        spans = tuple((_status(s), _at(s["began"]) - start, _took(s) or 0.0) for s in own)
        bars.append(Bar(name, spans))
    line = Timeline(max(stop - start, 1.0), tuple(bars[:BARS]), max(len(bars) - BARS, 0))
    heads = ("target", "first step after", "last step ended after", "time in steps", "steps", "failed")
    return Section("Timeline", heads, tuple(rows), pictures=(line,))
