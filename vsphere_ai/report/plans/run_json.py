"""Run as JSON lines: a header, one line per event, and a summary as the last line."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Literal, NotRequired

from typing_extensions import TypedDict  # pydantic reads no other one before Python 3.12

from vsphere_ai.model.text import escaped
from vsphere_ai.model.world import World
from vsphere_ai.planning.document import SCHEMA_VERSION, digest
from vsphere_ai.planning.outcome import Outcome, RunEvent, RunOutcome, State
from vsphere_ai.planning.planner import Plan


class TargetLine(TypedDict):
    """A host, a VM or a datacenter; `ref` is its managed object reference."""

    kind: Literal["host", "vm", "datacenter"]
    name: str
    ref: str


class WorldLine(TypedDict):
    """The vCenter of a run by its name in the inventory, with the user there, and how the inventory was found."""

    name: str
    address: str
    user: str
    inventory: str
    found: str
    lab: bool


class RunLine(TypedDict):
    """The first line. `digest` is the plan's, `steps` how many it has; `run` names the journal, when there is one.

    `world` is the vCenter; a command that ended before it had a plan names none.
    """

    type: Literal["run"]
    schema_version: int
    digest: str
    steps: int
    run: str
    world: NotRequired[WorldLine]


class EventLine(TypedDict):
    """One event. Without `step` it is about the run as a whole; `seconds` counts from the start of the step.

    `rule` is the id of an error or of a reason: the text may change, the id does not.
    """

    type: Literal["event"]
    time: str
    what: Literal["start", "progress", "done", "failed", "unknown", "skipped", "waiting", "stopping", "reverted"]
    text: str
    seconds: float
    rule: NotRequired[str]
    step: NotRequired[str]
    target: NotRequired[TargetLine]
    summary: NotRequired[str]


class OutcomeLine(TypedDict):
    """Outcome of one step: `error` is what stopped it, `reason` why it was not started.

    Of a health gate that is done, `reason` names the VMs that were not checked. `rule` is the id of error or reason.
    """

    step: str
    target: str
    state: Literal["done", "failed", "unknown", "skipped"]
    error: str | None
    reason: str
    rule: str


class RemarkLine(TypedDict):
    """Something that was said on standard error, with the id of what it is about."""

    rule: str
    text: str


class SummaryLine(TypedDict):
    """The last line. `verified` names the targets that were read back as planned, `open` what could not be put back.

    `put_back` says what was put back at the end of a run that did not reach the steps for it: hosts out of maintenance
    mode, VMs powered on, SSH stopped. `external_changes` says which power states and services another user had changed
    before the run came to them; they are not changed, and their steps are among the skipped ones. `error` is what ended
    a command that began no run, `rule` its id. `remarks` were made on standard error.
    """

    type: Literal["summary"]
    exit_code: int
    seconds: float
    done: int
    failed: int
    unknown: int
    skipped: int
    interrupted: bool
    verified: list[str]
    open: list[str]
    put_back: list[str]
    external_changes: list[str]
    outcomes: list[OutcomeLine]
    remarks: list[RemarkLine]
    error: NotRequired[str]
    rule: NotRequired[str]


def header_line(digest: str, steps: int, run: str = "", world: World | None = None) -> str:
    """Return the first line."""
    line: RunLine = {"type": "run", "schema_version": SCHEMA_VERSION, "digest": digest, "steps": steps, "run": run}
    if world is not None:
        line["world"] = {
            "name": world.name,
            "address": world.address,
            "user": world.user,
            "inventory": world.inventory,
            "found": world.found,
            "lab": world.lab,
        }
    return _line(line)


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
    seconds = round(event.seconds, 3)
    line: EventLine = {"type": "event", "time": clock, "what": event.what, "text": event.text, "seconds": seconds}
    if event.rule:
        line["rule"] = event.rule
    if event.planned is not None:
        step = event.planned.step
        line["step"], line["summary"] = event.planned.id, step.summary
        line["target"] = {"kind": step.target.kind, "name": step.target.name, "ref": step.target.ref}
    return _line(line)


def summary_line(run: RunOutcome, exit_code: int = 0, remarks: Sequence[tuple[str, str]] = ()) -> str:
    """Return the last line. `exit_code` is that of the process, `remarks` are pairs of rule id and text."""
    line = _nothing(exit_code, remarks)
    line["seconds"] = round(run.seconds, 3)
    line["done"], line["failed"] = run.count("done"), run.count("failed")
    line["unknown"], line["skipped"] = run.count("unknown"), run.count("skipped")
    line["interrupted"] = run.interrupted
    line["verified"] = [t.name for t in run.verified()]
    line["open"], line["put_back"] = list(run.open), list(run.put_back)
    line["external_changes"] = list(run.external_changes)
    line["outcomes"] = [_outcome(o) for o in run.outcomes]
    return _line(line)


def ended_line(exit_code: int, error: str, rule: str = "", remarks: Sequence[tuple[str, str]] = ()) -> str:
    """Return the last line of a command that ended before anything was begun; `error` is empty after a signal."""
    line = _nothing(exit_code, remarks)
    line["interrupted"] = exit_code in (129, 130, 143)
    if error:
        line["error"] = error
    if rule:
        line["rule"] = rule
    return _line(line)


def _nothing(exit_code: int, remarks: Sequence[tuple[str, str]]) -> SummaryLine:
    return {
        "type": "summary",
        "exit_code": exit_code,
        "seconds": 0.0,
        "done": 0,
        "failed": 0,
        "unknown": 0,
        "skipped": 0,
        "interrupted": False,
        "verified": [],
        "open": [],
        "put_back": [],
        "external_changes": [],
        "outcomes": [],
        "remarks": [{"rule": rule, "text": text} for rule, text in remarks],
    }


def _outcome(outcome: Outcome) -> OutcomeLine:
    error, step = outcome.error, outcome.planned
    return {
        "step": step.id,
        "target": step.step.target.name,
        "state": outcome.state,
        "error": error.message if error else None,
        "reason": outcome.reason,
        "rule": error.rule if error else outcome.rule,
    }


def _line(document: Mapping[str, object]) -> str:
    return escaped(json.dumps(document, ensure_ascii=False))
