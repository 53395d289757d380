"""Run as JSON lines: a header, one line per event, and a summary as the last line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vsphere_ai.documents.printed import SCHEMA_VERSION
from vsphere_ai.documents.run_lines import (
    EventLine,
    OutcomeLine,
    RemarkLine,
    RunLine,
    SummaryLine,
    TargetLine,
    WorldLine,
)
from vsphere_ai.model.world import World
from vsphere_ai.planning.document import digest
from vsphere_ai.planning.outcome import Outcome, RunEvent, RunOutcome, State
from vsphere_ai.planning.planner import Plan
from vsphere_ai.report.json_text import json_line


def header_line(digest: str, steps: int, run: str = "", world: World | None = None) -> str:
    """Return the first line."""
    more: dict[str, Any] = {}
    if world is not None:
        keys = ("name", "address", "user", "inventory", "found", "lab")
        more["world"] = WorldLine(**{key: getattr(world, key) for key in keys})
    return json_line(RunLine(type="run", schema_version=SCHEMA_VERSION, digest=digest, steps=steps, run=run, **more))


def run_header(plan: Plan, world: World, run: str = "") -> str:
    """Return the first line of the run of a plan."""
    return header_line(digest(plan), len(plan.steps), run, world)


def nothing_done_line(plan: Plan, open: Sequence[str], exit_code: int, remarks: Sequence[tuple[str, str]]) -> str:
    """Return the last line of a plan that was refused, was empty, or was declined; `open` is what earlier runs left."""
    return summary_line(RunOutcome(plan, (), 0.0, open=tuple(open)), exit_code, remarks)


def left_at_once_line(
    plan: Plan, last: Mapping[str, str], signal: int, exit_code: int, remarks: Sequence[tuple[str, str]]
) -> str:
    """Return the last line of a run whose process leaves before its steps have ended; `last`: events by step."""
    states: dict[str, State] = {"done": "done", "failed": "failed", "unknown": "unknown", "start": "unknown"}
    found = ((p, states.get(last.get(p.id, ""), "skipped")) for p in plan.steps)
    outcomes = tuple(Outcome(p, s, reason="" if s == "done" else "left at once") for p, s in found)
    return summary_line(RunOutcome(plan, outcomes, 0.0, signal), exit_code, remarks)


def event_line(event: RunEvent, clock: str) -> str:
    """Return one event."""
    more: dict[str, Any] = {"rule": event.rule} if event.rule else {}
    if event.planned is not None:
        step = event.planned.step
        target = TargetLine(kind=step.target.kind, name=step.target.name, ref=step.target.ref)
        more |= {"step": event.planned.id, "summary": step.summary, "target": target}
    seconds = round(event.seconds, 3)
    return json_line(EventLine(type="event", time=clock, what=event.what, text=event.text, seconds=seconds, **more))


def summary_line(run: RunOutcome, exit_code: int = 0, remarks: Sequence[tuple[str, str]] = ()) -> str:
    """Return the last line. `exit_code` is that of the process, `remarks` are pairs of rule id and text."""
    line = _nothing(exit_code, remarks).model_copy(
        update={
            "seconds": round(run.seconds, 3),
            "done": run.count("done"),
            "failed": run.count("failed"),
            "unknown": run.count("unknown"),
            "skipped": run.count("skipped"),
            "interrupted": run.interrupted,
            "verified": tuple(t.name for t in run.verified()),
            "open": tuple(run.open),
            "put_back": tuple(run.put_back),
            "external_changes": tuple(run.external_changes),
            "outcomes": tuple(_outcome(o) for o in run.outcomes),
        }
    )
    return json_line(line)


def ended_line(exit_code: int, error: str, rule: str = "", remarks: Sequence[tuple[str, str]] = ()) -> str:
    """Return the last line of a command that ended before anything was begun; `error` is empty after a signal."""
    more: dict[str, Any] = {"error": error} if error else {}
    more |= {"rule": rule} if rule else {}
    interrupted = exit_code in (129, 130, 143)
    return json_line(_nothing(exit_code, remarks).model_copy(update={"interrupted": interrupted, **more}))


def _nothing(exit_code: int, remarks: Sequence[tuple[str, str]]) -> SummaryLine:
    return SummaryLine(
        type="summary",
        exit_code=exit_code,
        seconds=0.0,
        done=0,
        failed=0,
        unknown=0,
        skipped=0,
        interrupted=False,
        verified=(),
        open=(),
        put_back=(),
        external_changes=(),
        outcomes=(),
        remarks=tuple(RemarkLine(rule=rule, text=text) for rule, text in remarks),
    )


def _outcome(outcome: Outcome) -> OutcomeLine:
    error, step = outcome.error, outcome.planned
    return OutcomeLine(
        step=step.id,
        target=step.step.target.name,
        state=outcome.state,
        error=error.message if error else None,
        reason=outcome.reason,
        rule=error.rule if error else outcome.rule,
    )
