"""Report of a run: what was approved, when each step began and how it ended, and what is pending."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from vsphere_ai.model.text import counted, duration
from vsphere_ai.report.pages.pictures.gpu_pictures import gpu_pictures
from vsphere_ai.report.pages.pictures.host_map import plan_map
from vsphere_ai.report.pages.pictures.timelines import at, run_timeline, status_of, took
from vsphere_ai.report.pages.tables import Entry, changes, impact, kept, text, variables, world_facts
from vsphere_ai.report.pages.values import JunitCase, Report, ReportFigure, ReportSection, Row, SarifResult, Status
from vsphere_ai.runs.history import OVER

_FACTS = ("run", "state", "what", "user", "started", "ended", "exit_code", "signal", "stopped", "lock", "process")
_MORE = ("attempts", "operation", "closed", "journal", "vsphere_ai")
NAMES = {
    "user": "by",
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
    failed = [s for s in steps if status_of(s) == "fail"]
    approved = run["approved"]
    over = run["state"] in OVER
    facts = (*_where(run), *_facts(run, _FACTS), *_facts(run, () if over else ("resume_command",)), *_facts(run, _MORE))
    sections = kept(
        ReportSection("Failed steps", _STEP, tuple(map(_row, failed)), wrong=True),
        ReportSection("Left open", ("what",), tuple((text(each),) for each in run["open"]), wrong=True),
        ReportSection("Still pending", _PENDING, tuple(_pending(p) for p in pending if not p["closed"]), wrong=True),
        run_timeline(run),
        impact(approved.get("impact", {})),
        replace(
            changes(approved.get("items", ())),
            title="Approved changes",
            pictures=gpu_pictures(approved.get("items", ())),
        ),
        plan_map(approved.get("placed", ()), approved.get("impact", {})),
        ReportSection("Steps", _STEP, tuple(map(_row, steps)), folded=True),
        ReportSection(
            "Pending actions that are closed",
            _PENDING,
            tuple(_pending(p) for p in pending if p["closed"]),
            folded=True,
        ),
        variables(approved.get("variables", ())),
        ReportSection(
            "Steps not begun", ("step", "target", "summary"), tuple((s["id"], s["target"], s["summary"]) for s in left)
        ),
    )
    done = sum(s["state"] == "done" for s in steps)
    words = f"{done} of {counted(len(steps) + len(left), 'step')} done, {len(failed)} failed"
    bad = bool(failed or run["open"]) or run["state"] == "failed"
    status: Status = "fail" if bad else ("pass" if run["state"] == "finished" else "warn")
    cases = [JunitCase("steps", _name(s), status_of(s), s["error"] or s["state"], took(s)) for s in steps]
    cases += [JunitCase("steps", f"{s['id']} {s['target']}: {s['summary']}", "unknown", "not begun") for s in left]
    results = tuple(
        SarifResult("run.step", "fail", f"{_name(s)}: {s['error'] or s['state']}", (s["target"],)) for s in failed
    )
    title, verdict = f"Run {run['run']}", f"{run['state']}: {words}"
    return Report(title, verdict, status, facts, sections, tuple(cases), results, _numbers(run, done, len(failed)))


def _facts(run: Entry, keys: Iterable[str]) -> Iterator[tuple[str, str]]:
    for key in keys:
        if run.get(key) is not None:
            value = _moment(run[key]) if key in _TIMES else text(run[key])
            yield NAMES.get(key, key.replace("_", " ")), value


def _where(run: Entry) -> tuple[tuple[str, str], ...]:
    """Return the vCenter of a run, its inventory file, and its limit."""
    scope = run["scope"]
    place = f"{scope['vcenter']} ({scope['address']})" if scope["address"] else scope["vcenter"]
    known = world_facts(run.get("world"), scope["inventory"])
    rows = (*(known or (("vCenter", place), ("inventory", scope["inventory"]))), ("limit", scope["limit"]))
    return tuple((name, value) for name, value in rows if value)


def _numbers(run: Entry, done: int, failed: int) -> tuple[ReportFigure, ...]:
    """Return the figures of a run: steps, and the time that it took beside the one that was expected."""
    steps = run["steps"]
    total = len(steps) + len(run["not_begun"])
    found = [
        ReportFigure(f"{done} of {total}", "steps done"),
        ReportFigure(str(failed), "failed", "fail" if failed else ""),
    ]
    if run["open"]:
        found.append(ReportFigure(str(len(run["open"])), "left open", "fail"))
    if steps:
        whole = max(at(s["ended"] or s["began"]) for s in steps) - min(at(s["began"]) for s in steps)
        expected = (run["approved"].get("expected") or {}).get("seconds")
        beside = f"taken, {duration(expected)} expected" if expected else "taken"
        found.append(ReportFigure(duration(whole), beside))
    return tuple(found)


def _moment(moment: str | None) -> str:
    """Return a time of a journal (UTC, ISO 8601) to the second."""
    return moment[:19].replace("T", " ") if moment else ""


def _pending(each: Entry) -> Row:
    times = (_moment(each[key]) for key in ("opened", "sent", "closed"))
    return each["name"], each["kind"], text(each["detail"]), *times, each["ref"]


def _name(step: Entry) -> str:
    return f"{step['id']} {step['target']}: {step['summary']} (attempt {step['attempt']})"


def _row(step: Entry) -> Row:
    long = took(step)
    end = "" if long is None else (duration(long) if long >= 1 else f"{long:.1f}s")
    state = "began, its end is not known" if step["state"] == "begun" else step["state"]
    head = (step["id"], step["target"], step["summary"], state, _moment(step["began"]), end)
    return (*head, str(step["attempt"]), text(step["error"]), text(step["task"]))
